"""OpenAI's chat completions, as OpenAI and everybody who is compatible with it speak them: the request.

Servers differ in what they take, and those differences are options here, never guesses. Reasoning of earlier turns is
not sent unless `reasoning_field` names a place for it: the API has none, and the plan says so. The parameter
`logprobs` is true, or how many likely tokens to tell of each. How an answer is read is in `chat_answer.py`.
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
    SOUNDS,
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
OWN_HOST: Final = "api.openai.com"
AZURE_HOSTS: Final = ".openai.azure.com"
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
        "seed_determinism": SupportLevel.limited("the seed is taken, and answers mostly repeat: no more is promised"),
    }
)
UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "file_input": "it takes no files other than PDF",
        "tool_result_media": "what tools give is text only",
        "cache_control": "the endpoint itself decides what it caches",
    }
)
NO_REASONING: Final = "there is no place for reasoning of earlier turns"
NO_TOP_K: Final = "sampling cannot be limited to a number of tokens"


def max_tokens_field(base_url: str) -> MaxTokensField:
    """What the limit on tokens is called at this address: others than OpenAI may overlook the newer name."""
    host = (urlsplit(base_url).hostname or "").lower()
    is_own = host == OWN_HOST or host.endswith(AZURE_HOSTS)
    return "max_completion_tokens" if is_own else "max_tokens"


class OpenAiChat:
    """The chat completions API.

    `max_tokens_field`: OpenAI's own models want `max_completion_tokens`, and some compatible servers overlook it: see
    the function of that name. `usage_in_stream`: whether a stream is asked to end with its usage; old servers refuse
    the question. `top_k`: vLLM, llama.cpp and OpenRouter take it, OpenAI refuses it. `max_stops`: how many texts to
    stop at are taken. `reasoning_field`: where a server takes reasoning of earlier turns, such as
    `reasoning_content`. `ollama`: the server is Ollama, which tells on a path of its own what a model can do.
    """

    def __init__(  # noqa: PLR0913 - each server differs in its own way
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
        }
        self._usage_in_stream: Final = usage_in_stream
        self._max_stops: Final = max_stops
        self._effort: Final = effort
        self._reasoning_field: Final = reasoning_field
        self._ollama: Final = ollama

    def headers(self, key: str | None) -> dict[str, str]:
        """The key, if there is one: servers at home need none."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def request(self, order: WorkOrder, model: str) -> ApiRequest:
        """The request that carries this work."""
        messages = [said for message in order.conversation.messages for said in self._messages(message)]
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": order.stream}
        if order.stream and self._usage_in_stream:
            body["stream_options"] = {"include_usage": True}
        if order.tools:
            body["tools"] = [_tool(tool) for tool in order.tools]
        if order.response_schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": _format(order.response_schema)}
        elif order.json_mode:
            body["response_format"] = {"type": "json_object"}
        if order.stop_sequences:
            body["stop"] = self._stops(order.stop_sequences)
        body = with_parameters(body, order, self._fields, self.unsupported)
        if (count := order.parameters.get("logprobs")) is not None and not isinstance(count, bool):
            # How many likely tokens to tell of each; the API wants the question and the number apart.
            body |= {"logprobs": True, "top_logprobs": count}
        if order.thinking:
            body.setdefault("reasoning_effort", self._effort)
        return ApiRequest("/chat/completions", body)

    def answer_reader(self) -> AnswerReader:
        """A reader for one streamed answer."""
        return ChatReader()

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once."""
        return read_answer(body)

    def read_error(self, status: int, body: bytes) -> FailureReport:
        """What an answer that is not 200 says went wrong."""
        return read_error(status, body)

    def discovery_request(self, model: str) -> ApiRequest:
        """The list of models, or what Ollama says of this one."""
        return discovery_request(model, ollama=self._ollama)

    def read_discovery(self, body: bytes, model: str) -> Layer:
        """What that tells of the model."""
        return read_discovery(body, model)

    def _stops(self, texts: list[str]) -> list[str]:
        if self._max_stops is not None and len(texts) > self._max_stops:
            raise UnsupportedByApiError(
                "stop_sequences", f"it takes at most {self._max_stops} texts to stop at", always=False
            )
        return list(texts)

    def _messages(self, message: ConversationMessage) -> Iterator[dict[str, Any]]:
        parts = cast("list[AnyPart]", message.content)
        match message.role:
            case Role.SYSTEM:
                yield {"role": "system", "content": "".join(_text(part, "the system") for part in parts)}
            case Role.ASSISTANT:
                yield self._assistant(parts)
            case Role.USER | Role.TOOL:
                yield from _user(parts)
            case _:
                assert_never(message.role)

    def _assistant(self, parts: Sequence[AnyPart]) -> dict[str, Any]:
        spoken = [part for part in parts if not isinstance(part, ThinkingPart | ToolUsePart)]
        calls = [_call(part) for part in parts if isinstance(part, ToolUsePart)]
        content = "".join(_text(part, "the assistant") for part in spoken)
        said: dict[str, Any] = {"role": "assistant", "content": content if spoken or not calls else None}
        thoughts = "".join(part.text for part in parts if isinstance(part, ThinkingPart))
        if self._reasoning_field and thoughts:
            said[self._reasoning_field] = thoughts
        if calls:
            said["tool_calls"] = calls
        return said


def _user(parts: Sequence[AnyPart]) -> Iterator[dict[str, Any]]:
    """What a user says and what tools gave, each in its own message, in the order in which they came."""
    said: list[AnyPart] = []
    for part in parts:
        if not isinstance(part, ToolResultPart):
            said.append(part)
            continue
        if said:
            yield _said_by_user(said)
            said = []
        texts = [_text(cast("AnyPart", inner), "a tool") for inner in part.content]
        yield {"role": "tool", "tool_call_id": part.tool_use_id, "content": result_text(part, texts)}
    if said or not parts:
        yield _said_by_user(said)


def _said_by_user(parts: Sequence[AnyPart]) -> dict[str, Any]:
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
            return {"type": "image_url", "image_url": {"url": data_url(part.media_type, part.data)}}
        case AudioPart():
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": _sound(part)}}
        case ResourcePart() if part.data is not None:
            return {"type": "file", "file": {"filename": file_name(part), "file_data": pdf_url(part)}}
        case _:
            return {"type": "text", "text": _text(part, "the user")}


def _text(part: AnyPart, speaker: str) -> str:
    """A part where only text has a place."""
    match part:
        case TextPart():
            return part.text
        case ResourcePart() if part.data is None:
            return document_text(part)
        case ResourceLinkPart():
            return link_text(part)
        case ImagePart() | AudioPart() | ResourcePart():
            if speaker == "a tool":
                raise UnsupportedByApiError("tool_result_media", UNSUPPORTED["tool_result_media"])
            raise misplaced(part, capability_for_part(part) or "", speaker)
        case ToolUsePart() | ToolResultPart():
            raise misplaced(part, "tool_use", speaker)
        case ThinkingPart():
            raise misplaced(part, "extended_thinking", speaker)
        case _:
            assert_never(part)


def _sound(part: AudioPart) -> str:
    kind = SOUNDS.get(part.media_type.partition(";")[0].strip().lower())
    if kind is None:
        raise UnsupportedByApiError("audio", "it takes sound as WAV and MP3 only", always=False)
    return kind


def _call(part: ToolUsePart) -> dict[str, Any]:
    function = {"name": part.name, "arguments": arguments_text(part.input)}
    call: dict[str, Any] = {"id": part.id, "type": "function", "function": function}
    if part.signature is not None:
        # Only Gemini's endpoint seals calls, and it insists on getting the seal back in this place.
        call["extra_content"] = {"google": {"thought_signature": part.signature}}
    return call


def _tool(tool: ToolSpec) -> dict[str, Any]:
    told = {"name": tool.name, "description": tool.description, "parameters": parameters_of(tool)}
    return {"type": "function", "function": {name: value for name, value in told.items() if value}}


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": schema_name(schema), "schema": schema, "strict": allows_strict(schema)}
