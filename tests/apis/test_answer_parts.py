"""What an answer used of its API's rows, and what the label says of it: tables and laws for `apis/answers.py`."""

import json
import time
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.apis.answer_table import (
    ANSWER_TABLE,
    COMMON,
    CUT_CALL,
    TAKEN_APART,
    UNKNOWN_END,
    WORK,
    answer_records,
    part_of,
)
from accord.apis.answers import MAX_NAME_CHARS, MAX_PARTS, TOO_MANY, AnswerRow, PartFinder, add_part, read_rows
from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import AnswerLabels
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.wire.disposition import SERVED, AnswerDisposition, Api
from accord.wire.work import AnyPiece, CitationPiece, EndPiece, MediaPiece, TextPiece, ToolCallPiece, WorkPiece
from tests.laws import examples

ROWS = read_rows("""
id N N N
tier N N L = "default" 0
usage.total N N N
usage.audio L L L = 0
text N N N
text.style L L L
sources[].url N N N
sources[].quote N C L # at the end of the text

items[].message.parts[].text N N N
items[].message.status N N N = "completed"
items[].search L L L # a tool of the endpoint
end N N N
end=cut C C C # the nearest end
""")
FINDER = PartFinder(ROWS, {"items[]"})
FOUND: dict[str, tuple[dict[str, Any], list[str]]] = {
    "what every API has": ({"id": "1", "usage": {"total": 3}}, []),
    "what says nothing": ({"tier": None, "more": "", "others": [], "usage": {}, "sources": [None, {}]}, []),
    "a neutral value": ({"tier": "default", "usage": {"audio": 0}}, []),
    "one of several neutral values": ({"tier": 0}, []),
    "another value": ({"tier": "fast", "usage": {"audio": 2}}, ["tier", "usage.audio"]),
    "false and zero say something": ({"flag": False, "count": 0}, ["flag", "count"]),
    "a member of the items of a list": ({"sources": [{"url": "u"}, {"quote": "q"}]}, ["sources[].quote"]),
    "an unknown member": ({"new": 1, "usage": {"new": {"deep": 1}}}, ["new", "usage.new"]),
    "an unknown member of an item": ({"sources": [{"new": 1}]}, ["sources[].new"]),
    "each part once": ({"sources": [{"quote": "a"}, {"quote": "b"}]}, ["sources[].quote"]),
    "a typed item": ({"items": [{"type": "search", "hidden": 1}]}, ["items[].search"]),
    "members of a typed item": (
        {"items": [{"type": "message", "status": "cut", "new": 1, "parts": [{"text": "t"}]}]},
        ["items[].message.new"],
    ),
    "an item of an unknown type": ({"items": [{"type": "new", "text": "t"}]}, ["items[].new"]),
    "an item without a type": ({"items": [{"text": "t"}]}, ["items[].None"]),
    "an item whose type is no text": ({"items": [{"type": {"a": 1}}]}, ["items[].{'a': 1}"]),
    "an item that is no object": ({"items": ["t"], "sources": [1]}, ["items[]", "sources[]"]),
    "a list of lists": ({"sources": [[{"url": "u"}]]}, ["sources[][]"]),
    "a list in the place of an object": ({"usage": [{"total": 1}]}, ["usage[]"]),
    "an object in the place of a list": ({"sources": {"url": "u"}}, ["sources.url"]),
    "text in the place of an object": ({"usage": "none"}, ["usage"]),
    "text that may be an object": ({"text": "t"}, []),
    "an object that may be text": ({"text": {"style": "s"}}, ["text.style"]),
    "a list that may be text": ({"text": ["t"]}, ["text[]"]),
    "the type of an object": ({"usage": {"type": "tokens"}}, []),
    "a type that is no text": ({"usage": {"type": ["tokens"]}}, ["usage.type"]),
    "the type of the answer": ({"type": "answer"}, ["type"]),
    "a value is no place": ({"end": "cut"}, []),
}
NAMES = sorted({name for row in ROWS for name in row.replace("[]", "").split(".")} | {"type", "new", "end=cut"})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "default", "message", "search", "t"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
ANSWERS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)


def find(members: Mapping[str, Any], at: str = "") -> list[str]:
    found: dict[str, None] = {}
    FINDER.find(members, found, at)
    return [*found]


@pytest.mark.parametrize("name", FOUND)
def test_each_use_of_a_part_is_found(name: str):
    members, parts = FOUND[name]
    assert find(members) == parts


def test_an_object_is_read_at_its_place():
    assert find({"quote": "q", "type": "s"}, "sources[]") == ["sources[].quote"]
    assert find({"new": 1}, "usage") == ["usage.new"]


def test_a_place_without_rows_has_no_known_members():
    assert find({"total": 1, "list": [1]}, "nowhere") == ["nowhere.total", "nowhere.list"]


