"""Answers as the Gemini API gives them, whole or streamed. Requests are in `read_request.py`. Pure.

Every event of a stream is a small answer of the same shape. Calls come whole, as from most of the API's models; one
that was cut off says that it would continue. Citations come at the end of an answer, with offsets in bytes. The API has
no text that is marked as a refusal: such an answer ends with SAFETY, as every refusal does.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never, cast

from pydantic_core import from_json

from accord.apis.codec import AnswerLabels, untyped_event
from accord.apis.gemini.call_ids import is_generated
from accord.apis.gemini.citations import write_citations
from accord.apis.gemini.errors import write_error_event
from accord.apis.usage import sum_counts, tier_member
from accord.core.work.fields import ModelRequest
from accord.errors import AccordError
from accord.wire.disposition import Api
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    EndReason,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkPiece,
)

Json = dict[str, Any]

FINISH_REASONS: Final[Mapping[EndReason, str]] = MappingProxyType(
    {
        "end_turn": "STOP",
        "tool_use": "STOP",
        "stop_sequence": "STOP",
        "max_tokens": "MAX_TOKENS",
        "refusal": "SAFETY",
    }
)
COUNTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "promptTokenCount": "input_tokens",
        "cachedContentTokenCount": "cached_input_tokens",
        "candidatesTokenCount": "output_tokens",
        "thoughtsTokenCount": "reasoning_tokens",
    }
)


def write_answer(request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]) -> Json:  # noqa: ARG001 - the interface
    """The body of a whole answer."""
    candidates: list[Json] = []
    ends: list[EndPiece] = []
    for index, pieces in enumerate(answers):
        writer = _CandidateWriter()
        parts = [part for piece in _joined(pieces) for part in writer.write(piece)]
        end = pieces[-1]
        if not isinstance(end, EndPiece):
            raise TypeError("the last piece of an answer is its end")
        candidates.append(_candidate(index, parts, **writer.ending(end)))
        ends.append(end)
    return {"candidates": candidates, **_usage(ends), **_answer_members(labels), **_label(labels.accord)}


class GeminiStreamWriter:
    """The state of one streamed answer: its candidates so far, and how they ended."""

    __slots__ = ("_candidates", "_ends", "_labels", "_tail")

    def __init__(self, request: ModelRequest, labels: AnswerLabels) -> None:
        self._candidates: Final = [_CandidateWriter() for _ in range(request.answers)]
        self._ends: Final[list[EndPiece]] = []
        self._labels: Final = labels
        self._tail: Final = _answer_members(labels)

    def start(self) -> bytes:
        """An event with the label, if there is one."""
        label = _label(self._labels.accord)
        return untyped_event({**self._tail, **label}) if label else b""

    def write(self, piece: AnyPiece, answer: int = 0, label: Mapping[str, Any] | None = None) -> bytes:
        """The event for one piece."""
        writer = self._candidates[answer]
        if isinstance(piece, EndPiece):
            self._ends.append(piece)
            candidate = _candidate(answer, [], **writer.ending(piece))
            return untyped_event({"candidates": [candidate], **_usage(self._ends), **self._tail, **_label(label)})
        if not (parts := writer.write(piece)):
            return b""
        return untyped_event({"candidates": [_candidate(answer, parts)], **self._tail})

    def finish(self) -> bytes:
        """Nothing: the event of the last `EndPiece` is the last one."""
        return b""

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """The event that ends the stream with an error."""
        return write_error_event(error, request_id)


class _CandidateWriter:
    """What an answer has had so far that is written at its end."""

    __slots__ = ("_citations", "_has_declined", "_text")

    def __init__(self) -> None:
        self._text: Final[list[str]] = []
        self._citations: Final[list[CitationPiece]] = []
        self._has_declined = False

    def write(self, piece: AnyPiece) -> list[Json]:
        """The parts of content for this piece; empty if it is written at the end, or the API has no place for it."""
        match piece:
            case TextPiece():
                self._has_declined |= piece.refusal
                self._text.append(piece.text)
                return [{"text": piece.text}] if piece.text else []
            case ThinkingPiece():
                if not piece.text and piece.signature is None:
                    return []
                thought = {} if piece.redacted and not piece.text else {"thought": True}
                return [{"text": piece.text, **thought, **signature_member(piece.signature)}]
            case ToolCallPiece():
                return [{"functionCall": _call(piece), **signature_member(piece.signature)}]
            case MediaPiece():
                return [_media(piece)]
            case CitationPiece():
                self._citations.append(piece)
                return []
            case ToolCallDelta() | WorkPiece() | EndPiece():
                return []
            case _:
                assert_never(piece)

    def ending(self, end: EndPiece) -> Json:
        """The members of a candidate that only its end has."""
        declines = self._has_declined and end.reason in {"end_turn", "stop_sequence"}
        members: Json = {"finishReason": FINISH_REASONS["refusal" if declines else end.reason]}
        members |= write_citations(self._citations, "".join(self._text)) if self._citations else {}
        if end.logprobs is not None:
            members["logprobsResult"] = {
                "chosenCandidates": [_token(token) for token in end.logprobs],
                "topCandidates": [
                    {"candidates": [_token(each) for each in token.get("top", ())]} for token in end.logprobs
                ],
            }
        return members


def _joined(pieces: Iterable[AnyPiece]) -> Iterable[AnyPiece]:
    """The pieces of a whole answer: text, and reasoning up to its signature, in one piece each."""
    last: AnyPiece | None = None
    for piece in pieces:
        if isinstance(last, TextPiece) and isinstance(piece, TextPiece) and last.refusal == piece.refusal:
            last = TextPiece(text=last.text + piece.text, refusal=last.refusal)
        elif (
            isinstance(last, ThinkingPiece)
            and isinstance(piece, ThinkingPiece)
            and last.signature is None
            and not piece.redacted
        ):
            last = ThinkingPiece(text=last.text + piece.text, signature=piece.signature)
        else:
            if last is not None:
                yield last
            last = piece
    if last is not None:
        yield last


def _candidate(index: int, parts: list[Json], **members: Any) -> Json:
    return {"content": {"parts": parts, "role": "model"}, **members, "index": index}


def _call(piece: ToolCallPiece) -> Json:
    arguments: Any = piece.input
    if piece.custom:
        arguments = {"input": piece.input}
    elif piece.cut:
        arguments = _partial_arguments(piece.input)
    end = {"willContinue": True} if piece.cut else {}
    return {**id_member(piece.id), "name": piece.name, "args": arguments, **end}


def id_member(call_id: str) -> Json:
    """The member with the id of a call; none for an id that Accord made."""
    return {} if is_generated(call_id) else {"id": call_id}


def _partial_arguments(text: Any) -> Json:
    """What has arrived of the arguments of a call."""
    try:
        arguments = from_json(str(text), allow_inf_nan=False, allow_partial="trailing-strings")
    except ValueError:
        return {}
    return cast("Json", arguments) if isinstance(arguments, dict) else {}


def _media(piece: MediaPiece) -> Json:
    transcript = {} if piece.transcript is None else {"audioTranscription": {"text": piece.transcript}}
    if piece.data is not None:
        return {"inlineData": {"mimeType": piece.media_type, "data": piece.data}, **transcript}
    if piece.uri is None and transcript:
        return transcript
    return {"fileData": {"mimeType": piece.media_type, "fileUri": piece.uri or ""}, **transcript}


def signature_member(signature: str | None) -> Json:
    """The member with the signature of a part."""
    return {} if signature is None else {"thoughtSignature": signature}


def _token(token: Mapping[str, Any]) -> Json:
    return {"token": token["token"], "logProbability": token["logprob"]}


def _usage(ends: Sequence[EndPiece]) -> Json:
    """The tokens of all answers together; `candidatesTokenCount` leaves out those of reasoning."""
    counts = sum_counts(ends)
    usage: Json = {name: counts[ours] for name, ours in COUNTS.items() if ours in counts}
    if "output_tokens" in counts:
        usage["candidatesTokenCount"] = max(0, counts["output_tokens"] - counts.get("reasoning_tokens", 0))
    if counts:
        usage["totalTokenCount"] = counts.get("input_tokens", 0) + counts.get("output_tokens", 0)
    usage |= tier_member(Api.GEMINI, ends[-1:], "serviceTier")
    return {"usageMetadata": usage} if usage else {}


def _answer_members(labels: AnswerLabels) -> Json:
    return {"modelVersion": labels.model, "responseId": labels.id}


def _label(accord: Mapping[str, Any] | None) -> Json:
    return {"accord": dict(accord)} if accord else {}
