"""Reading answers of the responses API, streamed and whole."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.codec import MalformedAnswerError, ReportedError
from accord.apis.failure import Failure
from accord.apis.responses.answer_rows import ANNOTATIONS, ROWS
from accord.apis.responses.read_answer import (
    CITATIONS,
    EVENTS,
    INCOMPLETE,
    MEMBERS,
    NO_IMAGE,
    REASON,
    ResponsesReader,
    read_answer,
)
from accord.core.sse import EventDecoder
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
)

USAGE = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 12, "output_tokens_details": {"reasoning_tokens": 3}}  # fmt: skip
COUNTED = {"input_tokens": 9, "output_tokens": 12, "cached_input_tokens": 4, "reasoning_tokens": 3}


def event(type: str, **fields: Any) -> bytes:
    reported = json.dumps({"type": type, "sequence_number": 1, **fields}, ensure_ascii=False)
    return f"event: {type}\ndata: {reported}\n\n".encode()


def message(*content: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list(content)}


def call(id: str, arguments: str, status: str = "completed") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": id,
        "name": "look",
        "arguments": arguments,
        "status": status,
    }


def reasoning(*summary: str, seal: str | None = None) -> dict[str, Any]:
    reported = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": reported, "encrypted_content": seal}


def response(*output: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "output": list(output),
        "usage": USAGE,
        "error": None,
        **more,
    }


SUMMARY, SIGNATURE = "output[].reasoning.summary[].summary_text.text", "output[].reasoning.encrypted_content"
SAID = message({"type": "output_text", "text": "Hello", "annotations": []})
HELLO = (
    event("response.output_text.delta", delta="Hel", output_index=1),
    event("response.output_text.delta", delta="lo"),
)
COMPLETED = event("response.completed", response=response(SAID))


def read(*chunks: bytes) -> list[AnyPiece]:
    decoder, reader = EventDecoder(), ResponsesReader()
    pieces = [piece for chunk in chunks for reported in decoder.feed(chunk) for piece in reader.feed(reported)]
    return pieces if any(isinstance(piece, EndPiece) for piece in pieces) else [*pieces, *reader.finish()]


def end_of(pieces: Sequence[AnyPiece]) -> EndPiece:
    end = pieces[-1]
    assert isinstance(end, EndPiece)
    return end


def test_the_whole_response_at_the_end_repeats_nothing():
    noise = (
        event("response.created", response=response(status="in_progress")),
        event("response.output_item.added", output_index=0, item=message()),
        event("response.something.new", delta={"a": 1}),
    )
    done = event("response.output_text.done", text="Hello"), event("response.output_item.done", item=SAID)
    pieces = read(*noise, *HELLO, *done, COMPLETED)
    end = EndPiece(usage=COUNTED, parts=["event.response.something.new"])
    assert pieces == [TextPiece(text="Hel"), TextPiece(text="lo"), end]


def test_the_end_has_what_did_not_come_before():
    half, more = event("response.output_text.delta", delta="Hel"), message({"type": "output_text", "text": " there"})
    ended = event("response.completed", response=response(SAID, more))
    assert read(half, ended) == [TextPiece(text="Hel"), TextPiece(text="lo"), TextPiece(text=" there"), EndPiece(usage=COUNTED)]  # fmt: skip
    most = event("response.output_text.delta", delta="Hello the")
    assert read(most, ended) == [TextPiece(text="Hello the"), TextPiece(text="re"), EndPiece(usage=COUNTED)]
    other = event("response.output_text.delta", delta="Hi")
    assert read(other, ended) == [TextPiece(text="Hi"), EndPiece(usage=COUNTED)], "what came as deltas counts"
    done = event("response.output_item.done", output_index=0, item=SAID)
    assert read(done, event("response.completed", response=response())) == [TextPiece(text="Hello"), EndPiece(usage=COUNTED)]  # fmt: skip


def test_reasoning_streams_and_ends_with_its_signature():
    done = reasoning("First.", "Then.", seal="gAAA")
    pieces = read(
        event("response.output_item.added", item={"type": "reasoning", "summary": []}),
        event("response.reasoning_summary_part.added", summary_index=0),
        event("response.reasoning_summary_text.delta", summary_index=0, delta="First."),
        event("response.reasoning_summary_part.added", summary_index=1),
        event("response.reasoning_summary_text.delta", summary_index=1, delta="Then."),
        event("response.output_item.done", item=done),
        *HELLO,
        event("response.completed", response=response(done, SAID)),
    )
    assert pieces[:4] == [
        ThinkingPiece(text="First."),
        ThinkingPiece(text="\n\n"),
        ThinkingPiece(text="Then."),
        ThinkingPiece(text="", signature="gAAA"),
    ]
    assert len(pieces) == 7


def test_hidden_reasoning_is_a_signature_only_and_open_reasoning_has_none():
    hidden = event("response.output_item.done", item=reasoning(seal="gAAA"))
    assert read(hidden, *HELLO, COMPLETED)[0] == ThinkingPiece(text="", signature="gAAA", redacted=True)
    expected_event = (
        event("response.reasoning_text.delta", delta="hm"),
        event("response.output_item.done", item=reasoning()),
    )
    ended = event("response.completed", response=response(reasoning("hm"), SAID))
    assert read(*expected_event, *HELLO, ended)[:2] == [ThinkingPiece(text="hm"), TextPiece(text="Hel")]


def test_the_end_adds_only_what_did_not_come_of_each_reasoning():
    streamed = event("response.reasoning_summary_text.delta", summary_index=0, delta="hm")
    end = event("response.completed", response=response(reasoning("hm", seal="gAAA"), SAID))
    assert read(streamed, *HELLO, end) == [
        ThinkingPiece(text="hm"),
        TextPiece(text="Hel"),
        TextPiece(text="lo"),
        ThinkingPiece(text="", signature="gAAA"),
        EndPiece(usage=COUNTED, parts=[SUMMARY, SIGNATURE]),
    ]
    open_done = event("response.output_item.done", item=reasoning("hm"))
    hidden_done = event("response.output_item.done", item=reasoning(seal="gAAA"))
    end = event("response.completed", response=response(reasoning("hm"), reasoning(seal="gAAA"), SAID))
    hidden = ThinkingPiece(text="", signature="gAAA", redacted=True)
    assert read(streamed, open_done, hidden_done, *HELLO, end)[:2] == [ThinkingPiece(text="hm"), hidden]
    assert len(read(streamed, open_done, hidden_done, *HELLO, end)) == 5


def test_reasoning_whose_item_does_not_repeat_its_text_is_not_hidden():
    thought = event("response.reasoning_text.delta", delta="hm")
    text = event("response.content_part.added", output_index=1, part={"type": "output_text", "text": ""})
    end = completed(reasoning(seal="gAAA"), SAID)
    assert read(thought, text, *HELLO, end)[:4] == [
        ThinkingPiece(text="hm"),
        TextPiece(text="Hel"),
        TextPiece(text="lo"),
        ThinkingPiece(text="", signature="gAAA"),
    ]


def test_what_comes_twice_is_given_once():
    thought, sealed = reasoning("hm"), reasoning("hm", seal="gAAA")
    assert read(done(0, thought), completed(thought))[:-1] == [ThinkingPiece(text="hm")]
    assert read(done(0, sealed), done(0, reasoning(seal="gAAA")), completed(sealed))[:-1] == [
        ThinkingPiece(text="hm"),
        ThinkingPiece(text="", signature="gAAA"),
    ]
    begun, ended = added(0, call("1", "")), done(0, call("1", "{}"))
    assert read(begun, begun, ended, ended, completed(call("1", "{}")))[:-1] == [
        ToolCallDelta(id="1", name="look"),
        ToolCallDelta(id="1", name="look", text="{}"),
        ToolCallPiece(id="1", name="look", input={}),
    ]


def test_the_model_that_a_stream_named_first_counts_if_its_end_names_none():
    begun = [event("response.created", response=response(status="in_progress", model=name)) for name in ("m-1", "m-2")]
    assert end_of(read(*begun, completed())).model == "m-1"


def test_the_log_probabilities_and_the_model_are_at_the_end():
    token = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -1.0}]}
    half = {"token": "\\xf0", "logprob": -1.5, "bytes": [240], "top_logprobs": []}
    likely = message({"type": "output_text", "text": "a", "logprobs": [token, half]})
    expected = [
        {"token": "a", "logprob": -0.5, "top": [{"token": "b", "logprob": -1.0}]},
        {"token": "\\xf0", "logprob": -1.5, "bytes": [240]},
    ]
    ended, done = response(likely, model="m-1"), event("response.output_item.done", item=likely)
    for pieces in (
        read_answer(json.dumps(ended).encode()),
        read(event("response.completed", response=ended)),
        read(done, event("response.completed", response=ended)),
        read(done, event("response.completed", response=response(model="m-1"))),
    ):
        parts = ["output[].message.content[].output_text.logprobs"]
        assert pieces[-1] == EndPiece(model="m-1", usage=COUNTED, logprobs=expected, parts=parts)


def test_calls_come_as_they_are_written_and_then_whole():
    grown = (
        event("response.output_item.added", output_index=0, item=call("1", "")),
        event("response.function_call_arguments.delta", output_index=0, delta='{"at":'),
        event("response.function_call_arguments.done", output_index=0, arguments='{"at": "a"}'),
        event("response.output_item.done", output_index=0, item=call("1", '{"at": "a"}')),
        event("response.output_item.done", output_index=1, item=call("2", "")),
    )
    ended = event("response.completed", response=response(call("1", '{"at": "a"}'), call("2", "")))
    deltas = [ToolCallDelta(id="1", name="look", text=text) for text in ("", '{"at":', ' "a"}')]
    whole = [
        ToolCallPiece(id="1", name="look", input={"at": "a"}),
        ToolCallPiece(id="2", name="look", input={}),
        EndPiece(reason="tool_use", usage=COUNTED),
    ]
    assert read(*grown, ended) == [*deltas, *whole]
    assert read(ended) == whole, "servers that tell nothing on the way tell all at the end"
    assert read(*grown, event("response.completed", response=response())) == [*deltas, *whole]
    finished = event("response.function_call_arguments.delta", output_index=0, delta=' "a"}')
    assert read(*grown[:2], finished, event("response.completed", response=response())) == [*deltas, whole[0], whole[2]]


def custom(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": f"ctc_{id}", "call_id": id, "name": "patch", "input": text, **more}


def added(index: int, item: dict[str, Any]) -> bytes:
    return event("response.output_item.added", output_index=index, item=item)


def done(index: int, item: dict[str, Any]) -> bytes:
    return event("response.output_item.done", output_index=index, item=item)


def completed(*items: dict[str, Any], **more: Any) -> bytes:
    ended = response(*items, **more)
    return event(f"response.{ended['status']}", response=ended)


def test_calls_that_interleave_are_told_apart_by_item_or_by_number():
    first = {**call("1", "{}", "completed"), "id": "fc_1"}
    second = custom("2", "ab", status="completed")
    arguments, text = "response.function_call_arguments.delta", "response.custom_tool_call_input.delta"
    pieces = read(
        added(0, {**first, "arguments": ""}),
        added(1, {**second, "input": ""}),
        event(text, item_id="ctc_2", output_index=0, delta="a"),  # some servers count wrongly
        event(arguments, item_id="another for each event", output_index=0, delta="{"),
        event(text, output_index=1, delta="b"),
        event(arguments, item_id="nothing", output_index=7, delta="lost"),
        done(1, second),
        event(text, output_index=1, delta="late"),
        event(arguments, item_id="fc_1", delta="}"),
        done(0, first),
        completed(first, second),
    )
    patch, look = ToolCallDelta(id="2", name="patch", custom=True), ToolCallDelta(id="1", name="look")
    assert pieces[:-1] == [
        look,
        patch,
        msgspec.structs.replace(patch, text="a"),
        msgspec.structs.replace(look, text="{"),
        msgspec.structs.replace(patch, text="b"),
        ToolCallPiece(id="2", name="patch", input="ab", custom=True),
        msgspec.structs.replace(look, text="}"),
        ToolCallPiece(id="1", name="look", input={}),
    ]
    assert pieces[-1] == EndPiece(reason="tool_use", usage=COUNTED, parts=["output[].custom_tool_call.input"])


def test_a_signed_call_does_not_begin_before_it_is_complete():
    signed = {**call("1", "{}"), "extra_content": {"google": {"thought_signature": "gAAA"}}}
    pieces = read(added(0, {**signed, "arguments": ""}), event("response.function_call_arguments.delta", output_index=0, delta="{}"), done(0, signed), completed(signed))  # fmt: skip
    assert pieces[0] == ToolCallPiece(id="1", name="look", input={}, signature="gAAA")


def test_the_tools_of_a_namespace_have_joined_names():
    named = {**call("1", "{}"), "namespace": "files"}
    start = ToolCallDelta(id="1", name="files__look")
    *pieces, end = read(added(0, named), completed(named))
    assert pieces == [
        start,
        msgspec.structs.replace(start, text="{}"),
        ToolCallPiece(id="1", name="files__look", input={}),
    ]
    assert end_of([end]).parts == ["output[].function_call.namespace"]


LIMIT: Any = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
CUT: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Any, bool]] = {
    "in its arguments": ([call("1", '{"a', "incomplete")], LIMIT, '{"a', True),
    "where the item does not say so": ([call("1", '{"a')], LIMIT, '{"a', True),
    "before its arguments": ([call("1", "", "incomplete")], LIMIT, "", True),
    "where only the item says so": ([call("1", '{"a', "incomplete")], {}, '{"a', True),
    "after it": ([call("1", '{"a": 1}', "incomplete")], LIMIT, {"a": 1}, False),
    "in a later text": ([call("1", ""), SAID], LIMIT, {}, False),
    "in a text for a tool": ([custom("1", "a")], LIMIT, "a", True),
    "in a text that is complete": ([custom("1", "a", status="completed")], LIMIT, "a", False),
    "in a text for another tool": ([custom("1", "a"), custom("2", "b")], LIMIT, "a", False),
    "in the text of an item": ([custom("1", "a", status="incomplete")], LIMIT, "a", True),
    "nowhere": ([custom("1", "a")], {}, "a", False),
}


@pytest.mark.parametrize("name", CUT)
def test_a_call_that_was_cut_off_is_the_text_so_far(name: str):
    items, ended, value, is_cut = CUT[name]
    body = response(*items, **ended)
    streamed = read(*(done(index, item) for index, item in enumerate(items)), completed(*items, **ended))
    for pieces in (list(read_answer(json.dumps(body).encode())), streamed, read(completed(*items, **ended))):
        first = next(piece for piece in pieces if isinstance(piece, ToolCallPiece))
        assert (first.input, first.cut) == (value, is_cut)
        assert end_of(pieces).reason == ("max_tokens" if ended or is_cut else "tool_use")


NO_REASON, NEW_REASON = "incomplete_details.reason=none", "incomplete_details.reason=new"
REFUSAL = "output[].message.content[].refusal.refusal"


@pytest.mark.parametrize(
    ("ended", "reason", "parts"),
    [
        (response(**LIMIT), "max_tokens", []),
        (response(status="incomplete", incomplete_details={"reason": "content_filter"}), "refusal", []),
        (response(status="incomplete", incomplete_details=None), "max_tokens", [NO_REASON]),
        (response(status="incomplete", incomplete_details={"reason": "new"}), "max_tokens", [NEW_REASON]),
        (response(status="incomplete", incomplete_details={"reason": "steered"}), "max_tokens", ["incomplete_details.reason=steered"]),
        (response(message({"type": "refusal", "refusal": "No."})), "refusal", [REFUSAL]),
        (response(message({"type": "refusal", "refusal": "No."}), **LIMIT), "max_tokens", [REFUSAL]),
        (response(), "end_turn", []),
    ],
)  # fmt: skip
def test_each_end_has_its_end_reason(ended: dict[str, Any], reason: EndReason, parts: list[str]):
    end = EndPiece(reason=reason, usage=COUNTED, parts=parts)
    assert read(event(f"response.{ended['status']}", response=ended))[-1] == end
    assert read_answer(json.dumps(ended).encode())[-1] == end


def test_a_refusal_is_text_that_says_so():
    refused, parts = event("response.refusal.delta", delta="No."), [REFUSAL]
    text = TextPiece(text="No.", refusal=True)
    assert read(refused, completed()) == [text, EndPiece(reason="refusal", usage=COUNTED)]
    said = message({"type": "refusal", "refusal": "No."})
    assert read(refused, completed(said)) == [text, EndPiece(reason="refusal", usage=COUNTED, parts=parts)]
    assert list(read_answer(json.dumps(response(said)).encode())) == read(refused, completed(said))


URL = {"type": "url_citation", "url": "https://a.example/", "title": "A", "start_index": 1, "end_index": 4}
FILE = {"type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 2}
BOX = {"type": "container_file_citation", "container_id": "c", "file_id": "f", "filename": "b.csv", "start_index": 0, "end_index": 2}  # fmt: skip
PATH = {"type": "file_path", "file_id": "file_2", "index": 0}
CITED = [
    CitationPiece(url="https://a.example/", title="A", start=6, end=9, source=URL),
    CitationPiece(title="a.pdf", source=FILE),
    CitationPiece(title="b.csv", start=5, end=7, source=BOX),
    CitationPiece(source=PATH),
]


def test_citations_are_about_places_in_the_whole_text():
    noted = message({"type": "output_text", "text": " there", "annotations": [URL, FILE, BOX, PATH, {"type": "new"}]})
    begun = (*HELLO, event("response.content_part.added", output_index=1, part={"type": "output_text", "text": ""}))
    more = event("response.output_text.delta", delta=" there")
    notes = [event("response.output_text.annotation.added", annotation=each) for each in (URL, FILE, BOX, PATH)]
    ended = completed(SAID, noted)
    whole = list(read_answer(json.dumps(response(SAID, noted)).encode()))
    assert whole[2:-1] == CITED
    at = "output[].message.content[].output_text.annotations[]."
    assert end_of(whole).parts == [at + name for name in ("url_citation", "url_citation.start_index", "url_citation.end_index", "file_citation", "container_file_citation", "file_path", "new")]  # fmt: skip
    assert read(*begun, more, *notes, ended)[3:] == whole[2:]
    assert read(*begun, more, *notes[:1], ended)[3:] == whole[2:], "the end has the others"
    assert read(*begun, more, ended)[3:] == whole[2:]
    assert read(*begun, more, *notes, completed())[3:-1] == CITED


def test_the_end_has_the_citations_of_later_parts():
    first, second = ({"type": "output_text", "text": "Hello", "annotations": [each]} for each in (FILE, PATH))
    note = event("response.output_text.annotation.added", annotation=FILE)
    for ended in (completed(message(first, second)), completed(message(first), message(second))):
        pieces = read(*HELLO, note, ended)
        assert [piece.source for piece in pieces if isinstance(piece, CitationPiece)] == [FILE, PATH]


def test_an_image_is_given_once_and_whole():
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "size": "1x1", "result": "iVBO"}
    image = MediaPiece(media_type="image/png", data="iVBO", source={name: value for name, value in item.items() if name != "result"})  # fmt: skip
    parts = ["output[].image_generation_call.size", "output[].image_generation_call.result"]
    whole = [image, EndPiece(usage=COUNTED, parts=parts)]
    assert list(read_answer(json.dumps(response(item)).encode())) == whole
    assert read(done(0, item), completed(item)) == whole
    partial = event("response.image_generation_call.partial_image", partial_image_b64="iV", partial_image_index=0)
    pieces = read(partial, done(0, item), done(1, item), completed(item, item))
    assert pieces == [image, image, EndPiece(usage=COUNTED, parts=["event.response.image_generation_call.partial_image", *parts])]  # fmt: skip
    assert read(done(0, item), completed(item, item))[:-1] == [image, image], "the end has the second one"
    drawn = {**item, "result": "PHN2", "output_format": "svg"}
    assert [piece.media_type for piece in read(completed(drawn)) if isinstance(piece, MediaPiece)] == ["image/svg+xml"]
    failed = {**item, "status": "failed", "result": None, "error": {"message": "m", "type": "t"}}
    assert end_of(read(completed(failed))).parts == [
        *(f"output[].image_generation_call.{name}" for name in ("status", "size", "error")),
        NO_IMAGE,
    ]
    assert end_of(read(done(0, failed), completed())).parts == end_of(read(completed(failed))).parts


def test_sound_is_whole_at_the_end():
    sound = [event("response.audio.delta", delta=text) for text in ("AQ==", "AgM=")]
    words = [event("response.audio.transcript.delta", delta=text) for text in ("Hel", "lo")]
    pieces = read(*sound, *words, event("response.audio.done"), completed())
    assert pieces[0] == MediaPiece(media_type="audio/*", data="AQID", transcript="Hello")
    assert end_of(pieces).parts == ["event.response.audio.delta", "event.response.audio.transcript.delta"]
    with pytest.raises(MalformedAnswerError, match="base64"):
        read(event("response.audio.delta", delta="A"), completed())


def test_a_whole_answer_gives_the_same_pieces():
    body = response(reasoning("a", "b", seal="gAAA"), SAID, call("1", "{}"))
    assert list(read_answer(json.dumps(body).encode())) == [
        ThinkingPiece(text="a\n\nb"),
        ThinkingPiece(text="", signature="gAAA"),
        TextPiece(text="Hello"),
        ToolCallPiece(id="1", name="look", input={}),
        EndPiece(reason="tool_use", usage=COUNTED, parts=[SUMMARY, SIGNATURE]),
    ]


PARTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "what every API has": (response(SAID, id="r", object="response", temperature=1.0, tools=[{"type": "x"}]), []),
    "tiers that every API has": (response(service_tier="default"), []),
    "another tier": (response(service_tier="flex"), ["service_tier"]),
    "what only this API has": (response(conversation={"id": "c"}, moderation={"input": {}}), ["conversation", "moderation"]),
    "counts of its own": (
        response(usage={**USAGE, "seconds": 3}, tool_usage={"web_search": {"num_requests": 2}}),
        ["usage.seconds", "tool_usage.web_search.num_requests"],
    ),
    "tools that the endpoint ran": (
        response({"type": "web_search_call"}, {"type": "mcp_call"}, SAID),
        ["output[].web_search_call", "output[].mcp_call"],
    ),
    "an item of an unknown type": (response({"type": "new", "content": 7, "arguments": {}}), ["output[].new"]),
    "an item without a type": (response({"content": []}), ["output[].None"]),
    "a part of an unknown type": (response(message({"type": "output_audio"})), ["output[].message.content[].output_audio"]),
    "unknown members": (
        response({**SAID, "new": 1}, {**call("1", "{}"), "async": True}, new={"a": 1}),
        ["new", "output[].message.new", "output[].function_call.async"],
    ),
    "text that is a comment": (response({**SAID, "phase": "commentary"}), ["output[].message.phase"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_each_part_that_is_not_native_everywhere_is_named_whole_and_streamed(name: str):
    body, parts = PARTS[name]
    streamed = read(
        *(done(index, item) for index, item in enumerate(body["output"])), completed(**{**body, "output": []})
    )
    for pieces in (read_answer(json.dumps(body).encode()), read(event("response.completed", response=body)), streamed):
        end = end_of(pieces)
        assert sorted(end.parts) == sorted(parts)
        assert end.service_tier == body.get("service_tier")


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (event("response.output_text.delta", delta="a", new=1), ["event.response.output_text.delta.new"]),
        (event("response.output_text.delta", delta="a", logprobs=[], obfuscation="xx", item_id="m"), []),
        (event("response.function_call_arguments.done", arguments="{}", name="look"), ["event.response.function_call_arguments.done.name"]),
        (event("response.mcp_call_arguments.delta", delta="a"), []),
        (event("response.output_text.delta", delta=None), []),
        (event("response.output_item.added", item=None), []),
        (event("response.output_text.annotation.added", annotation={"type": ["x"]}), [f"{ANNOTATIONS}.['x']"]),
        (event("response.created", response=response(status="in_progress"), accord={"served_by": "b"}), ["accord"]),
        (event("keepalive"), []),
        (event("response.new", delta="a"), ["event.response.new"]),
        (b'data: {"a": 1}\n\n', ["event.None"]),
    ],
)  # fmt: skip
def test_each_event_that_says_more_is_named(data: bytes, parts: list[str]):
    assert end_of(read(data, COMPLETED)).parts == parts


@pytest.mark.parametrize("delta", [5, 0, {"a": 1}, {}, ["a"], True, False])
def test_a_delta_that_is_no_text_is_malformed(delta: Any):
    with pytest.raises(MalformedAnswerError):
        read(event("response.output_text.delta", delta=delta), COMPLETED)


def members_of(model: Any) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def paths_of(model: Any, path: str) -> Iterator[str]:
    """The paths of the values in an object of this class."""
    for name, field in model.model_fields.items():
        inner = next(
            (each for each in (field.annotation, *get_args(field.annotation)) if hasattr(each, "model_fields")), None
        )
        yield from (f"{path}.{name}",) if inner is None else paths_of(inner, f"{path}.{name}")


def types_of(union: Any) -> dict[str, Any]:
    """The classes of a union by the values of their `type`."""
    classes = get_args(get_args(union)[0]) if get_origin(union) is Annotated else get_args(union)
    return {name: each for each in classes for name in get_args(each.model_fields["type"].annotation)}


def test_every_answer_of_the_sdk_has_rows():
    sdk = pytest.importorskip("openai.types.responses")
    events = types_of(sdk.ResponseStreamEvent)
    assert events.keys() - EVENTS == {"error"}
    assert set().union(*map(members_of, events.values())) - MEMBERS == {"code", "message", "param"} - MEMBERS
    places = {name.partition(".")[0].removesuffix("[]") for name in ROWS}
    assert members_of(sdk.Response) - places == set()
    items = types_of(sdk.ResponseOutputItem)
    for name, item in items.items():
        members = {row.split(".")[2] for row in ROWS if row.startswith(f"output[].{name}.")}
        assert f"output[].{name}" in ROWS or {each.removesuffix("[]") for each in members} >= members_of(item) - {
            "type"
        }, name
    notes = types_of(get_args(sdk.ResponseOutputText.model_fields["annotations"].annotation)[0])
    assert notes.keys() == CITATIONS
    assert {f"{ANNOTATIONS}.{name}" for name in notes} <= ROWS.keys()
    reasons = get_args(get_args(sdk.response.IncompleteDetails.model_fields["reason"].annotation)[0])
    counts = {*paths_of(sdk.ResponseUsage, "usage"), *paths_of(sdk.response.ToolUsage, "tool_usage")}
    assert counts - ROWS.keys() == set()
    assert {each for each in reasons if f"{REASON}={each}" not in ROWS} <= INCOMPLETE.keys()


FAILED = {"code": "rate_limit_exceeded", "message": "secret"}


@pytest.mark.parametrize(
    ("data", "failure"),
    [
        (event("response.failed", response=response(status="failed", error=FAILED)), Failure.RATE_LIMITED),
        (event("response.failed", response=response(status="failed", error={"code": "server_error", "message": "secret"})), Failure.FAILED),
        (event("error", code="context_length_exceeded", message="secret", param=None), Failure.CONTEXT_TOO_LONG),
        (event("error", error={"code": "server_is_overloaded", "message": "secret"}), Failure.OVERLOADED),
        (b'data: {"error": {"message": "secret"}}\n\n', Failure.FAILED),
        (b'event: error\ndata: {"code": "rate_limit_exceeded", "message": "secret"}\n\n', Failure.RATE_LIMITED),
        (b'data: {"type": "error", "code": "rate_limit_exceeded", "message": "secret"}\n\n', Failure.RATE_LIMITED),
    ],
)  # fmt: skip
def test_an_error_in_a_stream_is_reported(data: bytes, failure: Failure):
    with pytest.raises(ReportedError) as caught:
        read(*HELLO, data)
    assert (caught.value.report.failure, caught.value.report.message) == (failure, "secret")


@pytest.mark.parametrize(
    ("chunks", "why"),
    [
        (HELLO, "ended before"),
        ((*HELLO, b"data: [DONE]\n\n"), "ended before"),
        ((event("response.output_text.delta", delta="response.completed [DONE]"),), "ended before"),
        ((b"data: secret\n\n",), "not JSON"),
        ((b'data: {"type":"response.output_text.delta","delta":"a","new":"\xff"}\n\n',), "not JSON"),
        ((event("response.new", deep=json.loads("[" * 300 + "]" * 300)),), "nested too deeply"),
        ((event("response.completed", response=response(status="in_progress")),), "not complete"),
        ((event("response.completed"),), "not complete"),
        ((event("response.queued", response=response(status="queued")),), "ended before"),
        ((event("response.completed", response=response(output="Hello")),), "does not have the API's shape"),
        ((done(0, call("1", '{"a')), completed()), "not JSON"),
        ((done(0, call("1", '{"a')), completed(call("1", '{"a'))), "not JSON"),
        ((done(0, call("1", "{}")), done(1, call("1", '{"a": 1}'))), "the same id"),
        ((completed(call("1", "{}"), call("1", '{"a": 1}')),), "the same id"),
        ((done(0, {"type": "function_call", "arguments": "{}"}),), "no name"),
        ((done(0, {"type": "function_call", "call_id": 7}),), "does not have the API's shape"),
        (
            (
                added(0, call("1", "")),
                event("response.function_call_arguments.delta", output_index=0, delta='{"b": 2}'),
                done(0, call("1", '{"a": 1}')),
            ),
            "not what its deltas said",
        ),
    ],
)
def test_an_incomplete_answer_is_malformed(chunks: tuple[bytes, ...], why: str):
    with pytest.raises(MalformedAnswerError, match=why) as caught:
        read(*chunks)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_failed_answer_is_an_error_even_without_a_reason(status: str):
    with pytest.raises(ReportedError):
        read(*HELLO, event("response.completed", response=response(SAID, status=status)))
    with pytest.raises(ReportedError):
        read_answer(json.dumps(response(SAID, status=status)).encode())
    with pytest.raises(ReportedError):
        read(*HELLO, event(f"response.{status}"))


BAD_BODIES = [b"", b"{}", b"[]", b'{"status": "queued"}', b'{"status": "completed", "output": [1]}', b"[" * 100_000]


@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_body_without_an_answer_is_malformed(body: bytes):
    with pytest.raises(MalformedAnswerError):
        read_answer(body)


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.integers(1, 30))
def test_the_answer_does_not_depend_on_where_the_bytes_are_cut(text: str, size: int):
    whole = event("response.output_text.delta", delta=text) + COMPLETED
    pieces = read(*(whole[start : start + size] for start in range(0, len(whole), size)))
    assert pieces == [TextPiece(text=text), EndPiece(usage=COUNTED)]
