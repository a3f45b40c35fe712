"""The Gemini API: answers, streamed or whole, as pieces; errors as failures. Pure; knows no transport."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from accord.backends.failure import Failure, FailureReport, failure_by_status
from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.core.sse import ServerEvent
from accord.wire.capability import TOOL_RESULT_MEDIA, Capability
from accord.wire.work import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece, ToolCallPiece

# Ids for calls of tools that a Gemini endpoint made without one: the same for the same answer, and known as ours.

MADE: Final = "made-"
_DIGEST_CHARS: Final = 12
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def made_id(response_id: str | None, count: int, name: str, arguments: Any) -> str:
    """The id of an answer's call of this count: from the answer's own id, and from what is called."""
    told = _encode([response_id, count, name, arguments])
    return f"{MADE}{count}-{hashlib.sha256(told).hexdigest()[:_DIGEST_CHARS]}"


def is_made(call_id: str) -> bool:
    """Whether this id is one of ours."""
    return call_id.startswith(MADE)


# What a Gemini endpoint's error means: Google's status first, then the reasons in its details, then its sentence.
#
# The sentence decides only where nothing else tells the difference: a conversation that is too long, a request that
# is too large, and a model that does not have what was asked for all come as INVALID_ARGUMENT. It is read, never
# repeated.

BY_GOOGLE_STATUS: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": Failure.BAD_REQUEST,
        "OUT_OF_RANGE": Failure.BAD_REQUEST,
        "FAILED_PRECONDITION": Failure.FORBIDDEN,
        "UNAUTHENTICATED": Failure.BAD_KEY,
        "PERMISSION_DENIED": Failure.FORBIDDEN,
        "NOT_FOUND": Failure.NO_SUCH_MODEL,
        "RESOURCE_EXHAUSTED": Failure.RATE_LIMITED,
        "UNIMPLEMENTED": Failure.UNSUPPORTED,
        "ABORTED": Failure.OVERLOADED,
        "CANCELLED": Failure.FAILED,
        "UNAVAILABLE": Failure.OVERLOADED,
        "INTERNAL": Failure.FAILED,
        "UNKNOWN": Failure.FAILED,
        "DATA_LOSS": Failure.FAILED,
        "DEADLINE_EXCEEDED": Failure.TIMED_OUT,
    }
)

BY_REASON: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "API_KEY_INVALID": Failure.BAD_KEY,
        "API_KEY_EXPIRED": Failure.BAD_KEY,
        "ACCESS_TOKEN_EXPIRED": Failure.BAD_KEY,
        "CREDENTIALS_MISSING": Failure.BAD_KEY,
        "API_KEY_SERVICE_BLOCKED": Failure.FORBIDDEN,
        "SERVICE_DISABLED": Failure.FORBIDDEN,
        "BILLING_DISABLED": Failure.OUT_OF_QUOTA,
    }
)
"""What the `reason` of an ErrorInfo says better than the status."""

_REFUSED: Final = r"(?:is|are) (?:not|un)\s?(?:enabled|supported|allowed)"

MESSAGE_RULES: Final[Sequence[tuple[re.Pattern[str], Failure, str | None]]] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure, capability)
    for pattern, failure, capability in (
        (r"api key (?:not valid|expired|not found)", Failure.BAD_KEY, None),
        (r"unregistered callers|missing (?:a valid )?api key", Failure.BAD_KEY, None),
        (r"token count.{0,80}exceeds", Failure.CONTEXT_TOO_LONG, None),
        (r"payload size exceeds", Failure.TOO_LARGE, None),
        (rf"multimodal function responses? {_REFUSED}", Failure.UNSUPPORTED, TOOL_RESULT_MEDIA),
        (
            rf"response mime type.{{0,40}}{_REFUSED}",
            Failure.UNSUPPORTED,
            Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        ),
        (rf"json mode {_REFUSED}", Failure.UNSUPPORTED, Capability.JSON_MODE),
        (
            rf"(?:response schema|controlled generation) {_REFUSED}",
            Failure.UNSUPPORTED,
            Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        ),
        (rf"developer instruction {_REFUSED}", Failure.UNSUPPORTED, Capability.SYSTEM_MESSAGE),
        (rf"function calling {_REFUSED}|tool use {_REFUSED}", Failure.UNSUPPORTED, Capability.TOOL_USE),
        (rf"image input modality {_REFUSED}", Failure.UNSUPPORTED, Capability.IMAGE_INPUT),
        (rf"audio input modality {_REFUSED}", Failure.UNSUPPORTED, Capability.AUDIO),
        (rf"document input modality {_REFUSED}", Failure.UNSUPPORTED, Capability.PDF_INPUT),
        (rf"presence ?penalty {_REFUSED}", Failure.UNSUPPORTED, Capability.PRESENCE_PENALTY),
        (rf"penalty {_REFUSED}", Failure.UNSUPPORTED, Capability.FREQUENCY_PENALTY),
        (
            rf"thinking(?: config| level| budget)? {_REFUSED}|only enabled when thinking is enabled",
            Failure.UNSUPPORTED,
            Capability.EXTENDED_THINKING,
        ),
    )
)
"""What sentences are known to mean, the first that fits; the third column is the capability that is refused."""

SPOKEN_FOR: Final = frozenset({Failure.BAD_REQUEST, Failure.FORBIDDEN, Failure.RATE_LIMITED})
"""What a status says so broadly that the sentence is read too."""

_DAILY: Final = re.compile(r"PerDay", re.IGNORECASE)
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_MAX_READ_CHARS: Final = 4_000


class Violation(msgspec.Struct, rename="camel"):
    """A quota that is used up."""

    quota_id: str | None = None


class Detail(msgspec.Struct, rename="camel"):
    """One detail of an error: an ErrorInfo has a reason, a RetryInfo a delay, a QuotaFailure violations."""

    reason: str | None = None
    retry_delay: str | None = None
    violations: list[Violation] | None = None


class Problem(msgspec.Struct):
    """An error as Google's APIs tell it; `details` are read apart, so that a strange one costs nothing else."""

    code: int | None = None
    status: str | None = None
    message: str | None = None
    details: list[msgspec.Raw] | None = None


