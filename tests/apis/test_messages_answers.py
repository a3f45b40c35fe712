"""Answers of the Messages API: what is written is read again, whole and streamed, and every part has a row."""

import json
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import anthropic
import msgspec
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from accord.apis.codec import AnswerLabels, MalformedAnswerError
from accord.apis.messages.answer_rows import BLOCKS, CITATION_TYPES, CITATIONS, FINDER, ROWS
from accord.apis.messages.codec import MessagesCodec
from accord.apis.messages.read_answer import DELTAS, REASONS
from accord.apis.messages.relayed import MessagesEvent
from accord.core.sse import EventDecoder
from accord.wire.disposition import AnswerDisposition, Api
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
from tests.backends.models.message_streams import read
from tests.laws import examples

Json = dict[str, Any]
CODEC = MessagesCodec()
REQUEST = CODEC.read_request({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]})
LABELS = AnswerLabels("0" * 32, 5, "claude-test", {"backend": "b"})
STOPPED = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def whole(pieces: Sequence[AnyPiece]) -> Json:
    return CODEC.write_answer(REQUEST, LABELS, [pieces])


def streamed(pieces: Sequence[AnyPiece]) -> bytes:
    writer = CODEC.answer_writer(REQUEST, LABELS)
    return writer.start() + b"".join(map(writer.write, pieces)) + writer.finish()


def read_whole(body: Json) -> list[AnyPiece]:
    return list(CODEC.read_answer(json.dumps(body).encode()))


def joined(pieces: Sequence[AnyPiece]) -> list[AnyPiece]:
    """The pieces without deltas of calls, with the text and the reasoning between two others in one."""
    found: list[AnyPiece] = []
    for piece in pieces:
        last = found[-1] if found else None
        match piece:
            case ToolCallDelta():
                continue
            case TextPiece() if isinstance(last, TextPiece):
                found[-1] = TextPiece(text=last.text + piece.text)
            case ThinkingPiece(redacted=False) if (
                isinstance(last, ThinkingPiece) and last.signature is None and not last.redacted
            ):
                found[-1] = ThinkingPiece(text=last.text + piece.text, signature=piece.signature)
            case EndPiece():
                found.append(msgspec.structs.replace(piece, parts=sorted(piece.parts)))
            case _:
                found.append(piece)
    return found


# Laws -----------------------------------------------------------------------------------------------------------------

SOURCES: dict[str, Json] = {
    "char_location": {
        "cited_text": "It ends.",
        "document_index": 0,
        "document_title": None,
        "start_char_index": 0,
        "end_char_index": 8,
        "file_id": "f",
    },
    "page_location": {"cited_text": "a", "document_index": 0, "start_page_number": 1, "end_page_number": 2},
    "content_block_location": {"cited_text": "a", "document_index": 0, "start_block_index": 1, "end_block_index": 2},
    "search_result_location": {
        "cited_text": "b",
        "search_result_index": 0,
        "source": "https://a.example",
        "start_block_index": 0,
        "end_block_index": 1,
        "title": "A",
    },
    "web_search_result_location": {
        "cited_text": "c",
        "encrypted_index": "Eo8",
        "title": "B",
        "url": "https://b.example",
    },
}
CITED: list[Json] = [{"type": name, **members} for name, members in SOURCES.items()]
TEXTS = st.sampled_from(
    ["a", " ", "ß世👋", "\n\n", "\r", "\u2028", '"}', "\\", "data: x", STOPPED.decode(), '{"type":"message_stop"}']
)
NAMES = st.sampled_from(["a", "b_c", "toolu_1"])
VALUES = st.dictionaries(NAMES, TEXTS | st.integers(0, 9) | st.lists(st.none(), max_size=1), max_size=2)


@st.composite
def calls(draw: st.DrawFn, number: int) -> list[AnyPiece]:
    """A call, perhaps with its arguments in pieces before it."""
    call = ToolCallPiece(id=f"toolu_{number}", name=draw(NAMES), input=draw(VALUES))
    text = json.dumps(call.input, ensure_ascii=draw(st.booleans()))
    cut = draw(st.integers(0, len(text)))
    texts = draw(st.sampled_from([(), ("",), ("", text), (text[:cut], text[cut:])]))
    return [*(ToolCallDelta(id=call.id, name=call.name, text=each) for each in texts), call]


