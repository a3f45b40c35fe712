"""No answer on any transport contains a secret, a path or a statement of an internal failure."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.errors import ERROR_FACTS, ErrorCode, StoreError
from accord.ports import PacketBatch, RunEnd, RunStart
from accord.run.run import NOT_STORED
from accord.servers.http.app import Application
from accord.servers.service import Caller, Headers, Service
from accord.stores.memory import MemoryStore
from accord.wire.manifest import CapabilityManifest
from accord.wire.session import RunRecord, SessionRecord
from accord.wire.work import AnyPiece, TextPiece, WorkOrder
from tests.servers.transports import TRANSPORTS, ReportedError, body, make_service, served, within

SECRETS = ("sk-secret", "accord.db", "SELECT", "hunter2", "Traceback", "RuntimeError: ")
SECRET = "sk-secret in " + str(Path("var") / "accord.db") + ": SELECT * FROM users WHERE password = 'hunter2'"  # noqa: S608


class Broken(Exception):  # noqa: N818 - it is what a stranger raises
    """An unexpected exception."""


async def fail_at_once(turn: Turn) -> AsyncIterator[Yielded]:
    raise Broken(SECRET + turn.text)
    yield ""


async def fail_later(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text
    raise OSError(2, SECRET, "accord.db")


async def fail_in_many_words(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text
    raise ExceptionGroup(SECRET, [Broken(SECRET)])


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


class BrokenBackend:
    """Answers a little, then raises what it should not."""

    name = "a"
    manifest = CapabilityManifest.model_validate({"streaming": "native"})

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        del order
        yield TextPiece(text="so far")
        raise Broken(SECRET)

    async def probe(self) -> None:
        raise Broken(SECRET)


class BrokenStore(MemoryStore):
    """Raises this when it comes to one of its duties."""

    def __init__(self, duty: str, error: Exception) -> None:
        super().__init__()
        self.duty, self.error = duty, error

    def _try(self, duty: str) -> None:
        if duty == self.duty:
            raise self.error

    async def begin_turn(self, session: SessionRecord, turn: RunRecord, **limits: Any) -> RunStart:
        self._try("begin")
        return await super().begin_turn(session, turn, **limits)

    async def append_packets(self, new: PacketBatch) -> None:
        self._try("append")
        await super().append_packets(new)

    async def end_turn(self, ending: RunEnd) -> bool:
        self._try("end")
        return await super().end_turn(ending)

    async def turn(self, request_id: str) -> RunRecord | None:
        self._try("turn")
        return await super().turn(request_id)


class BrokenAuthenticator:
    """Fails to identify any caller."""

    async def authenticate(self, headers: Headers) -> Caller:
        del headers
        raise Broken(SECRET)

    async def count_request(self, caller: Caller, address: str) -> None:
        """Count nothing."""

    async def count_key_request(self, caller: Caller) -> None:
        """Count nothing."""


async def slowly(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text
    await asyncio.sleep(0.05)  # lets the store write in the middle of a turn
    yield turn.text


def with_backend() -> Service:
    service = make_service(Agent(relay))
    backends: Any = service.sessions.engine.dispatcher.backends
    backends["a"] = BrokenBackend()
    return service


def run_with_store(duty: str, error: Exception) -> Service:
    return make_service(Agent(slowly), store=BrokenStore(duty, error))


def stores(duty: str) -> Sequence[tuple[str, Any, str]]:
    unknown = "internal_error" if duty == "begin" else "unavailable"
    return [
        (f"a store that fails at {duty}", partial(run_with_store, duty, StoreError(SECRET)), "unavailable"),
        (f"a store that raises anything at {duty}", partial(run_with_store, duty, Broken(SECRET)), unknown),
    ]


FAILING: list[tuple[str, Any, str]] = [
    ("an agent that fails at once", lambda: make_service(Agent(fail_at_once)), "agent_failed"),
    ("an agent that fails later", lambda: make_service(Agent(fail_later)), "agent_failed"),
    ("an agent that fails in many words", lambda: make_service(Agent(fail_in_many_words)), "agent_failed"),
    ("a backend that fails as nobody does", with_backend, "agent_failed"),
    *(row for duty in ("begin", "append", "end") for row in stores(duty)),
]


def silent(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("service", "code"), [row[1:] for row in FAILING], ids=[row[0] for row in FAILING])
def test_a_failure_is_reported_without_its_message(transport: str, service: Any, code: str):
    async def run() -> None:
        async with TRANSPORTS[transport](Application(service())) as ask:
            with pytest.raises(ReportedError) as caught:
                await ask(body())
            silent(str(caught.value))
            assert caught.value.code == code
            if caught.value.code in ("unavailable", "internal_error"):
                assert caught.value.message in (ERROR_FACTS[ErrorCode(code)].title, NOT_STORED)

    within(run)


@pytest.mark.parametrize("error", [StoreError(SECRET), Broken(SECRET)])
def test_a_lookup_in_a_broken_store_reveals_nothing(error: Exception):
    async def run() -> None:
        service = make_service(Agent(relay), store=BrokenStore("turn", error))
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            path_of_request = f"/v1/requests/{body()['request_id']}"
            for path in (
                path_of_request,
                f"{path_of_request}/receipt",
                f"{path_of_request}/adaptation",
                f"{path_of_request}/items/1",
            ):
                async with client.get(path) as response:
                    assert response.status in (500, 503)
                    silent(await response.text())
                    silent(str(response.headers))
            async with client.ws_connect("/v1/ws") as socket:
                await socket.send_json({"resume": body()["request_id"]})
                silent(await socket.receive_str())

    within(run)


def test_a_broken_authenticator_reveals_nothing():
    async def run() -> None:
        service = make_service(Agent(relay), authenticator=BrokenAuthenticator())
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            async with client.post("/v1/assist", json=body()) as response:
                assert (await response.json())["code"] == "internal_error"
                silent(await response.text())
            with pytest.raises(aiohttp.WSServerHandshakeError, match="500") as refused:
                await client.ws_connect("/v1/ws")
            silent(str(refused.value.headers))

    within(run)


def test_a_close_reason_reveals_nothing_either():
    async def run() -> list[Any]:
        sent: list[Any] = []
        app = Application(make_service(Agent(relay), authenticator=BrokenAuthenticator()))
        scope = {"type": "websocket", "path": "/v1/ws", "headers": [(b"host", b"localhost")], "subprotocols": []}

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        return sent

    assert within(run) == [
        {"type": "websocket.close", "code": 4500, "reason": ERROR_FACTS[ErrorCode.INTERNAL].title},
    ]
