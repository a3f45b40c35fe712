"""The Gemini API: the answer, streamed or whole, as pieces. Errors are in `errors.py`. Pure; it does no I/O.

- Every event of a stream is a small answer of the same shape. The end is given when the stream has ended and not
  before: some endpoints name a finish reason in every event, and the last event has the usage that counts.
- Nearly every event has text and nothing that a row or a piece would be needed for; any other is read once more.
- A tool call without an `id` gets a generated one; `codec.py` leaves it out again.
- A `thoughtSignature` stays with the call or the reasoning that it came on. On text or media it becomes a piece of
  redacted reasoning, because their pieces have no field for it.
- The API reports STOP for a stop sequence too: such an answer ends as `end_turn`.
- `output_tokens` includes the tokens of reasoning, which the API counts separately.
- Only the first candidate is read. What it rests on follows at its end, when all its text is there.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import msgspec

from accord.apis.answers import add_part
from accord.apis.codec import MalformedAnswerError, ReportedError
from accord.apis.failure import Failure, FailureReport
from accord.apis.gemini.answer_rows import FINDER, LIKELIEST_ALONE
from accord.apis.gemini.call_ids import generate_id
from accord.apis.gemini.citations import (
    CitationReader,
    GeminiCitations,
    GeminiGrounding,
    parts_without_address,
)
from accord.apis.gemini.errors import UNDECODABLE, GeminiError, failure_report
from accord.apis.gemini.partial_calls import GeminiCall, PartialCall
from accord.core.sse import ServerEvent
from accord.wire.message import only_json
from accord.wire.work import (
    AnyPiece,
    EndPiece,
    EndReason,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
)

NOT_FINISHED: Final = frozenset({"", "FINISH_REASON_UNSPECIFIED"})
ENDS: Final[Mapping[str, EndReason]] = MappingProxyType({"STOP": "end_turn", "MAX_TOKENS": "max_tokens"})
NATIVE_ENDS: Final = ENDS.keys() | {"SAFETY", "PROHIBITED_CONTENT"}
"""The finish reasons for which every API has a word of its own."""

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
        "PUP_LIMITED_DISABLED": (Failure.FORBIDDEN, "the account is limited or disabled for what it was used for"),
    }
)
"""Finish reasons that leave an answer incomplete, whatever came before them."""

TIERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "standard": "standard",
        "priority": "priority",
        "flex": "flex",
        "ON_DEMAND": "standard",
        "ON_DEMAND_PRIORITY": "priority",
        "ON_DEMAND_FLEX": "flex",
    }
)
"""Tiers, and kinds of traffic, as Google's platform for companies names them."""
FINISH_REASON: Final = "candidates[].finishReason"
CANDIDATE: Final = "candidates[]"
PARTS: Final = "candidates[].content.parts[]"
THOUGHT: Final = f"{PARTS}.thought"
SIGNATURE: Final = f"{PARTS}.thoughtSignature"
INDEX: Final = "candidates[].index"
CREATED: Final = "createTime"
USAGE: Final = "usageMetadata"
DETAILS: Final = "TokensDetails"
OF_TEXT: Final = {"modality": "TEXT", "tokenCount": 0}


_NOTHING: Final = msgspec.Raw()