class _Envelope(msgspec.Struct):
    error: Problem | None = None


_envelope: Final = msgspec.json.Decoder(_Envelope)
_listed: Final = msgspec.json.Decoder(list[_Envelope])
_detail: Final = msgspec.json.Decoder(Detail)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_error(status: int, body: bytes) -> FailureReport:
    """What an answer of this status says went wrong; one that cannot be read says what its status says."""
    try:
        envelopes = _listed.decode(body) if body.lstrip()[:1] == b"[" else [_envelope.decode(body)]
    except _UNREADABLE:
        return FailureReport(failure_by_status(status))
    problem = next((one.error for one in envelopes if one.error is not None), None)
    return FailureReport(failure_by_status(status)) if problem is None else explain_problem(problem, status)


def explain_problem(problem: Problem, status: int | None = None) -> FailureReport:
    """What an error says went wrong, be it an answer of its own or an event among others."""
    code = status if status is not None else problem.code
    details = [detail for raw in problem.details or () if (detail := _read(raw)) is not None]
    failure, refused = _meaning(problem, details, code)
    return FailureReport(
        failure,
        refused=refused,
        code=problem.status,
        message=problem.message,
        status=code,
        retry_after_s=_retry_after_s(details),
    )


def _meaning(problem: Problem, details: Sequence[Detail], code: int | None) -> tuple[Failure, str | None]:
    for detail in details:
        if (known := BY_REASON.get(detail.reason or "")) is not None:
            return known, None
    by_code = Failure.FAILED if code is None else failure_by_status(code)
    failure = BY_GOOGLE_STATUS.get(problem.status or "", by_code)
    if failure in SPOKEN_FOR:
        said = (problem.message or "")[:_MAX_READ_CHARS]
        for pattern, meant, refused in MESSAGE_RULES:
            if pattern.search(said):
                return meant, refused
    if failure is Failure.RATE_LIMITED and _is_spent_for_today(details):
        return Failure.OUT_OF_QUOTA, None
    return failure, None


def _is_spent_for_today(details: Sequence[Detail]) -> bool:
    """Whether a quota of the day is used up: waiting as long as the endpoint says would not help."""
    return any(_DAILY.search(one.quota_id or "") for detail in details for one in detail.violations or ())


def _retry_after_s(details: Sequence[Detail]) -> float | None:
    for detail in details:
        if found := _SECONDS.fullmatch(detail.retry_delay or ""):
            return float(found[1])
    return None


def _read(raw: msgspec.Raw) -> Detail | None:
    try:
        return _detail.decode(raw)
    except _UNREADABLE:
        return None


