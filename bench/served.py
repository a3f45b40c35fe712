"""The servers that `make bench-http` measures, each in a process of its own: bare Starlette routes, and Accord.

A bare route does what any service has to do: it parses the same request and sends the same answer, or the same events.
"""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from accord.agent import Agent, Turn, Yielded
from accord.agents.relay import relay
from accord.backends.scripted import ScriptedBackend
from accord.config import ServerConfig
from accord.engine import Dispatcher, Engine, Sessions
from accord.ports import SessionStore
from accord.servers.http.app import Application
from accord.servers.http.assist import encode_events
from accord.servers.http.serve import address_of, serve
from accord.servers.service import AllowAll, NullObserver, Service
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.packet import ClosePacket, DeltaPacket
from accord.wire.request import ServiceRequest, ServiceResponse
from accord.wire.routes import ASSIST_PATH
from accord.wire.session import PacketRecord

DELTAS: Final = 200
PACED: Final = 40
PACE_S: Final = 0.005
WORD: Final = "word "
ANSWER: Final = "Here is a short answer."
METRICS: Final = {"duration_ms": 0.123, "adaptation": {"native": 1}}


async def one_text(turn: Turn) -> AsyncIterator[Yielded]:
    """Say one thing."""
    del turn
    yield ANSWER


def many_texts(pause_s: float | None = None) -> Agent:
    """An agent that says many things: as fast as they are taken, or with a pause after each."""

    async def words(turn: Turn) -> AsyncIterator[Yielded]:
        del turn
        for _ in range(DELTAS if not pause_s else PACED):
            yield WORD
            if pause_s is not None:
                await asyncio.sleep(pause_s)

    return Agent(words)


async def bare_json(request: Request) -> Response:
    """The whole answer, from a route that does nothing else."""
    asked = ServiceRequest.parse(await request.body())
    now = datetime.now(UTC)
    said = ServiceResponse(request_id=asked.request_id, created_at=now, output={"text": ANSWER}, metrics=METRICS)
    return Response(said.to_json(), media_type="application/json")


def bare_events(pause_s: float | None = None) -> Callable[[Request], Any]:
    """The events of a turn, from a route that does nothing else."""
    packets = [*(DeltaPacket(p=WORD) for _ in range(DELTAS if not pause_s else PACED)), ClosePacket()]
    kept = [PacketRecord(seq=seq, body=packet.to_json()) for seq, packet in enumerate(packets, start=1)]
    events = [encode_events([each]) for each in kept]

    async def answer(request: Request) -> Response:
        ServiceRequest.parse(await request.body())
        return StreamingResponse(pieces(), media_type="text/event-stream")

    async def pieces() -> AsyncIterator[bytes]:
        for event in events:
            yield event
            if pause_s is not None:
                await asyncio.sleep(pause_s)

    return answer


async def serve_bare(endpoint: Callable[[Request], Any], started: Callable[[str], None]) -> None:
    """Serve one route on the same server with the same settings."""
    app = Starlette(routes=[Route(ASSIST_PATH, endpoint, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, server_header=False))
    announcing = asyncio.create_task(_announce(server, started))
    gc.freeze()
    await server.serve()
    await announcing


async def _announce(server: uvicorn.Server, started: Callable[[str], None]) -> None:
    started(await address_of(server))


async def serve_accord(agent: Agent, store: SessionStore, started: Callable[[str], None]) -> None:
    """Serve an agent as `accord serve` does."""
    backend = ScriptedBackend("a", [[ANSWER]], {"streaming": "native"})
    sessions = Sessions(Engine(agent, Dispatcher([backend])), store)
    service = Service(sessions, ServerConfig(port=0), AllowAll(), NullObserver(), "1.0")
    await serve(Application(service, loopback_only=True), started=started)


Started = Callable[[str], None]
SERVED: Final[Mapping[str, Callable[[Path, Started], Any]]] = {
    "bare-json": lambda _, started: serve_bare(bare_json, started),
    "json": lambda _, started: serve_accord(Agent(one_text), MemoryStore(), started),
    "json-sqlite": lambda at, started: serve_accord(Agent(one_text), SqliteStore(at / "bench.db"), started),
    "json-relay": lambda _, started: serve_accord(relay, MemoryStore(), started),
    "bare-events": lambda _, started: serve_bare(bare_events(), started),
    "events": lambda _, started: serve_accord(many_texts(), MemoryStore(), started),
    "bare-yielding": lambda _, started: serve_bare(bare_events(0), started),
    "yielding": lambda _, started: serve_accord(many_texts(0), MemoryStore(), started),
    "bare-paced": lambda _, started: serve_bare(bare_events(PACE_S), started),
    "paced": lambda _, started: serve_accord(many_texts(PACE_S), MemoryStore(), started),
}
"""Everything that can be measured, by name."""


def main() -> None:
    """Serve what the command line names, on the processor that it names, and tell the address."""
    os.sched_setaffinity(0, {int(sys.argv[2])})
    with TemporaryDirectory() as folder:
        uvloop.run(SERVED[sys.argv[1]](Path(folder), lambda address: print(address, flush=True)))


if __name__ == "__main__":
    main()