class GeminiText(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """A part that is text or reasoning."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None


class GeminiTextContent(msgspec.Struct, forbid_unknown_fields=True):
    """The content of a candidate that has nothing but text."""

    parts: list[GeminiText] | None = None
    role: str | None = None


class GeminiTextCandidate(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A candidate that has nothing but text."""

    content: GeminiTextContent | None = None
    finish_reason: str | None = None
    index: int | None = None


class GeminiTextChunk(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A part of an answer that has nothing but text, as nearly every event of a stream."""

    candidates: list[GeminiTextCandidate] | None = None
    usage_metadata: msgspec.Raw = _NOTHING
    response_id: str | None = None
    model_version: str | None = None
    create_time: str | None = None


class GeminiBlob(msgspec.Struct, rename="camel"):
    """Media, in base64 or by its address."""

    mime_type: str | None = None
    data: str | None = None
    file_uri: str | None = None


class GeminiTranscription(msgspec.Struct):
    """What is said in a sound."""

    text: str | None = None


class GeminiPart(msgspec.Struct, rename="camel"):
    """A part of an answer."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: GeminiCall | None = None
    inline_data: GeminiBlob | None = None
    file_data: GeminiBlob | None = None
    audio_transcription: GeminiTranscription | None = None


class GeminiContent(msgspec.Struct):
    """The content of a candidate."""

    parts: list[GeminiPart] | None = None


class GeminiToken(msgspec.Struct, rename="camel"):
    """A token and its log probability."""

    token: str = ""
    log_probability: float = 0.0


class GeminiTokens(msgspec.Struct):
    """The likeliest tokens in one place."""

    candidates: list[GeminiToken] | None = None


class GeminiLogprobs(msgspec.Struct, rename="camel"):
    """The log probabilities of an answer's tokens."""

    chosen_candidates: list[GeminiToken] | None = None
    top_candidates: list[GeminiTokens] | None = None


class GeminiCandidate(msgspec.Struct, rename="camel"):
    """One of several alternative answers, or a part of one."""

    content: GeminiContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None
    grounding_metadata: GeminiGrounding | None = None
    citation_metadata: GeminiCitations | None = None
    logprobs_result: GeminiLogprobs | None = None


class GeminiPromptFeedback(msgspec.Struct, rename="camel"):
    """Whether the endpoint blocked the prompt."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class GeminiUsage(msgspec.Struct, rename="camel"):
    """The tokens used so far."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    traffic_type: str | None = None
    service_tier: str | None = None


class GeminiChunk(msgspec.Struct, rename="camel"):
    """An answer, or a part of one."""

    candidates: list[GeminiCandidate] | None = None
    prompt_feedback: GeminiPromptFeedback | None = None
    usage_metadata: msgspec.Raw = _NOTHING
    response_id: str | None = None
    model_version: str | None = None
    error: GeminiError | None = None


CandidateT = TypeVar("CandidateT", GeminiTextCandidate, GeminiCandidate)
_decode_text_chunk: Final = msgspec.json.Decoder(GeminiTextChunk).decode
_decode_chunk: Final = msgspec.json.Decoder(GeminiChunk).decode
_decode_usage: Final = msgspec.json.Decoder(GeminiUsage | None).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
_NOT_JSON: Final = "it is not JSON of the API's shape"


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """Return the pieces of an answer that was not streamed, or of a stream that came as one list."""
    try:
        chunks = [bytes(raw) for raw in _decode_list(body)] if body.lstrip()[:1] == b"[" else [body]
    except UNDECODABLE:
        raise MalformedAnswerError(_NOT_JSON) from None
    reader = GeminiReader()
    pieces: list[AnyPiece] = []
    for chunk in chunks:
        pieces.extend(reader.feed_chunk(chunk))
    return [piece for piece in (*pieces, *reader.finish()) if not isinstance(piece, ToolCallDelta)]


def _is_of_text(name: str, value: Any) -> bool:
    """Whether this member of the usage has the counts of text by itself, and of nothing else: the totals have them."""
    if not name.endswith(DETAILS) or not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return all(
        isinstance(each, dict) and {**cast("dict[str, Any]", each), "tokenCount": 0} == OF_TEXT for each in items
    )


class GeminiReader:
    """The state of one answer while its chunks arrive."""

    __slots__ = (
        "_block_reason",
        "_call",
        "_calls",
        "_citations",
        "_finish_reason",
        "_has_content",
        "_logprobs",
        "_message",
        "_parts",
        "_response_id",
        "_usage",
        "model",
    )

    def __init__(self) -> None:
        self._has_content = False
        self._calls = 0
        self._call: PartialCall | None = None
        self._finish_reason = ""
        self._block_reason: str | None = None
        self._message: str | None = None
        self._usage = _NOTHING
        self._response_id: str | None = None
        self._citations: Final = CitationReader()
        self._logprobs: Final[list[dict[str, Any]]] = []
        self._parts: Final[dict[str, None]] = {}
        self.model: str | None = None

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces of this event."""
        return self.feed_chunk(event.data)

    def feed_chunk(self, data: bytes) -> Sequence[AnyPiece]:
        """Return the pieces of this part of an answer."""
        pieces: list[AnyPiece] = []
        try:
            chunk = _decode_text_chunk(data)
        except UNDECODABLE:
            self._feed_any(data, pieces)
            return pieces
        self._note(chunk)
        if chunk.create_time:
            self._parts[CREATED] = None
        for candidate in self._first_of(chunk.candidates):
            self._note_finish(candidate)
            if candidate.content is not None:
                for part in candidate.content.parts or ():
                    self._feed_text(part, pieces)
        return pieces

    def _feed_any(self, data: bytes, pieces: list[AnyPiece]) -> None:
        """Read a chunk that has more than text, and note what it has."""
        try:
            chunk, members = _decode_chunk(data), _decode_object(data)
        except UNDECODABLE:
            raise MalformedAnswerError(_NOT_JSON) from None
        if chunk.error is not None:
            raise ReportedError(failure_report(chunk.error))
        self._find_parts(members)
        self._note(chunk)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._block_reason = chunk.prompt_feedback.block_reason
            self._message = chunk.prompt_feedback.block_reason_message
        for candidate in self._first_of(chunk.candidates):
            self._note_finish(candidate)
            self._message = candidate.finish_message or self._message
            self._citations.add(candidate.grounding_metadata, candidate.citation_metadata)
            self._add_logprobs(candidate.logprobs_result)
            if candidate.content is not None:
                for part in candidate.content.parts or ():
                    self._feed_part(part, pieces)

    def finish(self) -> Sequence[AnyPiece]:
        """Return what an answer rests on and its end, if the endpoint gave a finish reason."""
        end = self._end_reason()
        pieces: list[AnyPiece] = []
        if self._call is not None:
            if end == "end_turn":
                raise MalformedAnswerError("a tool call is not complete")
            pieces.append(self._call.cut_piece())
        elif end == "end_turn" and self._calls:
            end = "tool_use"
        citations = self._citations.read()
        for part in parts_without_address(citations):
            add_part(self._parts, part)
        return [*pieces, *citations, self._end_piece(end)]

    def _end_reason(self) -> EndReason:
        """Why the answer ended; raises `ReportedError` if it failed, or was refused before it had begun."""
        finished, blocked = self._finish_reason, self._block_reason
        if not finished and blocked is None:
            raise MalformedAnswerError("it ends without a finish reason")
        if finished in FAILURES:
            failure, reason = FAILURES[finished]
            raise ReportedError(FailureReport(failure, code=finished, message=self._message, reason=reason))
        if finished and finished not in NATIVE_ENDS:
            add_part(self._parts, f"{FINISH_REASON}={finished}")
        if blocked is None and finished not in REFUSALS:
            return ENDS.get(finished, "max_tokens")
        if not self._has_content:
            # A block reason need not be in the table: the endpoint may add filters.
            code = blocked or finished
            report = FailureReport(Failure.CONTENT_REFUSED, code=code, message=self._message, reason=REFUSALS.get(code))
            raise ReportedError(report)
        return "refusal"

    def _end_piece(self, reason: EndReason) -> EndPiece:
        try:
            usage = _decode_usage(self._usage) if bytes(self._usage) else None
            members = _decode_object(self._usage) if usage is not None else {}
        except UNDECODABLE:
            raise MalformedAnswerError(_NOT_JSON) from None
        FINDER.find({name: each for name, each in members.items() if not _is_of_text(name, each)}, self._parts, USAGE)
        tier = None if usage is None else TIERS.get(usage.service_tier or usage.traffic_type or "")
        if usage is not None and tier == "flex":
            member = f"serviceTier={usage.service_tier}" if usage.service_tier else f"trafficType={usage.traffic_type}"
            self._parts[f"{USAGE}.{member}"] = None
        return EndPiece(
            reason=reason,
            model=self.model,
            usage=_usage_counts(usage),
            logprobs=self._logprobs or None,
            service_tier=tier,
            parts=[*self._parts],
        )

    def _note(self, chunk: GeminiTextChunk | GeminiChunk) -> None:
        if chunk.usage_metadata is not _NOTHING:
            self._usage = chunk.usage_metadata
        if chunk.response_id is not None:
            self._response_id = chunk.response_id
        if chunk.model_version is not None:
            self.model = chunk.model_version

    def _first_of(self, candidates: Sequence[CandidateT] | None) -> Sequence[CandidateT]:
        """The first of several answers, as far as this chunk has any of it."""
        if not candidates or (len(candidates) == 1 and not candidates[0].index):
            return candidates or ()
        firsts = [candidate for candidate in candidates if not candidate.index]
        if len(firsts) < len(candidates):
            add_part(self._parts, INDEX)
        if len(firsts) > 1:
            raise MalformedAnswerError("two of its candidates have the same index")
        return firsts

    def _note_finish(self, candidate: GeminiTextCandidate | GeminiCandidate) -> None:
        if candidate.finish_reason is not None and candidate.finish_reason not in NOT_FINISHED:
            self._finish_reason = candidate.finish_reason

    def _find_parts(self, members: dict[str, Any]) -> None:
        """Note what this chunk has; of the other candidates there is nothing but that they were there."""
        candidates = cast("list[dict[str, Any]]", members.pop("candidates", None) or [])
        members.pop(USAGE, None)  # the last one counts
        FINDER.find(members, self._parts)
        for candidate in candidates:
            if not candidate.get("index"):
                FINDER.find_item(candidate, CANDIDATE, self._parts)

    def _feed_part(self, part: GeminiPart, pieces: list[AnyPiece]) -> None:
        if part.function_call is not None:
            self._feed_call(part.function_call, part.thought_signature, pieces)
            self._citations.texts.append("")
        elif part.inline_data is not None or part.file_data is not None or part.audio_transcription is not None:
            self._feed_media(part, pieces)
        else:
            self._feed_text(part, pieces)

    def _feed_text(self, part: GeminiText | GeminiPart, pieces: list[AnyPiece]) -> None:
        if part.thought_signature is not None:
            self._parts[SIGNATURE] = None
        if part.thought:
            self._parts[THOUGHT] = None
            self._citations.texts.append("")
            if part.text or part.thought_signature:
                pieces.append(ThinkingPiece(text=part.text or "", signature=part.thought_signature))
            return
        self._citations.texts.append(part.text or "")
        if part.text:
            self._has_content = True
            pieces.append(TextPiece(text=part.text))
        if part.thought_signature is not None:
            pieces.append(ThinkingPiece(text="", signature=part.thought_signature, redacted=True))

    def _feed_media(self, part: GeminiPart, pieces: list[AnyPiece]) -> None:
        self._citations.texts.append("")
        blob = part.inline_data or part.file_data or GeminiBlob("audio/*")
        media_type = blob.mime_type or "application/octet-stream"
        main_type = media_type.partition("/")[0]
        name = "inlineData" if part.inline_data is not None else "fileData"
        if part.thought:  # a sketch on the way to the answer
            add_part(self._parts, f"{PARTS}.thought=media")
        else:
            self._has_content = True
            if blob.mime_type != "audio/*":
                add_part(self._parts, f"{PARTS}.{name}={main_type if main_type in {'image', 'audio'} else 'file'}")
            transcript = part.audio_transcription.text if part.audio_transcription is not None else None
            piece = MediaPiece(media_type=media_type, data=blob.data, uri=blob.file_uri, transcript=transcript or None)
            pieces.append(piece)
        if part.thought_signature is not None:
            pieces.append(ThinkingPiece(text="", signature=part.thought_signature, redacted=True))

    def _feed_call(self, call: GeminiCall, signature: str | None, pieces: list[AnyPiece]) -> None:
        self._has_content = True
        open_call = self._call
        if open_call is None:
            if call.name is None:
                raise MalformedAnswerError("a tool call has no name")
            self._calls += 1
            arguments = {} if call.is_partial else call.args or {}
            call_id = call.id or generate_id(self._response_id, self._calls, call.name, arguments)
            if not call.is_partial:
                pieces.append(_call_piece(call_id, call.name, arguments, signature))
                return
            open_call = self._call = PartialCall(call_id, call.name)
            if signature is None:
                pieces.append(ToolCallDelta(id=call_id, name=call.name))
        elif signature is not None and open_call.signature is None:
            add_part(self._parts, f"{SIGNATURE}=late")
        open_call.add(call, signature)
        if not call.will_continue:
            self._call = None
            pieces.append(_call_piece(open_call.id, open_call.name, open_call.arguments(), open_call.signature))

    def _add_logprobs(self, result: GeminiLogprobs | None) -> None:
        if result is None:
            return
        likeliest, all_chosen = result.top_candidates or [], result.chosen_candidates or []
        if any(each.candidates for each in likeliest[len(all_chosen) :]):
            add_part(self._parts, LIKELIEST_ALONE)
        for place, chosen in enumerate(all_chosen):
            token = _logprob(chosen)
            if place < len(likeliest) and (others := likeliest[place].candidates):
                token["top"] = [*map(_logprob, others)]
            self._logprobs.append(token)


def _logprob(token: GeminiToken) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.log_probability}


def _call_piece(call_id: str, name: str, arguments: Any, signature: str | None) -> ToolCallPiece:
    try:
        return ToolCallPiece(id=call_id, name=name, input=only_json(arguments), signature=signature)
    except ValueError:
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
    present = [count for count in counts if count is not None]
    return sum(present) if present else None