# Reads Gemini's answers: whole, or streamed, where every event is a small answer of the same shape.
#
# Hot: only the fields that matter are decoded. The end is told when the stream has ended and not before, since some
# endpoints name a reason to finish in every event and the last event has the usage that counts.
#
# - A call of a tool that comes without an `id` gets one of ours (`ids.py`); `ask.py` leaves it out again.
# - A seal (`thoughtSignature`) stays with the call or the reasoning that it came on. Text of ours has no place for
# one,
#   so there it follows as redacted reasoning.
# - The API says STOP for a stop sequence too: such an answer ends as `end_turn`.
# - The tokens of reasoning are counted beside those of the answer: `output_tokens` is both of them.
# - Only the first candidate is read. Steps that the endpoint took by itself (searches, code that it ran) are not part
# of
#   the answer. An image, sound or file would be; answers have no place for one, so it breaks the answer instead of
#   getting lost.

NOT_FINISHED: Final = frozenset({"", "FINISH_REASON_UNSPECIFIED"})

REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SAFETY": "for reasons of safety",
        "RECITATION": "it would recite what it learned from",
        "LANGUAGE": "it does not answer in this language",
        "BLOCKLIST": "it holds forbidden words",
        "PROHIBITED_CONTENT": "it holds what is prohibited",
        "SPII": "it holds what identifies a person",
        "MODEL_ARMOR": "a filter of the endpoint's account stopped it",
        "ESCALATION": "for reasons of safety",
        "IMAGE_SAFETY": "for reasons of safety",
        "IMAGE_PROHIBITED_CONTENT": "it holds what is prohibited",
        "IMAGE_RECITATION": "it would recite what it learned from",
        "JAILBREAK": "it reads as an attempt to get around the rules",
    }
)
"""Why a prompt is refused or an answer cut off: after words that is the end of the answer, before them a failure."""

FAILURES: Final[Mapping[str, tuple[Failure, str]]] = MappingProxyType(
    {
        "MALFORMED_FUNCTION_CALL": (Failure.FAILED, "the model called a tool in a way that cannot be read"),
        "MALFORMED_RESPONSE": (Failure.FAILED, "the model's answer cannot be read"),
        "UNEXPECTED_TOOL_CALL": (Failure.FAILED, "the model called a tool that it was not given"),
        "TOO_MANY_TOOL_CALLS": (Failure.FAILED, "the model called too many tools in a row"),
        "MISSING_THOUGHT_SIGNATURE": (Failure.BAD_REQUEST, "a seal of the model's is missing from the conversation"),
        "OTHER": (Failure.FAILED, "the model stopped and does not say why"),
        "NO_IMAGE": (Failure.FAILED, "the model made no image"),
        "IMAGE_OTHER": (Failure.FAILED, "the model's image failed and it does not say why"),
    }
)
"""Ends that leave an answer incomplete or unreadable, whatever came before them."""


class Call(msgspec.Struct, rename="camel"):
    """A call of a tool."""

    name: str
    id: str | None = None
    args: dict[str, Any] | None = None
    will_continue: bool | None = None


class Blob(msgspec.Struct):
    """That there is media; what it is does not matter."""


