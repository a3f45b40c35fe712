"""Laws of the responses API: through a work order and back, and through an answer and back, nothing is lost.

What the table of fields names as emulated or as carried by unchanged requests only is not part of the first law. Of an
answer, the cuts of its texts and the name of a stop sequence are all that the API may lose.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.codec import AnswerLabels, MalformedAnswerError, ReportedError
from accord.apis.openai.parts import allows_strict
from accord.apis.responses.answer_rows import ROWS
from accord.apis.responses.codec import ResponsesCodec
from accord.apis.responses.read_answer import EVENTS, MEMBERS, ResponsesReader, read_answer
from accord.core.sse import EventDecoder, ServerEvent
from accord.core.work.fields import Api, Disposition, row_of
from accord.wire.disposition import AnswerDisposition
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
)
from tests.apis.test_request_laws import TEXT, VALUES, WORD

API = ResponsesCodec()
LABELS = AnswerLabels("0" * 32, 1_700_000_000, "m-1", {})


def objects(type: str, **members: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just(type), **members})


INPUT_TEXT = objects("input_text", text=TEXT)
IMAGE_URL = st.sampled_from(["data:image/png;base64,AAAA", "https://example.org/a.png"])
DETAILS: list[dict[str, Any]] = [{}, {"detail": "auto"}, {"detail": "low"}]
IMAGE = st.tuples(IMAGE_URL, st.sampled_from(DETAILS)).map(
    lambda held: {"type": "input_image", "image_url": held[0], **held[1]}
)
FILE = objects("input_file", filename=WORD.map("{}.pdf".format), file_data=st.just("data:application/pdf;base64,JVBE"))
CONTENT = st.lists(INPUT_TEXT | IMAGE | FILE, min_size=1, max_size=3)
USER = objects("message", role=st.just("user"), content=CONTENT)
SYSTEM = objects("message", role=st.sampled_from(["system", "developer"]), content=TEXT)
REPLY = objects(
    "message", role=st.just("assistant"), content=st.lists(objects("output_text", text=TEXT), min_size=1, max_size=2)
)
ARGUMENTS = st.dictionaries(WORD, VALUES, max_size=2).map(json.dumps)
CALL = objects("function_call", call_id=WORD, name=WORD, arguments=ARGUMENTS)
# Several texts of a result, and nothing else, become one.
MEDIA = CONTENT.filter(lambda parts: any(part["type"] != "input_text" for part in parts))
RESULT = objects("function_call_output", call_id=WORD, output=TEXT | MEDIA)
SUMMARY = st.lists(objects("summary_text", text=TEXT), max_size=1)
REASONING = objects("reasoning", id=WORD, summary=SUMMARY, encrypted_content=WORD)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOL = st.fixed_dictionaries(
    {"type": st.just("function"), "name": WORD, "description": TEXT, "parameters": st.just(SCHEMA)},
    optional={"strict": st.booleans() | st.none()},
)
FORMATS: st.SearchStrategy[Any] = st.sampled_from(
    [{"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": False}]
)
BODIES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "model": st.just("m"),
        # Text alone as input is in the table of tests; here it would only make the others rare.
        "input": st.lists(USER | SYSTEM | REPLY | CALL | RESULT | REASONING, min_size=1, max_size=8),
    },
    optional={
        "instructions": TEXT,
        "stream": st.booleans(),
        "tools": st.lists(TOOL, min_size=1, max_size=2),
        "tool_choice": st.sampled_from(["auto", "none", "required", {"type": "function", "name": "f"}]),
        "parallel_tool_calls": st.booleans(),
        "text": st.fixed_dictionaries({"format": FORMATS}),
        "temperature": st.just(0.5),
        "top_p": st.just(0.9),
        "max_output_tokens": st.just(7),
        "top_logprobs": st.just(2),
        "include": st.just(["message.output_text.logprobs"]),
        "reasoning": st.fixed_dictionaries({"effort": st.sampled_from(["low", "high"])}, optional={"summary": st.just("auto")}),
    },
)  # fmt: skip
AS_THEY_ARE = ("temperature", "top_p", "max_output_tokens", "top_logprobs", "parallel_tool_calls", "reasoning")


@given(BODIES)
def test_a_request_through_a_work_order_is_the_same_request(body: dict[str, Any]):
    request = API.read_request(body)
    for name in request.fields:
        row = row_of(request.api, name)
        assert row.cells[Api.RESPONSES] is Disposition.NATIVE
        assert Api.RESPONSES not in row.only_unchanged
    sent = json.loads(json.dumps(ResponsesCodec().write_request(request.order, "m").body))
    assert API.read_request(sent).order.conversation == request.order.conversation
    for name in AS_THEY_ARE:
        assert sent.get(name) == body.get(name)
    assert sent.get("tool_choice", "auto") == body.get("tool_choice", "auto")
    assert sent["stream"] is body.get("stream", False)
    assert list(map(of_tool, sent.get("tools", []))) == list(map(of_tool, body.get("tools", [])))
    given = body.get("text", {}).get("format", {"type": "text"})
    assert sent.get("text", {}).get("format", {"type": "text"}) == given
    assert not allows_strict(SCHEMA)
    wants_logprobs = "include" in body or "top_logprobs" in body
    assert ("message.output_text.logprobs" in sent.get("include", [])) is wants_logprobs
    has_reasoning = "reasoning" in body or any(item["type"] == "reasoning" for item in sent["input"])
    assert ("reasoning.encrypted_content" in sent.get("include", [])) is has_reasoning


def of_tool(tool: dict[str, Any]) -> tuple[Any, ...]:
    return tool["name"], tool["description"], tool["parameters"], tool.get("strict") is True


MARKS = ["response.completed", 'data: {"type":"response.completed"}\n\n', "[DONE]", '"id":"resp_1"']
WORDS = TEXT.filter(bool) | st.sampled_from(MARKS)
TEXTS = st.builds(TextPiece, text=WORDS, refusal=st.booleans())
THOUGHTS = st.lists(st.builds(ThinkingPiece, text=WORDS), min_size=1, max_size=3)
SEALS = st.uuids().map(str)
SEALED = st.tuples(THOUGHTS, SEALS).map(lambda held: [*held[0], ThinkingPiece(text="", signature=held[1])])
REDACTED = SEALS.map(lambda seal: [ThinkingPiece(text="", signature=seal, redacted=True)])
FUNCTIONS = st.builds(ToolCallPiece, id=SEALS, name=WORD, input=st.dictionaries(WORD, VALUES, max_size=2), signature=st.none() | SEALS)  # fmt: skip
CUSTOM = st.builds(ToolCallPiece, id=SEALS, name=WORD, input=WORDS, custom=st.just(True))
CALLS = st.lists(FUNCTIONS | CUSTOM, min_size=1, max_size=3)
CUT_CALLS = st.builds(ToolCallPiece, id=SEALS, name=WORD, input=st.just('{"a": "b'), custom=st.booleans(), cut=st.just(True))  # fmt: skip
IMAGES = st.builds(MediaPiece, media_type=st.sampled_from(["image/png", "image/svg+xml", "image/new"]), data=st.just("iVBO"))  # fmt: skip
GROUPS = st.lists(TEXTS, min_size=1, max_size=3) | THOUGHTS | SEALED | REDACTED | CALLS | IMAGES.map(lambda image: [image])  # fmt: skip
USAGE = st.fixed_dictionaries({name: st.integers(0, 9) for name in ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")})  # fmt: skip
LOGPROBS = st.none() | st.just([{"token": "a", "logprob": -0.5, "top": [{"token": "b", "logprob": -1.0}]}])
TIERS = st.none() | st.sampled_from(["default", "flex", "new"])


@st.composite
def answers(draw: st.DrawFn) -> list[AnyPiece]:
    """Everything that an answer of this API can have, without deltas."""
    pieces: list[AnyPiece] = []
    for group in draw(st.lists(GROUPS, max_size=5)):
        pieces += group
        if isinstance(last := group[-1], TextPiece) and not last.refusal:
            length = sum(len(piece.text) for piece in pieces if isinstance(piece, TextPiece))
            begin = length - len(last.text)
            places = st.tuples(st.integers(begin, length), st.integers(begin, length))
            for start, end in draw(st.lists(places, max_size=2)):
                pieces.append(CitationPiece(url="https://a.example/", title="A", start=start, end=end))
    texts = [piece for piece in pieces if isinstance(piece, TextPiece)]
    ends = ["max_tokens", "refusal"]
    if not any(text.refusal for text in texts):
        ends.append("tool_use" if any(isinstance(piece, ToolCallPiece) for piece in pieces) else "end_turn")
    reason: Any = draw(st.sampled_from(ends))
    if reason == "max_tokens":
        pieces += draw(st.lists(CUT_CALLS, max_size=1))
    logprobs = draw(LOGPROBS) if any(not text.refusal for text in texts) else None  # a refusal has none
    tier = draw(TIERS)
    return [*pieces, EndPiece(reason=reason, model="m-1", usage=draw(USAGE), logprobs=logprobs, service_tier=tier)]


@st.composite
def deltas(draw: st.DrawFn, pieces: list[AnyPiece]) -> list[AnyPiece]:
    """The pieces as a stream has them: some calls, of those that follow one another, grow at the same time."""
    streamed: list[AnyPiece] = []
    for is_call, group in itertools.groupby(pieces, lambda piece: isinstance(piece, ToolCallPiece)):
        if not is_call:
            streamed += group
            continue
        calls = [call for call in group if isinstance(call, ToolCallPiece)]
        growing: list[AnyPiece] = []
        for call in calls:
            if call.signature is None and draw(st.booleans()):
                text = call.input if isinstance(call.input, str) else json.dumps(call.input)
                cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
                parts = [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]
                start = ToolCallDelta(id=call.id, name=call.name, custom=call.custom)
                grown = [start, *(msgspec.structs.replace(start, text=part) for part in parts)]
                growing = list(interleaved(draw, growing, grown))
        streamed += [*growing, *calls]
    return streamed


def interleaved(draw: st.DrawFn, one: Sequence[AnyPiece], other: Sequence[AnyPiece]) -> Iterator[AnyPiece]:
    """Both, each in its order, mixed in any way."""
    left = [list(reversed(one)), list(reversed(other))]
    while left[0] and left[1]:
        yield left[draw(st.integers(0, 1))].pop()
    yield from reversed(left[0] or left[1])


def joined(pieces: Iterable[AnyPiece]) -> list[AnyPiece]:
    """The pieces without deltas, what the API wrote of them, and the cuts of texts; citations come after their text."""
    result: list[AnyPiece] = []
    for piece in pieces:
        place = next((at for at in reversed(range(len(result))) if not isinstance(result[at], CitationPiece)), None)
        last = None if place is None else result[place]
        match last, piece:
            case _, ToolCallDelta():
                pass
            case TextPiece(), TextPiece() if last.refusal is piece.refusal:
                result[place or 0] = msgspec.structs.replace(last, text=last.text + piece.text)
            case ThinkingPiece(signature=None), ThinkingPiece(signature=None):
                result[-1] = ThinkingPiece(text=last.text + piece.text)
            case _, CitationPiece() | MediaPiece():
                result.append(msgspec.structs.replace(piece, source={}))
            case _, EndPiece():
                result.append(msgspec.structs.replace(piece, parts=[]))
            case _:
                result.append(piece)
    return result


def written(pieces: Sequence[AnyPiece]) -> list[bytes]:
    """The stream of these pieces, in blocks."""
    writer = API.answer_writer(API.read_request({"model": "m", "input": "hi"}), LABELS)
    return [writer.start(), *map(writer.write, pieces), writer.finish()]


def read_stream(chunks: Iterable[bytes]) -> list[AnyPiece]:
    decoder, reader = EventDecoder(), ResponsesReader()
    return [piece for chunk in chunks for event in decoder.feed(chunk) for piece in reader.feed(event)]


def parts_of(pieces: Sequence[AnyPiece]) -> set[str]:
    end = pieces[-1]
    assert isinstance(end, EndPiece)
    return set(end.parts)


@given(st.data(), answers())
def test_an_answer_through_its_body_or_its_stream_is_the_same_answer(data: st.DataObject, pieces: list[AnyPiece]):
    request = API.read_request({"model": "m", "input": "hi"})
    whole = read_answer(json.dumps(API.write_answer(request, LABELS, [pieces])).encode())
    assert joined(whole) == joined(pieces)
    streamed = data.draw(deltas(pieces))
    blocks = written(streamed)
    read = read_stream(blocks)
    assert joined(read) == joined(pieces)
    assert parts_of(read) == parts_of(whole)
    for piece, block in zip(streamed, blocks[1:], strict=False):
        if isinstance(piece, ToolCallDelta):
            assert not piece.text or piece.text in said_by(block), "what comes of a call is written at once"
    for call in (piece for piece in read if isinstance(piece, ToolCallPiece) and piece.signature is None):
        grown = "".join(piece.text for piece in read if isinstance(piece, ToolCallDelta) and piece.id == call.id)
        assert (grown if isinstance(call.input, str) else json.loads(grown)) == call.input, "nothing twice"


def said_by(block: bytes) -> list[str]:
    return [json.loads(event.data).get("delta") for event in EventDecoder().feed(block)]


@given(answers(), st.integers(1, 40))
def test_a_stream_that_is_cut_anywhere_reads_the_same(pieces: list[AnyPiece], size: int):
    whole = b"".join(written(pieces))
    assert read_stream(whole[start : start + size] for start in range(0, len(whole), size)) == read_stream([whole])


@given(answers(), st.data())
def test_a_stream_without_its_last_event_is_never_complete(pieces: list[AnyPiece], data: st.DataObject):
    whole = b"".join(written(pieces))
    stop = data.draw(st.integers(0, len(whole) - 1))
    read = read_stream([whole[:stop]])
    assert not any(isinstance(piece, EndPiece) for piece in read)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | WORD | st.sampled_from(["function_call", "message", "completed"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(sorted(MEMBERS | {"id", "call_id", "name", "content", "summary"})), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


MEMBER = st.sampled_from(sorted(MEMBERS - {"type"}))
ANY_EVENT = st.tuples(st.sampled_from(sorted(EVENTS)) | JSON, st.dictionaries(MEMBER, JSON, max_size=4))


@given(st.lists(ANY_EVENT, max_size=6))
def test_whatever_an_event_has_it_is_read_or_malformed(events: list[tuple[Any, dict[str, Any]]]):
    reader = ResponsesReader()
    for name, members in events:
        try:
            reader.feed(ServerEvent(json.dumps({"type": name, **members}).encode()))
        except (MalformedAnswerError, ReportedError):
            return


FULL: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "completed_at": 2,
    "model": "m-2",
    "status": "completed",
    "service_tier": "flex",
    "usage": {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 2},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 12,
    },
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "content": [{"type": "reasoning_text", "text": "mh"}],
            "encrypted_content": "seal",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "phase": "commentary",
            "content": [
                {
                    "type": "output_text",
                    "text": "Hello",
                    "logprobs": [{"token": "Hello", "bytes": [], "logprob": -1.0, "top_logprobs": []}],
                    "annotations": [
                        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 5},
                        {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0},
                        {"type": "container_file_citation", "container_id": "c", "file_id": "f", "filename": "n", "start_index": 0, "end_index": 5},
                        {"type": "file_path", "file_id": "f", "index": 0},
                    ],
                },
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "1",
            "name": "look",
            "arguments": '{"a": 1}',
            "created_by": "x",
            "extra_content": {"google": {"thought_signature": "seal"}},
        },
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "2", "name": "patch", "input": "text", "created_by": "x"},
        {
            "type": "image_generation_call",
            "id": "ig_1",
            "result": "iVBO",
            "output_format": "webp",
            "action": "edit",
            "background": "opaque",
            "quality": "low",
            "revised_prompt": "p",
            "size": "1x1",
            "svg_usage": {"input_tokens": 1},
            "error": {"code": "c", "message": "m"},
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    ],
}  # fmt: skip


def test_each_row_says_what_becomes_of_its_part_in_this_api():
    pieces = read_answer(json.dumps(FULL).encode())
    before = paths_of(FULL)
    for answer in (
        API.write_answer(API.read_request({"model": "m", "input": "hi"}), LABELS, [pieces]),
        last(written(pieces)),
    ):
        after = paths_of(answer)
        for name in before & ROWS.keys():
            disposition = ROWS[name].cells[Api.RESPONSES]
            assert (name in after) is (disposition is AnswerDisposition.NATIVE), name
        assert not any(name.startswith("output[].web_search_call") for name in after)
    native = {name for name, row in ROWS.items() if row.cells[Api.RESPONSES] is AnswerDisposition.NATIVE}
    assert {name for name in native - before if name.startswith(("output", "usage"))} == {"output_text"}


def last(blocks: Sequence[bytes]) -> dict[str, Any]:
    return json.loads(list(EventDecoder().feed(b"".join(blocks)))[-1].data)["response"]


def paths_of(value: Any, path: str = "") -> set[str]:
    """The paths of everything in an answer that says something, with the types of typed items."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if path.endswith("[]") and "type" in members:
            path = f"{path}.{members['type']}"
        inner = (paths_of(each, f"{path}.{name}" if path else name) for name, each in members.items())
        return {path}.union(*inner)
    if isinstance(value, list):
        return set[str]().union(
            *(paths_of(each, f"{path}[]") for each in cast("list[Any]", value)), {path} if value else ()
        )
    return {path} if value not in (None, "") else set()
