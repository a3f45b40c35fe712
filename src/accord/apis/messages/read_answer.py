"""Anthropic's Messages API: the answer, streamed or whole, as pieces, and errors as failures. Pure; it does no I/O.

`input_tokens` of the usage counts all input, cached input included, as it does for every backend; the API itself counts
them separately. `MessagesReader.feed` is hot: an event is one small typed record, and text is passed on at once.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import msgspec

from accord.apis.answers import add_part
from accord.apis.codec import WRONG_SHAPE, MalformedAnswerError, ReportedError, convert, parse_object
from accord.apis.failure import (
    MAX_NOTE_CHARS,
    NAMES_FIELDS,
    Failure,
    FailureReport,
    failure_by_status,
    failure_of_end,
)
from accord.apis.messages.answer_rows import BLOCKS, CITATIONS, FINDER, NO_CALL, SIGNATURE, THOUGHT
from accord.apis.named_fields import named_fields
from accord.apis.usage import read_counts
from accord.core.sse import ServerEvent
from accord.wire.capability import Capability
from accord.wire.message import only_json
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    EndReason,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
)

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
        "refusal": "refusal",
    }
)
"""The ends that every API has. Any other is a part of the answer, which counts as cut off."""
CUT_SHORT: Final = frozenset({"max_tokens", "refusal"})
"""Reasons that may end an answer in the middle of a call."""
READ_BLOCKS: Final = ("text", "thinking", "redacted_thinking", "tool_use")
"""The types of blocks that become pieces; of others, nothing is read but that they are there."""
DELTAS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "text_delta": ("text", "text"),
        "thinking_delta": ("thinking", "thinking"),
        "input_json_delta": ("tool_use", "partial_json"),
        "signature_delta": ("thinking", "signature"),
        "citations_delta": ("text", "citation"),
    }
)
"""The type of the block that a delta belongs to, and the member with what it adds."""
EVENT_MEMBERS: Final = frozenset({"type", "index", "message", "delta", "content_block"})
LINKS: Final[Mapping[str, str]] = MappingProxyType(
    {"web_search_result_location": "url", "search_result_location": "source"}
)
"""The member of a citation that says where its source is."""


class _TextDelta(msgspec.Struct, tag="text_delta", forbid_unknown_fields=True):
    text: str


class _ThinkingDelta(msgspec.Struct, tag="thinking_delta", forbid_unknown_fields=True):
    thinking: str


class _ArgumentsDelta(msgspec.Struct, tag="input_json_delta", forbid_unknown_fields=True):
    partial_json: str


class _SignatureDelta(msgspec.Struct, tag="signature_delta", forbid_unknown_fields=True):
    signature: str


_Delta = _TextDelta | _ThinkingDelta | _ArgumentsDelta | _SignatureDelta
BLOCK_TYPES: Final[Mapping[type[_Delta], str]] = MappingProxyType(
    {_TextDelta: "text", _ThinkingDelta: "thinking", _ArgumentsDelta: "tool_use", _SignatureDelta: "thinking"}
)
"""The type of the block that a delta belongs to."""


class _DeltaEvent(msgspec.Struct, tag="content_block_delta", forbid_unknown_fields=True):
    """Nearly every event of a stream; one with further members is read more slowly."""

    index: int
    delta: _Delta


class _MessagesBlock(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    citations: list[dict[str, Any]] | None = None


class _MessagesAnswer(msgspec.Struct):
    """What a message says beside its content, whole or in the events that begin and end it."""

    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: dict[str, Any] | None = None


@dataclass(slots=True)
class _OpenBlock:
    """A block, where it begins in the text of the answer, and what deltas have added: arguments, or a signature."""

    content: _MessagesBlock
    start: int
    added: list[str] = field(default_factory=list[str])


_decode_delta: Final = msgspec.json.Decoder(_DeltaEvent).decode
_decode_any: Final = msgspec.json.Decoder().decode
_NOTHING: Final[tuple[AnyPiece, ...]] = ()
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class MessagesReader:
    """The state of one answer: the blocks of a stream come one event after another, those of a whole answer at once.

    A block is open from its start to its stop. A call without arguments waits for what follows it: if the answer was
    cut off there, its arguments are missing.
    """

    __slots__ = (
        "_broken",
        "_counts",
        "_has_begun",
        "_has_calls",
        "_is_over",
        "_length",
        "_open",
        "_parts",
        "_reason",
        "_stop_sequence",
        "_text_index",
        "_thought_index",
        "_tier",
        "_waiting",
        "model",
    )

    def __init__(self) -> None:
        self.model: str | None = None
        self._open: Final[dict[int, _OpenBlock]] = {}
        self._text_index = self._thought_index = -1
        self._length = 0
        self._waiting: _OpenBlock | None = None
        self._broken: Final[list[_OpenBlock]] = []
        self._counts: Final[dict[str, int]] = {}
        self._parts: Final[dict[str, None]] = {}
        self._reason: str | None = None
        self._stop_sequence: str | None = None
        self._tier: str | None = None
        self._has_begun = False
        self._has_calls = False
        self._is_over = False

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces that this event completes."""
        try:
            decoded = _decode_delta(event.data)
        except _UNDECODABLE:
            return self._feed_other(event)
        delta, index = decoded.delta, decoded.index
        if type(delta) is _TextDelta and index == self._text_index:
            self._length += len(delta.text)
            return (TextPiece(text=delta.text),) if delta.text else _NOTHING
        if type(delta) is _ThinkingDelta and index == self._thought_index and delta.thinking:
            return (ThinkingPiece(text=delta.thinking),)
        return self._feed_delta(index, delta)

    def finish(self) -> Sequence[AnyPiece]:
        """Return nothing: the end is an event of its own."""
        if not self._is_over:
            raise MalformedAnswerError("the answer stops before its end")
        return _NOTHING

    def read_message(self, members: Mapping[str, Any], blocks: Any) -> list[AnyPiece]:
        """Return the pieces of a message with these blocks."""
        if self._has_begun:
            raise MalformedAnswerError("the answer begins twice")
        self._has_begun = True
        pieces: list[AnyPiece] = []
        self._note(members)
        for index, block in enumerate(convert(blocks, list[dict[str, Any]])):
            pieces += self._open_block(index, block)
            pieces += self._close_block(index)
        return pieces

    def end(self) -> list[AnyPiece]:
        """Return the last pieces, of a message that is complete."""
        if self._is_over or not self._has_begun:
            raise MalformedAnswerError("the answer ends twice" if self._is_over else "there is no answer in it")
        reason = REASONS.get(self._reason or "")
        if reason is None:
            reason = "max_tokens"
            add_part(self._parts, f"stop_reason={self._reason or 'null'}")
        if reason == "tool_use" and not self._has_calls:
            reason = "max_tokens"
            add_part(self._parts, NO_CALL)
        is_cut = reason in CUT_SHORT and self._reason is not None
        if self._broken and not is_cut:
            raise MalformedAnswerError("the arguments of a call are not JSON")
        if self._open and not is_cut:
            raise MalformedAnswerError("a part of the answer has no end")
        pieces: list[AnyPiece] = []
        cut = [*self._broken, *([self._waiting] if self._waiting is not None and is_cut else ())]
        for index, block in [*self._open.items()]:
            if block.content.type == "tool_use":
                cut.append(block)
            else:
                pieces += self._close_block(index)
        pieces += self._release() if not is_cut else ()
        pieces += [_cut_call(block) for block in cut]
        self._is_over = True
        end = EndPiece(
            reason=reason,
            stop_sequence=self._stop_sequence,
            model=self.model,
            usage=count_input(self._counts) or None,
            service_tier=self._tier,
            parts=[*self._parts],
        )
        return [*pieces, end]

    def _feed_delta(self, index: int, delta: _Delta) -> Sequence[AnyPiece]:
        if not self._takes(index, BLOCK_TYPES[type(delta)]):
            return _NOTHING
        match delta:
            case _TextDelta(text=text) if text:
                self._length += len(text)
                return (TextPiece(text=text),)
            case _ThinkingDelta(thinking=text) if text:
                self._parts[THOUGHT] = None
                self._thought_index = index
                return (ThinkingPiece(text=text),)
            case _SignatureDelta():
                self._opened(index).added.append(delta.signature)
            case _ArgumentsDelta(partial_json=text) if text:
                block = self._opened(index)
                block.added.append(text)
                return _NOTHING if block.content.signature else (_call_delta(block.content, text),)
            case _:
                pass
        return _NOTHING

    def _takes(self, index: int, block_type: str) -> bool:
        """Whether a delta for a block of this type is read; raises if that block is of another one."""
        block = self._open.get(index)
        if block is None or block.content.type == block_type:
            return True
        if block.content.type in READ_BLOCKS:
            raise MalformedAnswerError("a delta is of another type than its block")
        return False

    def _opened(self, index: int) -> _OpenBlock:
        block = self._open.get(index)
        if block is None:
            raise MalformedAnswerError("a delta belongs to no open block")
        return block

    def _feed_other(self, event: ServerEvent) -> Sequence[AnyPiece]:
        members = parse_object(event.data)
        event_type = members.get("type")
        if event_type == "error" or event.name == "error" or members.get("error"):
            raise ReportedError(_failure_report(_error_in(members)))
        others = {name: value for name, value in members.items() if name not in EVENT_MEMBERS}
        match event_type:
            case "message_start":
                return self._begin({**others, **_object(members, "message")})
            case "message_delta":
                self._note({**others, **(_object(members, "delta") if members.get("delta") is not None else {})})
            case "ping" | "message_stop" | "content_block_start" | "content_block_delta" | "content_block_stop":
                FINDER.find(others, self._parts, f"event.{event_type}")
                return self._feed_rest(event_type, members)
            case str():
                add_part(self._parts, f"event.{event_type}")
            case _:
                raise MalformedAnswerError(WRONG_SHAPE)
        return _NOTHING

    def _feed_rest(self, event_type: str, members: Mapping[str, Any]) -> Sequence[AnyPiece]:
        index = convert(members.get("index", 0), int)
        match event_type:
            case "content_block_start":
                return self._open_block(index, _object(members, "content_block"))
            case "content_block_delta":
                return self._feed_unusual_delta(index, _object(members, "delta"))
            case "content_block_stop":
                return self._close_block(index)
            case "message_stop":
                return self.end()
            case _:
                return _NOTHING

    def _begin(self, message: Mapping[str, Any]) -> Sequence[AnyPiece]:
        pieces = self.read_message(message, message.get("content") or [])
        self._counts.pop("output_tokens", None)  # it counts what was written by then
        return pieces

    def _note(self, members: Mapping[str, Any]) -> None:
        """Note what a message says beside its content."""
        answer = convert(members, _MessagesAnswer)
        FINDER.find({name: value for name, value in members.items() if name != "content"}, self._parts)
        usage = answer.usage or {}
        self._counts.update(read_usage(usage))
        if isinstance(tier := usage.get("service_tier"), str):
            self._tier = tier
        self.model = answer.model or self.model
        if (report := failure_of_end(answer.stop_reason)) is not None:
            raise ReportedError(report)
        if answer.stop_reason is not None:
            self._reason, self._stop_sequence = answer.stop_reason, answer.stop_sequence

    def _open_block(self, index: int, members: Mapping[str, Any]) -> Sequence[AnyPiece]:
        if index in self._open:
            raise MalformedAnswerError("a part of the answer begins twice")
        block_type = members.get("type")
        content = convert(members if block_type in READ_BLOCKS else {"type": block_type}, _MessagesBlock)
        FINDER.find_item(members, BLOCKS, self._parts)
        pieces = self._release()
        self._open[index] = _OpenBlock(content, self._length)
        self._thought_index = -1
        match block_type:
            case "text":
                self._text_index = index
                self._length += len(content.text)
                pieces += (TextPiece(text=content.text),) if content.text else ()
            case "thinking" if content.thinking:
                pieces += (ThinkingPiece(text=content.thinking),)
            case "redacted_thinking":
                pieces += (ThinkingPiece(text="", signature=content.data, redacted=True),)
            case "tool_use":
                if not content.name:
                    raise MalformedAnswerError("a call names no tool")
                self._has_calls = True
                content.id = content.id or f"toolu_{uuid4().hex}"
                pieces += () if content.signature else (_call_delta(content, ""),)
            case _:
                pass
        return pieces

    def _feed_unusual_delta(self, index: int, members: Mapping[str, Any]) -> Sequence[AnyPiece]:
        """Read a delta that has other members than most, or an unknown type."""
        delta_type = members.get("type")
        block = self._open.get(index)
        if block is not None and block.content.type not in READ_BLOCKS:
            return _NOTHING
        if not isinstance(delta_type, str) or delta_type not in DELTAS:
            place = "event.content_block_delta" if block is None else f"{BLOCKS}.{block.content.type}"
            add_part(self._parts, f"{place}.{delta_type}")
            return _NOTHING
        of_type, name = DELTAS[delta_type]
        others = {other: value for other, value in members.items() if other not in {"type", name}}
        FINDER.find(others, self._parts, f"{BLOCKS}.{of_type}")
        if delta_type == "citations_delta":
            self._takes(index, of_type)
            citation = _object(members, name)
            FINDER.find_item(citation, CITATIONS, self._parts)
            content = self._opened(index).content
            content.citations = [*(content.citations or ()), citation]
            return _NOTHING
        if members.get(name) is None:
            return _NOTHING
        usual = {"type": "content_block_delta", "index": index, "delta": {"type": delta_type, name: members[name]}}
        return self._feed_delta(index, convert(usual, _DeltaEvent).delta)

    def _close_block(self, index: int) -> Sequence[AnyPiece]:
        block = self._open.pop(index, None)
        if block is None:
            return _NOTHING
        content, text = block.content, "".join(block.added)
        match content.type:
            case "text":
                self._text_index = -1
                return [_citation(each, block.start, self._length) for each in content.citations or ()]
            case "thinking":
                signature = text or content.signature
                if not signature:
                    return _NOTHING
                self._parts[SIGNATURE] = None
                return (ThinkingPiece(text="", signature=signature),)
            case "tool_use":
                return self._close_call(block, text)
            case _:
                return _NOTHING

    def _close_call(self, block: _OpenBlock, text: str) -> Sequence[AnyPiece]:
        if text.strip():
            try:
                block.content.input = _decode_any(text)
            except _UNDECODABLE:
                self._broken.append(block)  # an error, unless the stop reason says that the answer was cut off
                return _NOTHING
        if not block.content.input:
            self._waiting = block
            return _NOTHING
        return (_tool_call(block.content),)

    def _release(self) -> tuple[AnyPiece, ...]:
        """The call that waited, now that something follows it, or the answer was not cut off."""
        block, self._waiting = self._waiting, None
        return _NOTHING if block is None else (_tool_call(block.content),)


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """Return the pieces of an answer that was not streamed."""
    members = parse_object(body)
    if members.get("type") == "error" or members.get("error"):
        raise ReportedError(_failure_report(_error_in(members)))
    reader = MessagesReader()
    pieces = [*reader.read_message(members, members.get("content")), *reader.end()]
    return [piece for piece in pieces if not isinstance(piece, ToolCallDelta)]


