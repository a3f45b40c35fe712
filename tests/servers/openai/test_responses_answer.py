"""Answers of the responses API, whole and streamed, in the shapes that the SDK has for them."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from accord.apis.codec import AnswerLabels
from accord.apis.responses.codec import ResponsesCodec
from accord.apis.responses.tools import PartialText
from accord.core.sse import EventDecoder
from accord.errors import AccordError, BackendError, ErrorCode, RefusedError
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkPiece,
)

API = ResponsesCodec()
ID = "0123456789abcdef" * 2
LABELS = AnswerLabels(ID, 1_700_000_000, "m-1", {"served_by": "b"})
BODY: dict[str, Any] = {
    "model": "auto",
    "input": "hi",
    "instructions": "be brief",
    "metadata": {"a": "b"},
    "store": False,
    "text": {"verbosity": "low"},
    "tools": [
        {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False},
        {"type": "custom", "name": "patch"},
        {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function", "name": "f"}]},
    ],
}
USAGE = {"input_tokens": 9, "output_tokens": 12, "cached_input_tokens": 4, "reasoning_tokens": 3, "cache_write_tokens": 2}  # fmt: skip
PIECES: list[AnyPiece] = [
    ThinkingPiece(text="h"),
    ThinkingPiece(text="m"),
    ThinkingPiece(text="", signature="seal"),
    WorkPiece(event={"type": "tool"}),
    TextPiece(text="Hel"),
    TextPiece(text="lo"),
    ToolCallPiece(id="1", name="look", input={"at": "a"}),
    ToolCallPiece(id="2", name="patch", input={"input": "***"}),
    ToolCallPiece(id="3", name="n__f", input={}, signature="seal"),
    EndPiece(reason="tool_use", usage=USAGE, service_tier="priority"),
]


def whole(*pieces: AnyPiece, body: dict[str, Any] = BODY) -> dict[str, Any]:
    return json.loads(json.dumps(API.write_answer(API.read_request(body), LABELS, [pieces])))


def stream(*pieces: AnyPiece, body: dict[str, Any] = BODY) -> list[dict[str, Any]]:
    writer = API.answer_writer(API.read_request(body), LABELS)
    return events(writer.start() + b"".join(map(writer.write, pieces)) + writer.finish())


def events(data: bytes) -> list[dict[str, Any]]:
    received = list(EventDecoder().feed(data))
    decoded = [json.loads(event.data) for event in received]
    assert [event.name for event in received] == [event["type"] for event in decoded]
    return decoded


REASONING: dict[str, Any] = {
    "id": f"rs_{ID}0",
    "type": "reasoning",
    "status": "completed",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "seal",
}
TEXT: dict[str, Any] = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
MESSAGE: dict[str, Any] = {"id": f"msg_{ID}1", "type": "message", "role": "assistant", "status": "completed", "content": [TEXT]}  # fmt: skip
CALL = {"id": f"fc_{ID}2", "type": "function_call", "call_id": "1", "name": "look", "status": "completed", "arguments": '{"at":"a"}'}  # fmt: skip
CUSTOM = {"id": f"ctc_{ID}3", "type": "custom_tool_call", "call_id": "2", "name": "patch", "status": "completed", "input": "***"}  # fmt: skip
NAMED: dict[str, Any] = {
    "id": f"fc_{ID}4",
    "type": "function_call",
    "call_id": "3",
    "name": "f",
    "namespace": "n",
    "extra_content": {"google": {"thought_signature": "seal"}},
    "status": "completed",
    "arguments": "{}",
}
RESPONSE: dict[str, Any] = {
    "id": f"resp_{ID}",
    "object": "response",
    "created_at": 1_700_000_000,
    "model": "m-1",
    "background": False,
    "instructions": "be brief",
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {"a": "b"},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "tool_choice": "auto",
    "tools": BODY["tools"],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
    "service_tier": "priority",
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "output": [REASONING, MESSAGE, CALL, CUSTOM, NAMED],
    "usage": {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 21,
    },
}


def test_a_whole_answer_is_a_complete_response():
    assert whole(*PIECES) == {**RESPONSE, "accord": {"served_by": "b"}}


def test_a_stream_has_every_event_of_the_api_in_order():
    received = stream(*PIECES)
    started: dict[str, Any] = {**RESPONSE, "status": "in_progress", "service_tier": None, "output": [], "usage": None}
    thought = {"item_id": f"rs_{ID}0", "output_index": 0, "summary_index": 0}
    said = {"item_id": f"msg_{ID}1", "output_index": 1, "content_index": 0}
    called, patched, named = ({"item_id": item["id"], "output_index": place} for place, item in ((2, CALL), (3, CUSTOM), (4, NAMED)))  # fmt: skip
    expected: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": started, "accord": {"served_by": "b"}}),
        ("response.in_progress", {"response": started}),
        ("response.output_item.added", {"output_index": 0, "item": {"id": f"rs_{ID}0", "type": "reasoning", "status": "in_progress", "summary": []}}),
        ("response.reasoning_summary_part.added", {**thought, "part": {"type": "summary_text", "text": ""}}),
        ("response.reasoning_summary_text.delta", {**thought, "delta": "h"}),
        ("response.reasoning_summary_text.delta", {**thought, "delta": "m"}),
        ("response.reasoning_summary_text.done", {**thought, "text": "hm"}),
        ("response.reasoning_summary_part.done", {**thought, "part": {"type": "summary_text", "text": "hm"}}),
        ("response.output_item.done", {"output_index": 0, "item": REASONING}),
        ("response.output_item.added", {"output_index": 1, "item": {**MESSAGE, "status": "in_progress", "content": []}}),
        ("response.content_part.added", {**said, "part": {**TEXT, "text": ""}}),
        ("response.output_text.delta", {**said, "delta": "Hel", "logprobs": []}),
        ("response.output_text.delta", {**said, "delta": "lo", "logprobs": []}),
        ("response.output_text.done", {**said, "text": "Hello", "logprobs": []}),
        ("response.content_part.done", {**said, "part": TEXT}),
        ("response.output_item.done", {"output_index": 1, "item": MESSAGE}),
        ("response.output_item.added", {"output_index": 2, "item": {**CALL, "status": "in_progress", "arguments": ""}}),
        ("response.function_call_arguments.delta", {**called, "delta": '{"at":"a"}'}),
        ("response.function_call_arguments.done", {**called, "arguments": '{"at":"a"}'}),
        ("response.output_item.done", {"output_index": 2, "item": CALL}),
        ("response.output_item.added", {"output_index": 3, "item": {**CUSTOM, "status": "in_progress", "input": ""}}),
        ("response.custom_tool_call_input.delta", {**patched, "delta": "***"}),
        ("response.custom_tool_call_input.done", {**patched, "input": "***"}),
        ("response.output_item.done", {"output_index": 3, "item": CUSTOM}),
        ("response.output_item.added", {"output_index": 4, "item": {**NAMED, "status": "in_progress", "arguments": ""}}),
        ("response.function_call_arguments.delta", {**named, "delta": "{}"}),
        ("response.function_call_arguments.done", {**named, "arguments": "{}"}),
        ("response.output_item.done", {"output_index": 4, "item": NAMED}),
        ("response.completed", {"response": RESPONSE}),
    ]  # fmt: skip
    assert received == [{"type": kind, "sequence_number": number, **members} for number, (kind, members) in enumerate(expected)]  # fmt: skip


def test_the_writer_of_a_stream_has_the_response_to_store():
    writer = API.answer_writer(API.read_request(BODY), LABELS)
    writer.start()
    assert writer.response()["status"] == "in_progress"
    for piece in PIECES:
        writer.write(piece)
    assert json.loads(json.dumps(writer.response())) == RESPONSE


HELLO = TextPiece(text="Hello")


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("end_turn", "completed", None),
        ("stop_sequence", "completed", None),
        ("tool_use", "completed", None),
        ("max_tokens", "incomplete", {"reason": "max_output_tokens"}),
        ("refusal", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_each_end_has_its_status(reason: Any, status: str, details: Any):
    *_, done, last = stream(HELLO, EndPiece(reason=reason))
    assert (last["type"], last["response"]["status"]) == (f"response.{status}", status)
    assert last["response"]["incomplete_details"] == details
    assert done["item"]["status"] == status
    body = whole(HELLO, EndPiece(reason=reason))
    assert (body["status"], body["incomplete_details"]) == (status, details)
    assert body["output"] == last["response"]["output"]


REFUSED, NO = EndPiece(reason="refusal"), TextPiece(text="No", refusal=True)
SAY_NO: dict[str, Any] = {"type": "refusal", "refusal": "No"}
REFUSALS: dict[str, tuple[list[AnyPiece], list[dict[str, Any]], str]] = {
    "in words": ([NO, REFUSED], [SAY_NO], "completed"),
    "in several words": ([NO, TextPiece(text=".", refusal=True), REFUSED], [{**SAY_NO, "refusal": "No."}], "completed"),
    "after text": ([HELLO, NO, HELLO, REFUSED], [TEXT, SAY_NO, TEXT], "completed"),
    "in words that are cut off": ([NO, EndPiece(reason="max_tokens")], [SAY_NO], "incomplete"),
    "of a filter": ([HELLO, REFUSED], [TEXT], "incomplete"),
    "without a word": ([REFUSED], [], "incomplete"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_the_same_whole_and_streamed(name: str):
    pieces, content, status = REFUSALS[name]
    body, received = whole(*pieces), stream(*pieces)
    assert [part for item in body["output"] for part in item["content"]] == content
    assert body["status"] == status == received[-1]["response"]["status"]
    assert {**body, "accord": None} == {**received[-1]["response"], "accord": None}


def test_a_refusal_streams_as_a_part_of_its_message():
    received = stream(HELLO, NO, TextPiece(text=".", refusal=True), REFUSED)
    place = {"item_id": f"msg_{ID}0", "output_index": 0, "content_index": 1}
    refusal = {**SAY_NO, "refusal": "No."}
    expected: list[tuple[str, dict[str, Any]]] = [
        ("response.content_part.added", {**place, "part": {**SAY_NO, "refusal": ""}}),
        ("response.refusal.delta", {**place, "delta": "No"}),
        ("response.refusal.delta", {**place, "delta": "."}),
        ("response.refusal.done", {**place, "refusal": "No."}),
        ("response.content_part.done", {**place, "part": refusal}),
        ("response.output_item.done", {"output_index": 0, "item": {**MESSAGE, "id": f"msg_{ID}0", "content": [TEXT, refusal]}}),
    ]  # fmt: skip
    assert [without_number(event) for event in received[7:-1]] == [{"type": kind, **rest} for kind, rest in expected]


def without_number(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "sequence_number"}


def delta(id: str, name: str, text: str = "", **more: Any) -> ToolCallDelta:
    return ToolCallDelta(id=id, name=name, text=text, **more)


def test_calls_stream_as_they_come_and_may_interleave():
    received = stream(
        HELLO,
        delta("1", "look"),
        delta("3", "n__f", '{"a"'),
        delta("1", "look", '{"at": "a"'),
        delta("4", "write", "b", custom=True),
        delta("3", "n__f", ":1}"),
        ToolCallPiece(id="3", name="n__f", input={"a": 1}, signature="seal"),
        delta("1", "look", "}"),
        ToolCallPiece(id="1", name="look", input={"at": "a"}),
        ToolCallPiece(id="4", name="write", input="bc", custom=True),
        EndPiece(reason="tool_use"),
    )
    calls = [event for event in received if event.get("output_index") and "delta" in event["type"]]
    assert [(event["item_id"], event["delta"]) for event in calls] == [
        (f"fc_{ID}2", '{"a"'),
        (f"fc_{ID}1", '{"at": "a"'),
        (f"ctc_{ID}3", "b"),
        (f"fc_{ID}2", ":1}"),
        (f"fc_{ID}1", "}"),
        (f"ctc_{ID}3", "c"),
    ]
    done = [event["output_index"] for event in received if event["type"] == "response.output_item.done"]
    assert done == [0, 2, 1, 3]
    message, look, named, write = received[-1]["response"]["output"]
    assert message["content"] == [TEXT]
    assert look == {**CALL, "id": f"fc_{ID}1", "arguments": '{"at": "a"}'}, "as it streamed"
    assert named == {**NAMED, "id": f"fc_{ID}2", "arguments": '{"a":1}'}
    assert write == {**CUSTOM, "id": f"ctc_{ID}3", "call_id": "4", "name": "write", "input": "bc"}


def test_the_input_of_a_custom_tool_streams_out_of_the_arguments_of_a_function():
    arguments = ['{"inp', 'ut": "a', "b\\", "n\\ud83d", "\\ude42", '"', "}"]
    called = ToolCallPiece(id="1", name="patch", input={"input": "ab\n🙂"})
    received = stream(*(delta("1", "patch", text) for text in arguments), called, EndPiece(reason="tool_use"))
    texts = [event["delta"] for event in received if event["type"] == "response.custom_tool_call_input.delta"]
    assert texts == ["a", "b", "\n", "🙂"]
    assert received[-1]["response"]["output"][0]["input"] == "ab\n🙂"
    other = ToolCallPiece(id="1", name="patch", input={"patch": "a"})
    received = stream(delta("1", "patch", '{"patch": "a"}'), other, EndPiece(reason="tool_use"))
    assert [event["delta"] for event in received if "delta" in event] == ['{"patch":"a"}'], (
        "the model ignored the schema"
    )


@given(st.text(max_size=20), st.booleans(), st.data())
def test_the_text_in_arguments_does_not_depend_on_where_they_are_cut(text: str, is_ascii: bool, data: st.DataObject):
    arguments = json.dumps({"input": text}, ensure_ascii=is_ascii)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arguments)), max_size=4)))
    reader = PartialText()
    parts = [reader.feed(arguments[start:end]) for start, end in itertools.pairwise([0, *cuts, len(arguments)])]
    assert "".join(parts) == text
    assert text.startswith(PartialText().feed(arguments[: cuts[0] if cuts else 0]))
    assert PartialText().feed('{"input": "a\\ud83db"}') == "", "half a pair is no text"


def test_the_input_of_a_custom_tool_that_was_cut_off_is_the_text_so_far():
    cut = ToolCallPiece(id="1", name="patch", input='{"input": "a\\nb\\', cut=True)
    for begun in ([], [delta("1", "patch", '{"input": "a\\nb\\')]):
        (item,) = stream(*begun, cut, EndPiece(reason="max_tokens"))[-1]["response"]["output"]
        assert (item["type"], item["input"], item["status"]) == ("custom_tool_call", "a\nb", "incomplete")


@pytest.mark.parametrize("begun", [[], [delta("1", "look"), delta("1", "look", '{"a')]])
def test_a_call_that_was_cut_off_is_incomplete(begun: list[AnyPiece]):
    pieces = [*begun, ToolCallPiece(id="1", name="look", input='{"at', cut=True), EndPiece(reason="max_tokens")]
    cut = {**CALL, "id": f"fc_{ID}0", "status": "incomplete", "arguments": '{"at'}
    *_, last = stream(*pieces)
    for body in (whole(*pieces), last["response"]):
        assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert body["output"] == [cut]


SITE: dict[str, Any] = {"url": "https://a.example/", "title": "A"}
URL: dict[str, Any] = {"type": "url_citation", **SITE}
FILE: dict[str, Any] = {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 2}
CITATIONS: dict[str, tuple[CitationPiece, dict[str, Any] | None]] = {
    "of a page": (CitationPiece(**SITE, start=5, end=9), {**URL, "start_index": 0, "end_index": 4}),
    "without a title": (CitationPiece(url="u", start=5, end=9), {**URL, "url": "u", "title": "", "start_index": 0, "end_index": 4}),
    "without a place": (CitationPiece(**SITE), {**URL, "start_index": 0, "end_index": 5}),
    "of text before the part": (CitationPiece(**SITE, start=1, end=3), {**URL, "start_index": 0, "end_index": 0}),
    "of the API's own": (
        CitationPiece(**SITE, start=6, end=9, source={**URL, "new": 1, "start_index": 1, "end_index": 4}),
        {**URL, "new": 1, "start_index": 1, "end_index": 4},
    ),
    "of a file": (CitationPiece(title="a.pdf", source=FILE), FILE),
    "of another API": (
        CitationPiece(**SITE, start=6, end=9, source={"type": "url_citation", "url_citation": SITE}),
        {**URL, "start_index": 1, "end_index": 4},
    ),
    "without an address": (CitationPiece(title="A", quote="q", source={"type": "char_location"}), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CITATIONS)
def test_a_citation_is_an_annotation_of_the_text_before_it(name: str):
    piece, annotation = CITATIONS[name]
    pieces = [TextPiece(text="Never", refusal=True), HELLO, piece, EndPiece()]
    body, received = whole(*pieces), stream(*pieces)
    annotations = [] if annotation is None else [annotation]
    assert body["output"][0]["content"][1]["annotations"] == annotations
    assert received[-1]["response"]["output"] == body["output"]
    place = {"item_id": f"msg_{ID}0", "output_index": 0, "content_index": 1, "annotation_index": 0}
    noted = [without_number(event) for event in received if event["type"] == "response.output_text.annotation.added"]
    assert noted == [{"type": "response.output_text.annotation.added", **place, "annotation": each} for each in annotations]  # fmt: skip


def test_a_citation_after_its_text_has_ended_is_not_lost():
    pieces = [HELLO, ToolCallPiece(id="1", name="look", input={}), CitationPiece(**SITE, start=0, end=5), EndPiece()]
    assert whole(*pieces)["output"][2]["content"] == [{**TEXT, "text": "", "annotations": [{**URL, "start_index": 0, "end_index": 0}]}]  # fmt: skip


def test_an_image_is_an_item_of_its_own():
    own = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "generating",
        "size": "1x1",
        "output_format": "webp",
    }
    for media, more in (
        (MediaPiece(media_type="image/png", data="iVBO"), {"output_format": "png"}),
        (MediaPiece(media_type="image/svg+xml", data="iVBO"), {"output_format": "svg"}),
        (MediaPiece(media_type="image/webp", data="iVBO", source=own), {"output_format": "webp", "size": "1x1"}),
    ):
        item = {"id": f"ig_{ID}1", "type": "image_generation_call", "status": "completed", "result": "iVBO", **more}
        pieces = [HELLO, media, HELLO, EndPiece()]
        assert whole(*pieces)["output"][1] == item
        received = stream(*pieces)
        assert received[-1]["response"]["output"] == whole(*pieces)["output"]
        assert [without_number(event) for event in received if event.get("output_index") == 1] == [
            {"type": "response.output_item.added", "output_index": 1, "item": {**item, "status": "in_progress", "result": None}},
            {"type": "response.image_generation_call.completed", "output_index": 1, "item_id": f"ig_{ID}1"},
            {"type": "response.output_item.done", "output_index": 1, "item": item},
        ]  # fmt: skip


@pytest.mark.parametrize("media", [MediaPiece(media_type="audio/wav", data="AQID"), MediaPiece(media_type="image/png", uri="https://a.example/a.png")])  # fmt: skip
def test_other_media_have_no_place(media: MediaPiece):
    assert whole(media, EndPiece())["output"] == []
    assert len(stream(media, EndPiece())) == 3


@pytest.mark.parametrize(
    ("tier", "name"), [(None, None), ("standard", "default"), ("default", "default"), ("flex", "flex")]
)
def test_a_tier_has_the_name_of_the_api(tier: str | None, name: str | None):
    end = EndPiece(service_tier=tier)
    assert whole(end)["service_tier"] == name
    assert [event["response"]["service_tier"] for event in stream(end)] == [None, None, name]


def test_the_label_of_the_parts_is_in_the_last_event():
    writer = API.answer_writer(API.read_request(BODY), LABELS)
    data = writer.start() + writer.write(EndPiece(), 0, {"answer": []}) + writer.finish()
    assert [event.get("accord") for event in events(data)] == [{"served_by": "b"}, None, {"answer": []}]


def test_redacted_reasoning_is_an_item_of_its_own():
    redacted = ThinkingPiece(text="", signature="seal", redacted=True)
    body = whole(ThinkingPiece(text="hm"), redacted, EndPiece())
    held = [(item["summary"], item["encrypted_content"]) for item in body["output"]]
    assert held == [([{"type": "summary_text", "text": "hm"}], None), ([], "seal")]


def test_log_probabilities_are_at_the_end_of_the_text():
    logprobs: list[dict[str, Any]] = [
        {"token": "é", "logprob": -0.5, "top": [{"token": "e", "logprob": -1.0}]},
        {"token": "\\xf0", "logprob": -1.5, "bytes": [240]},
    ]
    end = EndPiece(logprobs=logprobs)
    top = {"token": "e", "bytes": [101], "logprob": -1.0}
    written = [
        {"token": "é", "bytes": [195, 169], "logprob": -0.5, "top_logprobs": [top]},
        {"token": "\\xf0", "bytes": [240], "logprob": -1.5, "top_logprobs": []},
    ]
    assert whole(TextPiece(text="é"), end)["output"][0]["content"][0]["logprobs"] == written
    received = {event["type"]: event for event in stream(TextPiece(text="é"), end)}
    assert received["response.output_text.done"]["logprobs"] == written
    assert received["response.completed"]["response"]["output"][0]["content"][0]["logprobs"] == written
    call = ToolCallPiece(id="1", name="look", input={})
    for body in (whole(TextPiece(text="é"), call, end), stream(TextPiece(text="é"), call, end)[-1]["response"]):
        assert body["output"][0]["content"][0]["logprobs"] == written


@pytest.mark.parametrize(
    ("value", "text"), [({"input": "a"}, "a"), ("a", "a"), ({"patch": "a"}, '{"patch":"a"}'), ({"input": 1}, '{"input":1}')]
)  # fmt: skip
def test_the_input_of_a_custom_tool_is_text_whatever_the_model_wrote(value: Any, text: str):
    (item,) = whole(ToolCallPiece(id="1", name="patch", input=value), EndPiece(reason="tool_use"))["output"]
    assert item["input"] == text


ERRORS: list[tuple[AccordError, str, str | None]] = [
    (BackendError("it failed"), "server_error", "backend_failed"),
    (BackendError("slow down", code=ErrorCode.RATE_LIMIT_EXCEEDED), "rate_limit_exceeded", "rate_limit_exceeded"),
    (RefusedError("no", ErrorCode.INVALID_MESSAGE, {"field": "input"}), "invalid_prompt", "invalid_value"),
]


@pytest.mark.parametrize(("error", "code", "own_code"), ERRORS)
def test_a_stream_that_fails_ends_with_a_failed_response_and_an_error(error: AccordError, code: str, own_code: str):
    writer = API.answer_writer(API.read_request(BODY), LABELS)
    begun = events(writer.start() + writer.write(HELLO))
    for first, own_id, data in (
        (len(begun), ID, writer.fail(error, "r")),
        (0, "ab", API.write_error_event(error, "a-b")),
    ):
        failed, reported = events(data)
        assert failed["response"]["id"] == f"resp_{own_id}"
        assert (failed["type"], failed["sequence_number"]) == ("response.failed", first)
        assert failed["response"]["error"] == {"code": code, "message": error.message}
        assert failed["response"]["status"] == "failed"
        assert (reported["type"], reported["sequence_number"]) == ("error", first + 1)
        assert reported["error"] == API.write_error(error, "r")["error"]
        assert (reported["code"], reported["message"]) == (own_code, error.message)
        assert reported["param"] == error.details.get("field")


def cut_calls() -> list[AnyPiece]:
    return [
        ToolCallPiece(id="2", name="write", input="ab", custom=True),
        ToolCallPiece(id="1", name="look", input="{", cut=True),
    ]


def test_the_sdk_reads_every_response_and_event():
    sdk = pytest.importorskip("openai.types.responses")
    read_response = TypeAdapter(sdk.Response).validate_python
    read_event = TypeAdapter(sdk.ResponseStreamEvent).validate_python
    logprobs = [{"token": "a", "logprob": -0.5, "top": [{"token": "b", "logprob": -1.0}]}]
    bodies: list[dict[str, Any]] = [
        BODY,
        {"model": "m", "input": "hi"},
        {
            **BODY,
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_object"}},
            "tool_choice": {"type": "function", "name": "look"},
        },
    ]
    for body in bodies:
        for ending in (
            PIECES,
            [HELLO, EndPiece(reason="max_tokens", logprobs=logprobs)],
            [HELLO, NO, REFUSED],
            [
                delta("1", "look", "{"),
                delta("2", "write", "a", custom=True),
                *cut_calls(),
                EndPiece(reason="max_tokens"),
            ],
            [
                HELLO,
                *(piece for piece, _ in CITATIONS.values()),
                MediaPiece(media_type="image/png", data="iV"),
                EndPiece(),
            ],
        ):
            answer = read_response(whole(*ending, body=body))
            assert answer.id == f"resp_{ID}"
            for event in stream(*ending, body=body):
                read = read_event(event)
                assert (read.type, read.sequence_number) == (event["type"], event["sequence_number"])
                assert type(read).__name__ in EVENT_CLASSES[event["type"]]
    for error, _, _ in ERRORS:
        for event in events(API.write_error_event(error, "r")):
            assert read_event(event).type == event["type"]


def test_the_helper_of_the_sdk_follows_every_stream():
    """It raises for an event of an item that has not begun, and for an item that has not ended."""
    helper = pytest.importorskip("openai.lib.streaming.responses._responses")
    read_event = TypeAdapter(pytest.importorskip("openai.types.responses").ResponseStreamEvent).validate_python
    media = MediaPiece(media_type="image/png", data="iVBO")
    interleaved = [delta("1", "look", "{"), delta("3", "n__f"), HELLO, delta("1", "look", "}"), *cut_calls()]
    streams: list[list[AnyPiece]] = [
        PIECES,
        [HELLO, NO, REFUSED],
        [*interleaved, ToolCallPiece(id="3", name="n__f", input={}), EndPiece(reason="max_tokens")],
        [HELLO, *(piece for piece, _ in CITATIONS.values()), media, HELLO, EndPiece()],
    ]
    for pieces in streams:
        state = helper.ResponseStreamState(input_tools=[], text_format=helper.omit)
        received = stream(*pieces)
        followed = [each for event in received for each in state.handle_event(read_event(event))]
        assert [each.id for each in followed[-1].response.output] == [
            item["id"] for item in received[-1]["response"]["output"]
        ]


EVENT_CLASSES = {
    "response.created": "ResponseCreatedEvent",
    "response.in_progress": "ResponseInProgressEvent",
    "response.output_item.added": "ResponseOutputItemAddedEvent",
    "response.output_item.done": "ResponseOutputItemDoneEvent",
    "response.content_part.added": "ResponseContentPartAddedEvent",
    "response.content_part.done": "ResponseContentPartDoneEvent",
    "response.output_text.delta": "ResponseTextDeltaEvent",
    "response.output_text.done": "ResponseTextDoneEvent",
    "response.reasoning_summary_part.added": "ResponseReasoningSummaryPartAddedEvent",
    "response.reasoning_summary_part.done": "ResponseReasoningSummaryPartDoneEvent",
    "response.reasoning_summary_text.delta": "ResponseReasoningSummaryTextDeltaEvent",
    "response.reasoning_summary_text.done": "ResponseReasoningSummaryTextDoneEvent",
    "response.function_call_arguments.delta": "ResponseFunctionCallArgumentsDeltaEvent",
    "response.function_call_arguments.done": "ResponseFunctionCallArgumentsDoneEvent",
    "response.custom_tool_call_input.delta": "ResponseCustomToolCallInputDeltaEvent",
    "response.custom_tool_call_input.done": "ResponseCustomToolCallInputDoneEvent",
    "response.refusal.delta": "ResponseRefusalDeltaEvent",
    "response.refusal.done": "ResponseRefusalDoneEvent",
    "response.output_text.annotation.added": "ResponseOutputTextAnnotationAddedEvent",
    "response.image_generation_call.completed": "ResponseImageGenCallCompletedEvent",
    "response.completed": "ResponseCompletedEvent",
    "response.incomplete": "ResponseIncompleteEvent",
}
