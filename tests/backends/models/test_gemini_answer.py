"""Gemini's answers, whole and streamed, wherever the bytes are cut, and their failures."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.backends.failure import Failure
from accord.backends.gemini import Gemini
from accord.backends.gemini.answer import FAILURES, REFUSALS, is_generated
from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.core.sse import EventDecoder
from accord.wire.conversation import Conversation, ConversationMessage, MessagePart, TextPart, ThinkingPart, ToolUsePart
from accord.wire.work import (
    AnswerPiece,
    AnyPiece,
    EndPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    WorkOrder,
    WorkPiece,
)

GOLDEN = Path(__file__).parent / "golden" / "gemini"
GEMINI = Gemini()
CASES = sorted(path.name for path in GOLDEN.glob("answer_*.json"))


def chunk(*parts: dict[str, Any], reason: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})], **fields}


def streamed(chunks: list[Any], *, end: str = "\n") -> bytes:
    return "".join(f"data: {json.dumps(one, ensure_ascii=False)}{end}{end}" for one in chunks).encode()


def read(raw: bytes, *cuts: int) -> list[AnyPiece]:
    decoder, reading = EventDecoder(), GEMINI.answer_reader()
    pieces: list[AnyPiece] = []
    for start, stop in zip((0, *cuts), (*cuts, len(raw)), strict=True):
        for event in decoder.feed(raw[start:stop]):
            pieces.extend(reading.feed(event))
    return [*pieces, *reading.finish()]


def read_chunks(*chunks: Any) -> list[AnyPiece]:
    return read(streamed(list(chunks)))


def read_answer(reported: Any) -> list[AnyPiece]:
    return list(GEMINI.read_answer(json.dumps(reported).encode()))


EXCHANGE = [
    chunk({"text": "Ich überlege… 🤔", "thought": True}, responseId="r1"),
    chunk({"text": "Grüße, "}, responseId="r1", usageMetadata={"promptTokenCount": 9}),
    chunk({"text": "世界! 🌍"}, responseId="r1"),
    chunk(
        {"functionCall": {"name": "look", "args": {"wo": "Zürich"}}, "thoughtSignature": "c2VhbA=="}, responseId="r1"
    ),
    chunk(
        {"text": ""},
        reason="STOP",
        responseId="r1",
        usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 5, "thoughtsTokenCount": 3},
    ),
]
SAID = read_chunks(*EXCHANGE)


def test_a_recorded_exchange_gives_its_pieces():
    assert [piece for piece in SAID if not isinstance(piece, ToolCallPiece)] == [
        ThinkingPiece(text="Ich überlege… 🤔"),
        TextPiece(text="Grüße, "),
        TextPiece(text="世界! 🌍"),
        EndPiece(reason="tool_use", usage={"input_tokens": 9, "output_tokens": 8, "reasoning_tokens": 3}),
    ]
    (call,) = (piece for piece in SAID if isinstance(piece, ToolCallPiece))
    assert (call.name, call.input, call.signature) == ("look", {"wo": "Zürich"}, "c2VhbA==")
    assert is_generated(call.id)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_recorded_exchange_gives_the_same_pieces_wherever_it_is_cut(end: str):
    raw = b": keep-alive" + end.encode() * 2 + streamed(EXCHANGE, end=end)
    assert read(raw, *range(1, len(raw))) == SAID
    for cut in range(1, len(raw)):
        assert read(raw, cut) == SAID


@pytest.mark.parametrize("name", CASES)
def test_a_golden_answer_gives_its_pieces_whole_and_streamed(name: str):
    case = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    expected = [AnswerPiece(**piece) for piece in case["pieces"]]
    assert read_answer(case["answer"]) == expected
    assert read(streamed(case["answer"] if isinstance(case["answer"], list) else [case["answer"]])) == expected


def test_there_are_golden_answers():
    assert len(CASES) >= 3


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)
signatures = st.none() | st.from_regex(r"[a-z]{1,6}", fullmatch=True)
arguments = st.dictionaries(words, st.none() | st.integers(-9, 9) | words | st.lists(st.booleans()), max_size=2)
given_pieces = st.one_of(
    st.builds(TextPiece, text=words),
    st.builds(ThinkingPiece, text=words, signature=signatures),
    st.builds(ThinkingPiece, text=st.just(""), signature=words, redacted=st.just(value=True)),
    st.builds(ToolCallPiece, id=words, name=words, input=arguments, signature=signatures),
)


def part_of(piece: AnyPiece) -> MessagePart:
    match piece:
        case TextPiece():
            return TextPart(text=piece.text)
        case ThinkingPiece():
            return ThinkingPart(text=piece.text, signature=piece.signature, redacted=piece.redacted)
        case ToolCallPiece():
            return ToolUsePart(id=piece.id, name=piece.name, input=piece.input, signature=piece.signature)
        case WorkPiece() | EndPiece():
            raise AssertionError("neither is given back")


def given_back(*pieces: AnyPiece) -> list[dict[str, Any]]:
    written = ConversationMessage.model_validate({"role": "assistant", "content": [part_of(piece) for piece in pieces]})
    body = GEMINI.request(WorkOrder(conversation=Conversation(messages=[written])), "gemini-3-pro").body
    assert body is not None
    return body["contents"][0]["parts"]


@given(st.lists(given_pieces, min_size=1, max_size=5))
def test_text_and_signatures_of_an_answer_are_sent_back_unchanged(pieces: list[AnyPiece]):
    parts = given_back(*pieces)
    assert read_chunks(*(chunk(part) for part in parts), chunk(reason="STOP"))[:-1] == pieces
    assert read_answer(chunk(*parts, reason="STOP"))[:-1] == pieces


def test_parallel_calls_without_ids_each_have_a_stable_one_and_are_given_back_without():
    parts: list[dict[str, Any]] = [{"functionCall": {"name": "look", "args": {}}}] * 2
    reported = chunk(*parts, reason="STOP", responseId="r")
    first, second, end = read_answer(reported)
    assert isinstance(first, ToolCallPiece)
    assert isinstance(second, ToolCallPiece)
    assert first.id != second.id
    assert end == EndPiece(reason="tool_use")
    assert read_answer(reported) == [first, second, end]
    assert given_back(first, second) == parts
    (other, _, _) = read_answer({**reported, "responseId": "s"})
    assert isinstance(other, ToolCallPiece)
    assert other.id != first.id


def test_thoughts_may_be_between_calls_and_a_signature_on_text_is_kept():
    pieces = read_answer(
        chunk(
            {"functionCall": {"id": "a", "name": "look"}, "thoughtSignature": "one"},
            {"text": "Hm.", "thought": True, "thoughtSignature": "two"},
            {"functionCall": {"id": "b", "name": "look"}},
            {"text": "So.", "thoughtSignature": "three"},
            reason="STOP",
        )
    )
    assert pieces == [
        ToolCallPiece(id="a", name="look", input={}, signature="one"),
        ThinkingPiece(text="Hm.", signature="two"),
        ToolCallPiece(id="b", name="look", input={}),
        TextPiece(text="So."),
        ThinkingPiece(text="", signature="three", redacted=True),
        EndPiece(reason="tool_use"),
    ]
    assert given_back(*pieces[3:5]) == [{"text": "So."}, {"text": "", "thoughtSignature": "three"}]


def test_the_last_usage_counts_even_after_the_reason_to_finish():
    reported: list[dict[str, Any]] = [
        chunk({"text": "a"}, reason="STOP", usageMetadata={"promptTokenCount": 2, "candidatesTokenCount": 1}),
        chunk(
            {"text": "b"},
            reason="STOP",
            usageMetadata={
                "promptTokenCount": 2,
                "toolUsePromptTokenCount": 4,
                "candidatesTokenCount": 2,
                "cachedContentTokenCount": 1,
            },
        ),
        {"candidates": [], "modelVersion": "x"},
    ]
    end = EndPiece(model="x", usage={"input_tokens": 6, "output_tokens": 2, "cached_input_tokens": 1})
    assert read_chunks(*reported) == [TextPiece(text="a"), TextPiece(text="b"), end]
    assert read_answer(reported) == read_chunks(*reported)


@pytest.mark.parametrize(
    ("reason", "ends"),
    [("STOP", "end_turn"), ("MAX_TOKENS", "max_tokens"), ("SAFETY", "refusal"), ("SOMETHING_NEW", "end_turn")],
)
def test_each_finish_reason_after_text_has_its_end_reason(reason: str, ends: Any):
    assert read_chunks(chunk({"text": "So"}), chunk(reason=reason)) == [TextPiece(text="So"), EndPiece(reason=ends)]


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refusal_before_any_text_is_a_content_refusal(reason: str):
    with pytest.raises(ReportedError) as caught:
        read_chunks(chunk({"text": "Hm", "thought": True}), chunk(reason=reason))
    reported = caught.value.report
    assert (reported.failure, reported.code, reported.reason) == (Failure.CONTENT_REFUSED, reason, REFUSALS[reason])


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "BLOCKED_FOR_A_NEW_REASON"])
def test_a_blocked_prompt_is_a_content_refusal_whatever_the_reason(reason: str):
    blocked = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 3}}
    for reader in (read_chunks, read_answer):
        with pytest.raises(ReportedError) as caught:
            reader(blocked)
        reported = caught.value.report
        assert (reported.failure, reported.code, reported.reason) == (
            Failure.CONTENT_REFUSED,
            reason,
            REFUSALS.get(reason),
        )


def test_feedback_that_blocks_nothing_is_no_refusal():
    assert (
        read_answer({**chunk({"text": "a"}, reason="STOP"), "promptFeedback": {"safetyRatings": []}})[-1] == EndPiece()
    )


@pytest.mark.parametrize("reason", FAILURES)
def test_a_failed_answer_is_a_failure_even_after_text(reason: str):
    with pytest.raises(ReportedError) as caught:
        read_chunks(chunk({"text": "So"}), chunk(reason=reason))
    reported = caught.value.report
    assert ((reported.failure, reported.reason), reported.code) == (FAILURES[reason], reason)


@pytest.mark.parametrize(
    "reported",
    [
        [],
        [{}],
        [{"candidates": []}],
        [chunk({"text": "a"})],
        [chunk({"text": "a"}, reason="FINISH_REASON_UNSPECIFIED")],
        [chunk({"inlineData": {"mimeType": "image/png", "data": "secret"}}, reason="STOP")],
        [chunk({"functionCall": {"name": "look", "willContinue": True}}, reason="STOP")],
        [chunk({"functionCall": {"name": "look", "args": "secret"}}, reason="STOP")],
        [chunk({"functionCall": {"args": {}}}, reason="STOP")],
        [chunk({"text": 1}, reason="STOP")],
        ["secret"],
    ],
    ids=str,
)
def test_incomplete_and_malformed_answers_are_errors_that_repeat_nothing(reported: list[Any]):
    for reader in (lambda: read_chunks(*reported), lambda: read_answer(reported)):
        with pytest.raises(MalformedAnswerError) as caught:
            reader()
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[", b'{"candidates":' * 9_000, b'{"responseId": "\xff"}', b"null", b"[[]]"]
)
def test_any_other_bytes_are_malformed(raw: bytes):
    with pytest.raises(MalformedAnswerError):
        GEMINI.read_answer(raw)
    with pytest.raises(MalformedAnswerError):
        read(b"data: " + raw + b"\n\n")


def test_arguments_that_are_nested_too_deeply_are_malformed():
    deep = b'{"a":' * 250 + b"1" + b"}" * 250
    call = b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"look","args":' + deep + b"}}]}}]}"
    with pytest.raises(MalformedAnswerError):
        GEMINI.read_answer(call)


def test_an_error_in_the_middle_of_a_stream_is_reported():
    problem = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded."}}
    with pytest.raises(ReportedError) as caught:
        read_chunks(chunk({"text": "So"}), problem)
    reported = caught.value.report
    assert (reported.failure, reported.code, reported.status, reported.message) == (
        Failure.OVERLOADED,
        "UNAVAILABLE",
        503,
        "The model is overloaded.",
    )


def test_other_candidates_and_unknown_parts_are_ignored():
    other = {"index": 1, "content": {"parts": [{"text": "no"}]}, "finishReason": "SAFETY"}
    reported = chunk({"executableCode": {"code": "1"}}, {"text": "yes", "new": 1}, reason="STOP", groundingMetadata={})
    reported["candidates"].append(other)
    assert read_chunks(reported) == [TextPiece(text="yes"), EndPiece()]


@given(st.lists(words, max_size=6), st.integers(1, 40))
def test_the_text_of_a_stream_is_the_text_that_was_sent(texts: list[str], step: int):
    raw = streamed([*(chunk({"text": text}) for text in texts), chunk(reason="STOP")])
    assert read(raw, *range(step, len(raw), step)) == [*(TextPiece(text=text) for text in texts), EndPiece()]
