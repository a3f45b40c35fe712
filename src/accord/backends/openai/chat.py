"""OpenAI's chat completions API, of OpenAI and compatible servers: the request. Answers are in `chat_answer.py`.

Servers differ in what they take. The differences are options, never guesses. Reasoning of earlier turns is not sent
unless `reasoning_field` names a field for it: the API has none, and plans record that. The parameter `logprobs` is
true, or the number of likely tokens to report for each. `reasoning` is an effort here: a number of tokens becomes the
nearest one, and the API has no summary to ask for. Pure; it does no I/O.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, assert_never, cast
from urllib.parse import urlsplit

from accord.backends.evidence import Layer
from accord.backends.failure import FailureReport
from accord.backends.model_api import AnswerReader, ApiRequest, UnsupportedByApiError, document_text, link_text
from accord.backends.openai.chat_answer import ChatReader, read_answer
from accord.backends.openai.endpoint import discovery_request, read_discovery, read_error
from accord.backends.openai.parts import (
    AUDIO_FORMATS,
    allows_strict,
    arguments_text,
    data_url,
    file_name,
    misplaced,
    parameters_of,
    pdf_url,
    result_text,
    schema_name,
    with_parameters,
)
from accord.core.work.derive import capability_for_part
from accord.wire.capability import IMAGE_URL
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ConversationMessage,
    ImagePart,
    ResourceLinkPart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.manifest import SupportLevel
from accord.wire.work import AnyPiece, ToolSpec, WorkOrder

BASE_URL: Final = "https://api.openai.com/v1"
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
NO_REASONING: Final = "the API has no field for reasoning of earlier turns"
NO_TOP_K: Final = "the API has no top_k; some servers take it: set the option top_k"


def max_tokens_field(base_url: str) -> MaxTokensField:
    """Return the name of the token limit at this address: compatible servers may ignore OpenAI's newer name."""
    host = (urlsplit(base_url).hostname or "").lower()
    is_openai = host == OPENAI_HOST or host.endswith(AZURE_SUFFIX)
    return "max_completion_tokens" if is_openai else "max_tokens"