class Part(msgspec.Struct, rename="camel"):
    """A part of an answer."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: Call | None = None
    inline_data: Blob | None = None
    file_data: Blob | None = None


class Content(msgspec.Struct):
    """What the model said."""

    parts: list[Part] | None = None


class Candidate(msgspec.Struct, rename="camel"):
    """One answer, or some of it."""

    content: Content | None = None
    finish_reason: str | None = None
    index: int | None = None


class PromptFeedback(msgspec.Struct, rename="camel"):
    """What the endpoint thinks of the prompt."""

    block_reason: str | None = None


class Usage(msgspec.Struct, rename="camel"):
    """How many tokens it took so far."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class Chunk(msgspec.Struct, rename="camel"):
    """An answer, or some of it."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: Usage | None = None
    response_id: str | None = None
    error: Problem | None = None


_chunk: Final = msgspec.json.Decoder(Chunk).decode
_chunks: Final = msgspec.json.Decoder(list[Chunk]).decode
_NOT_READ: Final = "it is not JSON of the API's shape"


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """The pieces of an answer that came at once, or of a stream that came as a list."""
    try:
        chunks = _chunks(body) if body.lstrip()[:1] == b"[" else [_chunk(body)]
    except _UNREADABLE:
        raise MalformedAnswerError(_NOT_READ) from None
    reading = GeminiReader()
    pieces: list[AnyPiece] = []
    for chunk in chunks:
        pieces.extend(reading.take(chunk))
    return [*pieces, *reading.finish()]


class GeminiReader:
    """One answer while it is read."""

    __slots__ = ("_blocked", "_calls", "_finished", "_has_spoken", "_response_id", "_usage")

    def __init__(self) -> None:
        self._has_spoken = False
        self._calls = 0
        self._finished: str | None = None
        self._blocked: str | None = None
        self._usage: Usage | None = None
        self._response_id: str | None = None

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """The pieces of this event."""
        try:
            chunk = _chunk(event.data)
        except _UNREADABLE:
            raise MalformedAnswerError(_NOT_READ) from None
        return self.take(chunk)

    def take(self, chunk: Chunk) -> Sequence[AnyPiece]:
        """The pieces of this part of an answer."""
        if chunk.error is not None:
            raise ReportedError(explain_problem(chunk.error))
        if chunk.usage_metadata is not None:
            self._usage = chunk.usage_metadata
        if chunk.response_id is not None:
            self._response_id = chunk.response_id
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._blocked = chunk.prompt_feedback.block_reason
        pieces: list[AnyPiece] = []
        for candidate in chunk.candidates or ():
            if not candidate.index:
                self._take_candidate(candidate, pieces)
        return pieces

    def finish(self) -> Sequence[AnyPiece]:
        """The end, if the endpoint said that it is the end."""
        finished = self._finished or ""
        if not finished and self._blocked is None:
            raise MalformedAnswerError("it ends without a reason to finish")
        if finished in FAILURES:
            failure, reason = FAILURES[finished]
            raise ReportedError(FailureReport(failure, code=finished, reason=reason))
        is_refused = self._blocked is not None or finished in REFUSALS
        if is_refused and not self._has_spoken:
            # Another filter may be added any day; that a prompt was blocked is known even if the reason is not.
            code = self._blocked or finished
            raise ReportedError(FailureReport(Failure.CONTENT_REFUSED, code=code, reason=REFUSALS.get(code)))
        return [EndPiece(reason="refusal" if is_refused else self._reason(), usage=_usage(self._usage))]

    def _reason(self) -> EndReason:
        if self._finished == "MAX_TOKENS":
            return "max_tokens"
        return "tool_use" if self._calls else "end_turn"

    def _take_candidate(self, candidate: Candidate, pieces: list[AnyPiece]) -> None:
        if candidate.finish_reason is not None and candidate.finish_reason not in NOT_FINISHED:
            self._finished = candidate.finish_reason
        if candidate.content is None or candidate.content.parts is None:
            return
        for part in candidate.content.parts:
            if part.thought:
                if part.text or part.thought_signature:
                    pieces.append(ThinkingPiece(text=part.text or "", signature=part.thought_signature))
            elif part.function_call is not None:
                pieces.append(self._call(part.function_call, part.thought_signature))
            else:
                self._take_text(part, pieces)

    def _take_text(self, part: Part, pieces: list[AnyPiece]) -> None:
        if part.inline_data is not None or part.file_data is not None:
            raise MalformedAnswerError("it holds an image, sound or file, and answers have no place for one")
        if part.text:
            self._has_spoken = True
            pieces.append(TextPiece(text=part.text))
        if part.thought_signature is not None:
            pieces.append(ThinkingPiece(text="", signature=part.thought_signature, redacted=True))

    def _call(self, call: Call, signature: str | None) -> ToolCallPiece:
        if call.will_continue:
            raise MalformedAnswerError("a call of a tool comes in pieces")
        self._has_spoken = True
        self._calls += 1
        given = call.args or {}
        made = call.id or made_id(self._response_id, self._calls, call.name, given)
        try:
            return ToolCallPiece(id=made, name=call.name, input=given, signature=signature)
        except ValidationError:
            raise MalformedAnswerError("the arguments of a call of a tool cannot be read") from None


def _usage(told: Usage | None) -> dict[str, Any] | None:
    if told is None:
        return None
    counted = {
        "input_tokens": _sum(told.prompt_token_count, told.tool_use_prompt_token_count),
        "output_tokens": _sum(told.candidates_token_count, told.thoughts_token_count),
        "cached_input_tokens": told.cached_content_token_count,
        "reasoning_tokens": told.thoughts_token_count,
    }
    return {name: count for name, count in counted.items() if count is not None} or None


def _sum(*counts: int | None) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if told else None
