"""OpenAI's chat completions API, of OpenAI and compatible servers: the request. Pure; it does no I/O.

Servers differ in what they take. The differences are options or a dialect, never guesses. Reasoning of earlier turns is
not sent unless `reasoning_field` names a field for it: the API has none, and plans record that. The parameter
`logprobs` is true, or the number of likely tokens to report for each. Reasoning is an effort here: a number of tokens
becomes the nearest one, and the API has no summary to ask for.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, assert_never, cast
from urllib.parse import urlsplit

from accord.apis.chat.dialect import CHAT, ChatDialect, ReasoningField
from accord.apis.chat.read_answer import ChatReader, read_answer
from accord.apis.chat.read_request import parse_chat
from accord.apis.chat.relayed import ChatWatcher, relayed_body
from accord.apis.chat.write_answer import ChatStreamWriter, write_answer, write_error_event
from accord.apis.codec import ApiRequest, UnsupportedByApiError, document_text, link_text
from accord.apis.openai.endpoint import (
    discovery_request,
    key_headers,
    read_discovery,
    read_error,
    write_model,
    write_models,
)
from accord.apis.openai.errors import error_body
from accord.apis.openai.parts import (
    AUDIO_FORMATS,
    arguments_text,
    assumed_effort,
    breakpoint_of,
    file_name,
    image_address,
    misplaced,
    openai_effort,
    parameters_of,
    pdf_url,
    result_text,
    schema_members,
    signature_member,
    with_parameters,
)
from accord.apis.relayed import with_texts
from accord.core.work.derive import capability_for_part
from accord.core.work.fields import COLUMNS, FieldColumn
from accord.wire.capability import IMAGE_URL
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourceLinkPart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.disposition import Api
from accord.wire.manifest import SupportLevel
from accord.wire.work import AnyPiece, ToolSpec, WorkOrder

OPENAI_HOST: Final = "api.openai.com"
AZURE_SUFFIX: Final = ".openai.azure.com"
MAX_STOPS: Final = 4
MaxTokensField = Literal["max_completion_tokens", "max_tokens"]

SUPPORTED: Final[Mapping[str, str | SupportLevel]] = MappingProxyType(
    {
        "streaming": "native",
        "system_message": "native",
        "stop_sequences": "native",
        "temperature": "native",
        "top_p": "native",
        "max_tokens": "native",
        "frequency_penalty": "native",
        "presence_penalty": "native",
        "logprobs": "native",
        IMAGE_URL: "native",
        "seed_determinism": SupportLevel.restricted("the seed is accepted; answers mostly repeat, without a guarantee"),
    }
)
UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "file_input": "the API takes no files other than PDF",
        "tool_result_media": "results of tools are text only",
        "cache_control": "the endpoint itself decides what it caches",
    }
)
NO_REASONING: Final = (
    "the API has no field for earlier reasoning; some servers have one: set the option reasoning_field"
)
NO_TOP_K: Final = "the API has no top_k; some servers take it: set the option top_k"


def max_tokens_field(base_url: str) -> MaxTokensField:
    """Return the name of the token limit at this address: compatible servers may ignore OpenAI's newer name."""
    host = (urlsplit(base_url).hostname or "").lower()
    is_openai = host == OPENAI_HOST or host.endswith(AZURE_SUFFIX)
    return "max_completion_tokens" if is_openai else "max_tokens"


