"""OpenAI's chat completions API: the answer, streamed or whole, of OpenAI and compatible servers. Pure; no I/O.

Nearly every event of a stream is text and nothing else: it is decoded as a `_PlainChunk`, which has no place for
anything that says more. All other events, and whole answers, are read closely: for their pieces, and for the rows of
the table of answers that they use. A stream is complete with its end mark or with a finish reason: either is enough.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from accord.apis.answers import MAX_PARTS, add_part
from accord.apis.chat.answer_rows import FINDER, NO_CALL, NO_REASON, OTHER_ANSWER, OTHER_TOTAL
from accord.apis.chat.dialect import CHAT, OWN_REASONS, ChatDialect, UsageHolder, find_usage
from accord.apis.chat.read_calls import FUNCTION_CALL, CallReader, arguments_of
from accord.apis.chat.read_parts import (
    ReasoningReader,
    read_annotations,
    read_audio,
    read_content,
    read_details,
    read_images,
    read_sources,
)
from accord.apis.codec import MalformedAnswerError, ReportedError, convert, parse_object
from accord.apis.openai.endpoint import failure_report
from accord.apis.openai.parts import LikelyToken, read_logprob, read_signature
from accord.core.sse import ServerEvent
from accord.wire.work import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece

DONE: Final = CHAT.end_mark
"""Some servers end streams of the responses API with it, too."""


class _PlainFunction(Struct, forbid_unknown_fields=True):
    name: str | None = None
    arguments: str | None = None


class _PlainCall(Struct, forbid_unknown_fields=True):
    index: int | None = None
    id: str | None = None
    type: Literal["function"] | None = None
    function: _PlainFunction | None = None


class _PlainDelta(Struct, forbid_unknown_fields=True):
    content: str | None = None
    role: Literal["assistant"] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_PlainCall] | None = None
    refusal: None = None
    function_call: None = None


class _PlainChoice(Struct, forbid_unknown_fields=True):
    delta: _PlainDelta
    index: Literal[0] = 0
    finish_reason: None = None
    native_finish_reason: None = None
    stop_reason: None = None
    logprobs: None = None
    content_filter_results: Any = None


class _PlainChunk(Struct, forbid_unknown_fields=True):
    """An event with text, reasoning or calls alone. What has a row of its own is compared with the last event's."""

    choices: tuple[_PlainChoice]
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    provider: str | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    obfuscation: str | None = None
    usage: None = None


class _ChatFunction(Struct):
    name: str | None = None
    arguments: Any = None


class _ChatCustom(Struct):
    name: str | None = None
    input: str | None = None


class _ChatCallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _ChatFunction | None = None
    custom: _ChatCustom | None = None
    extra_content: Any = None


