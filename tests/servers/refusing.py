"""One agent with its sessions over every transport that can refuse a request; each gives a refusal in one form.

Beside the transports of `transports.py` these are both versions of ACP, the Python client and the engine itself.
"""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

import aiohttp

from accord.client import AsyncClient
from accord.config import ServerConfig
from accord.errors import AccordError
from accord.run import Sessions
from accord.servers.acp import ReplayLimits
from accord.servers.acp.server import AcpServer
from accord.servers.http.app import Application
from accord.servers.service import AllowAll, NullObserver, Service
from accord.stdio import RpcConnection
from accord.wire.request import ServiceRequest
from tests.servers.transports import events_of, served


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal: `number` is an HTTP status or a JSON-RPC code; None where the transport has neither."""

    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    number: int | None = None


Send = Callable[[Any], Awaitable[str | Refused]]
"""Sends a request, and gives the text of its answer or the refusal."""


def application(sessions: Sessions, **settings: Any) -> Application:
    return Application(Service(sessions, ServerConfig(port=0, **settings), AllowAll(), NullObserver(), "1.0"))


def from_problem(status: int, problem: Mapping[str, Any]) -> Refused:
    return Refused(problem["code"], problem["detail"], problem.get("details") or {}, status)


def from_error(error: AccordError) -> Refused:
    return Refused(str(error.code), error.message, dict(error.details))


@asynccontextmanager
async def over_http(sessions: Sessions, accept: str) -> AsyncGenerator[Send]:
    async with served(application(sessions)) as address, aiohttp.ClientSession(address) as client:

        async def send(request: Any) -> str | Refused:
            async with client.post("/v1/assist", json=request, headers={"accept": accept}) as response:
                raw = await response.read()
                if response.status != 200:
                    assert response.content_type == "application/problem+json"
                    return from_problem(response.status, json.loads(raw))
            if accept == "application/json":
                return json.loads(raw)["output"]["text"]
            packets = [packet for _, packet in events_of(raw)]
            assert not [packet for packet in packets if packet["op"] == "error"], "a refusal in a stream"
            return "".join(packet["p"] for packet in packets if packet["op"] == "delta")

        yield send


@asynccontextmanager
async def over_websocket(sessions: Sessions) -> AsyncGenerator[Send]:
    async with (
        served(application(sessions)) as address,
        aiohttp.ClientSession(address) as client,
        client.ws_connect("/v1/ws") as socket,
    ):

        async def send(request: Any) -> str | Refused:
            await socket.send_json(request)
            text = ""
            while (frame := await socket.receive_json())["op"] != "close":
                assert frame["request_id"] == request["request_id"]
                if frame["op"] == "error":
                    assert "id" not in frame, "a refusal is not a packet of a turn"
                    assert not text
                    error = frame["p"]
                    return Refused(error["code"], error["message"], error.get("details") or {})
                text += frame["p"] if frame["op"] == "delta" else ""
            return text

        yield send


@asynccontextmanager
async def over_acp(sessions: Sessions, version: int) -> AsyncGenerator[Send]:
    await sessions.store.open()
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    server = AcpServer(sessions, owner="u", version="1.0", cwd="/", replay=ReplayLimits())
    streams = await asyncio.open_connection(sock=theirs)
    connection = RpcConnection(*streams, on_request=server.on_call, on_notification=server.on_notice)
    server.attach(connection)
    running, numbers = asyncio.create_task(connection.run()), count(1)

    async def call(method: str, **params: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        number, updates = next(numbers), list[dict[str, Any]]()
        writer.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
        while (frame := json.loads(await reader.readline())).get("id") != number:
            updates.append(frame["params"]["update"])
        return frame, updates

    if version == 1:
        await call("initialize", protocolVersion=1, clientCapabilities={})
    else:
        await call("initialize", protocolVersion=2, info={"name": "t", "version": "1"}, capabilities={})
    session_id = (await call("session/new", cwd="/", mcpServers=[]))[0]["result"]["sessionId"]

    async def send(request: Any) -> str | Refused:
        payload = request["payload"]
        prompt = [*payload.get("content", []), {"type": "text", "text": payload["query"]}]
        answer, updates = await call("session/prompt", sessionId=session_id, prompt=prompt)
        if error := answer.get("error"):
            assert updates == [], "updates of a turn that was refused"
            data = dict(error.get("data") or {})
            code = data.pop("code", None) or ("content_invalid" if is_malformed(data) else "content_unsupported")
            data.pop("severity", None)
            return Refused(code, error["message"], data, error["code"])
        while version == 2 and (not updates or updates[-1].get("state") != "idle"):
            updates.append(json.loads(await reader.readline())["params"]["update"])
        chunks = [each for each in updates if each["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)

    try:
        yield send
    finally:
        writer.close()
        await running
        await server.end(0)
        streams[1].close()
        await sessions.store.close()


def is_malformed(data: Mapping[str, Any]) -> bool:
    violations = data.get("violations") or [data]
    return all("error" in (violation.get("data") or violation) for violation in violations)


@asynccontextmanager
async def over_client(sessions: Sessions, *, streams: bool) -> AsyncGenerator[Send]:
    async with served(application(sessions)) as address:

        async def send(request: Any) -> str | Refused:
            context, payload = request["context"], dict(request["payload"])
            async with AsyncClient(address, user=context["user"], session_id=context["session_id"]) as client:
                query, request_id = payload.pop("query"), UUID(request["request_id"])
                try:
                    if streams:
                        stream = client.stream(query, request_id=request_id, **payload)
                        return "".join([text async for text in stream.text()])
                    return (await client.ask(query, request_id=request_id, **payload)).output["text"]
                except AccordError as error:
                    return from_error(error)

        yield send


@asynccontextmanager
async def in_engine(sessions: Sessions) -> AsyncGenerator[Send]:
    async def send(request: Any) -> str | Refused:
        try:
            return (await sessions.engine.respond(ServiceRequest.model_validate(request))).output["text"]
        except AccordError as error:
            return from_error(error)

    yield send


EVERYWHERE: Mapping[str, Callable[[Sessions], Any]] = {
    "http-json": lambda sessions: over_http(sessions, "application/json"),
    "http-events": lambda sessions: over_http(sessions, "text/event-stream"),
    "websocket": over_websocket,
    "acp-1": lambda sessions: over_acp(sessions, 1),
    "acp-2": lambda sessions: over_acp(sessions, 2),
    "client-ask": lambda sessions: over_client(sessions, streams=False),
    "client-stream": lambda sessions: over_client(sessions, streams=True),
    "engine": in_engine,
}
"""Every transport, by name."""
