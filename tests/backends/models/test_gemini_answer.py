"""Gemini's answers, whole and streamed, wherever the bytes are cut, and their failures."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.codec import AnswerLabels, MalformedAnswerError, ReportedError
from accord.apis.failure import Failure
from accord.apis.gemini.answer_rows import ROWS
from accord.apis.gemini.call_ids import is_generated
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.gemini.read_answer import FAILURES, REFUSALS
from accord.core.sse import EventDecoder
from accord.wire.conversation import Conversation, ConversationMessage, MessagePart, TextPart, ThinkingPart, ToolUsePart
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkOrder,
    WorkPiece,
)

GOLDEN = Path(__file__).parent / "golden" / "gemini"
GEMINI = GeminiCodec()
PART = "candidates[].content.parts[]"
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


def grounded(metadata: Any, *parts: dict[str, Any], name: str = "groundingMetadata") -> dict[str, Any]:
    reported = chunk(*(parts or ({"text": "a"},)), reason="STOP")
    reported["candidates"][0][name] = metadata
    return reported


def part_of_call(path: str, **value: Any) -> dict[str, Any]:
    argument = {"jsonPath": path, **(value or {"numberValue": 1})}
    return chunk({"functionCall": {"name": "look", "partialArgs": [argument], "willContinue": True}})


BROKEN_PATHS = ["", "$", "a", "a.b", "$.", "$[0]", "$.a[1]", "$.a[-1]", "$.a..b", "$" + ".a" * 500]
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
        EndPiece(
            reason="tool_use",
            usage={"input_tokens": 9, "output_tokens": 8, "reasoning_tokens": 3},
            parts=[f"{PART}.thought", f"{PART}.thoughtSignature"],
        ),
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
    expected = msgspec.convert(case["pieces"], list[AnyPiece])
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
        case ToolCallDelta() | CitationPiece() | MediaPiece() | WorkPiece() | EndPiece():
            raise AssertionError("neither is given back")


def given_back(*pieces: AnyPiece) -> list[dict[str, Any]]:
    written = ConversationMessage.model_validate({"role": "assistant", "content": [part_of(piece) for piece in pieces]})
    body = GEMINI.write_request(WorkOrder(conversation=Conversation(messages=[written])), "gemini-3-pro").body
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
        EndPiece(reason="tool_use", parts=[f"{PART}.thoughtSignature", f"{PART}.thought"]),
    ]
    assert given_back(*pieces[3:5]) == [{"text": "So."}, {"text": "", "thoughtSignature": "three"}]


def test_the_last_usage_counts_even_after_the_reason_to_finish():
    reported: list[dict[str, Any]] = [
        chunk({"text": "a"}, reason="STOP", usageMetadata={"promptTokenCount": 2, "newCount": 1}, promptFeedback={}),
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
    usage = {"input_tokens": 6, "output_tokens": 2, "cached_input_tokens": 1}
    end = EndPiece(model="x", usage=usage, parts=["usageMetadata.toolUsePromptTokenCount"])
    assert read_chunks(*reported) == [TextPiece(text="a"), TextPiece(text="b"), end]
    assert read_answer(reported) == read_chunks(*reported)


@pytest.mark.parametrize(
    ("reason", "ends"),
    [
        ("STOP", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"),
        *((reason, "refusal") for reason in REFUSALS if reason not in {"SAFETY", "PROHIBITED_CONTENT"}),
        ("CONTINUATION", "max_tokens"),
        ("SOMETHING_NEW", "max_tokens"),
    ],
)
def test_each_finish_reason_after_text_has_its_end_reason(reason: str, ends: Any):
    is_plain = reason in {"STOP", "MAX_TOKENS", "SAFETY", "PROHIBITED_CONTENT"}
    end = EndPiece(reason=ends, parts=[] if is_plain else [f"candidates[].finishReason={reason}"])
    assert read_chunks(chunk({"text": "So"}), chunk(reason=reason)) == [TextPiece(text="So"), end]
    assert read_answer(chunk({"text": "So"}, reason=reason)) == [TextPiece(text="So"), end]


def test_every_finish_reason_that_is_a_kind_of_refusal_has_a_row():
    native = {"SAFETY", "PROHIBITED_CONTENT"}
    assert {f"candidates[].finishReason={reason}" for reason in REFUSALS.keys() - native} <= ROWS.keys()


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
        [chunk({"inlineData": "secret"}, reason="STOP")],
        [{"candidates": [chunk({"text": "secret"}, reason="STOP")["candidates"][0]] * 2}],
        [chunk({"text": "a"}, reason="STOP", usageMetadata={"promptTokenCount": "secret"})],
        [chunk({"text": "a"}, reason="STOP", usageMetadata="secret")],
        [grounded({"groundingSupports": [{"segment": "secret"}]})],
        [grounded({"groundingChunks": ["secret"]})],
        [chunk({"functionCall": {"name": "look", "willContinue": True}}, reason="STOP")],
        [
            chunk({"functionCall": {"name": "look", "willContinue": True}}),
            chunk({"functionCall": {"name": "b"}}, reason="STOP"),
        ],
        *([part_of_call(path), chunk({"functionCall": {}}, reason="STOP")] for path in BROKEN_PATHS),
        [part_of_call("$" + ".a" * 5_000), chunk(reason="MAX_TOKENS")],
        [chunk({"functionCall": {"name": "look", "args": "secret"}}, reason="STOP")],
        [chunk({"functionCall": {"args": {}}}, reason="STOP")],
        [chunk({"functionCall": {"args": {}, "willContinue": True}}), chunk({"functionCall": {}}, reason="STOP")],
        [chunk({"text": 1}, reason="STOP")],
        ["secret"],
    ],
    ids=lambda chunks: str(chunks)[:200],
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


def test_of_other_candidates_and_unknown_members_it_is_noted_that_they_were_there():
    other = {"index": 1, "content": {"parts": [{"text": "no", "other": 1}]}, "finishReason": "SAFETY"}
    reported = chunk({"executableCode": {"code": "1"}}, {"text": "yes", "new": 1}, reason="STOP", newer=2)
    reported["candidates"].append(other)
    parts = ["newer", f"{PART}.executableCode", f"{PART}.new", "candidates[].index"]
    end = EndPiece(parts=parts)
    assert read_chunks(reported) == read_answer(reported) == [TextPiece(text="yes"), end]
    assert read_chunks(chunk({"text": "yes"}, reason="STOP"), {"candidates": [other]})[-1] == EndPiece(parts=parts[-1:])


@given(st.lists(words, max_size=6), st.integers(1, 40))
def test_the_text_of_a_stream_is_the_text_that_was_sent(texts: list[str], step: int):
    raw = streamed([*(chunk({"text": text}) for text in texts), chunk(reason="STOP")])
    assert read(raw, *range(step, len(raw), step)) == [*(TextPiece(text=text) for text in texts), EndPiece()]


REQUEST = GEMINI.read_request({"contents": []}, "gemini-3-pro")
LABELS = AnswerLabels(id="0" * 32, created=1, model="gemini-3-pro", accord={})
uris = st.from_regex(r"https://[a-z]{1,5}\.test/", fullmatch=True)
texts = st.builds(TextPiece, text=words)
written_pieces = st.one_of(
    given_pieces,
    st.builds(MediaPiece, media_type=st.sampled_from(["image/png", "audio/wav", "video/mp4"]), data=words),
    st.builds(MediaPiece, media_type=st.just("audio/wav"), data=words, transcript=words),
    st.builds(MediaPiece, media_type=st.just("image/png"), uri=uris),
)


def token(text: str, logprob: float, likeliest: list[tuple[str, float]]) -> dict[str, Any]:
    top = [{"token": each, "logprob": value} for each, value in likeliest]
    return {"token": text, "logprob": logprob, **({"top": top} if top else {})}


logprobs = st.floats(-9, 0)
tokens = st.builds(token, words, logprobs, st.lists(st.tuples(words, logprobs), max_size=2))
ends = st.builds(
    EndPiece,
    reason=st.sampled_from(["end_turn", "max_tokens", "refusal"]),
    model=st.just("gemini-3-pro"),
    usage=st.none()
    | st.fixed_dictionaries(
        {"input_tokens": st.integers(0, 99), "output_tokens": st.integers(50, 99)},
        optional={"cached_input_tokens": st.integers(0, 9), "reasoning_tokens": st.integers(0, 50)},
    ),
    logprobs=st.none() | st.lists(tokens, min_size=1, max_size=3),
    service_tier=st.none() | st.sampled_from(["standard", "priority", "flex"]),
)


@st.composite
def answers(draw: st.DrawFn) -> list[AnyPiece]:
    """Pieces as a reader gives them: citations of what the answer's text says last, and an end that fits."""
    pieces: list[AnyPiece] = [draw(texts), *draw(st.lists(written_pieces, max_size=5))]
    length = sum(len(piece.text) for piece in pieces if isinstance(piece, TextPiece))
    for url in draw(st.lists(uris, unique=True, max_size=3)):
        cited = CitationPiece(url=url, title=draw(st.none() | words), quote=draw(st.none() | words))
        if draw(st.booleans()):
            start = draw(st.integers(0, length))
            cited = msgspec.structs.replace(cited, start=start, end=draw(st.integers(start, length)))
        pieces.append(cited)
    end = draw(ends)
    if end.reason == "end_turn" and any(isinstance(piece, ToolCallPiece) for piece in pieces):
        end = msgspec.structs.replace(end, reason="tool_use")
    return [*pieces, end]


