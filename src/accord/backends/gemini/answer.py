"""The Gemini API: the answer, streamed or whole, as pieces, and errors as failures. Pure; it does no I/O.

- Every event of a stream is a small answer of the same shape. The end is given when the stream has ended and not
  before: some endpoints name a finish reason in every event, and the last event has the usage that counts.
- A tool call without an `id` gets a generated one; `request.py` leaves it out again.
- A `thoughtSignature` stays with the call or the reasoning that it came on. On text it becomes a piece of redacted
  reasoning, because text pieces have no field for it.
- The API reports STOP for a stop sequence too: such an answer ends as `end_turn`.
- `output_tokens` includes the tokens of reasoning, which the API counts separately.
- Only the first candidate is read. Steps that the endpoint took by itself (searches, code that it ran) are left out. An
  image, audio or a file is part of the answer but has no piece, so it is an error: nothing is lost silently.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from accord.backends.failure import NAMES_FIELDS, Failure, FailureReport, failure_by_status
from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.backends.named_fields import named_fields
from accord.core.sse import ServerEvent
from accord.wire.capability import TOOL_RESULT_MEDIA, Capability
from accord.wire.work import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece, ToolCallPiece

GENERATED: Final = "made-"
_encode_sorted: Final = msgspec.json.Encoder(order="deterministic").encode


def generate_id(response_id: str | None, count: int, name: str, arguments: Any) -> str:
    """Return an id for a call that has none: the same for the same call of the same answer."""
    digest = hashlib.sha256(_encode_sorted([response_id, count, name, arguments])).hexdigest()
    return f"{GENERATED}{count}-{digest[:12]}"


def is_generated(call_id: str) -> bool:
    """Whether `generate_id` made this id."""
    return call_id.startswith(GENERATED)


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
"""Reasons of an ErrorInfo, which are more exact than the status."""

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
"""Patterns of error messages, the first match counts; the third column is the capability that is refused."""

READ_MESSAGES_OF: Final = frozenset({Failure.BAD_REQUEST, Failure.FORBIDDEN, Failure.RATE_LIMITED})
"""Failures whose message is matched against `MESSAGE_RULES`: INVALID_ARGUMENT alone has a dozen meanings."""

_DAILY: Final = re.compile(r"PerDay", re.IGNORECASE)
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_MAX_READ_CHARS: Final = 4_000


class GeminiViolation(msgspec.Struct, rename="camel"):
    """A quota that is used up."""

    quota_id: str | None = None


class GeminiErrorDetail(msgspec.Struct, rename="camel"):
    """One detail of an error: an ErrorInfo has a reason, a RetryInfo a delay, a QuotaFailure violations."""

    reason: str | None = None
    retry_delay: str | None = None
    violations: list[GeminiViolation] | None = None


class GeminiError(msgspec.Struct):
    """An error of Google's APIs. `details` are decoded one by one, so that an unknown one does not hide the rest."""

    code: int | None = None
    status: str | None = None
    message: str | None = None
    details: list[msgspec.Raw] | None = None


class GeminiErrorBody(msgspec.Struct):
    """The body of an error."""

    error: GeminiError | None = None


_decode_error: Final = msgspec.json.Decoder(GeminiErrorBody).decode
_decode_errors: Final = msgspec.json.Decoder(list[GeminiErrorBody]).decode
_decode_detail: Final = msgspec.json.Decoder(GeminiErrorDetail).decode
_UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_error(status: int, body: bytes) -> FailureReport:
    """Return what a reply with this status says went wrong."""
    try:
        bodies = _decode_errors(body) if body.lstrip()[:1] == b"[" else [_decode_error(body)]
    except _UNDECODABLE:
        return FailureReport(failure_by_status(status))
    error = next((each.error for each in bodies if each.error is not None), None)
    return FailureReport(failure_by_status(status)) if error is None else _failure_report(error, status)


def _failure_report(error: GeminiError, status: int | None = None) -> FailureReport:
    """Return what an error means, in a reply of its own or in an event of a stream."""
    code = status if status is not None else error.code
    details: list[GeminiErrorDetail] = []
    for raw in error.details or ():
        with suppress(*_UNDECODABLE):
            details.append(_decode_detail(raw))
    failure, refused = _classify(error, details, code)
    delays = (found for detail in details if (found := _SECONDS.fullmatch(detail.retry_delay or "")))
    return FailureReport(
        failure,
        refused=refused,
        code=error.status,
        message=error.message,
        status=code,
        retry_after_s=next((float(found[1]) for found in delays), None),
        fields=named_fields(error.message or "") if failure in NAMES_FIELDS else (),
    )