class _ChatDelta(Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[_ChatCallDelta] | None = None
    function_call: _ChatFunction | None = None


class _ChatLogprobs(Struct):
    content: list[LikelyToken] | None = None
    refusal: list[LikelyToken] | None = None


class _ChatChoice(UsageHolder):
    index: int | None = None
    delta: _ChatDelta | None = None
    message: _ChatDelta | None = None
    finish_reason: str | None = None
    logprobs: _ChatLogprobs | None = None
    error: Any = None


class _ChatChunk(UsageHolder):
    choices: list[_ChatChoice] | None = None
    x_groq: UsageHolder | None = None
    type: Any = None
    model: Any = None
    service_tier: Any = None
    error: Any = None


_decode_plain: Final = msgspec.json.Decoder(_PlainChunk).decode
_MESSAGE: Final = ("delta", "message")


class ChatReader:
    """The state of one answer while its chunks arrive."""

    __slots__ = (
        "_audio",
        "_calls",
        "_dialect",
        "_finish_reason",
        "_has_choices",
        "_has_refused",
        "_parts",
        "_repeated",
        "_seen",
        "_stop_sequence",
        "_thoughts",
        "_tier",
        "_tokens",
        "_usage",
        "model",
    )

    def __init__(self, dialect: ChatDialect = CHAT, *, is_whole: bool = False) -> None:
        self._dialect: Final = dialect
        self.model: str | None = None
        self._calls: Final = CallReader(streams=not is_whole)
        self._thoughts: Final = ReasoningReader(is_whole=is_whole)
        self._audio: Final[list[dict[str, Any]]] = []
        self._tokens: Final[list[dict[str, Any]]] = []
        self._parts: Final[dict[str, None]] = {}
        self._seen: Final[dict[str, Any]] = {}
        """The last value of each member of an event."""
        self._repeated: tuple[Any, ...] | None = None
        """What plain events may have beside text and calls, of the last one."""
        self._finish_reason: str | None = None
        self._stop_sequence: str | None = None
        self._tier: str | None = None
        self._usage: dict[str, Any] | None = None
        self._has_choices = False
        self._has_refused = False

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces that this event completes."""
        try:
            chunk = _decode_plain(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._feed_other(event)
        choice = chunk.choices[0]
        repeated = (
            chunk.system_fingerprint,
            chunk.model,
            chunk.service_tier,
            chunk.provider,
            chunk.obfuscation is None,
            choice.content_filter_results,
            not choice.delta.reasoning,  # an empty one is no part of the answer
            event.name,
        )
        if repeated != self._repeated:
            others = self._feed_other(event)
            self._repeated = repeated
            return others
        delta = choice.delta
        reasoning, content = delta.reasoning_content or delta.reasoning, delta.content
        if content and not reasoning and delta.tool_calls is None:
            return (TextPiece(text=content),)
        pieces: list[AnyPiece] = []
        if reasoning:
            self._thoughts.note_text()
            pieces.append(ThinkingPiece(text=reasoning))
        if content:
            pieces.append(TextPiece(text=content))
        for call in delta.tool_calls or ():
            function = call.function or _PlainFunction()
            pieces += self._calls.feed(call.index, call.id, function.name, function.arguments or "")
        return pieces

    def finish(self) -> Sequence[AnyPiece]:
        """Return the end, if there was a finish reason."""
        if self._finish_reason is None:
            raise MalformedAnswerError("the stream ended before the answer did")
        return self._end()

    def read_all(self, body: bytes) -> Sequence[AnyPiece]:
        """Return the pieces of an answer that was not streamed."""
        pieces = self._feed_object(ServerEvent(body))
        if self._finish_reason is None and not pieces and not self._calls:
            raise MalformedAnswerError("there is no answer in it")
        return [*pieces, *self._end()]

    def _feed_other(self, event: ServerEvent) -> Sequence[AnyPiece]:
        if not event.data.startswith(self._dialect.end_mark) or event.data.strip() != self._dialect.end_mark:
            return self._feed_object(event)
        if not self._has_choices:
            raise MalformedAnswerError("there is no answer in it")
        return self._end()

    def _feed_object(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """The pieces of an event, or of a whole answer, whatever it has."""
        members = parse_object(event.data)
        chunk = convert(members, _ChatChunk)
        if chunk.error or event.name == "error" or chunk.type == "error":
            raise ReportedError(failure_report(chunk.error or members))
        self._note_members(chunk, members)
        if not chunk.choices and chunk.usage is None and event.name:
            add_part(self._parts, f"event.{event.name}")
        return self._feed_choices(chunk.choices, members) if chunk.choices else ()

    def _note_members(self, chunk: _ChatChunk, members: dict[str, Any]) -> None:
        """Note what an event has beside its choices, and find its parts; many repeat those of the last event."""
        usage = find_usage(chunk, chunk.x_groq, *(chunk.choices or ()))
        self._usage = self._usage if usage is None else usage
        if self.model is None and isinstance(chunk.model, str):
            self.model = chunk.model
        if isinstance(chunk.service_tier, str):
            self._tier = chunk.service_tier
        last = self._seen
        fresh = {name: value for name, value in members.items() if name != "choices" and last.get(name) != value}
        if fresh:
            FINDER.find(fresh, self._parts)
            if len(last) < MAX_PARTS:  # an endpoint may invent any number of members
                last.update(fresh)

    def _feed_choices(self, choices: Sequence[_ChatChoice], members: dict[str, Any]) -> Sequence[AnyPiece]:
        self._has_choices = True
        pieces: list[AnyPiece] = []
        for place, choice in enumerate(choices):
            if place if choice.index is None else choice.index:  # an alternative answer; one was requested
                add_part(self._parts, OTHER_ANSWER)
            else:
                pieces += self._feed_choice(choice, members["choices"][place])
        return pieces

    def _feed_choice(self, choice: _ChatChoice, members: dict[str, Any]) -> Sequence[AnyPiece]:
        others = {name: value for name, value in members.items() if name not in _MESSAGE}
        for name in self._dialect.stops:
            if isinstance(stop := others.get(name), str):
                self._stop_sequence = stop or self._stop_sequence
            elif stop is not None:
                del others[name]
                add_part(self._parts, f"choices[].{name}=token")
        FINDER.find(others, self._parts, "choices[]")
        if choice.error:
            raise ReportedError(failure_report(choice.error))
        if choice.finish_reason:
            self._note_end(choice.finish_reason)
        if (logprobs := choice.logprobs) is not None:
            self._tokens.extend(map(read_logprob, logprobs.content or ()))
            self._tokens.extend({**read_logprob(token), "refusal": True} for token in logprobs.refusal or ())
        if (delta := choice.delta) is not None:
            return self._feed_delta(delta, members["delta"])
        return () if choice.message is None else self._feed_delta(choice.message, members["message"])

    def _note_end(self, reason: str) -> None:
        """Note a finish reason; a second one that says less does not count."""
        if (report := self._dialect.failure_of(reason)) is not None:
            raise ReportedError(report)
        if self._finish_reason is None or self._dialect.end_reason(self._finish_reason) == "end_turn":
            self._finish_reason = reason
        if (word := reason.lower()) not in OWN_REASONS:
            add_part(self._parts, f"choices[].finish_reason={word}")

    def _feed_delta(self, delta: _ChatDelta, members: dict[str, Any]) -> Sequence[AnyPiece]:
        FINDER.find(members, self._parts, "choices[].message")
        pieces: list[AnyPiece] = [*self._reasoning(members)]
        if isinstance(delta.content, list):
            pieces += read_content(delta.content)
        elif delta.content:
            pieces.append(TextPiece(text=delta.content))
        if delta.refusal:
            pieces.append(TextPiece(text=delta.refusal, refusal=True))
        self._has_refused |= any(isinstance(piece, TextPiece) and piece.refusal for piece in pieces)
        pieces += read_images(members.get("images"))
        if isinstance(audio := members.get("audio"), dict):
            self._audio.append(cast("dict[str, Any]", audio))
        for call in delta.tool_calls or ():
            pieces += self._feed_call(call)
        if (called := delta.function_call) is not None:
            pieces += self._calls.feed(FUNCTION_CALL, None, called.name, arguments_of(called.arguments))
        return [*pieces, *read_annotations(members.get("annotations"))]

    def _reasoning(self, members: dict[str, Any]) -> Sequence[ThinkingPiece]:
        values = map(members.get, self._dialect.reasoning)
        text = next((value for value in values if isinstance(value, str) and value), None)
        if text is None:
            text = read_details(members.get("reasoning_details"))
        return self._thoughts.read(text, members.get("thinking_blocks"))

    def _feed_call(self, call: _ChatCallDelta) -> Sequence[AnyPiece]:
        if (custom := call.custom) is not None:
            return self._calls.feed(call.index, call.id, custom.name, custom.input or "", is_custom=True)
        function = call.function or _ChatFunction()
        signature = read_signature(call.extra_content)
        return self._calls.feed(call.index, call.id, function.name, arguments_of(function.arguments), signature)

    def _end(self) -> Sequence[AnyPiece]:
        reason = self._end_reason()
        calls = self._calls.finish(is_cut=reason in ("max_tokens", "refusal"))
        counts = None if self._usage is None else self._dialect.read_usage(self._usage)
        if self._usage and counts and _is_other_total(self._usage.get("total_tokens"), counts):
            add_part(self._parts, OTHER_TOTAL)
        end = EndPiece(
            reason=reason,
            stop_sequence=self._stop_sequence if reason == "stop_sequence" else None,
            model=self.model,
            usage=counts,
            logprobs=self._tokens or None,
            service_tier=self._tier,
            parts=[*self._parts],
        )
        return [*calls, *read_audio(self._audio), *read_sources(self._seen), end]

    def _end_reason(self) -> EndReason:
        if self._finish_reason is None:
            add_part(self._parts, NO_REASON)
        reason = self._dialect.end_reason(self._finish_reason)
        if self._has_refused and reason == "end_turn":
            return "refusal"
        if reason not in ("end_turn", "tool_use"):
            return reason
        if self._calls:
            return "tool_use"
        if reason == "tool_use":
            add_part(self._parts, NO_CALL)
            return "max_tokens"
        return "end_turn" if self._stop_sequence is None else "stop_sequence"


def read_answer(body: bytes, dialect: ChatDialect = CHAT) -> Sequence[AnyPiece]:
    """Return the pieces of an answer that was not streamed."""
    return ChatReader(dialect, is_whole=True).read_all(body)


def _is_other_total(total: Any, counts: Mapping[str, int]) -> bool:
    """Whether a total is not the sum of input and output, as of servers that count reasoning in the total only."""
    return isinstance(total, int) and total != counts.get("input_tokens", 0) + counts.get("output_tokens", 0)
