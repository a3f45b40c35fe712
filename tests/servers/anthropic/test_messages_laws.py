"""Laws of the Messages API: a request, as a work order, as a request of the same API is the same request.

What the table says that only an unchanged request can carry changes nothing of the order, and is reported.
"""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.apis.messages.codec import MessagesCodec
from accord.apis.messages.read_request import count_request, parse_request
from accord.core.work.fields import Api, Disposition, row_of
from tests.laws import examples

Json = dict[str, Any]
TEXTS = st.sampled_from(["a", " b ", "ß世👋", "two\nlines\n", '{"c": 1}'])
NAMES = st.sampled_from(["a", "b_c", "toolu_1"])
MARKS = st.sampled_from([{"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])


def shape(optional: Json | None = None, /, **members: Any) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(members, optional=optional or {})


def block(kind: str, optional: Json | None = None, /, **members: Any) -> st.SearchStrategy[Json]:
    return shape({"cache_control": MARKS, **(optional or {})}, type=st.just(kind), **members)


def source(kind: str, **members: Any) -> st.SearchStrategy[Json]:
    return shape(type=st.just(kind), **members)


DATA = st.sampled_from(["aGk=", "AAAA"])
TEXT = block("text", text=TEXTS)
IMAGE = block(
    "image",
    source=source("base64", media_type=st.just("image/png"), data=DATA)
    | source("url", url=st.just("https://a.test/b")),
)
DOCUMENT = block(
    "document",
    {"title": NAMES},
    source=source("base64", media_type=st.just("application/pdf"), data=DATA)
    | source("text", media_type=st.just("text/plain"), data=TEXTS),
)
GIVEN = st.lists(TEXT | IMAGE | DOCUMENT, min_size=1, max_size=3)
RESULT = block("tool_result", {"content": GIVEN, "is_error": st.just(value=True)}, tool_use_id=NAMES)
CALL = block("tool_use", id=NAMES, name=NAMES, input=st.dictionaries(NAMES, TEXTS | st.lists(st.none()), max_size=2))
THOUGHT = shape(type=st.just("thinking"), thinking=TEXTS, signature=NAMES)
REDACTED = shape(type=st.just("redacted_thinking"), data=NAMES)
REPLY = st.lists(TEXT | CALL | THOUGHT | REDACTED, min_size=1, max_size=3)


@st.composite
def messages(draw: st.DrawFn) -> list[Json]:
    """Messages in the form that the backend writes: both sides in turn, results of tools first."""
    found: list[Json] = [{"role": "user", "content": draw(GIVEN)}]
    for _ in range(draw(st.integers(0, 2))):
        results = draw(st.lists(RESULT, max_size=2))
        asked = draw(GIVEN) if not results or draw(st.booleans()) else []
        found += [{"role": "assistant", "content": draw(REPLY)}, {"role": "user", "content": [*results, *asked]}]
    return found


SCHEMAS = st.just({"type": "object", "title": "a"})
TOOL = shape({"description": TEXTS, "strict": st.booleans(), "cache_control": MARKS}, name=NAMES, input_schema=SCHEMAS)
TOOLS = st.lists(TOOL, min_size=1, max_size=2)
ALONE = shape({"disable_parallel_tool_use": st.just(value=True)})
FORCED = st.sampled_from(["any", "tool"])
FORMAT = st.just({"type": "json_schema", "schema": {"type": "object"}})
EFFORT = st.sampled_from(["low", "high", "max"])
SHOWN = {"display": st.just("summarized")}
THINKING = shape(SHOWN, type=st.just("adaptive")) | shape(
    SHOWN, type=st.just("enabled"), budget_tokens=st.integers(1024, 2000)
)
OPTIONAL: Json = {
    "system": st.lists(TEXT, min_size=1, max_size=2),
    "stop_sequences": st.lists(TEXTS, min_size=1, max_size=2),
    "stream": st.just(value=True),
    "tools": TOOLS,
    "output_config": shape({"effort": EFFORT}, format=FORMAT) | shape(effort=EFFORT),
}
SAMPLING: Json = {"temperature": st.floats(0, 1), "top_p": st.floats(0, 1), "top_k": st.integers(1, 9)}
CHOICES: list[Json] = [
    {},
    {"tool_choice": {"type": "none"}},
    {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
]


@st.composite
def bodies(draw: st.DrawFn) -> Json:
    """Bodies of which everything is native, in the form that the backend writes."""
    body: Json = {"model": "m", "max_tokens": draw(st.integers(2001, 9000)), "messages": draw(messages())}
    body |= draw(shape(OPTIONAL))
    # While the model thinks, the API neither takes another temperature nor forces a tool.
    if draw(st.booleans()):
        body["thinking"] = draw(THINKING)
    else:
        body |= draw(shape(SAMPLING))
        if "tools" in body and draw(st.booleans()):
            kind = draw(FORCED)
            name = {"name": body["tools"][0]["name"]} if kind == "tool" else {}
            body["tool_choice"] = {"type": kind, **name, **draw(ALONE)}
    if "tools" in body and "tool_choice" not in body:
        body |= draw(st.sampled_from(CHOICES))
    return body


def written(body: Json) -> Any:
    """The request of the same API that the order of this body becomes."""
    return MessagesCodec().write_request(parse_request(body).order, body["model"]).body


@settings(max_examples=examples(100))
@given(bodies())
def test_a_request_whose_fields_are_native_is_the_same_after_a_round_trip(body: Json):
    before = deepcopy(body)
    assert written(body) == before
    assert body == before, "reading a request does not change it"
    for name in parse_request(body).fields:
        row = row_of(Api.MESSAGES, name)
        assert row.name != "*", f"{name} is a row of the table"
        assert row.cells[Api.MESSAGES] is Disposition.NATIVE
        assert Api.MESSAGES not in row.only_unchanged


ADDED_BLOCKS: list[tuple[Json, str]] = [
    ({"type": "search_result", "source": "s", "title": "t", "content": []}, "messages[].content[].other"),
    ({"type": "container_upload", "file_id": "f"}, "messages[].content[].other"),
    ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "messages[].content[].image.file_id"),
    ({"type": "document", "source": {"type": "file", "file_id": "f"}}, "messages[].content[].document.file_id"),
]
ADDED_MEMBERS: list[tuple[Json, str]] = [
    ({"metadata": {"user_id": "u"}}, "metadata.user_id"),
    ({"cache_control": {"type": "ephemeral"}}, "cache_control"),
    ({"container": "c"}, "container"),
    ({"context_management": {"edits": []}}, "context_management"),
    ({"never_heard_of": [1]}, "never_heard_of"),
]


@pytest.mark.parametrize(("added", "name"), ADDED_BLOCKS)
@settings(max_examples=examples(10))
@given(body=bodies())
def test_a_block_that_an_order_cannot_hold_is_reported_and_changes_nothing_else(body: Json, added: Json, name: str):
    order = parse_request(body).order
    body["messages"][0]["content"].append(added)
    request = parse_request(body)
    assert request.order == order
    assert name in request.fields
    assert Api.MESSAGES in row_of(Api.MESSAGES, name).only_unchanged


@pytest.mark.parametrize(("added", "name"), ADDED_MEMBERS)
@settings(max_examples=examples(10))
@given(body=bodies())
def test_a_member_that_an_order_cannot_hold_is_reported_and_changes_nothing_else(body: Json, added: Json, name: str):
    request = parse_request({**body, **added})
    assert request.order == parse_request(body).order
    assert request.fields == (*parse_request(body).fields, name)
    assert request.body == {**body, **added}
    assert Api.MESSAGES in row_of(Api.MESSAGES, name).only_unchanged


@settings(max_examples=examples(30))
@given(bodies())
def test_counting_reads_the_same_order(body: Json):
    assert count_request(body).order == parse_request(body).order


def test_text_alone_and_a_list_of_one_block_are_the_same_request():
    short = {"model": "m", "max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": "a"}]}
    block = {"type": "text", "text": "a"}
    full = {**short, "system": [{**block, "text": "s"}], "messages": [{"role": "user", "content": [block]}]}
    assert parse_request(short).order == parse_request(full).order
    assert written(short) == full