@st.composite
def answers(draw: st.DrawFn) -> list[AnyPiece]:
    """An answer in the pieces that the reader gives."""
    pieces: list[AnyPiece] = []
    for number in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["text", "thinking", "redacted", "call"])):
            case "text":
                start = sum(len(piece.text) for piece in pieces if isinstance(piece, TextPiece))
                citations = draw(st.lists(st.sampled_from(CITED), max_size=2))
                if citations and pieces and isinstance(pieces[-1], TextPiece):
                    continue  # the reader could not tell where the text begins that it is about
                pieces += [TextPiece(text=text) for text in draw(st.lists(TEXTS, min_size=1, max_size=3))]
                end = sum(len(piece.text) for piece in pieces if isinstance(piece, TextPiece))
                pieces += [citation_of(source, start, end) for source in citations]
            case "thinking":
                pieces += [ThinkingPiece(text=text) for text in draw(st.lists(TEXTS, max_size=2))]
                pieces.append(ThinkingPiece(text=draw(TEXTS), signature=draw(st.none() | NAMES)))
            case "redacted":
                pieces.append(ThinkingPiece(text="", signature=draw(NAMES), redacted=True))
            case _:
                pieces += draw(calls(number))
    return pieces


def citation_of(source: Json, start: int, end: int) -> CitationPiece:
    link = {"search_result_location": "source", "web_search_result_location": "url"}.get(source["type"], "")
    return CitationPiece(
        url=source.get(link),
        title=source.get("title"),
        quote=source["cited_text"],
        start=start,
        end=end,
        source=source,
    )


COUNTS = st.integers(0, 99)
ENDS = st.builds(
    EndPiece,
    reason=st.sampled_from([*REASONS.values()]),
    stop_sequence=st.none() | NAMES,
    model=st.just("claude-test"),
    usage=st.fixed_dictionaries(
        {"input_tokens": st.integers(198, 999), "output_tokens": COUNTS},
        optional={"cached_input_tokens": COUNTS, "cache_write_tokens": COUNTS, "reasoning_tokens": COUNTS},
    ),
    service_tier=st.none() | st.sampled_from(["standard", "priority", "batch"]),
)


def ends_in_an_empty_call(pieces: list[AnyPiece]) -> bool:
    last = pieces[-1] if pieces else None
    return isinstance(last, ToolCallPiece) and not last.input


def with_parts(end: EndPiece, body: Json) -> EndPiece:
    """The end with the parts that are in the body of the whole answer."""
    parts: dict[str, None] = {}
    FINDER.find(body, parts)
    return msgspec.structs.replace(end, parts=sorted(parts))


@settings(max_examples=examples(150))
@given(answers(), ENDS, st.integers(1, 99))
def test_what_is_written_is_read_again_whole_and_streamed(pieces: list[AnyPiece], end: EndPiece, size: int):
    if ends_in_an_empty_call(pieces):
        end = msgspec.structs.replace(end, reason="tool_use")
    elif end.reason == "tool_use" and not any(isinstance(piece, ToolCallPiece) for piece in pieces):
        end = msgspec.structs.replace(end, reason="end_turn")
    body = whole([*pieces, end])
    expected = [*joined(pieces), with_parts(end, body)]
    assert joined(read_whole(body)) == expected
    data = streamed([*pieces, end])
    assert joined(read(data[start : start + size] for start in range(0, len(data), size))) == expected


@settings(max_examples=examples(20))
@given(answers(), ENDS)
def test_a_stream_cut_at_any_byte_reads_the_same(pieces: list[AnyPiece], end: EndPiece):
    data = streamed([*pieces, end])
    expected = read([data])
    for cut in range(0, len(data), 1 + len(data) // 200):
        assert read([data[:cut], data[cut:]]) == expected


def is_complete_when_passed_on(data: bytes) -> bool:
    watcher = CODEC.watcher()
    decode = msgspec.json.Decoder(MessagesEvent).decode
    for event in EventDecoder().feed(data):
        watcher.note_event(decode(event.data))
    return watcher.summary.is_complete


@settings(max_examples=examples(60))
@given(answers(), ENDS, st.data())
def test_a_stream_that_stops_before_its_end_is_never_complete(
    pieces: list[AnyPiece], end: EndPiece, data: st.DataObject
):
    stream = streamed([*pieces, end])
    assert is_complete_when_passed_on(stream)
    cut = stream[: data.draw(st.integers(0, len(stream) - 2))]
    assert not is_complete_when_passed_on(cut)
    with pytest.raises(MalformedAnswerError, match="before its end"):
        read([cut])


DELTAS_OF = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(['{"a"', ": 1", "}", " "])), max_size=12)


