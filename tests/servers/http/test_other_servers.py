"""The same application under another ASGI server."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest
from hypercorn import asyncio as hypercorn
from hypercorn.config import Config

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause
from accord.servers.http.app import Application
from tests.servers.transports import body, events_of, make_service, within

WORDS = ("Hel", "lo")


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


@asynccontextmanager
async def under_hypercorn(application: Application) -> AsyncGenerator[aiohttp.ClientSession]:
    """The application under hypercorn on loopback, and a client of it."""
    listening = socket.create_server(("127.0.0.1", 0))
    port, stop = listening.getsockname()[1], asyncio.Event()
    config = Config()
    config.bind, config.errorlog = [f"fd://{listening.detach()}"], None
    config.graceful_timeout = 1.0
    running = asyncio.create_task(cast("Any", hypercorn).serve(application, config, shutdown_trigger=stop.wait))
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        stop.set()
        await running


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_question_is_answered_over_http(accept: str):
    async def run() -> None:
        async with (
            under_hypercorn(Application(make_service(Agent(relay), *WORDS))) as client,
            client.post("/v1/assist", json=body(), headers={"accept": accept}) as response,
        ):
            assert (response.status, response.content_type) == (200, accept)
            content = await response.read()
            if accept == "application/json":
                assert json.loads(content)["output"]["text"] == "Hello"
            else:
                assert [packet["op"] for _, packet in events_of(content)] == ["delta", "delta", "close"]

    within(run)


def test_a_question_is_answered_over_a_websocket():
    async def run() -> None:
        async with (
            under_hypercorn(Application(make_service(Agent(relay), *WORDS))) as client,
            client.ws_connect("/v1/ws", protocols=["accord"]) as socket,
        ):
            assert socket.protocol == "accord"
            await socket.send_json(body())
            packets = [await socket.receive_json() for _ in range(3)]
            assert [(packet["id"], packet["op"]) for packet in packets] == [(1, "delta"), (2, "delta"), (3, "close")]

    within(run)


def test_a_refusal_has_the_same_form():
    async def run() -> None:
        async with under_hypercorn(Application(make_service(Agent(relay)))) as client:
            async with client.post("/v1/assist", data=b"{", headers={"content-type": "application/json"}) as response:
                assert (response.status, (await response.json())["code"]) == (400, "invalid_message")
            async with client.get("/v1/assist") as response:
                assert (response.status, response.headers["allow"]) == (405, "POST")
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await client.ws_connect("/v1/ws", headers={"origin": "https://evil.example"})

    within(run)


def test_the_turn_of_a_client_that_disconnects_ends(caplog: pytest.LogCaptureFixture):
    async def run() -> None:
        service = make_service(Agent(relay), "a", Pause(0.1), "b")
        async with under_hypercorn(Application(service)) as client:
            async with client.post("/v1/assist", json=body(), headers={"accept": "text/event-stream"}) as response:
                await response.content.readany()
                response.close()
            await service.sessions.drain(20)
            async with client.get(f"/v1/requests/{body()['request_id']}") as response:
                assert (await response.json())["output"]["text"] == "ab"

    within(run)
    assert [record for record in caplog.records if record.name == "accord.servers"] == []