class OpenAiChat:
    """The chat completions API.

    `max_tokens_field`: OpenAI's models require `max_completion_tokens`, which some compatible servers ignore.
    `usage_in_stream`: whether streams are asked for their usage; old servers refuse that. `top_k`: vLLM, llama.cpp and
    OpenRouter take it, OpenAI refuses it. `max_stops`: how many stop sequences are taken. `reasoning_field`: where a
    server takes reasoning of earlier turns, such as `reasoning_content`. `ollama`: the server is Ollama, which
    describes its models on a path of its own.
    """

    def __init__(  # noqa: PLR0913 - one for each difference between servers
        self,
        *,
        max_tokens_field: MaxTokensField = "max_completion_tokens",
        usage_in_stream: bool = True,
        top_k: bool = False,
        max_stops: int | None = MAX_STOPS,
        effort: str = "medium",
        reasoning_field: Literal["reasoning_content", "reasoning"] | None = None,
        ollama: bool = False,
    ) -> None:
        self.name: Final = "openai chat API"
        self.base_url: Final = BASE_URL
        self.supported: Final[Mapping[str, str | SupportLevel]] = (
            {**SUPPORTED, "top_k": "native"} if top_k else SUPPORTED
        )
        self.unsupported: Final[Mapping[str, str]] = {
            **UNSUPPORTED,
            **({} if top_k else {"top_k": NO_TOP_K}),
            **({} if reasoning_field else {"reasoning_history": NO_REASONING}),
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
            "reasoning": "reasoning_effort",
        }
        self._usage_in_stream: Final = usage_in_stream
        self._max_stops: Final = max_stops
        self._effort: Final = effort
        self._reasoning_field: Final = reasoning_field
        self._ollama: Final = ollama

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request; local servers need no key."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def request(self, order: WorkOrder, model: str) -> ApiRequest:
        """Return the request for this work order."""
        messages = [written for message in order.conversation.messages for written in self._messages(message)]
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": order.stream}
        if order.stream and self._usage_in_stream:
            body["stream_options"] = {"include_usage": True}
        if order.tools:
            body |= _tool_members(order)
        if (schema := order.response_schema) is not None:
            name = order.schema_name or schema_name(schema)
            schema_format = {"name": name, "schema": schema, "strict": allows_strict(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema_format}
        elif order.json_mode:
            body["response_format"] = {"type": "json_object"}
        if order.stop_sequences:
            body["stop"] = self._stop_sequences(order.stop_sequences)
        return ApiRequest("/chat/completions", self._with_parameters(body, order))

    def _with_parameters(self, body: dict[str, Any], order: WorkOrder) -> dict[str, Any]:
        body = with_parameters(body, order, self._fields, self.unsupported)
        if (count := order.parameters.get("logprobs")) is not None and not isinstance(count, bool):
            body |= {"logprobs": True, "top_logprobs": count}
        if (reasoning := order.parameters.get("reasoning")) is not None:
            body["reasoning_effort"] = effort_word(reasoning, self._effort)
        elif order.thinking:
            body.setdefault("reasoning_effort", self._effort)
        return body

    def answer_reader(self) -> AnswerReader:
        """Return a new reader for one streamed answer."""
        return ChatReader()

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        """Return the pieces of an answer that was not streamed."""
        return read_answer(body)

    def read_error(self, status: int, body: bytes) -> FailureReport:
        """Return what a reply with another status than 200 says went wrong."""
        return read_error(status, body)

    def discovery_request(self, model: str) -> ApiRequest:
        """Return the request for the list of models, or for Ollama's description of this one."""
        return discovery_request(model, ollama=self._ollama)

    def read_discovery(self, body: bytes, model: str) -> Layer:
        """Return what the list says of the model."""
        return read_discovery(body, model)

    def _stop_sequences(self, texts: list[str]) -> list[str]:
        if self._max_stops is not None and len(texts) > self._max_stops:
            reason = f"the API takes at most {self._max_stops} stop sequences, not {len(texts)}"
            raise UnsupportedByApiError("stop_sequences", reason, always=False)
        return list(texts)

    def _messages(self, message: ConversationMessage) -> Iterator[dict[str, Any]]:
        parts = cast("list[AnyPart]", message.content)
        match message.role:
            case Role.SYSTEM:
                yield {"role": "system", "content": "".join(_text(part, "the system") for part in parts)}
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
        yield {"role": "tool", "tool_call_id": part.tool_use_id, "content": result_text(part, texts)}
    if pending or not parts:
        yield _user_message(pending)


def _user_message(parts: Sequence[AnyPart]) -> dict[str, Any]:
    match parts:
        case []:
            return {"role": "user", "content": ""}
        case [TextPart(text=text)]:
            return {"role": "user", "content": text}
        case _:
            return {"role": "user", "content": [_content(part) for part in parts]}


def _content(part: AnyPart) -> dict[str, Any]:
    match part:
        case ImagePart():
            url = data_url(part.media_type, part.data) if part.data or not part.uri else part.uri
            detail = {} if part.detail is None else {"detail": part.detail}
            return {"type": "image_url", "image_url": {"url": url, **detail}}
        case AudioPart():
            audio_format = AUDIO_FORMATS.get(part.media_type.partition(";")[0].strip().lower())
            if audio_format is None:
                raise UnsupportedByApiError("audio", "the API takes audio as WAV and MP3 only", always=False)
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": audio_format}}
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
    call: dict[str, Any] = {"id": part.id, "type": "function", "function": function}
    if part.signature is not None:
        # Only Gemini's compatible endpoint signs calls, and it requires the signature back in this field.
        call["extra_content"] = {"google": {"thought_signature": part.signature}}
    return call


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


BUDGETS: Final = ((2_048, "low"), (16_384, "medium"))
"""The effort for a number of tokens to reason with: the first row whose number is not exceeded; above all, `high`."""


def effort_word(reasoning: Mapping[str, Any], default: str) -> str:
    """Return the effort that this parameter asks for, as a word of this API."""
    if effort := reasoning.get("effort"):
        return "high" if effort == "max" else effort  # the most that every reasoning model here takes
    if (budget := reasoning.get("max_tokens")) is None:
        return default
    return next((word for most, word in BUDGETS if budget <= most), "high")