@settings(max_examples=examples(100))
@given(DELTAS_OF, st.permutations(range(4)), st.booleans())
def test_parallel_calls_are_written_one_after_the_other(
    deltas: list[tuple[int, str]], order: list[int], has_ends: bool
):
    """In whatever order their deltas and ends come; one that never ends is cut off."""
    texts = {number: "".join(text for of, text in deltas if of == number) for number in range(4)}
    pieces: list[AnyPiece] = [ToolCallDelta(id=f"c{number}", name="n", text=text) for number, text in deltas]
    if has_ends:
        pieces += [ToolCallPiece(id=f"c{number}", name="n", input=texts[number], cut=True) for number in order]
    back = read([streamed([*pieces, EndPiece(reason="max_tokens")])])
    found = {piece.id: piece for piece in back if isinstance(piece, ToolCallPiece)}
    numbers = {*order} if has_ends else {number for number, _ in deltas}
    assert {*found} == {f"c{number}" for number in numbers}
    written = dict[str, str]()
    for piece in back:
        if isinstance(piece, ToolCallDelta):
            written[piece.id] = written.get(piece.id, "") + piece.text
    # Blanks before the arguments are not written: Anthropic's SDK fails at a delta without a value.
    assert all(text == texts[int(name[1:])].lstrip() for name, text in written.items())


# The writer -----------------------------------------------------------------------------------------------------------


def blocks_of(data: bytes) -> list[Json]:
    """The blocks of a stream as they are opened and closed, one at a time; arguments as text."""
    blocks: list[Json] = []
    is_open = False
    for event in EventDecoder().feed(data):
        members: Json = json.loads(event.data)
        match members["type"]:
            case "content_block_start":
                assert not is_open
                assert members["index"] == len(blocks)
                blocks.append({**members["content_block"], "added": ""})
                is_open = True
            case "content_block_delta":
                assert is_open
                assert members["index"] == len(blocks) - 1
                _, name = DELTAS[members["delta"]["type"]]
                value = members["delta"][name]
                if name == "citation":
                    blocks[-1].setdefault("citations", []).append(value)
                else:
                    blocks[-1]["added"] += value
            case "content_block_stop":
                assert is_open
                assert members["index"] == len(blocks) - 1
                is_open = False
            case _:
                assert not is_open
    return blocks


def text(added: str, **members: Any) -> Json:
    return {"type": "text", "text": "", "added": added, **members}


def call(number: int, added: str) -> Json:
    return {"type": "tool_use", "id": f"c{number}", "name": "n", "input": {}, "added": added}


def begun(number: int, text: str = "", **members: Any) -> ToolCallDelta:
    return ToolCallDelta(id=f"c{number}", name="n", text=text, **members)


def ended(number: int, value: Any, **members: Any) -> ToolCallPiece:
    return ToolCallPiece(id=f"c{number}", name="n", input=value, **members)