def test_an_item_is_read_by_its_type():
    found: dict[str, None] = {}
    FINDER.find_item({"type": "search"}, "items[]", found)
    FINDER.find_item({"type": "new"}, "items[]", found)
    FINDER.find_item({"new": 1}, "nowhere[]", found)
    assert [*found] == ["items[].search", "items[].new", "nowhere[].new"]


def test_reading_unknown_places_leaves_nothing_behind():
    size = len(vars(FINDER)["_places"])
    for number in range(100):
        find({"a": [{"b": number}]}, f"place-{number}")
    assert len(vars(FINDER)["_places"]) == size


def says_something(value: Any) -> bool:
    return value not in (None, "", [], {})


def paths(value: Any, path: str = "") -> set[str]:
    """The path of everything in a value that says something."""
    if isinstance(value, dict) and value:
        members = cast("dict[str, Any]", value)
        if path == "items[]":
            path = f"items[].{members.get('type')}"
            if path != "items[].message":
                return {path}
        inner = (paths(each, f"{path}.{name}" if path else name) for name, each in members.items())
        return set[str]().union(*inner) - {f"{path}.type" if path else ""}
    if isinstance(value, list):
        return set[str]().union(*(paths(each, f"{path}[]") for each in cast("list[Any]", value)))
    return {path} if says_something(value) else set()


def is_covered(path: str, parts: list[str]) -> bool:
    """Whether a row or a part of the answer speaks for what is at this path."""
    known = [*ROWS, *parts]
    return any(path == name or path.startswith((f"{name}.", f"{name}[]")) for name in known)


@given(ANSWERS)
@settings(max_examples=examples(300))
def test_nothing_of_an_answer_is_without_a_row_or_a_part(answer: dict[str, Any]):
    parts = find(answer)
    assert [path for path in paths(answer) if not is_covered(path, parts)] == []


@given(ANSWERS)
@settings(max_examples=examples(300))
def test_a_part_is_never_native_everywhere(answer: dict[str, Any]):
    assert [part for part in find(answer) if part in ROWS and ROWS[part].is_native] == []


@given(ANSWERS, ANSWERS)
def test_more_in_an_answer_never_hides_a_part(one: dict[str, Any], more: dict[str, Any]):
    assert set(find(one)) <= set(find({**more, **one}))


def test_of_very_many_parts_the_rest_is_one():
    found: dict[str, None] = {}
    for number in range(MAX_PARTS + 10):
        add_part(found, f"part-{number}")
    assert len(found) == MAX_PARTS + 1
    assert [*found][-1] == TOO_MANY
    full = dict.fromkeys((f"part-{number}" for number in range(MAX_PARTS)), None)
    add_part(full, "part-3")
    assert TOO_MANY not in full


def test_a_long_name_is_cut():
    assert find({"a" * 1_000: 1}) == ["a" * MAX_NAME_CHARS]


@pytest.mark.parametrize("line", ["id", "id N N", "id N N N N", "id N N X", "id N N N = default", "id N N N\nid N N L"])
def test_a_line_that_is_no_row_is_an_error(line: str):
    with pytest.raises((ValueError, KeyError)):
        read_rows(line)


def test_a_row_has_what_its_line_says():
    row = read_rows('a.b[].c N C L = 0 false "x" {"y": [1]} # as text = z')["a.b[].c"]
    letters = AnswerDisposition.NATIVE, AnswerDisposition.CARRIED, AnswerDisposition.LOST
    cells: dict[Api, AnswerDisposition] = dict(zip(SERVED, letters, strict=True))
    assert row == AnswerRow("a.b[].c", cells, False, (0, False, "x", {"y": [1]}), "as text = z")


MESSAGES = [{"role": "user", "content": "Hello"}]
BODIES: dict[Api, dict[str, Any]] = {
    Api.CHAT: {"model": "m", "messages": MESSAGES},
    Api.RESPONSES: {"model": "m", "input": "Hello"},
    Api.MESSAGES: {"model": "m", "max_tokens": 9, "messages": MESSAGES},
}


RECORDED: dict[str, tuple[str, Api, str | None, str]] = {
    "a tool that an agent runs is lost": (WORK, Api.CHAT, "lost", "the chat completions API has no place for it"),
    "a call that was cut off is lost where arguments are JSON": (
        CUT_CALL,
        Api.MESSAGES,
        "lost",
        COMMON[CUT_CALL].note,
    ),
    "an unknown part is lost": ("new", Api.MESSAGES, "lost", "the messages API has no place for it"),
    "of a name that looks like a value, too": ("new=1", Api.MESSAGES, "lost", "the messages API has no place for it"),
}


@pytest.mark.parametrize("source", [Api.CHAT, Api.ACP])
def test_a_call_that_was_cut_off_is_native_where_arguments_are_text(source: Api):
    assert answer_records(source, [CUT_CALL], Api.CHAT) == []
    assert [each.part for each in answer_records(source, [CUT_CALL], Api.MESSAGES)] == [CUT_CALL]


