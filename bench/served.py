"""The servers that `make bench-http` measures, each in a process of its own: bare Starlette routes, and Accord.

A bare route does what any service has to do: it parses the same request and sends the same answer, or the same events.
Accord is put together by the functions that `accord serve` uses: authentication, logs, metrics, traces and the watchdog
are on. Log lines are formatted as usual and written to /dev/null.
"""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import redirect_stderr
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
from accord.assembly.reload import make_model_calls
from accord.assembly.service import make_application, make_authenticator, make_service
from accord.backends.scripted import ScriptedBackend
from accord.config import Config, LoadedConfig, ServerConfig
from accord.ports import Store
from accord.run import Dispatcher, Engine
from accord.run.model_calls import ModelCallsRef
from accord.servers.http.assist import encode_events
from accord.servers.http.serve import address_of, serve
from accord.servers.observability import Watchdog, set_up_logging
from accord.stores import opened_store
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
    """Answer with one text."""
    del turn
    yield ANSWER


def many_texts(pause_s: float | None = None) -> Agent:
    """An agent that answers with many texts: as fast as they are read, or with a pause after each."""

    async def words(turn: Turn) -> AsyncIterator[Yielded]:
        del turn
        for _ in range(DELTAS if not pause_s else PACED):
            yield WORD
            if pause_s is not None:
                await asyncio.sleep(pause_s)

    return Agent(words)


async def bare_json(request: Request) -> Response:
    """The whole answer, from a route that does nothing else."""
    request_id = ServiceRequest.parse(await request.body()).request_id
    now = datetime.now(UTC)
    response = ServiceResponse(request_id=request_id, created_at=now, output={"text": ANSWER}, metrics=METRICS)
    return Response(response.to_json(), media_type="application/json")


def bare_events(pause_s: float | None = None) -> Callable[[Request], Any]:
    """The events of a turn, from a route that does nothing else."""
    packets = [*(DeltaPacket(p=WORD) for _ in range(DELTAS if not pause_s else PACED)), ClosePacket()]
    records = [PacketRecord(seq=seq, body=packet.to_json()) for seq, packet in enumerate(packets, start=1)]
    events = [encode_events([record]) for record in records]

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


async def serve_accord(agent: Agent, store: Store, started: Callable[[str], None]) -> None:
    """Serve an agent as `accord serve` does by default, on another store and a scripted backend."""
    loaded, settings = LoadedConfig(Config(), {}), ServerConfig(port=0)
    backend = ScriptedBackend("a", [[ANSWER]], {"streaming": "native"})
    engine = Engine(agent, Dispatcher([backend]))
    async with opened_store(store):
        authenticator = make_authenticator(settings, store)
        service, metrics = make_service(loaded, settings, engine, store, authenticator)
        calls = ModelCallsRef(make_model_calls(loaded, engine.dispatcher, engine.clock))
        application = make_application(loaded, service, metrics, calls, loopback_only=True)
        with Watchdog(agent, stall_s=settings.stall_s, lagged=metrics.loop_lagged).watching():
            await serve(application, started=started)


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
    """Serve what the command line names, on the processor that it names, and print the address."""
    os.sched_setaffinity(0, {int(sys.argv[2])})
    with TemporaryDirectory() as folder, Path(os.devnull).open("w", encoding="utf-8") as log:
        with redirect_stderr(log):  # for the handler that this makes; everything else is still printed
            set_up_logging(as_json=False)
        uvloop.run(SERVED[sys.argv[1]](Path(folder), lambda address: print(address, flush=True)))


if __name__ == "__main__":
    main()
