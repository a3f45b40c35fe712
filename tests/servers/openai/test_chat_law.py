"""The law of chat requests: request → order → request of the same API loses nothing that the table does not name."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.chat.codec import ChatCodec
from accord.apis.openai.parts import TEXT_INPUT
from accord.core.work.fields import Api, Disposition, row_of

API = ChatCodec(top_k=True, max_stops=None, reasoning_field="reasoning_content")
"""A server that takes all that servers of this API take."""

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
WORD = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
BASE64 = st.sampled_from(["AAAA", "aGk=", "/+8="])
VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT
OBJECTS = st.dictionaries(WORD, VALUES | st.lists(VALUES, max_size=2), max_size=2)


def made(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(members)


def maybe(required: dict[str, Any], optional: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    fixed: dict[str, st.SearchStrategy[Any]] = {
        name: cast("st.SearchStrategy[Any]", value) if isinstance(value, st.SearchStrategy) else st.just(value)
        for name, value in required.items()
    }
    return st.fixed_dictionaries(fixed, optional=optional)


TEXT_PART = maybe({"type": "text", "text": TEXT}, {"cache_control": st.just({"type": "ephemeral"}), "mark": VALUES})
IMAGE_URL = st.sampled_from(["data:image/png;base64,AAAA", "https://a.test/b.png"])
IMAGE = maybe(
    {"type": "image_url", "image_url": maybe({"url": IMAGE_URL}, {"detail": st.sampled_from(["low", "high", "auto"])})},
    {},
)
SOUND = maybe({"type": "input_audio", "input_audio": made(data=BASE64, format=st.sampled_from(["mp3", "wav"]))}, {})
FILE_NAMES = TEXT | st.sampled_from(["a/b.pdf", "50%25.pdf", "a?b#c.pdf"])
PDF = maybe(
    {"type": "file", "file": made(file_data=BASE64.map("data:application/pdf;base64,{}".format), filename=FILE_NAMES)},
    {},
)
UPLOADED = st.just({"type": "file", "file": {"file_id": "file-1"}})
OTHER = maybe({"type": "video", "video": VALUES}, {})
CALL = made(id=WORD, type=st.just("function"), function=made(name=WORD, arguments=OBJECTS.map(json.dumps)))
PARTS = st.lists(TEXT_PART | IMAGE | SOUND | PDF | UPLOADED | OTHER, min_size=1, max_size=3)
MESSAGES = st.lists(
    maybe({"role": st.sampled_from(["system", "developer"]), "content": TEXT | st.lists(TEXT_PART, max_size=2)}, {"name": WORD})
    | maybe({"role": "user", "content": TEXT | st.just("") | PARTS}, {"name": WORD, "mark": VALUES})
    | maybe({"role": "assistant", "content": st.none() | TEXT | st.lists(TEXT_PART, max_size=2)},
            {"tool_calls": st.lists(CALL, min_size=1, max_size=2), "reasoning_content": TEXT, "refusal": st.none() | TEXT, "audio": st.just({"id": "a"})})
    | maybe({"role": "tool", "tool_call_id": WORD, "content": TEXT | st.lists(TEXT_PART, max_size=1)}, {}),
    min_size=1, max_size=4,
)  # fmt: skip


def tool_name(tool: dict[str, Any]) -> str:
    return tool["function"]["name"] if "function" in tool else ""


TOOLS = st.lists(
    made(type=st.just("function"), function=maybe({"name": WORD}, {"description": TEXT, "parameters": st.dictionaries(WORD, VALUES, min_size=1, max_size=2), "strict": st.booleans()}))
    | st.just({"type": "custom", "custom": {"name": "c"}}),
    min_size=1, max_size=3, unique_by=tool_name,
)  # fmt: skip
CHOICES = st.sampled_from(["none", "auto", "required", "first"])
FORMATS = (
    st.sampled_from([{"type": "text"}, {"type": "json_object"}, {"type": "grammar", "grammar": "g"}])
    | made(type=st.just("json_schema"), json_schema=maybe({"name": WORD, "schema": OBJECTS}, {"description": TEXT}))
)  # fmt: skip
HELLO = [{"role": "user", "content": "hi"}]
BODIES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "parts": PARTS.map(lambda parts: {"model": "m", "messages": [{"role": "user", "content": parts}]}),
    "messages": maybe({"model": "m", "messages": MESSAGES}, {}),
    "tools": maybe({"model": "m", "messages": HELLO, "tools": TOOLS, "parallel_tool_calls": st.booleans()}, {"tool_choice": CHOICES}),
    "choices without tools": maybe({"model": "m", "messages": HELLO, "parallel_tool_calls": st.booleans()}, {"tool_choice": st.just("none")}),
    "fields": maybe({"model": "m", "messages": HELLO}, {
        "stream": st.booleans(), "stream_options": maybe({}, {"include_usage": st.booleans(), "include_obfuscation": st.booleans()}),
        "response_format": FORMATS, "temperature": st.floats(0, 2), "top_p": st.floats(0, 1), "top_k": st.integers(1, 9),
        "seed": st.integers(0, 9), "frequency_penalty": st.floats(-2, 2), "presence_penalty": st.just(0),
        "max_completion_tokens": st.integers(1, 9), "logprobs": st.booleans(), "n": st.integers(1, 3),
        "stop": TEXT | st.lists(TEXT, max_size=4), "reasoning_effort": st.sampled_from(["none", "low", "high"]),
        "user": WORD, "store": st.booleans(), "own_word": VALUES,
    }),
}  # fmt: skip
"""Requests of each kind apart: one strategy for all of them would reach little of each."""


def requests(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return valid_requests(BODIES[kind])


@st.composite
def valid_requests(draw: st.DrawFn, bodies: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    body = draw(bodies)
    names = [tool["function"]["name"] for tool in body.get("tools", ()) if tool["type"] == "function"]
    if body.get("tool_choice") in ("required", "first"):
        # A choice must have a tool to choose.
        named = {"type": "function", "function": {"name": names[0]}} if names else "none"
        body["tool_choice"] = named if body["tool_choice"] == "first" else ("required" if names else "auto")
    if body.get("logprobs"):
        body["top_logprobs"] = draw(st.integers(0, 5))
    return body


def arrives(field: str) -> bool:
    """Whether a field of this row has to be in a request that was made from the order, by the table."""
    row = row_of(Api.CHAT, field)
    return row.cells[Api.CHAT] is Disposition.NATIVE and Api.CHAT not in row.only_unchanged


CONTENT = "messages[].content[]"


def part_statement(part: dict[str, Any]) -> Any:
    """What a part says, without what only an unchanged request can carry; None if that is all of it."""
    match part["type"]:
        case "text":
            return part["text"]
        case "refusal":
            return part["refusal"]
        case "image_url" if part["image_url"].get("detail") == "auto":
            return "image_url", {"url": part["image_url"]["url"]}
        case "image_url" | "input_audio":
            return part["type"], part[part["type"]]
        case "file" if "file_data" in part["file"]:
            return "file", part["file"]
        case _:
            return None


def content_statements(content: Any) -> list[Any]:
    if not isinstance(content, list):
        return [content] if content else []
    said = [part_statement(part) for part in cast("list[dict[str, Any]]", content)]
    return [each for each in said if each]


def one_text(said: list[Any], separator: str = "") -> list[Any]:
    """Parts of text as one, for roles that write one text only."""
    text = separator.join(each for each in said if isinstance(each, str))
    return [each for each in said if not isinstance(each, str)] + ([text] if text else [])


def message_statement(message: dict[str, Any]) -> Any:
    role = "system" if message["role"] == "developer" else message["role"]
    said = content_statements(message.get("content"))
    if message.get("refusal"):
        said.append(message["refusal"])
    if role != "user":
        said = one_text(said, "\n" if role == "tool" else "")
    calls = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls", ())
    ]
    return role, said, calls, message.get("reasoning_content"), message.get("tool_call_id")


def tool_statement(tool: dict[str, Any]) -> Any:
    if tool["type"] == "custom":  # is sent as a function with one text
        return tool["custom"]["name"], None, TEXT_INPUT, False
    function = tool["function"]
    schema = function.get("parameters", {"type": "object", "properties": {}})
    return function["name"], function.get("description"), schema, bool(function.get("strict"))


def statements(body: dict[str, Any]) -> dict[str, Any]:
    """What a request says, each thing in one form."""
    said = {name: value for name, value in body.items() if arrives(name) and row_of(Api.CHAT, name).asks(value)}
    said.pop("n", None)  # the engine sends the order as often
    said["messages"] = [message_statement(message) for message in body["messages"]]
    said["tools"] = list(map(tool_statement, body.get("tools", ())))
    if not said["tools"]:  # without tools these ask for nothing
        said.pop("tool_choice", None)
        said.pop("parallel_tool_calls", None)
    said["stop"] = [body["stop"]] if isinstance(body.get("stop"), str) else body.get("stop", [])
    given = body.get("response_format", {})
    schema = given.get("json_schema")
    said["form"] = (schema["name"], schema["schema"]) if schema else given.get("type") == "json_object"
    return said


@pytest.mark.parametrize("kind", BODIES)
@given(data=st.data())
def test_request_to_order_to_request_loses_nothing_that_the_table_does_not_name(kind: str, data: st.DataObject):
    body = data.draw(requests(kind))
    parsed = ChatCodec().read_request(json.loads(json.dumps(body)))
    sent = json.loads(json.dumps(API.write_request(parsed.order, "m").body))
    assert statements(sent) == statements(body)


@pytest.mark.parametrize("kind", BODIES)
@given(data=st.data())
def test_every_part_of_a_request_that_is_not_sent_again_is_a_reported_field(kind: str, data: st.DataObject):
    body = data.draw(requests(kind))
    fields = set(ChatCodec().read_request(body).fields)
    contents = [message["content"] for message in body["messages"] if isinstance(message.get("content"), list)]
    parts: list[dict[str, Any]] = [part for content in contents for part in content]
    expected = {
        "messages[].name": any("name" in message for message in body["messages"]),
        "messages[].audio": any("audio" in message for message in body["messages"]),
        f"{CONTENT}.other": any(part["type"] == "video" for part in parts),
        f"{CONTENT}.file.file_id": any("file_id" in part.get("file", ()) for part in parts),
        f"{CONTENT}.cache_control": any("cache_control" in part for part in parts),
        f"{CONTENT}.mark": any(part.get("mark") is not None for part in parts),
        "tools[].custom": any(tool["type"] == "custom" for tool in body.get("tools", ())),
        "response_format.other": body.get("response_format", {}).get("type") == "grammar",
        "stream_options.include_obfuscation": bool(body.get("stream_options", {}).get("include_obfuscation")),
        "user": "user" in body,
        "own_word": body.get("own_word") is not None,
        "store": body.get("store") is True,
        "n": body.get("n", 1) != 1,
    }
    assert {name for name in expected if name in fields} == {name for name, is_used in expected.items() if is_used}