WEB: Json = CITED[4]
LINK = CitationPiece(url="https://c.example", title="C", source={"type": "url_citation"})
LINKED = {
    "type": "web_search_result_location",
    "cited_text": "",
    "encrypted_index": "",
    "title": "C",
    "url": "https://c.example",
}
WRITTEN: dict[str, tuple[list[AnyPiece], list[Json], list[Json]]] = {
    "arguments as they arrive": (
        [begun(1), begun(1, '{"a'), begun(1, '": 1}'), ended(1, {"a": 1})],
        [call(1, '{"a": 1}')],
        [{"type": "tool_use", "id": "c1", "name": "n", "input": {"a": 1}}],
    ),
    "no arguments before the end": (
        [begun(1), begun(1, " "), ended(1, {})],
        [call(1, "{}")],
        [{"type": "tool_use", "id": "c1", "name": "n", "input": {}}],
    ),
    "calls at the same time, and text between them": (
        [
            *(begun(1), begun(2, "{"), begun(1, "{"), TextPiece(text="x"), begun(2, "}"), ended(2, {})),
            *(begun(1, "}"), ended(1, {}), ended(3, {})),
        ],
        [call(1, "{}"), call(2, "{}"), text("x"), call(3, "{}")],
        [
            {"type": "text", "text": "x"},
            *({"type": "tool_use", "id": f"c{number}", "name": "n", "input": {}} for number in (2, 1, 3)),
        ],
    ),
    "ids that are used again": (
        [
            *(begun(1), begun(2), ended(1, {}), ended(2, {})),
            *(begun(1), begun(2, "{"), begun(2, "}"), ended(2, {}), ended(1, {})),
        ],
        [call(1, "{}"), call(2, "{}"), call(1, "{}"), call(2, "{}")],
        [{"type": "tool_use", "id": f"c{number}", "name": "n", "input": {}} for number in (1, 2, 2, 1)],
    ),
    "a call that was cut off": (
        [begun(1, '{"a'), ended(1, '{"a": [', cut=True)],
        [call(1, '{"a": [')],
        [],
    ),
    "a call that was cut off, at once": ([ended(1, '{"a": [', cut=True)], [call(1, '{"a": [')], []),
    "a call that never ends": (
        [begun(1, "{"), TextPiece(text="x"), begun(2)],
        [call(1, "{"), text("x"), call(2, "")],
        [{"type": "text", "text": "x"}],
    ),
    "a tool that takes text": (
        [
            begun(1, custom=True),
            begun(1, 'a"', custom=True),
            begun(1, "\n", custom=True),
            ended(1, 'a"\n', custom=True),
        ],
        [call(1, '{"input":"a\\"\\n"}')],
        [{"type": "tool_use", "id": "c1", "name": "n", "input": {"input": 'a"\n'}}],
    ),
    "a tool that takes text, at once": (
        [ended(1, "a", custom=True)],
        [call(1, '{"input":"a"}')],
        [{"type": "tool_use", "id": "c1", "name": "n", "input": {"input": "a"}}],
    ),
    "a tool that takes text, cut off": (
        [begun(1, "a", custom=True), ended(1, "ab", custom=True, cut=True)],
        [call(1, '{"input":"ab')],
        [],
    ),
    "citations, after which text begins another block": (
        [TextPiece(text="x"), CitationPiece(source=WEB), LINK, TextPiece(text="y"), TextPiece(text="z")],
        [text("x", citations=[WEB, LINKED]), text("yz")],
        [{"type": "text", "text": "x", "citations": [WEB, LINKED]}, {"type": "text", "text": "yz"}],
    ),
    "a citation after all else": (
        [TextPiece(text="x"), ended(1, {}), LINK],
        [text("x"), call(1, "{}"), text("", citations=[LINKED])],
        [
            {"type": "text", "text": "x"},
            {"type": "tool_use", "id": "c1", "name": "n", "input": {}},
            {"type": "text", "text": "", "citations": [LINKED]},
        ],
    ),
    "what it has no place for": (
        [
            TextPiece(text="x"),
            CitationPiece(title="no URL", source={"type": "file_citation"}),
            MediaPiece(media_type="image/png", data="AAAA"),
            WorkPiece(event={}),
            TextPiece(text="y"),
        ],
        [text("xy")],
        [{"type": "text", "text": "xy"}],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_each_piece_has_its_blocks_streamed_and_whole(name: str):
    pieces, blocks, content = WRITTEN[name]
    end = EndPiece(reason="max_tokens")
    assert blocks_of(streamed([*pieces, end])) == blocks
    assert whole([*pieces, end])["content"] == content


def test_arguments_are_written_at_once_and_not_twice():
    writer = CODEC.answer_writer(REQUEST, LABELS)
    assert b'"content_block_start"' in writer.write(begun(1))
    assert b'"partial_json":"{\\"a' in writer.write(begun(1, '{"a'))
    assert writer.write(begun(2, "{")) == b""
    rest = writer.write(ended(1, {"a": 1}))
    assert b'"a' not in rest.partition(b"content_block_start")[0]
    assert b'"id":"c2"' in rest


REFUSED: list[AnyPiece] = [TextPiece(text="I "), TextPiece(text="cannot.", refusal=True)]


@pytest.mark.parametrize(
    ("pieces", "reason", "written"),
    [
        (REFUSED, "end_turn", "refusal"),
        (REFUSED[::-1], "end_turn", "refusal"),
        (REFUSED, "max_tokens", "max_tokens"),
        (REFUSED[:1], "refusal", "refusal"),
        (REFUSED[:1], "end_turn", "end_turn"),
    ],
)
def test_a_refusal_that_was_spoken_is_the_end(pieces: list[AnyPiece], reason: Any, written: str):
    answer = [*pieces, EndPiece(reason=reason)]
    assert whole(answer)["stop_reason"] == written
    assert f'"stop_reason":"{written}"'.encode() in streamed(answer)


@pytest.mark.parametrize(("tier", "written"), [("default", "standard"), ("standard", "standard"), ("flex", "flex")])
def test_the_tier_is_named_as_this_api_names_it(tier: str, written: str):
    end = EndPiece(usage={"input_tokens": 1}, service_tier=tier)
    assert whole([end])["usage"]["service_tier"] == written
    assert f'"service_tier":"{written}"'.encode() in streamed([end])


# The SDK --------------------------------------------------------------------------------------------------------------


class AnswerHandler(BaseHTTPRequestHandler):
    """Answers with the bytes of the server, as a stream or whole, as requested."""

    def do_POST(self) -> None:
        body: Json = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = cast("AnswerServer", self.server)
        data = server.stream if body.get("stream") else server.body
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the log of the tests is not for requests."""


class AnswerServer(ThreadingHTTPServer):
    """A server of one answer."""

    stream = b""
    body = b""


@pytest.fixture(scope="module")
def server() -> Iterator[AnswerServer]:
    with AnswerServer(("127.0.0.1", 0), AnswerHandler) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def client(server: AnswerServer) -> Iterator[anthropic.Anthropic]:
    address = f"http://127.0.0.1:{server.server_port}"
    with anthropic.Anthropic(base_url=address, api_key="a-key", max_retries=0, timeout=20) as sdk:
        yield sdk


ASKED: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
READ_BY_SDK: dict[str, list[AnyPiece]] = {
    **{name: pieces for name, (pieces, _, _) in WRITTEN.items() if "cut off" not in name and "never" not in name},
    "every kind of citation": [TextPiece(text="x"), *(CitationPiece(source=source) for source in CITED)],
    "reasoning": [
        ThinkingPiece(text="H"),
        ThinkingPiece(text="m", signature="s"),
        ThinkingPiece(text="", signature="r", redacted=True),
        TextPiece(text="x"),
    ],
}


def summary(message: Message) -> list[Any]:
    """What a message says, with its blocks in one order: a stream has what came during a call after that call."""
    blocks = sorted((block.to_dict() for block in message.content), key=lambda block: json.dumps(block, sort_keys=True))
    usage = message.usage
    return [blocks, message.model, message.stop_reason, message.stop_sequence, usage.input_tokens, usage.output_tokens]


@pytest.mark.parametrize("name", READ_BY_SDK)
def test_the_streaming_helper_of_the_sdk_makes_the_whole_answer(
    client: anthropic.Anthropic, server: AnswerServer, name: str
):
    answer = [*READ_BY_SDK[name], EndPiece(reason="tool_use", usage={"input_tokens": 3, "output_tokens": 4})]
    server.stream, server.body = streamed(answer), json.dumps(whole(answer)).encode()
    with client.messages.stream(**ASKED) as events:
        said = "".join(events.text_stream)
        message = events.get_final_message()
    assert said == "".join(piece.text for piece in answer if isinstance(piece, TextPiece))
    assert summary(cast("Message", message)) == summary(cast("Message", client.messages.create(**ASKED)))


def test_the_sdk_shows_what_there_is_of_a_call_that_was_cut_off(client: anthropic.Anthropic, server: AnswerServer):
    answer = [begun(1, '{"a": 1, "b'), ended(1, '{"a": 1, "b', cut=True), EndPiece(reason="max_tokens")]
    server.stream, server.body = streamed(answer), json.dumps(whole(answer)).encode()
    with client.messages.stream(**ASKED) as events:
        message: Any = events.get_final_message()
    assert (message.stop_reason, message.content[0].input) == ("max_tokens", {"a": 1})
    assert cast("Message", client.messages.create(**ASKED)).content == []


# The rows -------------------------------------------------------------------------------------------------------------


def paths(kind: Any, path: str = "") -> set[str]:
    """Every path of a type of the SDK, with the type of an item where rows have it."""
    origin = get_origin(kind)
    if origin is Annotated:
        return paths(get_args(kind)[0], path)
    if origin is list:
        return paths(get_args(kind)[0], f"{path}[]")
    if origin is Literal or origin is dict or kind in {type(None), Any}:
        return {path} if kind is not type(None) else set()
    if origin is not None:  # a union
        return set[str]().union(*(paths(each, path) for each in get_args(kind)))
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return {path}
    if path in {BLOCKS, CITATIONS}:
        path = f"{path}.{get_args(kind.model_fields['type'].annotation)[0]}"
    if path in ROWS and not any(name.startswith(f"{path}.") for name in ROWS):
        return {path}
    fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items() if name != "type"}
    return set[str]().union(*(paths(each, f"{path}.{name}" if path else name) for name, each in fields.items()))


def is_covered(path: str) -> bool:
    return any(path == name or path.startswith((f"{name}.", f"{name}[]")) for name in ROWS)


@pytest.mark.parametrize("kind", [Message, BetaMessage])
def test_every_part_that_the_sdk_knows_has_a_row(kind: type[BaseModel]):
    assert sorted(path for path in paths(kind) if not is_covered(path)) == []


@pytest.mark.parametrize("events", [RawMessageStreamEvent, BetaRawMessageStreamEvent])
def test_every_event_that_the_sdk_knows_is_read(events: Any):
    kinds = {get_args(each.model_fields["type"].annotation)[0]: each for each in get_args(get_args(events)[0])}
    assert {*kinds} == {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
    ended = kinds["message_delta"].model_fields
    members = [paths(ended["delta"].annotation), paths(ended["usage"].annotation, "usage")]
    others = {name: field for name, field in ended.items() if name not in {"type", "delta", "usage"}}
    members += [paths(field.annotation, name) for name, field in others.items()]
    assert sorted(path for each in members for path in each if not is_covered(path)) == []
    deltas = kinds["content_block_delta"].model_fields["delta"].annotation
    names = {get_args(each.model_fields["type"].annotation)[0] for each in get_args(deltas)}
    assert names - {*DELTAS} <= {"compaction_delta"}, "a block that is lost may have deltas of its own"


TRACE = "trace-of-the-part"
COUNT = 7919
COMPLETE: dict[str, Json] = {
    "text": {"text": "x"},
    "thinking": {"thinking": "x", "signature": "s"},
    "redacted_thinking": {"data": "x"},
    "tool_use": {"id": "c1", "name": "n", "input": {"a": 1}},
}
OWN = {"id", "type", "role", "model", "accord", "content[].thinking.estimated_tokens"}
"""Members that Accord's answers have of their own; and one that only deltas have."""


def example(name: str) -> Json:
    """A whole answer that has this part."""
    answer: Json = {"content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    place = name.removeprefix(f"{CITATIONS}.")
    if place != name:
        kind, _, member = place.partition(".")
        source = {"type": kind, **SOURCES[kind]} | ({member: TRACE} if member else {"cited_text": TRACE})
        return {**answer, "content": [{"type": "text", "text": "x", "citations": [source]}]}
    place = name.removeprefix(f"{BLOCKS}.")
    if place != name:
        kind, _, member = place.partition(".")
        value = {"a": TRACE} if member == "input" else {"type": TRACE} if member == "caller" else TRACE
        return {**answer, "content": [{"type": kind, **COMPLETE.get(kind, {}), (member or "text"): value}]}
    if "=" in name:
        return {**answer, "stop_reason": name.partition("=")[2]}
    outer, _, inner = name.partition(".")
    value: Any = COUNT if outer == "usage" and "tokens" in name else TRACE
    for step in reversed(inner.split(".") if inner else []):
        value = {step: value}
    return answer | {outer: {**answer["usage"], **value} if outer == "usage" and isinstance(value, dict) else value}


@pytest.mark.parametrize("name", [name for name in ROWS if name not in OWN])
def test_each_row_says_what_the_writer_does(name: str):
    """Of an answer that was taken apart; what is native is in the same place, what is lost is nowhere."""
    pieces = read_whole(example(name))
    end = pieces[-1]
    assert isinstance(end, EndPiece)
    assert (name in end.parts) is not ROWS[name].is_native
    body = whole(pieces)
    disposition = ROWS[name].cells[Api.MESSAGES]
    if "=" in name:
        assert disposition is AnswerDisposition.CARRIED
        assert body["stop_reason"] == "max_tokens"
        return
    is_kept = disposition is AnswerDisposition.NATIVE
    if name == "stop_reason":
        assert is_kept
        return
    parts: dict[str, None] = {}
    FINDER.find(body, parts)
    for data in (json.dumps(body), streamed(pieces).decode()):
        assert ((TRACE in data) or (str(COUNT) in data)) is is_kept
    assert ROWS[name].is_native or (name in parts) is is_kept


def test_citations_that_can_be_written_back_are_those_with_rows():
    assert {*SOURCES} == CITATION_TYPES
