"""Anthropic's Messages API: the answer, streamed or whole, as pieces, and errors as failures. Pure; it does no I/O.

`input_tokens` of the usage counts all input, cached input included, as it does for every backend; the API itself counts
them separately. `MessagesReader.feed` is hot: an event is one small typed record, and text is passed on at once.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from accord.backends.failure import MAX_NOTE_CHARS, NAMES_FIELDS, Failure, FailureReport, failure_by_status
from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.backends.named_fields import named_fields
from accord.core.sse import ServerEvent
from accord.wire.capability import Capability
from accord.wire.work import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece, ToolCallPiece

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
"""Most refusals are of one kind, `invalid_request_error`: what is refused is only in the message."""


@dataclass(frozen=True, slots=True)
class MessageRule:
    """A pattern in an error message that says more than the error's kind."""

    pattern: re.Pattern[str]
    failure: Failure
    refused: str | None = None
    reason: str | None = None


_NO = r"(?:deprecated|removed|unsupported|not (?:supported|permitted|available|allowed)|(?:does not|doesn't) support)"


def _rule(pattern: str, failure: Failure, refused: Capability | None = None, reason: str | None = None) -> MessageRule:
    return MessageRule(re.compile(pattern, re.IGNORECASE | re.DOTALL), failure, refused, reason)


def _refusal(pattern: str, capability: Capability, reason: str | None = None) -> MessageRule:
    return _rule(pattern, Failure.UNSUPPORTED, capability, reason)


MESSAGE_RULES: Final = (
    _rule(r"prompt is too long|exceeds? (?:the )?(?:model's )?context", Failure.CONTEXT_TOO_LONG),
    _rule(r"credit balance|(?:usage|spend) limit", Failure.OUT_OF_QUOTA),
    _rule(r"content filter", Failure.CONTENT_REFUSED),
    _rule(
        r"signature.*thinking|thinking.*signature|thinking.*cannot be modified",
        Failure.BAD_REQUEST,
        reason="it does not accept the signature on earlier reasoning, which another model may have made",
    ),
    _refusal(
        rf"^\W?(?:thinking\.type|adaptive thinking).*{_NO}|{_NO}.*\bthinking",
        Capability.EXTENDED_THINKING,
        "this model does not have the form of thinking that `thinking_budget` selects",
    ),
    *(
        _refusal(rf"^\W?{name}\b\W?(?: (?:is|are|parameter)|:).*{_NO}", capability)
        for name, capability in (
            ("temperature", Capability.TEMPERATURE),
            ("top_p", Capability.TOP_P),
            ("top_k", Capability.TOP_K),
        )
    ),
    _refusal(
        r"^\W?output_(?:config\.)?format|structured outputs?|compiled grammar",
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        "this model has no structured output, or does not take this schema",
    ),
    _refusal(rf"{_NO} (?:image|vision)|\bimages? (?:input )?(?:is|are) not supported", Capability.IMAGE_INPUT),
    _refusal(rf"{_NO} (?:pdf|document)|\b(?:pdf|document)s? (?:input )?(?:is|are) not supported", Capability.PDF_INPUT),
    _refusal(rf"{_NO} tool|\btools? (?:use )?(?:is|are) not supported", Capability.TOOL_USE),
    _rule(
        r"could not process (?:image|pdf)|image exceeds",
        Failure.BAD_REQUEST,
        reason="an image or a PDF is not readable",
    ),
)
"""The first match counts. A capability is refused only where the message is about it alone: refusals are remembered."""


READ_MESSAGES_OF: Final = frozenset({Failure.BAD_REQUEST, Failure.FORBIDDEN, Failure.TOO_LARGE, Failure.FAILED})
"""The failures whose message is matched against `MESSAGE_RULES`."""


class _MessagesError(msgspec.Struct):
    type: str | None = None
    message: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _MessagesError | None = None


_decode_error: Final = msgspec.json.Decoder(_ErrorBody).decode


