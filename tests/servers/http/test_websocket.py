"""The WebSocket: authentication over time, limits of one connection, frames at the wrong time."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.errors import RefusedError
from accord.ports import SystemClock
from accord.servers.http.app import Application
from accord.servers.http.authentication import EXPIRED, MISSING, UNKNOWN, TokenAuthenticator
from accord.servers.http.websocket import BEARER, MAX_TURNS, PROTOCOL
from accord.servers.service import Service
from accord.stores.memory import MemoryStore
from accord.wire.session import TokenRecord, token_digest
from tests.servers.clock import START, ManualClock
from tests.servers.provider import a_provider, oidc
from tests.servers.transports import alive, body, make_service, served, within

ADA = "accord_" + "a" * 43
EVE = "accord_" + "b" * 43
RECHECK_S = 0.05


class Waiting:
    """An agent whose turns send one word, then wait until the test lets them end."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()
        self.agent = Agent(self.answer)

    async def answer(self, turn: Turn) -> AsyncIterator[Yielded]:
        self.begun += 1
        yield turn.text
        await self.may_end.wait()
        yield " done"


async def echo(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text


def record(token: str, user: str) -> TokenRecord:
    return TokenRecord(token_id=user, user=user, digest=token_digest(token), created_at=START)


async def a_service(
    agent: Agent, *, rates: list[str] | None = None, has_tokens: bool = True, **settings: Any
) -> Service:
    """A service with the tokens of ada and eve."""
    store = MemoryStore()
    await store.open()
    for token, user in ((ADA, "ada"), (EVE, "eve")) if has_tokens else ():
        await store.put_token(record(token, user))
    authenticator = TokenAuthenticator(store, None, rates, SystemClock(), recheck_s=RECHECK_S)
    return make_service(agent, store=store, authenticator=authenticator, recheck_s=RECHECK_S, **settings)


def store_of(service: Service) -> MemoryStore:
    store = service.sessions.store
    assert isinstance(store, MemoryStore)
    return store


async def until_refused(service: Service, token: str) -> None:
    """Wait until the authenticator refuses this token."""
    while True:
        try:
            await service.authenticator.authenticate({b"authorization": f"Bearer {token}".encode()})
        except RefusedError:
            return
        await asyncio.sleep(0.01)


@asynccontextmanager
async def connected(service: Service, token: str | None = ADA) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with (
        served(Application(service)) as address,
        aiohttp.ClientSession(address, headers=headers) as client,
        client.ws_connect("/v1/ws") as socket,
    ):
        yield socket


async def until(socket: aiohttp.ClientWebSocketResponse, op: str) -> dict[str, Any]:
    """The next packet with this op."""
    while True:
        packet = await socket.receive_json()
        if packet["op"] == op:
            return packet


async def closed(socket: aiohttp.ClientWebSocketResponse) -> tuple[int | None, str]:
    """The code and the reason that the connection is closed with; packets before that are passed over."""
    while True:
        message = await socket.receive()
        if message.type is aiohttp.WSMsgType.CLOSE:
            return message.data, message.extra or ""
        assert message.type is aiohttp.WSMsgType.TEXT


FRAMES = {
    "begin": body(2, user="ada"),
    "resume": {"resume": body(1)["request_id"], "after": 0},
    "cancel": {"cancel": body(1)["request_id"]},
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_revoked_token_closes_its_connection_at_the_next_frame(frame: str):
    async def run() -> None:
        waiting = Waiting()
        service = await a_service(waiting.agent)
        # Only the frame may notice.
        service.settings = service.settings.model_copy(update={"recheck_s": 60.0})
        async with connected(service) as socket:
            await socket.send_json(body(1, user="ada"))
            await until(socket, "delta")
            await store_of(service).revoke_token("ada")
            await until_refused(service, ADA)
            await socket.send_json(FRAMES[frame])
            assert await closed(socket) == (4401, UNKNOWN)
            assert waiting.begun == 1
            assert service.sessions.running == 1

    within(run)


def test_a_revoked_token_closes_a_connection_that_only_reads():
    async def run() -> None:
        service = await a_service(Waiting().agent)
        async with connected(service) as socket:
            await socket.send_json(body(1, user="ada"))
            await until(socket, "delta")
            await store_of(service).revoke_token("ada")
            assert await closed(socket) == (4401, UNKNOWN)

    within(run)


def test_an_expired_jwt_closes_its_connection():
    async def run() -> None:
        clock = ManualClock()
        async with a_provider() as provider:
            authenticator = TokenAuthenticator(None, oidc(provider, clock), [], clock)
            service = make_service(Agent(echo), authenticator=authenticator, recheck_s=RECHECK_S)
            async with connected(service, provider.token()) as socket:
                await socket.send_json(body(1, user="ada"))
                await until(socket, "close")
                clock.elapsed_s = 400
                assert await closed(socket) == (4401, EXPIRED)

    within(run)


def test_the_first_token_of_an_open_service_closes_the_connections_without_one():
    async def run() -> None:
        service = await a_service(Agent(echo), has_tokens=False)
        async with connected(service, None) as socket:
            await socket.send_json(body(1))
            await until(socket, "close")
            await store_of(service).put_token(record(ADA, "ada"))
            code, reason = await closed(socket)
            assert code == 4401
            assert MISSING.startswith(reason)

    within(run)


def test_a_browser_offers_its_token_as_a_subprotocol_and_is_not_sent_it_back():
    async def run() -> None:
        service = await a_service(Agent(echo))
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            async with client.ws_connect("/v1/ws", protocols=[PROTOCOL, BEARER + ADA]) as socket:
                assert socket.protocol == PROTOCOL
                await socket.send_json(body(1, user="ada"))
                assert (await until(socket, "delta"))["p"] == "hi"
            for offered in ([PROTOCOL], [PROTOCOL, BEARER + "x"], [PROTOCOL, ADA], [BEARER]):
                with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                    await client.ws_connect("/v1/ws", protocols=offered)
                assert caught.value.status == 401
            # A header goes before a subprotocol.
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await client.ws_connect("/v1/ws", protocols=[BEARER + ADA], headers={"authorization": "Bearer x"})

    within(run)


def test_a_request_in_the_name_of_another_user_is_refused_by_every_endpoint():
    async def run() -> None:
        service, headers = await a_service(Agent(echo)), {"authorization": f"Bearer {ADA}"}
        async with served(Application(service)) as address, aiohttp.ClientSession(address, headers=headers) as client:
            async with client.ws_connect("/v1/ws") as socket:
                await socket.send_json(body(1, user="eve"))
                refused = await socket.receive_json()
                assert (refused["op"], refused["p"]["code"]) == ("error", "forbidden")
                assert refused["request_id"] == body(1)["request_id"]
            async with client.post("/v1/assist", json=body(2, user="eve")) as response:
                assert (response.status, (await response.json())["code"]) == (403, "forbidden")
            async with client.post("/v1/assist", json=body(2, user="ada")) as response:
                assert response.status == 200

    within(run)


def test_one_caller_cannot_take_all_turns_by_hanging_up_and_others_are_served():
    async def run() -> None:
        waiting = Waiting()
        service = await a_service(waiting.agent, turns_per_caller=3)
        async with served(Application(service)) as address:
            for first in (1, 11, 21):
                headers = {"authorization": f"Bearer {ADA}"}
                async with (
                    aiohttp.ClientSession(address, headers=headers) as client,
                    client.ws_connect("/v1/ws") as socket,
                ):
                    for number in range(first, first + 5):
                        await socket.send_json(body(number, user="ada", session=f"ada-{number}"))
                    refused = await until(socket, "error")
                    assert refused["p"]["code"] == "rate_limit_exceeded"
                    assert refused["p"]["details"] == {"retry_after": 1, "limit": 3}
            assert service.sessions.running == 3
            async with aiohttp.ClientSession(address) as client:
                request = body(31, user="ada", session="more")
                headers = {"authorization": f"Bearer {ADA}"}
                async with client.post("/v1/assist", json=request, headers=headers) as response:
                    assert (response.status, response.headers["retry-after"]) == (429, "1")
                    assert "You have 3 running turns" in (await response.json())["detail"]
                again = {"authorization": f"Bearer {ADA}", "accept": "text/event-stream"}
                known = body(1, user="ada", session="ada-1")
                async with client.post("/v1/assist", json=known, headers=again) as response:
                    assert response.status == 200  # a turn that runs already is no new one
                waiting.may_end.set()
                others = {"authorization": f"Bearer {EVE}"}
                async with client.post("/v1/assist", json=body(41, user="eve"), headers=others) as response:
                    assert response.status == 200
            await service.sessions.drain(5)
            assert service.runs == {}

    within(run)


def test_every_frame_counts_as_a_request_whatever_is_in_it():
    async def run() -> None:
        service = await a_service(Agent(echo), rates=["4/minute"])
        async with connected(service) as socket:  # the handshake is the first
            await socket.send_json(body(1, user="ada"))
            await until(socket, "close")
            for frame in ("garbage", json.dumps(FRAMES["resume"])):
                await socket.send_str(frame)
            await until(socket, "close")
            for frame in (FRAMES["begin"], FRAMES["cancel"], FRAMES["resume"]):
                await socket.send_json(frame)
                refused = await until(socket, "error")
                assert refused["p"]["code"] == "rate_limit_exceeded"
                assert refused["p"]["details"]["limit"] == "4/minute"
                assert 0 < refused["p"]["details"]["retry_after"] <= 60
                assert refused["request_id"] in json.dumps(frame)

    within(run)


def test_one_connection_reads_so_many_turns_and_no_more():
    async def run() -> None:
        waiting = Waiting()
        service = await a_service(waiting.agent, rates=[])
        async with connected(service) as socket:
            for number in range(1, MAX_TURNS + 1):
                await socket.send_json(body(number, user="ada", session=str(number)))
                await until(socket, "delta")
            for frame in (body(MAX_TURNS + 1, user="ada", session="more"), FRAMES["resume"]):
                await socket.send_json(frame)
                refused = await until(socket, "error")
                assert refused["p"]["code"] == "unavailable"
                assert str(MAX_TURNS) in refused["p"]["message"]
            assert waiting.begun == service.sessions.running == MAX_TURNS
            waiting.may_end.set()
            await until(socket, "close")
            await socket.send_json(body(MAX_TURNS + 1, user="ada", session="more"))
            while (await until(socket, "delta"))["request_id"] != body(MAX_TURNS + 1)["request_id"]:
                pass

    within(run)


def test_a_turn_that_is_being_read_is_not_sent_twice():
    async def run() -> None:
        waiting = Waiting()
        service = await a_service(waiting.agent)
        async with connected(service) as socket:
            request = body(1, user="ada")
            for frame in (request, request, FRAMES["resume"]):
                await socket.send_json(frame)
            await socket.send_json({"cancel": body(9)["request_id"]})
            packets = [await socket.receive_json() for _ in range(2)]
            assert {packet["op"] for packet in packets} == {"delta", "error"}  # the error ends the frames before it
            waiting.may_end.set()
            rest = [await socket.receive_json() for _ in range(2)]
            assert [(packet["op"], packet["id"]) for packet in rest] == [("delta", 2), ("close", 3)]
            await socket.send_json(FRAMES["resume"])
            again = [await socket.receive_json() for _ in range(3)]
            assert [packet["id"] for packet in again] == [1, 2, 3]

    within(run)


def test_cancelling_a_turn_that_is_over_is_a_conflict():
    async def run() -> None:
        service = await a_service(Agent(echo))
        async with connected(service) as socket:
            await socket.send_json(body(1, user="ada"))
            await until(socket, "close")
            await socket.send_json(FRAMES["cancel"])
            refused = await socket.receive_json()
            assert (refused["op"], refused["p"]["code"]) == ("error", "request_conflict")
            assert refused["request_id"] == body(1)["request_id"]

    within(run)


def test_while_the_service_stops_an_open_connection_begins_nothing_and_reads_on():
    async def run() -> None:
        waiting = Waiting()
        service = await a_service(waiting.agent)
        async with connected(service) as socket:
            await socket.send_json(body(1, user="ada"))
            await until(socket, "delta")
            service.is_draining = True
            await socket.send_json(body(2, user="ada", session="more"))
            refused = await until(socket, "error")
            assert (refused["p"]["code"], refused["p"]["details"]["retry_after"]) == ("unavailable", 5)
            waiting.may_end.set()
            assert (await until(socket, "close"))["request_id"] == body(1)["request_id"]
            await socket.send_json(FRAMES["resume"])
            assert (await until(socket, "close"))["id"] == 3
            assert waiting.begun == 1

    within(run)


def test_a_frame_over_the_limit_is_refused_by_us_where_the_server_has_no_limit():
    async def run() -> None:
        async with alive(Application(make_service(Agent(echo), max_frame_bytes=1_000))) as app:
            to_app: asyncio.Queue[Any] = asyncio.Queue()
            from_app: asyncio.Queue[Any] = asyncio.Queue()
            scope = {
                "type": "websocket", "path": "/v1/ws", "raw_path": b"/v1/ws", "query_string": b"", "root_path": "",
                "scheme": "ws", "headers": [(b"host", b"localhost")], "subprotocols": [], "client": ("127.0.0.1", 1),
            }  # fmt: skip
            connection = asyncio.create_task(app(scope, to_app.get, from_app.put))
            await to_app.put({"type": "websocket.connect"})
            assert (await from_app.get())["type"] == "websocket.accept"
            for frame in ({"text": "x" * 1_001}, {"bytes": b"x" * 1_001}, {"text": "é" * 501}):
                await to_app.put({"type": "websocket.receive", **frame})
                assert json.loads((await from_app.get())["text"])["p"]["code"] == "too_large"
            await to_app.put({"type": "websocket.receive", "text": json.dumps(body(1))})
            assert json.loads((await from_app.get())["text"])["p"] == "hi"
            await to_app.put({"type": "websocket.disconnect"})
            await connection

    within(run)
