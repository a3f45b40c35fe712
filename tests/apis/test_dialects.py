"""Dialects: what follows from the one file of each, and that none of them is without an example."""

import json
from typing import Any

import msgspec
import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.relayed import ChatEvent
from accord.apis.codec import ReportedError
from accord.apis.failure import Failure
from accord.backends.model_options import dialect_names, load_dialect
from accord.core.sse import ServerEvent
from accord.core.work.fields import TABLE
from accord.wire.capability import KNOWN_CAPABILITIES
from accord.wire.conversation import Conversation, ConversationMessage, Role, TextPart
from accord.wire.disposition import Api
from accord.wire.work import AnyPiece, EndPiece, Reasoning, TextPiece, WorkOrder

DIALECTS = sorted(dialect_names())
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def codec(name: str) -> ChatCodec:
    return load_dialect(name)()


def chunk(delta: dict[str, Any], end: str | None = None, **members: Any) -> str:
    return json.dumps(
        {"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": end}], **members}
    )


def parts_of(end: str) -> list[str]:
    return [f"choices[].finish_reason={end}"]


STREAMS: dict[str, tuple[list[str], EndPiece | Failure]] = {
    "deepseek": (
        [chunk({"content": "Hi"}), chunk({}, "insufficient_system_resource")],
        Failure.OVERLOADED,
    ),
    "groq": (
        [chunk({"content": "Hi"}), chunk({}, "stop", x_groq={"id": "req", "usage": USAGE})],
        EndPiece(model="m", usage={"input_tokens": 5, "output_tokens": 3}, parts=["x_groq.id"]),
    ),
    "mistral": (
        [chunk({"content": "Hi"}), chunk({}, "model_length", usage=USAGE)],
        EndPiece(
            reason="max_tokens",
            model="m",
            usage={"input_tokens": 5, "output_tokens": 3},
            parts=parts_of("model_length"),
        ),
    ),
    "openrouter": ([chunk({"content": "Hi"}), chunk({}, "error")], Failure.FAILED),
    "vllm": ([chunk({"content": "Hi"}), chunk({}, "abort")], Failure.FAILED),
}
"""The end of a stream of each server, as its words are, and what it means."""

ORDER = WorkOrder(
    conversation=Conversation(messages=[ConversationMessage(role=Role.USER, content=[TextPart(text="Hello")])]),
    parameters={"max_tokens": 9, "seed": 7},
    reasoning=Reasoning(enabled=True, effort="low"),
    stream=True,
)
MEMBERS: dict[str, set[str]] = {
    "deepseek": {"max_tokens", "reasoning_effort", "stream_options"},
    "groq": {"max_completion_tokens", "seed", "reasoning_effort", "stream_options"},
    "mistral": {"max_tokens", "random_seed", "reasoning_effort"},
    "openrouter": {"max_tokens", "seed", "reasoning_effort", "stream_options"},
    "vllm": {"max_tokens", "seed", "reasoning_effort", "stream_options"},
}
"""The members of the request of one order, beside those that every request has."""
ALWAYS = {"model", "messages", "stream"}


def test_every_dialect_has_its_examples():
    assert DIALECTS == sorted(STREAMS) == sorted(MEMBERS)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_lacks_rows_of_the_table_and_known_capabilities(name: str):
    dialect = codec(name).dialect
    assert dialect.title != ChatCodec.dialect.title
    assert dialect.lacks <= TABLE[Api.CHAT].keys()
    assert dialect.unsupported <= set(KNOWN_CAPABILITIES)
    assert not dialect.renames.keys() & dialect.lacks
    assert set(dialect.renames) <= TABLE[Api.CHAT].keys()


@pytest.mark.parametrize("name", DIALECTS)
def test_the_end_of_a_stream_is_read_by_the_words_of_its_server(name: str):
    events, expected = STREAMS[name]
    reader, pieces = codec(name).answer_reader(), list[AnyPiece]()
    failure: Failure | None = None
    try:
        for event in [*events, codec(name).dialect.end_mark.decode()]:
            pieces += reader.feed(ServerEvent(event.encode()))
    except ReportedError as error:
        failure = error.report.failure
    assert pieces[0] == TextPiece(text="Hi")
    assert expected == (failure or pieces[-1])


@pytest.mark.parametrize("name", DIALECTS)
def test_the_relay_reads_the_same_end(name: str):
    events, expected = STREAMS[name]
    watcher = codec(name).watcher()
    for event in events:
        watcher.note_event(msgspec.json.decode(event, type=ChatEvent))
    summary = watcher.summary
    if isinstance(expected, EndPiece):
        assert (summary.usage, summary.failure) == (expected.usage, None)
    else:
        assert summary.failure is not None
        assert summary.failure.failure is expected


@pytest.mark.parametrize("name", DIALECTS)
def test_members_have_the_names_of_the_server(name: str):
    api = codec(name)
    order = ORDER
    if "seed_determinism" in api.unsupported:  # a plan leaves it out
        order = order.model_copy(update={"parameters": {"max_tokens": 9}})
    written = api.write_request(order, "m").body
    assert written is not None
    assert written.keys() - ALWAYS == MEMBERS[name]
    relayed, _ = api.relayed_body(
        {"model": "x", "messages": [], "stream": True, "max_completion_tokens": 9}, "m", keeps_reasoning=False
    )
    assert relayed.keys() - ALWAYS == MEMBERS[name] & {"max_tokens", "max_completion_tokens", "stream_options"}