def _classify(error: GeminiError, details: Sequence[GeminiErrorDetail], code: int | None) -> tuple[Failure, str | None]:
    """Return the failure and the refused capability: by a reason in the details, else the status, else the message."""
    for detail in details:
        if (known := BY_REASON.get(detail.reason or "")) is not None:
            return known, None
    by_code = Failure.FAILED if code is None else failure_by_status(code)
    failure = BY_GOOGLE_STATUS.get(error.status or "", by_code)
    if failure in READ_MESSAGES_OF:
        message = (error.message or "")[:_MAX_READ_CHARS]
        for pattern, meant, refused in MESSAGE_RULES:
            if pattern.search(message):
                return meant, refused
    violations = [violation for detail in details for violation in detail.violations or ()]
    if failure is Failure.RATE_LIMITED and any(_DAILY.search(each.quota_id or "") for each in violations):
        return Failure.OUT_OF_QUOTA, None  # the day's quota: waiting as long as the endpoint says does not help
    return failure, None


NOT_FINISHED: Final = frozenset({"", "FINISH_REASON_UNSPECIFIED"})

REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SAFETY": "it was stopped for safety",
        "RECITATION": "it would repeat training data",
        "LANGUAGE": "the language is not supported",
        "BLOCKLIST": "it contains blocked words",
        "PROHIBITED_CONTENT": "it contains prohibited content",
        "SPII": "it contains personal data",
        "MODEL_ARMOR": "a filter of the account stopped it",
        "ESCALATION": "it was stopped for safety",
        "IMAGE_SAFETY": "it was stopped for safety",
        "IMAGE_PROHIBITED_CONTENT": "it contains prohibited content",
        "IMAGE_RECITATION": "it would repeat training data",
        "JAILBREAK": "it looks like an attempt to bypass the rules",
    }
)
"""Why a prompt was refused or an answer cut off. After some text that ends the answer; before any it is a failure."""

FAILURES: Final[Mapping[str, tuple[Failure, str]]] = MappingProxyType(
    {
        "MALFORMED_FUNCTION_CALL": (Failure.FAILED, "the model called a tool with a malformed call"),
        "MALFORMED_RESPONSE": (Failure.FAILED, "the model's answer cannot be read"),
        "UNEXPECTED_TOOL_CALL": (Failure.FAILED, "the model called a tool that it was not given"),
        "TOO_MANY_TOOL_CALLS": (Failure.FAILED, "the model called too many tools in a row"),
        "MISSING_THOUGHT_SIGNATURE": (Failure.BAD_REQUEST, "a thought signature is missing from the conversation"),
        "OTHER": (Failure.FAILED, "the model stopped without a reason"),
        "NO_IMAGE": (Failure.FAILED, "the model made no image"),
        "IMAGE_OTHER": (Failure.FAILED, "the model's image failed without a reason"),
    }
)
"""Finish reasons that leave an answer incomplete, whatever came before them."""


class GeminiCall(msgspec.Struct, rename="camel"):
    """A tool call."""

    name: str
    id: str | None = None
    args: dict[str, Any] | None = None
    will_continue: bool | None = None


class GeminiBlob(msgspec.Struct):
    """Media; only its presence matters."""


class GeminiPart(msgspec.Struct, rename="camel"):
    """A part of an answer."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: GeminiCall | None = None
    inline_data: GeminiBlob | None = None
    file_data: GeminiBlob | None = None


class GeminiContent(msgspec.Struct):
    """The content of a candidate."""

    parts: list[GeminiPart] | None = None


class GeminiCandidate(msgspec.Struct, rename="camel"):
    """One of several alternative answers, or a part of one."""

    content: GeminiContent | None = None
    finish_reason: str | None = None
    index: int | None = None


class GeminiPromptFeedback(msgspec.Struct, rename="camel"):
    """Whether the endpoint blocked the prompt."""

    block_reason: str | None = None


class GeminiUsage(msgspec.Struct, rename="camel"):
    """The tokens used so far."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class GeminiChunk(msgspec.Struct, rename="camel"):
    """An answer, or a part of one."""

    candidates: list[GeminiCandidate] | None = None
    prompt_feedback: GeminiPromptFeedback | None = None
    usage_metadata: GeminiUsage | None = None
    response_id: str | None = None
    model_version: str | None = None
    error: GeminiError | None = None


_decode_chunk: Final = msgspec.json.Decoder(GeminiChunk).decode
_decode_chunks: Final = msgspec.json.Decoder(list[GeminiChunk]).decode
_NOT_JSON: Final = "it is not JSON of the API's shape"


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """Return the pieces of an answer that was not streamed, or of a stream that came as one list."""
    try:
        chunks = _decode_chunks(body) if body.lstrip()[:1] == b"[" else [_decode_chunk(body)]
    except _UNDECODABLE:
        raise MalformedAnswerError(_NOT_JSON) from None
    reader = GeminiReader()
    pieces: list[AnyPiece] = []
    for chunk in chunks:
        pieces.extend(reader.feed_chunk(chunk))
    return [*pieces, *reader.finish()]