class ChatCodec:
    """The chat completions API.

    `max_tokens_field`: OpenAI's models require `max_completion_tokens`, which some compatible servers ignore.
    `usage_in_stream`: whether streams are asked for their usage; old servers refuse that. `top_k`: vLLM, llama.cpp and
    OpenRouter take it, OpenAI refuses it. `max_stops`: how many stop sequences are taken. `reasoning_field`: where a
    server takes reasoning of earlier turns, such as `reasoning_content`. `ollama`: the server is Ollama, which
    describes its models on a path of its own. What is None is as the dialect has it.
    """

    path = "/chat/completions"
    dialect: ClassVar[ChatDialect] = CHAT
    """What the server has otherwise than OpenAI."""
    headers = staticmethod(key_headers)
    read_error = staticmethod(read_error)
    read_discovery = staticmethod(read_discovery)
    with_texts = staticmethod(with_texts)
    read_request = staticmethod(parse_chat)
    write_answer = staticmethod(write_answer)
    answer_writer = staticmethod(ChatStreamWriter)
    write_error = staticmethod(error_body)
    write_error_event = staticmethod(write_error_event)
    write_model = staticmethod(write_model)
    write_models = staticmethod(write_models)

    def __init__(  # noqa: PLR0913 - one for each difference between servers
        self,
        *,
        max_tokens_field: MaxTokensField = "max_completion_tokens",
        usage_in_stream: bool | None = None,
        top_k: bool | None = None,
        max_stops: int | None = MAX_STOPS,
        effort: str = "medium",
        reasoning_field: ReasoningField | None = None,
        ollama: bool = False,
    ) -> None:
        dialect = self.dialect
        reasoning_field = reasoning_field or dialect.reasoning_field
        self.api: Final = Api.CHAT
        self.name: Final = dialect.title
        self.base_url: Final = dialect.base_url
        self.column: Final = FieldColumn(Api.CHAT, dialect.title, dialect.lacks) if dialect.lacks else COLUMNS[Api.CHAT]
        has_top_k = dialect.top_k if top_k is None else top_k
        self.unsupported: Final[Mapping[str, str]] = {
            **UNSUPPORTED,
            **({} if has_top_k else {"top_k": NO_TOP_K}),
            **({} if reasoning_field else {"reasoning_history": NO_REASONING}),
            **{name: f"the {dialect.title} has no {name}" for name in dialect.unsupported},
        }
        supported = {**SUPPORTED, **({"top_k": "native"} if has_top_k else {})}
        self.supported: Final[Mapping[str, str | SupportLevel]] = {
            name: level for name, level in supported.items() if name not in dialect.unsupported
        }
        self._fields: Final = {
            "temperature": "temperature",
            "top_p": "top_p",
            "top_k": "top_k",
            "max_tokens": max_tokens_field,
            "frequency_penalty": "frequency_penalty",
            "presence_penalty": "presence_penalty",
            "seed": "seed",
            "logprobs": "logprobs",
        }
        self._usage_in_stream: Final = dialect.usage_in_stream if usage_in_stream is None else usage_in_stream
        self._max_stops: Final = max_stops
        self._effort: Final = effort
        self._reasoning_field: Final = reasoning_field
        self._ollama: Final = ollama

    def write_request(self, order: WorkOrder, model: str) -> ApiRequest:
        """Return the request for this work order."""
        messages = [written for message in order.conversation.messages for written in self._messages(message)]
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": order.stream}
        if order.stream and self._usage_in_stream:
            body["stream_options"] = {"include_usage": True}
        if order.tools:
            body |= _tool_members(order)
        if (schema := order.response_schema) is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": schema_members(order, schema)}
        elif order.json_mode:
            body["response_format"] = {"type": "json_object"}
        if order.stop_sequences:
            body["stop"] = self._stop_sequences(order.stop_sequences)
        return ApiRequest(self.path, self._rename(self._with_parameters(body, order)))

    def _rename(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with the members' names in this dialect."""
        names = self.dialect.renames
        return {names.get(name, name): value for name, value in body.items()} if names else body

    def _with_parameters(self, body: dict[str, Any], order: WorkOrder) -> dict[str, Any]:
        body = with_parameters(body, order, self._fields, self.unsupported)
        if (count := order.parameters.get("logprobs")) is not None and not isinstance(count, bool):
            body |= {"logprobs": True, "top_logprobs": count}
        if (effort := openai_effort(order, self._effort)) is not None:
            body.setdefault("reasoning_effort", effort)
        return body

    def discovery_request(self, model: str) -> ApiRequest:
        """Return the request for the list of models, or for Ollama's description of this one."""
        return discovery_request(model, ollama=self._ollama)

    def _stop_sequences(self, texts: list[str]) -> list[str]:
        if self._max_stops is not None and len(texts) > self._max_stops:
            reason = f"the API takes at most {self._max_stops} stop sequences, not {len(texts)}"
            raise UnsupportedByApiError("stop_sequences", reason)
        return list(texts)

    def _messages(self, message: ConversationMessage) -> Iterator[dict[str, Any]]:
        parts = cast("list[AnyPart]", message.content)
        match message.role:
            case Role.SYSTEM:
                yield {"role": "system", "content": _texts(parts, [_text(part, "the system") for part in parts])}
            case Role.ASSISTANT:
                yield self._assistant_message(parts)
            case Role.USER | Role.TOOL:
                yield from _user_messages(parts)
            case _:
                assert_never(message.role)

    def _assistant_message(self, parts: Sequence[AnyPart]) -> dict[str, Any]:
        texts = [_text(part, "the assistant") for part in parts if not isinstance(part, ThinkingPart | ToolUsePart)]
        calls = [_tool_call(part) for part in parts if isinstance(part, ToolUsePart)]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts or not calls else None}
        reasoning = "".join(part.text for part in parts if isinstance(part, ThinkingPart))
        if self._reasoning_field and reasoning:
            message[self._reasoning_field] = reasoning
        if calls:
            message["tool_calls"] = calls
        return message

    def answer_reader(self) -> ChatReader:
        """Return a new reader for one streamed answer."""
        return ChatReader(self.dialect)

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        """Return the pieces of an answer that was not streamed."""
        return read_answer(body, self.dialect)

    def watcher(self) -> ChatWatcher:
        """A new reader of one answer that is passed on."""
        return ChatWatcher(self.dialect)

    def assumed(self, order: WorkOrder) -> dict[str, str]:
        """The effort, if the order asks for reasoning without one."""
        return assumed_effort(order, self._effort)

    def relayed_body(self, body: dict[str, Any], model: str, *, keeps_reasoning: bool) -> tuple[dict[str, Any], bool]:  # noqa: ARG002 - the interface
        """A client's body as it is sent to the endpoint, and whether its usage is requested for Accord alone."""
        renamed = self._rename(body)
        if not self.dialect.usage_in_stream:  # every stream has it, and the server knows no such member
            renamed = {name: value for name, value in renamed.items() if name != "stream_options"}
        return relayed_body(renamed, model, usage_in_stream=self._usage_in_stream)


