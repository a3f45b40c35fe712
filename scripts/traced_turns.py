"""Run real turns and model API calls in this process and count what they pass through. Used by `scripts.measure`."""

import asyncio
import inspect
import json
import logging
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from uuid import uuid4

from accord.agents.relay import relay
from accord.apis.chat.codec import ChatCodec
from accord.backends.model import Endpoint, ModelBackend
from accord.backends.scripted import Pause, ScriptedBackend
from accord.backends.upstream_direct import DirectUpstream
from accord.config import ServerConfig
from accord.core.work.groups import BackendGroup
from accord.ports import SystemClock
from accord.run import Dispatcher, Engine, Sessions
from accord.run.call_log import CallLog
from accord.run.model_calls import ModelCalls, ModelCallsRef
from accord.servers.http.app import Application
from accord.servers.http.model_calls import model_endpoints
from accord.servers.observability import Log, Observers, Traces
from accord.servers.observability.metrics import Metrics
from accord.servers.service import AllowAll, Service
from accord.stores.memory import MemoryStore
from accord.wire.routes import ASSIST_PATH, CHAT_PATH

SOURCE: Final = str(Path(__file__).parent.parent / "src" / "accord")
STREAM: Final = [step for number in range(40) for step in (f"word{number} ", Pause(0.001))]
"""Words with a pause after each, so that each is sent alone."""
JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream"


@dataclass
class Passed:
    """What was passed through: functions and modules of the package, and how often the layer changed."""

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


async def answer_chat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request on a connection as a model endpoint."""
    message = {"role": "assistant", "content": "Hello"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "model": "m", "usage": usage}
    body = json.dumps(answer).encode()
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))


def ignore(body: bytes) -> None:
    """Do nothing with a part of an answer."""
    del body


async def send_turn(application: Application, accept: bytes, sent: Callable[[bytes], None]) -> None:
    """Run one turn through the ASGI application."""
    body = {
        "request_id": str(uuid4()),
        "context": {"session_id": str(uuid4()), "user": {"id": "me", "name": "Me"}},
        "payload": {"query": "Hello"},
    }
    await send_request(application, ASSIST_PATH, body, accept, sent)


async def send_request(
    application: Application, path: str, body: dict[str, Any], accept: bytes, sent: Callable[[bytes], None]
) -> None:
    """Run one request through the ASGI application."""
    message = {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}
    headers = [(b"host", b"localhost"), (b"content-type", JSON), (b"accept", accept)]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
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


async def with_application(application: Application, run: Callable[[Application], Coroutine[Any, Any, None]]) -> None:
    """Run something while the application is started."""
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
            await send_turn(application, JSON, ignore)
        sys.setprofile(passed)
        await send_turn(application, JSON, ignore)
        sys.setprofile(None)

    asyncio.run(with_application(make_application(["Hello"]), run))
    return passed


def trace_streamed_word() -> Passed:
    """One word in the middle of a warm stream: from the backend's piece to the bytes of its event."""
    passed = Passed()
    first, last = b"word19 ", b"word20 "

    async def run(application: Application) -> None:
        await send_turn(application, EVENT_STREAM, ignore)

        def sent(body: bytes) -> None:
            if first in body:
                sys.setprofile(passed)
            if last in body:
                sys.setprofile(None)

        await send_turn(application, EVENT_STREAM, sent)
        sys.setprofile(None)

    asyncio.run(with_application(make_application(STREAM), run))
    return passed


def trace_relayed_call() -> Passed:
    """A warm model API call that is passed on: everything from the parsed HTTP request to the stored receipt."""
    passed = Passed()

    async def trace() -> None:
        server = await asyncio.start_server(answer_chat, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        upstream = DirectUpstream()
        backend = ModelBackend("m", ChatCodec(), Endpoint(address, "m"), upstream, SystemClock())
        store = MemoryStore()
        await store.open()
        observers = Observers(Metrics(version="1"), Log(), Traces())
        dispatcher = Dispatcher([backend])
        sessions = Sessions(Engine(relay, dispatcher), store, on_turn_ended=observers.turn_ended)
        log = CallLog(sessions)
        service = Service(
            sessions,
            ServerConfig(port=0),
            AllowAll(),
            observers,
            "1",
            call_log=log,
        )
        calls = ModelCalls(dispatcher, lambda _: BackendGroup(("m",)), SystemClock())

        async def call() -> None:
            body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
            await send_request(application, CHAT_PATH, body, JSON, ignore)
            await log.flush()

        application = Application(service, model_endpoints(service, ModelCallsRef(calls)), loopback_only=True)
        for _ in range(3):
            await call()
        sys.setprofile(passed)
        await call()
        sys.setprofile(None)
        await log.close()
        await backend.aclose()
        server.close()

    asyncio.run(trace())
    return passed
