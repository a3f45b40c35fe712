"""Anthropic's Messages API: answers, streamed or whole, as pieces; errors as failures. Pure; knows no transport."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from accord.backends.failure import MAX_NOTE_CHARS, Failure, FailureReport, failure_by_status
from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.core.sse import ServerEvent
from accord.wire.capability import Capability
from accord.wire.work import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece, ToolCallPiece

# What errors of the Messages API mean, whether they came as an answer or in the middle of one. Pure.
#
# The API has few kinds of errors, and most refusals are of one kind: what exactly it does not take is in its sentence
# only. The sentence itself goes into `said`, never into our words.

BY_KIND: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "invalid_request_error": Failure.BAD_REQUEST,
        "authentication_error": Failure.BAD_KEY,
        "billing_error": Failure.OUT_OF_QUOTA,
        "permission_error": Failure.FORBIDDEN,
        "not_found_error": Failure.NO_SUCH_MODEL,
        "conflict_error": Failure.OVERLOADED,
        "request_too_large": Failure.TOO_LARGE,
        "rate_limit_error": Failure.RATE_LIMITED,
        "api_error": Failure.FAILED,
        "timeout_error": Failure.TIMED_OUT,
        "overloaded_error": Failure.OVERLOADED,
    }
)


@dataclass(frozen=True, slots=True)
class Sign:
    """Words in a sentence that say more than its kind."""

    words: re.Pattern[str]
    failure: Failure
    refused: str | None = None
    reason: str | None = None


_NO = r"(?:deprecated|removed|unsupported|not (?:supported|permitted|available|allowed)|(?:does not|doesn't) support)"


def _sign(words: str, failure: Failure, refused: str | None = None, reason: str | None = None) -> Sign:
    return Sign(re.compile(words, re.IGNORECASE | re.DOTALL), failure, refused, reason)


def _lacks(words: str, capability: Capability, reason: str | None = None) -> Sign:
    return _sign(words, Failure.UNSUPPORTED, capability, reason)


SIGNS: Final = (
    _sign(r"prompt is too long|exceeds? (?:the )?(?:model's )?context", Failure.CONTEXT_TOO_LONG),
    _sign(r"credit balance|(?:usage|spend) limit", Failure.OUT_OF_QUOTA),
    _sign(r"content filter", Failure.CONTENT_REFUSED),
    _sign(
        r"signature.*thinking|thinking.*signature|thinking.*cannot be modified",
        Failure.BAD_REQUEST,
        reason="it does not accept the seal on earlier reasoning, which another model may have set",
    ),
    _lacks(
        rf"^\W?(?:thinking\.type|adaptive thinking).*{_NO}|{_NO}.*\bthinking",
        Capability.EXTENDED_THINKING,
        "this model does not think in the way that `thinking_budget` asks for",
    ),
    *(
        _lacks(rf"^\W?{name}\b\W?(?: (?:is|are|parameter)|:).*{_NO}", capability)
        for name, capability in (
            ("temperature", Capability.TEMPERATURE),
            ("top_p", Capability.TOP_P),
            ("top_k", Capability.TOP_K),
        )
    ),
    _lacks(
        r"^\W?output_(?:config\.)?format|structured outputs?|compiled grammar",
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        "this model has no structured output, or does not take this schema",
    ),
    _lacks(rf"{_NO} (?:image|vision)|\bimages? (?:input )?(?:is|are) not supported", Capability.IMAGE_INPUT),
    _lacks(rf"{_NO} (?:pdf|document)|\b(?:pdf|document)s? (?:input )?(?:is|are) not supported", Capability.PDF_INPUT),
    _lacks(rf"{_NO} tool|\btools? (?:use )?(?:is|are) not supported", Capability.TOOL_USE),
    _sign(
        r"could not process (?:image|pdf)|image exceeds",
        Failure.BAD_REQUEST,
        reason="an image or a PDF is not readable",
    ),
)
"""The first that fits counts. A capability is refused only where the sentence is about it alone: that is remembered."""


class ErrorObject(msgspec.Struct):
    """What the API says went wrong."""

    type: str | None = None
    message: str | None = None


class _Envelope(msgspec.Struct):
    error: ErrorObject | None = None


_decode: Final = msgspec.json.Decoder(_Envelope).decode


def read_error(status: int, body: bytes) -> FailureReport:
    """What an answer with this status says went wrong; whoever is in between may answer anything at all."""
    try:
        error = _decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = None
    by_status = failure_by_status(status)
    if error is None:
        return FailureReport(by_status, status=status)
    return explained(error, by_status, status)


def explained(error: ErrorObject, otherwise: Failure = Failure.FAILED, status: int | None = None) -> FailureReport:
    """What this error means; `otherwise` if its kind is not known."""
    failure = BY_KIND.get(error.type or "", otherwise)
    said = (error.message or "")[:MAX_NOTE_CHARS]
    sign = next((sign for sign in SIGNS if sign.words.search(said)), None) if failure in SPOKEN else None
    if sign is None:
        return FailureReport(failure, code=error.type, message=said or None, status=status)
    return FailureReport(sign.failure, sign.refused, error.type, said, sign.reason, status)


SPOKEN: Final = frozenset({Failure.BAD_REQUEST, Failure.FORBIDDEN, Failure.TOO_LARGE, Failure.FAILED})
"""The failures whose sentence is looked at."""


# Reads answers of the Messages API, streamed or whole, as pieces. Pure; knows no transport.
#
# Feeding is hot: an event is one small typed record, and text, by far the most of them, is passed on at once. Input
# tokens are all of them, those of the cache included, which the API tells apart: the word means the same whoever
# answers.

REASONS: Final[Mapping[str, EndReason]] = MappingProxyType(
    {
        "end_turn": "end_turn",
        "max_tokens": "max_tokens",
        "stop_sequence": "stop_sequence",
        "tool_use": "tool_use",
        "pause_turn": "end_turn",
        "refusal": "refusal",
        "model_context_window_exceeded": "max_tokens",
    }
)
CUT_SHORT: Final = frozenset({"max_tokens", "refusal"})
"""Reasons that may end an answer in the middle of a call."""


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: Any = None


class _Message(msgspec.Struct):
    type: str = ""
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    error: ErrorObject | None = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: ErrorObject | None = None


_decode_event: Final = msgspec.json.Decoder(_Event).decode
_decode_message: Final = msgspec.json.Decoder(_Message).decode
_decode_any: Final = msgspec.json.Decoder().decode
_NOTHING: Final[tuple[AnyPiece, ...]] = ()
_NOT_UNDERSTOOD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class MessagesReader:
    """One streamed answer while it is read."""

    __slots__ = ("_held", "_is_cut", "_is_over", "_open", "_reason", "_usage")

    def __init__(self) -> None:
        self._open: Final[dict[int, _Block]] = {}
        self._held: Final[dict[int, list[str]]] = {}
        self._usage: Final[dict[str, int]] = {}
        self._reason: str | None = None
        self._is_cut = False
        self._is_over = False

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """The pieces that this event completes."""
        try:
            told = _decode_event(event.data)
        except _NOT_UNDERSTOOD:
            raise MalformedAnswerError("an event cannot be understood") from None
        delta = told.delta
        if told.type == "content_block_delta" and delta is not None:
            if delta.type == "text_delta":
                return (TextPiece(text=delta.text),) if delta.text else _NOTHING
            return self._more(told.index, delta)
        return self._other(told)

    def finish(self) -> Sequence[AnyPiece]:
        """Nothing more, if the answer is complete."""
        if not self._is_over:
            raise MalformedAnswerError("the answer stops before its end")
        return _NOTHING

    def _more(self, index: int, delta: _Delta) -> Sequence[AnyPiece]:
        match delta.type:
            case "thinking_delta":
                return (ThinkingPiece(text=delta.thinking),) if delta.thinking else _NOTHING
            case "input_json_delta" | "signature_delta":
                if index not in self._open:
                    raise MalformedAnswerError("a piece belongs to nothing that was begun")
                self._held.setdefault(index, []).append(delta.partial_json or delta.signature)
            case _:
                pass
        return _NOTHING

    def _other(self, told: _Event) -> Sequence[AnyPiece]:
        match told.type:
            case "content_block_start" if told.content_block is not None:
                self._open[told.index] = told.content_block
                return _opened(told.content_block)
            case "content_block_stop":
                return self._closed(told.index)
            case "message_start" if told.message is not None:
                _count(told.message.usage, self._usage)
            case "message_delta":
                _count(told.usage, self._usage)
                if told.delta is not None and told.delta.stop_reason is not None:
                    self._reason = told.delta.stop_reason
            case "message_stop":
                return self._ended()
            case "error":
                raise ReportedError(explained(told.error or ErrorObject()))
            case _:
                pass
        return _NOTHING

    def _closed(self, index: int) -> Sequence[AnyPiece]:
        block = self._open.pop(index, None)
        held = "".join(self._held.pop(index, ()))
        if block is None:
            return _NOTHING
        if block.type == "thinking":
            seal = held or block.signature
            return (ThinkingPiece(text="", signature=seal),) if seal else _NOTHING
        if block.type != "tool_use":
            return _NOTHING
        if held.strip():
            try:
                block.input = _decode_any(held)
            except _NOT_UNDERSTOOD:
                self._is_cut = True  # whether that is an error is known once the answer says why it ends
                return _NOTHING
        return (_call(block),)

    def _ended(self) -> Sequence[AnyPiece]:
        end = _end(self._reason, self._usage)
        if (self._is_cut or self._open) and end.reason not in CUT_SHORT:
            raise MalformedAnswerError(
                "the arguments of a call are not JSON" if self._is_cut else "a part of the answer has no end"
            )
        self._is_over = True
        return (end,)


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """The pieces of an answer that came at once."""
    try:
        message = _decode_message(body)
    except _NOT_UNDERSTOOD:
        raise MalformedAnswerError("the answer cannot be understood") from None
    if message.type == "error" or message.error is not None:
        raise ReportedError(explained(message.error or ErrorObject()))
    if message.content is None:
        raise MalformedAnswerError("the answer has no content")
    pieces: list[AnyPiece] = []
    for block in message.content:
        if block.type == "thinking":
            pieces.append(ThinkingPiece(text=block.thinking, signature=block.signature or None))
        elif block.type == "tool_use":
            pieces.append(_call(block))
        else:
            pieces.extend(_opened(block))
    usage: dict[str, int] = {}
    _count(message.usage, usage)
    return [*pieces, _end(message.stop_reason, usage)]


def _opened(block: _Block) -> Sequence[AnyPiece]:
    """What a block says as it begins; of redacted reasoning that is all there is."""
    match block.type:
        case "text" if block.text:
            return (TextPiece(text=block.text),)
        case "thinking" if block.thinking:
            return (ThinkingPiece(text=block.thinking),)
        case "redacted_thinking":
            return (ThinkingPiece(text="", signature=block.data, redacted=True),)
        case _:
            return _NOTHING


def _call(block: _Block) -> ToolCallPiece:
    if not block.id or not block.name:
        raise MalformedAnswerError("a call does not say which tool it is for")
    try:
        return ToolCallPiece(id=block.id, name=block.name, input={} if block.input is None else block.input)
    except ValidationError:
        raise MalformedAnswerError("the arguments of a call are nested too deeply") from None


def _count(told: _Usage | None, usage: dict[str, int]) -> None:
    """Take in what is told: numbers of later events replace those before."""
    if told is None:
        return
    details = told.output_tokens_details
    counted = {
        "input": told.input_tokens,
        "output_tokens": told.output_tokens,
        "cached_input_tokens": told.cache_read_input_tokens,
        "cache_write_tokens": told.cache_creation_input_tokens,
        "reasoning_tokens": None if details is None else details.thinking_tokens,
    }
    usage |= {name: value for name, value in counted.items() if value is not None}


def _end(reason: str | None, usage: Mapping[str, int]) -> EndPiece:
    known = REASONS.get(reason or "", "end_turn")
    return EndPiece(reason=known, usage=_neutral(usage) if usage else None)


def _neutral(usage: Mapping[str, int]) -> dict[str, int]:
    cached = usage.get("cached_input_tokens", 0) + usage.get("cache_write_tokens", 0)
    told = {} if "input" not in usage else {"input_tokens": usage["input"] + cached}
    return told | {name: value for name, value in usage.items() if name != "input"}