def joined(pieces: Sequence[AnyPiece]) -> list[AnyPiece]:
    """The pieces with adjacent text and reasoning in one, and without what only their source says."""
    merged: list[AnyPiece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, TextPiece) and isinstance(last, TextPiece):
            merged[-1] = TextPiece(text=last.text + piece.text)
        elif (
            isinstance(piece, ThinkingPiece)
            and isinstance(last, ThinkingPiece)
            and last.signature is None
            and not piece.redacted
        ):
            merged[-1] = ThinkingPiece(text=last.text + piece.text, signature=piece.signature)
        elif isinstance(piece, CitationPiece):
            merged.append(msgspec.structs.replace(piece, source={}))
        elif isinstance(piece, EndPiece):
            merged.append(msgspec.structs.replace(piece, parts=[]))
        else:
            merged.append(piece)
    return merged


def parts_of(pieces: Sequence[AnyPiece]) -> set[str]:
    return {part for piece in pieces if isinstance(piece, EndPiece) for part in piece.parts}


def stream(pieces: Sequence[AnyPiece]) -> bytes:
    writer = GEMINI.answer_writer(REQUEST, LABELS)
    return writer.start() + b"".join(writer.write(piece) for piece in pieces) + writer.finish()


def whole(pieces: Sequence[AnyPiece]) -> bytes:
    return json.dumps(GEMINI.write_answer(REQUEST, LABELS, [pieces])).encode()


@given(answers())
def test_an_answer_that_was_written_reads_the_same_whole_and_streamed(pieces: list[AnyPiece]):
    assert joined(GEMINI.read_answer(whole(pieces))) == joined(pieces)
    assert joined(read(stream(pieces))) == joined(pieces)
    assert parts_of(read(stream(pieces))) == parts_of(GEMINI.read_answer(whole(pieces)))


@given(answers())
def test_what_was_read_is_written_as_it_came(pieces: list[AnyPiece]):
    pieces = list(GEMINI.read_answer(whole(pieces)))
    assert GEMINI.read_answer(whole(pieces)) == pieces


@given(answers(), st.data())
def test_a_stream_that_stops_before_its_end_is_never_complete(pieces: list[AnyPiece], data: st.DataObject):
    raw = stream(pieces)
    with pytest.raises(MalformedAnswerError):
        read(raw[: data.draw(st.integers(0, len(raw) - 2))])


@given(answers(), st.integers(1, 60))
def test_a_stream_reads_the_same_wherever_it_is_cut(pieces: list[AnyPiece], step: int):
    raw = stream(pieces)
    assert read(raw, *range(step, len(raw), step)) == read(raw)