def read_error(status: int, body: bytes) -> FailureReport:
    """Return what a reply with this status says went wrong; a proxy in between may send any body."""
    try:
        error = _decode_error(body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = None
    failure = failure_by_status(status)
    return FailureReport(failure, status=status) if error is None else _failure_report(error, failure, status)


def _failure_report(
    error: _MessagesError, otherwise: Failure = Failure.FAILED, status: int | None = None
) -> FailureReport:
    """Return what this error means; `otherwise` if its kind is not known."""
    failure = BY_KIND.get(error.type or "", otherwise)
    message = (error.message or "")[:MAX_NOTE_CHARS]
    refused = reason = None
    if failure in READ_MESSAGES_OF:
        rule = next((rule for rule in MESSAGE_RULES if rule.pattern.search(message)), None)
        if rule is not None:
            failure, refused, reason = rule.failure, rule.refused, rule.reason
    fields = named_fields(message, leading=True) if failure in NAMES_FIELDS else ()
    return FailureReport(failure, refused, error.type, message or None, reason, status, fields=fields)


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


class _MessagesOutputDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class _MessagesUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _MessagesOutputDetails | None = None


class _MessagesBlock(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: Any = None


class _MessagesAnswer(msgspec.Struct):
    type: str = ""
    model: str | None = None
    content: list[_MessagesBlock] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: _MessagesUsage | None = None
    error: _MessagesError | None = None


class _MessagesDelta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _MessagesEvent(msgspec.Struct):
    type: str
    index: int = 0
    delta: _MessagesDelta | None = None
    content_block: _MessagesBlock | None = None
    message: _MessagesAnswer | None = None
    usage: _MessagesUsage | None = None
    error: _MessagesError | None = None


_decode_event: Final = msgspec.json.Decoder(_MessagesEvent).decode
_decode_answer: Final = msgspec.json.Decoder(_MessagesAnswer).decode
_decode_any: Final = msgspec.json.Decoder().decode
_NOTHING: Final[tuple[AnyPiece, ...]] = ()
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class MessagesReader:
    """The state of one streamed answer. Blocks are open from their start event to their stop event."""

    __slots__ = (
        "_has_cut_call",
        "_is_over",
        "_model",
        "_open",
        "_reason",
        "_stop_sequence",
        "_unfinished",
        "_usage",
    )

    def __init__(self) -> None:
        self._open: Final[dict[int, _MessagesBlock]] = {}
        self._unfinished: Final[dict[int, list[str]]] = {}
        self._usage: Final[dict[str, int]] = {}
        self._model: str | None = None
        self._reason: str | None = None
        self._stop_sequence: str | None = None
        self._has_cut_call = False
        self._is_over = False

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces that this event completes."""
        try:
            decoded = _decode_event(event.data)
        except _UNDECODABLE:
            raise MalformedAnswerError("an event cannot be understood") from None
        delta = decoded.delta
        if decoded.type == "content_block_delta" and delta is not None:
            if delta.type == "text_delta":
                return (TextPiece(text=delta.text),) if delta.text else _NOTHING
            return self._feed_delta(decoded.index, delta)
        return self._feed_other(decoded)

    def finish(self) -> Sequence[AnyPiece]:
        """Return nothing: the end is an event of its own."""
        if not self._is_over:
            raise MalformedAnswerError("the answer stops before its end")
        return _NOTHING

    def _feed_delta(self, index: int, delta: _MessagesDelta) -> Sequence[AnyPiece]:
        match delta.type:
            case "thinking_delta":
                return (ThinkingPiece(text=delta.thinking),) if delta.thinking else _NOTHING
            case "input_json_delta" | "signature_delta":
                if index not in self._open:
                    raise MalformedAnswerError("a delta belongs to no open block")
                self._unfinished.setdefault(index, []).append(delta.partial_json or delta.signature)
            case _:
                pass
        return _NOTHING

    def _feed_other(self, event: _MessagesEvent) -> Sequence[AnyPiece]:
        match event.type:
            case "content_block_start" if event.content_block is not None:
                self._open[event.index] = event.content_block
                return _first_pieces(event.content_block)
            case "content_block_stop":
                return self._close_block(event.index)
            case "message_start" if event.message is not None:
                _add_usage(event.message.usage, self._usage)
                self._model = event.message.model
            case "message_delta":
                _add_usage(event.usage, self._usage)
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._reason = event.delta.stop_reason
                    self._stop_sequence = event.delta.stop_sequence
            case "message_stop":
                return self._end()
            case "error":
                raise ReportedError(_failure_report(event.error or _MessagesError()))
            case _:
                pass
        return _NOTHING

    def _close_block(self, index: int) -> Sequence[AnyPiece]:
        block = self._open.pop(index, None)
        text = "".join(self._unfinished.pop(index, ()))
        if block is None:
            return _NOTHING
        if block.type == "thinking":
            signature = text or block.signature
            return (ThinkingPiece(text="", signature=signature),) if signature else _NOTHING
        if block.type != "tool_use":
            return _NOTHING
        if text.strip():
            try:
                block.input = _decode_any(text)
            except _UNDECODABLE:
                self._has_cut_call = True  # an error, unless the stop reason says that the answer was cut off
                return _NOTHING
        return (_tool_call(block),)

    def _end(self) -> Sequence[AnyPiece]:
        end = _end_piece(self._reason, self._usage, self._model, self._stop_sequence)
        if end.reason not in CUT_SHORT:
            if self._has_cut_call:
                raise MalformedAnswerError("the arguments of a call are not JSON")
            if self._open:
                raise MalformedAnswerError("a part of the answer has no end")
        self._is_over = True
        return (end,)


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """Return the pieces of an answer that was not streamed."""
    try:
        answer = _decode_answer(body)
    except _UNDECODABLE:
        raise MalformedAnswerError("the answer cannot be understood") from None
    if answer.type == "error" or answer.error is not None:
        raise ReportedError(_failure_report(answer.error or _MessagesError()))
    if answer.content is None:
        raise MalformedAnswerError("the answer has no content")
    pieces: list[AnyPiece] = []
    for block in answer.content:
        if block.type == "thinking":
            pieces.append(ThinkingPiece(text=block.thinking, signature=block.signature or None))
        elif block.type == "tool_use":
            pieces.append(_tool_call(block))
        else:
            pieces.extend(_first_pieces(block))
    usage: dict[str, int] = {}
    _add_usage(answer.usage, usage)
    return [*pieces, _end_piece(answer.stop_reason, usage, answer.model, answer.stop_sequence)]


def _first_pieces(block: _MessagesBlock) -> Sequence[AnyPiece]:
    """Return what the start of a block holds; redacted reasoning has nothing else."""
    match block.type:
        case "text" if block.text:
            return (TextPiece(text=block.text),)
        case "thinking" if block.thinking:
            return (ThinkingPiece(text=block.thinking),)
        case "redacted_thinking":
            return (ThinkingPiece(text="", signature=block.data, redacted=True),)
        case _:
            return _NOTHING


def _tool_call(block: _MessagesBlock) -> ToolCallPiece:
    if not block.id or not block.name:
        raise MalformedAnswerError("a call has no id or names no tool")
    try:
        return ToolCallPiece(id=block.id, name=block.name, input={} if block.input is None else block.input)
    except ValidationError:
        raise MalformedAnswerError("the arguments of a call are nested too deeply") from None


def _add_usage(usage: _MessagesUsage | None, counts: dict[str, int]) -> None:
    """Add the counts of an event; later events replace earlier counts."""
    if usage is None:
        return
    details = usage.output_tokens_details
    given = {
        "uncached_input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cache_read_input_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
        "reasoning_tokens": None if details is None else details.thinking_tokens,
    }
    counts |= {name: count for name, count in given.items() if count is not None}


def _end_piece(reason: str | None, counts: Mapping[str, int], model: str | None, stop_sequence: str | None) -> EndPiece:
    usage = {name: count for name, count in counts.items() if name != "uncached_input_tokens"}
    if (uncached := counts.get("uncached_input_tokens")) is not None:
        cached = counts.get("cached_input_tokens", 0) + counts.get("cache_write_tokens", 0)
        usage = {"input_tokens": uncached + cached, **usage}
    return EndPiece(
        reason=REASONS.get(reason or "", "end_turn"), stop_sequence=stop_sequence, model=model, usage=usage or None
    )