class GeminiReader:
    """The state of one answer while its chunks arrive."""

    __slots__ = ("_block_reason", "_calls", "_finish_reason", "_has_content", "_model", "_response_id", "_usage")

    def __init__(self) -> None:
        self._has_content = False
        self._calls = 0
        self._finish_reason = ""
        self._block_reason: str | None = None
        self._usage: GeminiUsage | None = None
        self._response_id: str | None = None
        self._model: str | None = None

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces of this event."""
        try:
            chunk = _decode_chunk(event.data)
        except _UNDECODABLE:
            raise MalformedAnswerError(_NOT_JSON) from None
        return self.feed_chunk(chunk)

    def feed_chunk(self, chunk: GeminiChunk) -> Sequence[AnyPiece]:
        """Return the pieces of this part of an answer."""
        if chunk.error is not None:
            raise ReportedError(_failure_report(chunk.error))
        if chunk.usage_metadata is not None:
            self._usage = chunk.usage_metadata
        if chunk.response_id is not None:
            self._response_id = chunk.response_id
        if chunk.model_version is not None:
            self._model = chunk.model_version
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._block_reason = chunk.prompt_feedback.block_reason
        pieces: list[AnyPiece] = []
        for candidate in chunk.candidates or ():
            if not candidate.index:
                self._feed_candidate(candidate, pieces)
        return pieces

    def finish(self) -> Sequence[AnyPiece]:
        """Return the end, if the endpoint gave a finish reason."""
        finished, blocked = self._finish_reason, self._block_reason
        if not finished and blocked is None:
            raise MalformedAnswerError("it ends without a finish reason")
        if finished in FAILURES:
            failure, reason = FAILURES[finished]
            raise ReportedError(FailureReport(failure, code=finished, reason=reason))
        is_refused = blocked is not None or finished in REFUSALS
        if is_refused and not self._has_content:
            # A block reason need not be in the table: the endpoint may add filters.
            code = blocked or finished
            raise ReportedError(FailureReport(Failure.CONTENT_REFUSED, code=code, reason=REFUSALS.get(code)))
        end: EndReason = "tool_use" if self._calls else "end_turn"
        if finished == "MAX_TOKENS":
            end = "max_tokens"
        if is_refused:
            end = "refusal"
        return [EndPiece(reason=end, model=self._model, usage=_usage_counts(self._usage))]

    def _feed_candidate(self, candidate: GeminiCandidate, pieces: list[AnyPiece]) -> None:
        if candidate.finish_reason is not None and candidate.finish_reason not in NOT_FINISHED:
            self._finish_reason = candidate.finish_reason
        if candidate.content is None or candidate.content.parts is None:
            return
        for part in candidate.content.parts:
            if part.thought:
                if part.text or part.thought_signature:
                    pieces.append(ThinkingPiece(text=part.text or "", signature=part.thought_signature))
            elif part.function_call is not None:
                pieces.append(self._tool_call(part.function_call, part.thought_signature))
            else:
                self._feed_text(part, pieces)

    def _feed_text(self, part: GeminiPart, pieces: list[AnyPiece]) -> None:
        if part.inline_data is not None or part.file_data is not None:
            raise MalformedAnswerError("it holds an image, audio or a file, and answers have no piece for one")
        if part.text:
            self._has_content = True
            pieces.append(TextPiece(text=part.text))
        if part.thought_signature is not None:
            pieces.append(ThinkingPiece(text="", signature=part.thought_signature, redacted=True))

    def _tool_call(self, call: GeminiCall, signature: str | None) -> ToolCallPiece:
        if call.will_continue:
            raise MalformedAnswerError("a tool call comes in pieces")
        self._has_content = True
        self._calls += 1
        arguments = call.args or {}
        call_id = call.id or generate_id(self._response_id, self._calls, call.name, arguments)
        try:
            return ToolCallPiece(id=call_id, name=call.name, input=arguments, signature=signature)
        except ValidationError:
            raise MalformedAnswerError("the arguments of a tool call cannot be read") from None


def _usage_counts(usage: GeminiUsage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    counts = {
        "input_tokens": _sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
        "output_tokens": _sum(usage.candidates_token_count, usage.thoughts_token_count),
        "cached_input_tokens": usage.cached_content_token_count,
        "reasoning_tokens": usage.thoughts_token_count,
    }
    return {name: count for name, count in counts.items() if count is not None} or None


def _sum(*counts: int | None) -> int | None:
    given = [count for count in counts if count is not None]
    return sum(given) if given else None