@pytest.mark.parametrize("name", RECORDED)
def test_the_label_says_what_became_of_a_part(name: str):
    part, target, disposition, reason = RECORDED[name]
    records = [(each.disposition.value, each.reason) for each in answer_records(Api.ACP, [part], target)]
    assert records == [(disposition, reason)]


PIECES: dict[str, tuple[AnyPiece, str | None, str]] = {
    "text": (TextPiece(text="a"), None, ""),
    "a tool that an agent runs": (WorkPiece(event={}), WORK, "chat responses messages"),
    "a call": (ToolCallPiece(id="1", name="f", input={}), None, ""),
    "a call that was cut off": (ToolCallPiece(id="1", name="f", input="{", cut=True), CUT_CALL, "messages"),
    "a source with an address": (CitationPiece(url="https://a.test"), None, ""),
    "a source without an address": (CitationPiece(title="A"), "citation", "chat responses messages"),
    "an image": (MediaPiece(media_type="image/png", data="aGk="), "image", "messages"),
    "an image by its address": (MediaPiece(media_type="image/png", uri="x"), "image=address", "responses messages"),
    "sound": (MediaPiece(media_type="audio/wav", data="aGk="), "sound", "responses messages"),
    "a file": (MediaPiece(media_type="text/csv", data="aGk="), "file", "chat responses messages"),
}
"""Pieces of a backend that names no parts, the part of each, and the APIs whose clients lose it."""


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_of_a_backend_that_names_no_parts_is_lost_as_the_writers_lose_it(name: str):
    piece, part, losing = PIECES[name]
    assert part_of(piece, Api.OTHER) == part_of(piece, Api.ACP) == part
    for codec in (ChatCodec(), ResponsesCodec(), MessagesCodec()):
        body = BODIES[codec.api]
        request, labels = codec.read_request(dict(body)), AnswerLabels("0" * 32, 0, "m", {})
        records = answer_records(Api.OTHER, [part] if part else [], codec.api)
        assert [each.disposition.value for each in records] == ["lost"] * (codec.api.value in losing.split())
        with_it, without = ([*more, EndPiece()] for more in ([piece], []))
        is_same = codec.write_answer(request, labels, [with_it]) == codec.write_answer(request, labels, [without])
        assert is_same is bool(records)


def test_model_apis_name_the_parts_of_their_answers_themselves():
    assert part_of(MediaPiece(media_type="text/csv"), Api.GEMINI) is None


def test_an_end_that_no_rule_knows_is_carried_as_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("accord.apis.answer_table.ANSWER_TABLE", {Api.CHAT: ROWS})
    records = answer_records(Api.CHAT, ["end=new", "end=cut", "event=new"], Api.MESSAGES)
    assert [(each.part, each.disposition.value, each.reason) for each in records] == [
        ("end=new", "carried", UNKNOWN_END),
        ("end=cut", "carried", "the nearest end"),
        ("event=new", "lost", "the messages API has no place for it"),
    ]


def test_a_note_about_another_form_is_no_reason_for_a_loss(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("accord.apis.answer_table.ANSWER_TABLE", {Api.GEMINI: ROWS, Api.MESSAGES: ROWS})
    reasons = {
        target: [each.reason for each in answer_records(Api.GEMINI, ["sources[].quote", "items[].search"], target)]
        for target in SERVED
    }
    assert reasons == {
        Api.CHAT: ["a tool of the endpoint"],
        Api.RESPONSES: ["at the end of the text", "a tool of the endpoint"],
        Api.MESSAGES: ["the messages API has no place for it", "a tool of the endpoint"],
    }
    assert [each.reason for each in answer_records(Api.MESSAGES, ["sources[].quote"], Api.MESSAGES)] == [TAKEN_APART]


@pytest.mark.parametrize("api", ANSWER_TABLE)
def test_a_row_can_be_found_and_says_in_which_form_it_is_carried(api: Api):
    for row in ANSWER_TABLE[api].values():
        assert len(row.name) <= MAX_NAME_CHARS
        assert row.note or AnswerDisposition.CARRIED not in row.cells.values(), f"{row.name}: in which form?"


def test_an_answer_is_read_in_less_than_50_us():
    tokens = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}
    call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": json.dumps({"q": "b"})}}
    message = {"role": "assistant", "content": "Hello", "refusal": None, "annotations": [], "tool_calls": [call, call]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    answer = {"id": "1", "object": "chat.completion", "created": 1, "choices": [choice], "usage": tokens}
    finder = PartFinder(ANSWER_TABLE[Api.CHAT])
    quickest = float("inf")
    for _ in range(200):
        began = time.perf_counter()
        finder.find(answer, {})
        quickest = min(quickest, time.perf_counter() - began)
    assert quickest < 50e-6
