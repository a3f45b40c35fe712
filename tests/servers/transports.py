"""One service over every transport: in memory, over real HTTP/1.1 as JSON and as events, and over a WebSocket.

Each transport sends one request and returns the packets of the answer, or raises the error that was reported.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import aiohttp

from accord.agent import Agent
from accord.backends.scripted import ScriptedBackend
from accord.config import ServerConfig
from accord.ports import SessionStore
from accord.run import Dispatcher, Engine, SessionRules, Sessions
from accord.servers.http.app import Application
from accord.servers.http.serve import address_of, make_server
from accord.servers.service import AllowAll, Authenticator, NullObserver, Service
from accord.stores.memory import MemoryStore

STREAMS = {"streaming": "native"}
LIMIT_S = 30


class ReportedError(Exception):
    """The error of an answer, in whatever form the transport has."""

    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status = code, message, status


def make_service(
    agent: Agent,
    *script: Any,
    store: SessionStore | None = None,
    authenticator: Authenticator | None = None,
    rules: SessionRules | None = None,
    **settings: Any,
) -> Service:
    """A service on a scripted backend, on any free port."""
    engine = Engine(agent, Dispatcher([ScriptedBackend("a", [list(script)], STREAMS)]))
    sessions = Sessions(engine, store or MemoryStore(), rules)
    return Service(sessions, ServerConfig(port=0, **settings), authenticator or AllowAll(), NullObserver(), "1.0")


def body(number: int = 1, query: str = "hi", *, user: str = "u", session: str = "s", **payload: Any) -> dict[str, Any]:
    """A request as JSON."""
    return {
        "request_id": str(UUID(int=number)),
        "context": {"session_id": session, "user": {"id": user, "name": "U"}},
        "payload": {"query": query, **payload},
    }


def within(task: Callable[[], Awaitable[Any]]) -> Any:
    """Run a task with a time limit."""

    async def bounded() -> Any:
        return await asyncio.wait_for(task(), LIMIT_S)

    return asyncio.run(bounded())


@asynccontextmanager
async def served(application: Application) -> AsyncGenerator[str]:
    """The application on a real server in this loop; gives its address."""
    server, stopped = make_server(application), asyncio.Event()

    async def wait_until_stopped() -> None:
        await server.on_tick(0)
        await stopped.wait()

    server.main_loop = wait_until_stopped  # its own one looks ten times a second whether it should stop
    running = asyncio.create_task(server.serve())
    try:
        yield await address_of(server)
    finally:
        application.service.is_draining = True
        await application.service.sessions.drain(0)
        stopped.set()
        await running


@asynccontextmanager
async def alive(application: Application) -> AsyncGenerator[Application]:
    """The application with its lifespan, without a server."""
    to_app: asyncio.Queue[Any] = asyncio.Queue()
    from_app: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.create_task(application({"type": "lifespan"}, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    assert (await from_app.get())["type"] == "lifespan.startup.complete"
    try:
        yield application
    finally:
        await application.service.sessions.drain(0)
        await to_app.put({"type": "lifespan.shutdown"})
        assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
        await life


@dataclass(slots=True)
class Answered:
    """One HTTP answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(slots=True)
class InMemory:
    """Calls an application without any network."""

    app: Any
    sent: list[Any] = field(default_factory=list[Any])

    async def call(self, method: str, path: str, content: bytes = b"", **headers: str) -> Answered:
        path, _, query = path.partition("?")
        raw = [
            (name.replace("_", "-").encode(), value.encode())
            for name, value in {"host": "localhost", **headers}.items()
        ]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "headers": raw,
            "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        }  # fmt: skip
        messages = iter([{"type": "http.request", "body": content, "more_body": False}])
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        sent: list[Any] = []

        async def receive() -> Any:
            return next(messages, None) or await never

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *parts = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answered(start["status"], found, b"".join(part.get("body", b"") for part in parts))


def events_of(content: bytes) -> list[tuple[int | None, dict[str, Any]]]:
    """The packets in a stream of events, each with its id."""
    found: list[tuple[int | None, dict[str, Any]]] = []
    for event in content.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in event.split("\n") if line and not line.startswith(":"))
        if "data" in lines:
            found.append((int(lines["id"]) if "id" in lines else None, json.loads(lines["data"])))
    return found


def packets_of(answered: Answered) -> list[dict[str, Any]]:
    """The packets of an answer in either format; raises the error that it reports."""
    if answered.status != 200:
        problem = answered.json()
        raise ReportedError(problem["code"], problem["detail"], answered.status)
    if answered.headers["content-type"].startswith("application/json"):
        output = answered.json()["output"]
        shown = [{"op": "event", "p": event} for event in output.get("events", [])]
        return [{"op": "delta", "p": output["text"]}, *shown, {"op": "close"}]
    return raising([packet for _, packet in events_of(answered.content)])


def raising(packets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The packets, unless they end in an error."""
    for packet in packets:
        if packet["op"] == "error":
            raise ReportedError(packet["p"]["code"], packet["p"]["message"])
    return packets


Ask = Callable[[Any], Awaitable[list[dict[str, Any]]]]


@asynccontextmanager
async def _in_memory(application: Application, accept: str) -> AsyncGenerator[Ask]:
    async with alive(application) as app:

        async def ask(content: Any) -> list[dict[str, Any]]:
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            return packets_of(await InMemory(app).call("POST", "/v1/assist", raw, accept=accept))

        yield ask


@asynccontextmanager
async def _over_http(application: Application, accept: str) -> AsyncGenerator[Ask]:
    async with served(application) as address, aiohttp.ClientSession(address) as client:

        async def ask(content: Any) -> list[dict[str, Any]]:
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            headers = {"accept": accept, "content-type": "application/json"}
            async with client.post("/v1/assist", data=raw, headers=headers) as response:
                found = {name.lower(): value for name, value in response.headers.items()}
                return packets_of(Answered(response.status, found, await response.read()))

        yield ask


@asynccontextmanager
async def _over_websocket(application: Application) -> AsyncGenerator[Ask]:
    async with (
        served(application) as address,
        aiohttp.ClientSession(address) as client,
        client.ws_connect("/v1/ws") as socket,
    ):

        async def ask(content: Any) -> list[dict[str, Any]]:
            await socket.send_str(content.decode() if isinstance(content, bytes) else json.dumps(content))
            packets: list[dict[str, Any]] = []
            while True:
                packet = await socket.receive_json()
                packets.append({name: packet[name] for name in ("op", "p") if name in packet})
                if packet["op"] == "close" or (packet["op"] == "error" and "id" not in packet):
                    return raising(packets)

        yield ask


TRANSPORTS: Mapping[str, Callable[[Application], Any]] = {
    "memory-json": lambda app: _in_memory(app, "application/json"),
    "memory-events": lambda app: _in_memory(app, "text/event-stream"),
    "http-json": lambda app: _over_http(app, "application/json"),
    "http-events": lambda app: _over_http(app, "text/event-stream"),
    "websocket": _over_websocket,
}
"""Every transport, by name."""
