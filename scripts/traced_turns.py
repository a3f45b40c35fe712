"""Run real turns in this process and count what they pass through. Used by `scripts.measure`."""

import asyncio
import inspect
import json
import logging
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from uuid import uuid4

from accord.agents.relay import relay
from accord.backends.scripted import Pause, ScriptedBackend
from accord.config import ServerConfig
from accord.run import Dispatcher, Engine, Sessions
from accord.servers.http.app import Application
from accord.servers.observability import Log, Observers, Traces
from accord.servers.observability.metrics import Metrics
from accord.servers.service import AllowAll, Service
from accord.stores.memory import MemoryStore
from accord.wire.routes import ASSIST_PATH

SOURCE: Final = str(Path(__file__).parent.parent / "src" / "accord")
STREAM: Final = [step for number in range(40) for step in (f"word{number} ", Pause(0.001))]
"""Words with a pause after each, so that each is sent alone."""
JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream"


@dataclass
class Passed:
    """What a turn passed through: functions and modules of the package, and how often it changed the layer."""

    functions: set[CodeType] = field(default_factory=set[CodeType])
    modules: set[str] = field(default_factory=set[str])
    switches: int = 0
    layer: str = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Count one call; set as the profile function of the interpreter."""
        del arg
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        if not code.co_name.startswith("<"):  # no comprehensions and lambdas
            self.functions.add(code)
        self.modules.add(code.co_filename)
        layer = code.co_filename[len(SOURCE) + 1 :].partition("/")[0]
        self.switches += layer != self.layer
        self.layer = layer

    @property
    def generators(self) -> int:
        """How many of the functions are async generators."""
        return sum(1 for code in self.functions if code.co_flags & inspect.CO_ASYNC_GENERATOR)


def make_application(script: list[str | Pause]) -> Application:
    """The relay agent over HTTP with the observers of `accord serve`, on a backend that plays this script."""
    logging.getLogger("accord").addHandler(logging.NullHandler())
    backend = ScriptedBackend("scripted", [script], {"streaming": "native"})
    observers = Observers(Metrics(version="1"), Log(), Traces())
    sessions = Sessions(Engine(relay, Dispatcher([backend])), MemoryStore(), on_turn_ended=observers.turn_ended)
    return Application(Service(sessions, ServerConfig(port=0), AllowAll(), observers, "1"), loopback_only=True)


def ignore(body: bytes) -> None:
    """Do nothing with a part of an answer."""
    del body


async def send_request(application: Application, accept: bytes, sent: Callable[[bytes], None]) -> None:
    """Run one request through the ASGI application."""
    body = {
        "request_id": str(uuid4()),
        "context": {"session_id": str(uuid4()), "user": {"id": "me", "name": "Me"}},
        "payload": {"query": "Hello"},
    }
    message = {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}
    headers = [(b"host", b"localhost"), (b"content-type", JSON), (b"accept", accept)]
    scope = {
        "type": "http",
        "method": "POST",
        "path": ASSIST_PATH,
        "raw_path": ASSIST_PATH.encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }
    received = iter([message])

    async def receive() -> dict[str, Any]:
        found = next(received, None)
        return found if found is not None else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent(message.get("body", b""))

    await application(scope, receive, send)


async def with_application(script: list[str | Pause], run: Callable[[Application], Coroutine[Any, Any, None]]) -> None:
    """Run something while the application is started."""
    application = make_application(script)
    started, stop = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, str]:
        if not started.is_set():
            return {"type": "lifespan.startup"}
        await stop.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: Any) -> None:
        if message["type"].endswith(".failed"):
            raise RuntimeError(message["message"])
        started.set()

    lifespan = asyncio.create_task(application({"type": "lifespan"}, receive, send))
    await started.wait()
    await run(application)
    stop.set()
    await lifespan


def trace_json_turn() -> Passed:
    """A warm JSON turn: everything from the parsed HTTP request to the whole answer."""
    passed = Passed()

    async def run(application: Application) -> None:
        for _ in range(3):
            await send_request(application, JSON, ignore)
        sys.setprofile(passed)
        await send_request(application, JSON, ignore)
        sys.setprofile(None)

    asyncio.run(with_application(["Hello"], run))
    return passed


def trace_streamed_word() -> Passed:
    """One word in the middle of a warm stream: from the backend's piece to the bytes of its event."""
    passed = Passed()
    first, last = b"word19 ", b"word20 "

    async def run(application: Application) -> None:
        await send_request(application, EVENT_STREAM, ignore)

        def sent(body: bytes) -> None:
            if first in body:
                sys.setprofile(passed)
            if last in body:
                sys.setprofile(None)

        await send_request(application, EVENT_STREAM, sent)
        sys.setprofile(None)

    asyncio.run(with_application(STREAM, run))
    return passed
