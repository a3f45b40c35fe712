"""OpenAI's responses API: work orders as request bodies, answers as pieces. Nothing is stored at the endpoint."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never, cast

import msgspec
from msgspec import Struct

from accord.backends.evidence import Layer
from accord.backends.failure import FailureReport
from accord.backends.model_api import (
    AnswerReader,
    ApiRequest,
    MalformedAnswerError,
    ReportedError,
    UnsupportedByApiError,
    document_text,
    link_text,
)
from accord.backends.openai.chat import BASE_URL
from accord.backends.openai.chat_answer import DONE
from accord.backends.openai.endpoint import discovery_request, explained_by, read_discovery, read_error
from accord.backends.openai.parts import (
    allows_strict,
    arguments_of,
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
from accord.core.sse import ServerEvent
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
from accord.wire.work import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece, ToolCallPiece, ToolSpec, WorkOrder

# Reads answers of the responses API, streamed or whole.
#
# A stream is a story of items: what each is told as it grows counts, and the whole response at the end fills in what
# a server did not tell on the way. Only that end completes an answer.

TEXT_DELTA: Final = "response.output_text.delta"
INCOMPLETE: Final[Mapping[str, EndReason]] = MappingProxyType(
    {"max_output_tokens": "max_tokens", "max_tokens": "max_tokens", "content_filter": "refusal"}
)
ENDED: Final = frozenset({"completed", "incomplete"})


class _Content(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(Struct):
    type: str = ""
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Content] | None = None
    summary: list[_Content] | None = None
    encrypted_content: str | None = None


class _InputDetails(Struct):
    cached_tokens: int | None = None


class _OutputDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    status: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None


class _Event(Struct):
    type: str = ""
    delta: Any = None
    item: _Item | None = None
    response: _Response | None = None
    summary_index: int | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Event).decode
_decode_whole: Final = msgspec.json.Decoder(_Response).decode


class ResponsesReader:
    """One answer while it is read."""

    __slots__ = ("_has_called", "_has_refused", "_has_spoken", "_has_thought", "_told")

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._has_called = False
        self._has_refused = False
        self._has_spoken = False
        self._has_thought = False

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """The pieces that this event completes."""
        data = event.data
        if data.startswith(DONE):
            return ()
        try:
            told = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise MalformedAnswerError("an event is not what the API says") from None
        if told.type == TEXT_DELTA:
            self._has_spoken = True
            return (TextPiece(text=told.delta),) if told.delta and isinstance(told.delta, str) else ()
        if told.type == "error" or told.error or event.name == "error":
            raise ReportedError(explained_by(msgspec.json.decode(data)))
        return self._rarer(told)

    def finish(self) -> Sequence[AnyPiece]:
        """Nothing: an answer that is complete has said so."""
        raise MalformedAnswerError("the stream ended before the answer did")

    def ended(self, response: _Response) -> Sequence[AnyPiece]:
        """The end of an answer, with all that was not told before."""
        if response.error or response.status in ("failed", "cancelled"):
            raise ReportedError(explained_by(response.error))
        if response.status not in ENDED:
            raise MalformedAnswerError("the answer is not complete")
        pieces = [piece for item in response.output or () for piece in self._untold(item)]
        return [*pieces, EndPiece.trusted(reason=self._reason(response), usage=_neutral(response.usage))]

    def _rarer(self, told: _Event) -> Sequence[AnyPiece]:
        match told.type:
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._thought(told.delta)
            case "response.reasoning_summary_part.added" if told.summary_index and self._has_thought:
                return self._thought("\n\n")
            case "response.refusal.delta":
                self._has_refused = self._has_spoken = True
                return (TextPiece(text=told.delta),) if told.delta and isinstance(told.delta, str) else ()
            case "response.output_item.done" if told.item is not None:
                return self._item(told.item)
            case "response.completed" | "response.incomplete" | "response.failed":
                return self.ended(told.response or _Response())
            case _:
                return ()

    def _thought(self, text: Any) -> Sequence[AnyPiece]:
        if not text or not isinstance(text, str):
            return ()
        self._has_thought = True
        return (ThinkingPiece(text=text),)

    def _item(self, item: _Item) -> Sequence[AnyPiece]:
        """What only an item as a whole tells: a call, and the seal on reasoning."""
        if item.type == "function_call":
            return (self._call(item),)
        if item.type == "reasoning" and item.encrypted_content:
            is_seal_only, self._has_thought = not self._has_thought, False
            seal = item.encrypted_content
            self._told.add(seal)
            return (ThinkingPiece(text="", signature=seal, redacted=is_seal_only),)
        return ()

    def _call(self, item: _Item) -> ToolCallPiece:
        if not item.name or not item.call_id:
            raise MalformedAnswerError("a call has no name or no id")
        self._has_called = True
        self._told.add(item.call_id)
        given = arguments_of(item.arguments or "", is_cut=item.status == "incomplete")
        return ToolCallPiece.trusted(id=item.call_id, name=item.name, input=given)

    def _untold(self, item: _Item) -> Sequence[AnyPiece]:
        """The pieces of an item, but for those that were told as it grew."""
        match item.type:
            case "function_call" if item.call_id not in self._told:
                return (self._call(item),)
            case "message" if not self._has_spoken:
                return [piece for content in item.content or () for piece in self._said(content)]
            case "reasoning" if item.encrypted_content not in self._told and not self._has_thought:
                texts = [content.text for content in (*(item.summary or ()), *(item.content or ())) if content.text]
                thoughts = self._thought("\n\n".join(texts))
                sealed = self._item(item)
                self._has_thought = False
                return [*thoughts, *sealed]
            case _:
                return ()

    def _said(self, content: _Content) -> Sequence[AnyPiece]:
        if content.refusal:
            self._has_refused = True
        text = content.text or content.refusal
        return (TextPiece(text=text),) if text else ()

    def _reason(self, response: _Response) -> EndReason:
        if self._has_refused:
            return "refusal"
        why = response.incomplete_details.reason if response.incomplete_details else None
        if response.status == "incomplete":
            return INCOMPLETE.get(why or "", "max_tokens")
        return "tool_use" if self._has_called else "end_turn"


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """The pieces of an answer that came at once."""
    try:
        response = _decode_whole(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedAnswerError("it is not what the API says") from None
    return ResponsesReader().ended(response)


def _neutral(usage: _Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    told = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.input_tokens_details and usage.input_tokens_details.cached_tokens,
        "reasoning_tokens": usage.output_tokens_details and usage.output_tokens_details.reasoning_tokens,
    }
    return {name: count for name, count in told.items() if count is not None}


# OpenAI's responses API: the request. Nothing is kept by the endpoint: every question carries its conversation.
#
# The model's reasoning comes back sealed and goes along with the next question, if thinking is asked for or the
# conversation has such a seal: models that do not reason refuse to be asked for one. Reasoning without a seal has no
# place here and is not sent. How an answer is read is in `responses_answer.py`.

SUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "streaming": "native",
        "reasoning_history": "native",
        "system_message": "native",
        "temperature": "native",
        "top_p": "native",
        "max_tokens": "native",
        "tool_result_media": "native",
    }
)
UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audio": "it takes no sound",
        "file_input": "it takes no files other than PDF",
        "stop_sequences": "it takes no texts to stop at",
        "top_k": "sampling cannot be limited to a number of tokens",
        "frequency_penalty": "it takes no penalties",
        "presence_penalty": "it takes no penalties",
        "seed_determinism": "it takes no seed",
        "logprobs": "answers here have no place for probabilities",
        "cache_control": "the endpoint itself decides what it caches",
    }
)
FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens"}
)
SEALS: Final = "reasoning.encrypted_content"


class OpenAiResponses:
    """The responses API. `summary` is how the model is asked to tell of its reasoning; None asks for nothing."""

    def __init__(self, *, effort: str = "medium", summary: str | None = "auto") -> None:
        self.name: Final = "openai responses API"
        self.base_url: Final = BASE_URL
        self.supported: Final = SUPPORTED
        self.unsupported: Final = UNSUPPORTED
        self._reasoning: Final = {"effort": effort, **({"summary": summary} if summary else {})}

    def headers(self, key: str | None) -> dict[str, str]:
        """The key, if there is one."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def request(self, order: WorkOrder, model: str) -> ApiRequest:
        """The request that carries this work."""
        if order.stop_sequences:
            raise UnsupportedByApiError("stop_sequences", UNSUPPORTED["stop_sequences"])
        items = [item for message in order.conversation.messages for item in _items(message)]
        body: dict[str, Any] = {"model": model, "input": items, "stream": order.stream}
        if order.tools:
            body["tools"] = [_tool(tool) for tool in order.tools]
        body = with_parameters(body, order, FIELDS, UNSUPPORTED)
        if (wanted := _format(order)) is not None:
            body["text"] = _with_format(body.get("text", {}), wanted)
        if order.thinking:
            body.setdefault("reasoning", self._reasoning)
        if order.thinking or any(item["type"] == "reasoning" for item in items):
            body.setdefault("include", [SEALS])
        body.setdefault("store", False)
        return ApiRequest("/responses", body)

    def answer_reader(self) -> AnswerReader:
        """A reader for one streamed answer."""
        return ResponsesReader()

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once."""
        return read_answer(body)

    def read_error(self, status: int, body: bytes) -> FailureReport:
        """What an answer that is not 200 says went wrong."""
        return read_error(status, body)

    def discovery_request(self, model: str) -> ApiRequest:
        """The list of models."""
        return discovery_request(model)

    def read_discovery(self, body: bytes, model: str) -> Layer:
        """What that tells of the model."""
        return read_discovery(body, model)


def _items(message: ConversationMessage) -> Iterator[dict[str, Any]]:
    """A message as items: what is said together stays together, calls, results and reasoning stand alone."""
    role = "user" if message.role is Role.TOOL else str(message.role)
    said: list[dict[str, Any]] = []
    for part in cast("list[AnyPart]", message.content):
        if not isinstance(part, ThinkingPart | ToolUsePart | ToolResultPart):
            said.append(_content(part, message.role))
            continue
        if said:
            yield {"type": "message", "role": role, "content": said}
            said = []
        yield from _alone(part, message.role)
    if said or not message.content:
        yield {"type": "message", "role": role, "content": said}


def _alone(part: ThinkingPart | ToolUsePart | ToolResultPart, role: Role) -> Iterator[dict[str, Any]]:
    if isinstance(part, ToolResultPart) is (role is Role.ASSISTANT) or role is Role.SYSTEM:
        raise misplaced(part, "extended_thinking" if isinstance(part, ThinkingPart) else "tool_use", f"the {role}")
    match part:
        case ThinkingPart():
            if part.signature is not None:
                summary = [{"type": "summary_text", "text": part.text}] if part.text else []
                yield {"type": "reasoning", "summary": summary, "encrypted_content": part.signature}
        case ToolUsePart():
            called = arguments_text(part.input)
            yield {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": called}
        case ToolResultPart():
            yield {"type": "function_call_output", "call_id": part.tool_use_id, "output": _output(part)}
        case _:
            assert_never(part)


def _output(result: ToolResultPart) -> str | list[dict[str, Any]]:
    """What a tool gave: text as text, and anything else in parts."""
    parts = cast("list[AnyPart]", result.content)
    contents = [_content(part, Role.TOOL) for part in parts]
    if all(content["type"] == "input_text" for content in contents):
        return result_text(result, [content["text"] for content in contents])
    told = [{"type": "input_text", "text": result_text(result, [])}] if result.is_error else []
    return [*told, *contents]


def _content(part: AnyPart, role: Role) -> dict[str, Any]:
    text = "output_text" if role is Role.ASSISTANT else "input_text"
    _check_place(part, role)
    match part:
        case TextPart():
            return {"type": text, "text": part.text}
        case ImagePart():
            return {"type": "input_image", "image_url": data_url(part.media_type, part.data)}
        case ResourcePart() if part.data is not None:
            return {"type": "input_file", "filename": file_name(part), "file_data": pdf_url(part)}
        case ResourcePart():
            return {"type": text, "text": document_text(part)}
        case ResourceLinkPart():
            return {"type": text, "text": link_text(part)}
        case AudioPart() | ThinkingPart() | ToolUsePart() | ToolResultPart():
            raise misplaced(part, "tool_use", "a tool")
        case _:
            assert_never(part)


def _check_place(part: AnyPart, role: Role) -> None:
    """Only users and tools show things; nobody can say sound."""
    needed = capability_for_part(part)
    if needed is None:
        return
    if needed in UNSUPPORTED:
        raise UnsupportedByApiError(needed, UNSUPPORTED[needed])
    if role in (Role.ASSISTANT, Role.SYSTEM):
        raise misplaced(part, needed, f"the {role}")


def _tool(tool: ToolSpec) -> dict[str, Any]:
    # Strict unless told otherwise, which would refuse most schemas that tools have.
    told = {"type": "function", "name": tool.name, "description": tool.description}
    named = {name: value for name, value in told.items() if value}
    return {**named, "parameters": parameters_of(tool), "strict": False}


def _format(order: WorkOrder) -> dict[str, Any] | None:
    schema = order.response_schema
    if schema is not None:
        name, strict = schema_name(schema), allows_strict(schema)
        return {"type": "json_schema", "name": name, "schema": schema, "strict": strict}
    return {"type": "json_object"} if order.json_mode else None


def _with_format(text: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's own words on text, with the format that the work asks for."""
    if not isinstance(text, dict) or "format" in text:
        raise UnsupportedByApiError("text", "the work itself sets text.format", always=False)
    return {**cast("dict[str, Any]", text), "format": wanted}
