"""The same service with a queue: a server puts turns into it, and a real worker with the same engine runs them.

Both are in this event loop, each with a store and connections of its own, as two processes have.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from nats.aio.msg import Msg

from accord.assembly.links import open_links
from accord.assembly.store import make_store
from accord.config import LoadedConfig
from accord.run import Sessions
from accord.servers.queue.worker import Worker
from accord.wire.queue_messages import OVER_HEADER, Names
from tests.queues.nats_server import connect
from tests.servers.refusing import EVERYWHERE, Refused, Send

# The annotations of the NATS client are incomplete.
# pyright: reportUnknownMemberType=false

PROGRAM = "program"
"""The transport of another program, which publishes requests on NATS and reads packets there, without a server."""
QUEUED = [("postgres", "http-json"), ("postgres", "websocket"), ("nats", "http-json"), ("nats", "http-events")]
"""Each kind of queue behind a server that waits for the whole answer, and behind one that streams it."""


@asynccontextmanager
async def queued(loaded: LoadedConfig | None, sessions: Sessions) -> AsyncGenerator[Sessions]:
    """The sessions of a server whose turns a worker runs; these sessions themselves if there is no queue."""
    if loaded is None:
        yield sessions
        return
    engine, store, server_store = sessions.engine, make_store(loaded), make_store(loaded)
    async with (
        open_links(loaded, server_store, name="server") as server_links,
        open_links(loaded, store, name="worker") as links,
    ):
        await store.open()
        assert links.queue is not None
        worker = Worker(Sessions(engine, store, links=links), links.queue, loaded.config.server, turns=10)
        running = asyncio.create_task(worker.run())
        try:
            yield Sessions(engine, server_store, links=server_links)
        finally:
            worker.stop()
            await running
            await worker.drain(0)
            await store.close()


@asynccontextmanager
async def reached(
    transport: str, loaded: LoadedConfig | None, sessions: Sessions
) -> AsyncGenerator[tuple[Sessions, Send]]:
    """The sessions that a transport reaches, on this queue if there is one, and how to send requests to them."""
    async with queued(loaded, sessions) as served:
        if transport == PROGRAM:
            assert loaded is not None
            over = over_nats(loaded, served)
        else:
            over = EVERYWHERE[transport](served)
        async with over as send:
            yield served, send


@asynccontextmanager
async def over_nats(loaded: LoadedConfig, sessions: Sessions) -> AsyncGenerator[Send]:
    """A program with a plain NATS client. What it gets are the packets of the agent, not adapted to any client."""
    await sessions.store.open()
    client, names = await connect(os.environ[loaded.config.queue.url_env]), Names(loaded.config.queue.prefix)

    async def send(request: Any) -> str | Refused:
        messages: asyncio.Queue[Msg] = asyncio.Queue()
        packets = await client.subscribe(names.packets_out(request["request_id"]), cb=messages.put)
        await client.publish(names.work(sessions.engine.agent.name), json.dumps(request).encode())
        text = ""
        while True:
            message = await messages.get()
            for packet in map(json.loads, message.data.splitlines()):
                if packet["op"] == "error":
                    assert not text
                    error = packet["p"]
                    return Refused(error["code"], error["message"], error.get("details") or {})
                text += packet["p"] if packet["op"] == "delta" else ""
            if OVER_HEADER in (message.headers or {}):
                await packets.unsubscribe()
                return text

    try:
        yield send
    finally:
        await client.close()
        await sessions.store.close()