def _user_messages(parts: Sequence[AnyPart]) -> Iterator[dict[str, Any]]:
    """Yield the user's content and results of tools as messages of their own, in their order."""
    pending: list[AnyPart] = []
    for part in parts:
        if not isinstance(part, ToolResultPart):
            pending.append(part)
            continue
        if pending:
            yield _user_message(pending)
            pending = []
        texts = [_text(cast("AnyPart", inner), "a tool") for inner in part.content]
        joined = result_text(part, texts)
        if part.is_error and texts:
            texts[0] = result_text(part, texts[:1])
        content = _texts(part.content, texts, joined)
        yield {"role": "tool", "tool_call_id": part.tool_use_id, "content": content}
    if pending or not parts:
        yield _user_message(pending)


def _user_message(parts: Sequence[AnyPart]) -> dict[str, Any]:
    match parts:
        case []:
            return {"role": "user", "content": ""}
        case [TextPart(text=text) as part] if not breakpoint_of(part):
            return {"role": "user", "content": text}
        case _:
            return {"role": "user", "content": [{**_content(part), **breakpoint_of(part)} for part in parts]}


def _texts(parts: Sequence[MessagePart], texts: Sequence[str], joined: str | None = None) -> str | list[dict[str, Any]]:
    """Return texts as one, or in parts if there are points among them to cache up to."""
    if not any(map(breakpoint_of, parts)):
        return "".join(texts) if joined is None else joined
    written = zip(parts, texts, strict=True)
    return [{"type": "text", "text": text, **breakpoint_of(part)} for part, text in written]


def _content(part: AnyPart) -> dict[str, Any]:
    match part:
        case ImagePart():
            detail = {} if part.detail is None else {"detail": part.detail}
            return {"type": "image_url", "image_url": {"url": image_address(part), **detail}}
        case AudioPart():
            audio_format = AUDIO_FORMATS.get(part.media_type.partition(";")[0].strip().lower())
            if audio_format is None:
                raise UnsupportedByApiError("audio", "the API takes audio as WAV and MP3 only")
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": audio_format}}
        case ResourcePart() if part.file_id is not None:
            return {"type": "file", "file": {"file_id": part.file_id}}
        case ResourcePart() if part.data is not None:
            return {"type": "file", "file": {"filename": file_name(part), "file_data": pdf_url(part)}}
        case _:
            return {"type": "text", "text": _text(part, "the user")}


def _text(part: AnyPart, role: str) -> str:
    """Return a part as text; raise `UnsupportedByApiError` for media where this role can only write text."""
    match part:
        case TextPart():
            return part.text
        case ResourcePart() if part.data is None:
            return document_text(part)
        case ResourceLinkPart():
            return link_text(part)
        case ImagePart() | AudioPart() | ResourcePart():
            if role == "a tool":
                raise UnsupportedByApiError("tool_result_media", UNSUPPORTED["tool_result_media"])
            raise misplaced(part, capability_for_part(part) or "", role)
        case ToolUsePart() | ToolResultPart():
            raise misplaced(part, "tool_use", role)
        case ThinkingPart():
            raise misplaced(part, "extended_thinking", role)
        case _:
            assert_never(part)


def _tool_call(part: ToolUsePart) -> dict[str, Any]:
    function = {"name": part.name, "arguments": arguments_text(part.input)}
    return {"id": part.id, "type": "function", "function": function, **signature_member(part.signature)}


def _tool_members(order: WorkOrder) -> dict[str, Any]:
    """Return the tools and how they may be called. Without tools, endpoints refuse the latter."""
    members: dict[str, Any] = {"tools": [_tool(tool) for tool in order.tools]}
    if (choice := order.tool_choice) is not None:
        named = {"type": "function", "function": {"name": choice.name}}
        members["tool_choice"] = named if choice.mode == "tool" else choice.mode
    if order.parallel_tool_calls is not None:
        members["parallel_tool_calls"] = order.parallel_tool_calls
    return members


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": parameters_of(tool)}
    strict = {"strict": True} if tool.strict else {}
    return {"type": "function", "function": {**{name: value for name, value in function.items() if value}, **strict}}
