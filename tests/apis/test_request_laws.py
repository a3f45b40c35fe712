"""The law of requests: an order that is written for an API, and read by the same codec, is the same order.

Orders are made in the form in which each API holds them. What it carries in another form (documents as text, several
texts as one) is in the tests of its requests.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ModelApi, ServedApi
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.wire.work import WorkOrder

Strategy = st.SearchStrategy[Any]

TEXT = st.text('abcé漢🙂 \n<>{}"', min_size=1, max_size=12).filter(str.strip)
WORD = st.text("abcxyz_", min_size=1, max_size=8)
DATA = st.sampled_from(["AAAA", "/+8="])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORD, inner, max_size=2),
    max_leaves=4,
)
SCHEMA = st.dictionaries(WORD, VALUES, max_size=2).map(lambda more: {"type": "object", "title": "T", **more})
MARKS: dict[str, Strategy] = {"cache_control": st.just({"type": "ephemeral"})}


def part(kind: str, optional: Mapping[str, Strategy] | None = None, /, **members: Strategy) -> Strategy:
    return st.fixed_dictionaries({"type": st.just(kind), **members}, optional={**(optional or {})})


def several(parts: Strategy, least: int = 1) -> Strategy:
    return st.lists(parts, min_size=least, max_size=3)


def in_turn(*groups: Strategy) -> Strategy:
    """Parts of each group, in the order of the groups."""
    return st.tuples(*(several(group, 0) for group in groups)).map(
        lambda lists: [each for one in lists for each in one]
    )


ADDRESS = WORD.map("https://example.org/{}".format)
TEXTS = part("text", text=TEXT)
IMAGE = part("image", media_type=st.sampled_from(["image/png", "image/jpeg"]), data=DATA)
REMOTE = part("image", media_type=st.just(""), data=st.just(""), uri=ADDRESS)
DETAIL: dict[str, Strategy] = {"detail": st.sampled_from(["low", "high"])}
SEEN = part("image", DETAIL, media_type=st.just("image/png"), data=DATA)
SOUND = part("audio", media_type=st.sampled_from(["audio/wav", "audio/mpeg"]), data=DATA)
PDF = part("resource", uri=WORD.map("{}.pdf".format), media_type=st.just("application/pdf"), data=DATA)
NOTE = part("resource", MARKS, uri=ADDRESS, text=TEXT)
CALL = part("tool_use", id=WORD, name=WORD, input=st.dictionaries(WORD, VALUES, max_size=2))
SIGNED_CALL = part("tool_use", {"signature": WORD}, id=WORD, name=WORD, input=st.dictionaries(WORD, VALUES, max_size=2))
THOUGHT = part("thinking", text=TEXT)
SIGNED = part("thinking", text=TEXT, signature=WORD)
REDACTED = part("thinking", text=st.just(""), signature=WORD, redacted=st.just(value=True))


def result(content: Strategy, **members: Strategy) -> Strategy:
    return part("tool_result", tool_use_id=WORD, content=content, **members)


@st.composite
def conversations(draw: st.DrawFn, system: Strategy, user: Strategy, reply: Strategy, results: Strategy) -> Any:
    """A conversation in turns; `results` are the messages that answer calls, each a list of parts."""
    messages = [("system", content) for content in draw(system)] + [("user", draw(user))]
    for _ in range(draw(st.integers(0, 2))):
        messages.append(("assistant", draw(reply)))
        answers = [("tool", content) for content in draw(results)]
        messages += answers
        if not answers or draw(st.booleans()):
            messages.append(("user", draw(user)))
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def tool_of(strict: Strategy, optional: Mapping[str, Strategy] | None = None) -> Strategy:
    members = {"name": WORD, "description": TEXT | st.just(""), "input_schema": SCHEMA, "strict": strict}
    return st.fixed_dictionaries(members, optional={**(optional or {})})


@st.composite
def orders(
    draw: st.DrawFn,
    conversation: Strategy,
    *,
    tool: Strategy,
    form: Strategy,
    parameters: Mapping[str, Strategy],
    limit: Strategy,
    **members: Strategy,
) -> WorkOrder:
    """An order with this conversation; `form` is what the answer has to be."""
    tools: list[Any] = draw(st.lists(tool, max_size=2, unique_by=_name_of))
    sampling = st.fixed_dictionaries({}, optional={**parameters})
    order: dict[str, Any] = {
        "conversation": draw(conversation),
        "tools": tools,
        "parameters": draw(sampling) | draw(limit),
        **{name: draw(strategy) for name, strategy in members.items()},
        **draw(form),
    }
    if tools:
        chosen = {"mode": "tool", "name": tools[0]["name"]}
        order["tool_choice"] = draw(st.sampled_from([None, {"mode": "required"}, chosen]))
        order["parallel_tool_calls"] = draw(st.sampled_from([None, False]))
    return WorkOrder.model_validate(order)


def _name_of(tool: dict[str, str]) -> str:
    return tool["name"]


NO_FORM: Strategy = st.builds(dict[str, Any])
JSON_MODE: Strategy = st.just({"json_mode": True})
NAMED_SCHEMA = st.fixed_dictionaries({"response_schema": SCHEMA, "schema_name": WORD})
SAMPLING: dict[str, Strategy] = {"temperature": st.just(0.5), "top_p": st.just(0.9)}
LOGPROBS: dict[str, Strategy] = {"logprobs": st.just(value=True) | st.integers(1, 5)}
COUNT = st.integers(1, 9_000)
LIMIT = st.fixed_dictionaries({"max_tokens": COUNT})
NO_LIMIT: Strategy = st.builds(dict[str, Any])
STOPS = st.lists(TEXT, max_size=4)


class Codec(ModelApi, ServedApi, Protocol):
    """Both halves of a codec."""


APIS: dict[str, tuple[Codec, st.SearchStrategy[WorkOrder]]] = {
    "chat": (
        ChatCodec(top_k=True, reasoning_field="reasoning_content"),
        orders(
            conversations(
                st.lists(st.tuples(TEXTS).map(list), max_size=2),
                several(TEXTS | SEEN | REMOTE | SOUND | PDF),
                st.tuples(st.lists(THOUGHT, max_size=1), st.lists(TEXTS, max_size=1), several(SIGNED_CALL, 0)).map(
                    lambda lists: [each for one in lists for each in one]
                ),
                several(result(st.lists(TEXTS, max_size=1)).map(lambda each: [each]), 0),
            ),
            tool=tool_of(st.none() | st.just(value=True)),
            form=NO_FORM | JSON_MODE | NAMED_SCHEMA,
            parameters={
                **SAMPLING,
                **LOGPROBS,
                "top_k": COUNT,
                "seed": COUNT,
                "frequency_penalty": st.just(1),
                "presence_penalty": st.just(-1),
            },
            limit=NO_LIMIT | LIMIT,
            stop_sequences=STOPS,
            stream=st.booleans(),
        ),
    ),
    "responses": (
        ResponsesCodec(),
        orders(
            conversations(
                st.lists(several(TEXTS), max_size=2),
                several(TEXTS | SEEN | REMOTE | PDF),
                in_turn(SIGNED | REDACTED, TEXTS, CALL).filter(bool),
                st.lists(
                    several(result(st.tuples(TEXTS).map(list) | several(IMAGE))),
                    max_size=1,
                ),
            ),
            tool=tool_of(st.booleans()),
            form=NO_FORM | JSON_MODE | NAMED_SCHEMA,
            parameters={**SAMPLING, **LOGPROBS},
            limit=NO_LIMIT | LIMIT,
            stream=st.booleans(),
            parallel_tool_calls=st.none() | st.booleans(),
        ),
    ),
    "messages": (
        MessagesCodec(),
        orders(
            conversations(
                st.lists(several(part("text", MARKS, text=TEXT)), max_size=1),
                several(TEXTS | IMAGE | REMOTE | PDF | NOTE),
                in_turn(SIGNED | REDACTED, TEXTS, CALL).filter(bool),
                st.lists(several(result(several(TEXTS | IMAGE | NOTE, 0), is_error=st.booleans())), max_size=1),
            ),
            tool=tool_of(st.none() | st.booleans(), MARKS),
            form=NO_FORM | st.fixed_dictionaries({"response_schema": SCHEMA}),
            parameters={**SAMPLING, "top_k": COUNT},
            limit=LIMIT,  # the API requires one
            stop_sequences=STOPS,
            stream=st.booleans(),
        ),
    ),
}


@pytest.mark.parametrize("api", APIS)
@given(data=st.data())
def test_an_order_that_is_written_and_read_is_the_same_order(api: str, data: st.DataObject):
    codec, strategy = APIS[api]
    order = data.draw(strategy)
    body = json.decode(json.encode(codec.write_request(order, "m").body))
    request = codec.read_request(body)
    assert (request.model, request.order) == ("m", order)