def _object(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    return convert(members.get(name), dict[str, Any])


def _error_in(members: Mapping[str, Any]) -> _MessagesError:
    try:
        return msgspec.convert(members.get("error"), _MessagesError)
    except msgspec.ValidationError:
        return _MessagesError()


def _call_delta(content: _MessagesBlock, text: str) -> ToolCallDelta:
    return ToolCallDelta(id=content.id, name=content.name, text=text)


def _cut_call(block: _OpenBlock) -> ToolCallPiece:
    content = block.content
    return ToolCallPiece(id=content.id, name=content.name, input="".join(block.added), cut=True)


def _tool_call(content: _MessagesBlock) -> ToolCallPiece:
    try:
        arguments = only_json({} if content.input is None else content.input)
    except ValueError:
        raise MalformedAnswerError("the arguments of a call are nested too deeply") from None
    return ToolCallPiece(id=content.id, name=content.name, input=arguments, signature=content.signature)


def _citation(citation: dict[str, Any], start: int, end: int) -> CitationPiece:
    """A citation of the text of its block."""
    link, title = citation.get(LINKS.get(str(citation.get("type")), "")), citation.get("title")
    quote = citation.get("cited_text")
    return CitationPiece(
        url=link if isinstance(link, str) else None,
        title=title if isinstance(title, str) else None,
        quote=quote if isinstance(quote, str) else None,
        start=start,
        end=end,
        source=citation,
    )


USAGE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input_tokens": "uncached_input_tokens",
        "output_tokens": "output_tokens",
        "cache_read_input_tokens": "cached_input_tokens",
        "cache_creation_input_tokens": "cache_write_tokens",
        "output_tokens_details.thinking_tokens": "reasoning_tokens",
    }
)


def read_usage(usage: Mapping[str, Any]) -> dict[str, int]:
    """The counts of one event; those of later events replace earlier ones."""
    return read_counts(usage, USAGE)


def count_input(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts with all input as input: the API counts only what was not in the cache as such."""
    usage = {name: count for name, count in counts.items() if name != "uncached_input_tokens"}
    if (uncached := counts.get("uncached_input_tokens")) is not None:
        cached = counts.get("cached_input_tokens", 0) + counts.get("cache_write_tokens", 0)
        usage = {"input_tokens": uncached + cached, **usage}
    return usage
