"""What an agent sends is checked against its own declaration; what it passes on from a foreign agent only has to be seen."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.agents.relay import relay_with
from accord.ports import Backend
from accord.run import Dispatcher, Engine, Sessions
from accord.stores.memory import MemoryStore
from accord.wire.packet import EventPacket
from tests.backends.acp.agents import agent as foreign_agent
from tests.servers.http.test_views import EVENTS
from tests.servers.refusing import application
from tests.servers.transports import body, events_of, served, within

AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
NO_DATA = {"type": "audio", "mimeType": "audio/wav"}
NO_AUDIO = {
    "contentType": "audio",
    "declaredCapability": False,
    "required": "promptCapabilities.audio",
    "supportedTypes": ["text", "resource_link"],
}


def raw_call(content: Any) -> EventPacket:
    return EventPacket(p={"type": "tool_call", "data": {"toolCallId": "1", "title": "Listen", "content": content}})


SENT: list[tuple[str, Callable[[Turn], Yielded]]] = [
    ("a tool call", lambda turn: turn.tool_call("1", "Listen", AUDIO)),
    ("a raw tool call", lambda _: raw_call([{"type": "content", "content": AUDIO}])),
    ("a raw tool call with a tuple", lambda _: raw_call(({"type": "content", "content": AUDIO},))),
    ("an event of another type", lambda turn: turn.event("recording", {"content": AUDIO})),
]


def streamed(agent: Agent, *backends: Backend) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The packets of one turn over HTTP, and its receipt."""

    async def run() -> tuple[list[dict[str, Any]], dict[str, Any]]:
        sessions = Sessions(Engine(agent, Dispatcher(backends)), MemoryStore())
        request = body(capabilities={"supported_events": ["tool_call", "recording"]})
        async with served(application(sessions)) as address, aiohttp.ClientSession(address) as client:
            async with client.post("/v1/assist", json=request, headers=EVENTS) as response:
                assert response.status == 200
                packets = [packet for _, packet in events_of(await response.read())]
            async with client.get(f"/v1/requests/{request['request_id']}/receipt") as response:
                return packets, await response.json()

    return within(run)


def agent_that_sends(make: Callable[[Turn], Yielded], **options: Any) -> Agent:
    async def run(turn: Turn) -> AsyncIterator[Yielded]:
        yield "before "
        yield make(turn)
        yield "after"

    return Agent(run, **options)


@pytest.mark.parametrize("make", [row[1] for row in SENT], ids=[row[0] for row in SENT])
def test_content_that_an_agent_did_not_declare_ends_its_turn(make: Callable[[Turn], Yielded]):
    packets, receipt = streamed(agent_that_sends(make))
    assert [packet["op"] for packet in packets] == ["delta", "error", "close"]
    error = packets[1]["p"]
    assert error["code"] == "agent_failed"
    assert "agent does not support audio content" in error["message"]
    assert error["details"] == NO_AUDIO
    assert (receipt["outcome"]["status"], receipt["outcome"]["code"]) == ("failed", "agent_failed")


@pytest.mark.parametrize("make", [row[1] for row in SENT], ids=[row[0] for row in SENT])
def test_content_that_an_agent_declared_is_sent(make: Callable[[Turn], Yielded]):
    packets, receipt = streamed(agent_that_sends(make, accepts=["audio"]))
    assert [packet["op"] for packet in packets] == ["delta", "event", "delta", "close"]
    assert json.dumps(AUDIO["data"]) in json.dumps(packets[1]["p"])
    assert receipt["outcome"]["status"] == "done"


@pytest.mark.parametrize("block", [NO_DATA, {"type": "video"}, {}], ids=["no data", "unknown", "nothing"])
def test_malformed_content_of_an_agent_ends_its_turn_also_if_the_type_is_declared(block: dict[str, Any]):
    packets, _ = streamed(
        agent_that_sends(lambda _: raw_call([{"type": "content", "content": block}]), accepts=["audio"])
    )
    assert [packet["op"] for packet in packets] == ["delta", "error", "close"]
    assert packets[1]["p"]["code"] == "agent_failed"
    assert "error" in packets[1]["p"]["details"]


FORWARDED: list[tuple[str, dict[str, Any], bool]] = [
    ("undeclared content", AUDIO, False),
    ("bytes that are not base64", AUDIO | {"data": "!!"}, True),
    ("another media type", AUDIO | {"mimeType": "image/png"}, True),
]


@pytest.mark.parametrize(("block", "warns"), [row[1:] for row in FORWARDED], ids=[row[0] for row in FORWARDED])
def test_content_of_a_foreign_agent_is_passed_on_and_malformed_content_is_logged(
    block: dict[str, Any], warns: bool, caplog: pytest.LogCaptureFixture
):
    relay = Agent(relay_with().run, name="relay")  # declares no content at all
    backend = foreign_agent("shows", json.dumps(block))
    with caplog.at_level(logging.WARNING, logger="accord"):
        try:
            packets, receipt = streamed(relay, backend)
        finally:
            within(backend.aclose)
    assert [packet["op"] for packet in packets] == ["event", "delta", "close"]
    assert block in [part["content"] for part in packets[0]["p"]["data"]["content"]]
    assert receipt["outcome"]["status"] == "done"
    warnings = [record for record in caplog.records if record.name == "accord.decisions"]
    assert [record.getMessage() for record in warnings] == ["malformed content was passed on"] * warns
    for record in warnings:
        assert record.levelname == "WARNING"
        assert vars(record)["request_id"] == body()["request_id"]
        assert {"index", "context", "reason"} <= vars(record)["fields"].keys()
