"""Any bytes on any transport: the server never fails or dies, and the next valid request is answered."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import aiohttp
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.agent import Agent, Turn, Yielded
from accord.servers.http.app import Application
from tests.laws import examples
from tests.servers.raw import REQUEST, Port, post
from tests.servers.transports import InMemory, alive, body, make_service, served

LIMIT_S = 10


async def echo(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text


def application() -> Application:
    return Application(make_service(Agent(echo), header_timeout_s=0.2, body_timeout_s=0.2, max_body_bytes=10_000))


def bounded(task: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(task(), LIMIT_S)

    asyncio.run(run())


def with_noise(good: bytes) -> st.SearchStrategy[bytes]:
    """A good request with some of its bytes exchanged, left out or added."""
    noise = st.tuples(st.integers(0, len(good)), st.integers(0, 8), st.binary(max_size=8))

    def spoil(changes: list[tuple[int, int, bytes]]) -> bytes:
        spoilt = good
        for place, left_out, put_in in changes:
            spoilt = spoilt[:place] + put_in + spoilt[place + left_out :]
        return spoilt

    return st.lists(noise, min_size=1, max_size=4).map(spoil)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
pieces = st.sampled_from(
    ["request_id", "context", "payload", "query", "content", "capabilities", "requirements", "session_id"]
)


@st.composite
def nearly_requests(draw: Any) -> bytes:
    """A request in which one part is something else."""
    request = body()
    where = draw(st.sampled_from(["", "context", "payload"]))
    (request[where] if where else request)[draw(pieces)] = draw(values)
    return json.dumps(request).encode()


bodies = (
    st.binary(max_size=300)
    | with_noise(REQUEST)
    | nearly_requests()
    | values.map(lambda each: json.dumps(each).encode())
)
sent = st.binary(max_size=300) | with_noise(post()) | with_noise(post(REQUEST, "Accept: text/event-stream"))
header_text = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=30)
frames = (st.booleans() | st.none()).flatmap(
    lambda kind: bodies.map(lambda each: (kind, each))  # True: text, False: bytes, None: as they are, without a frame
)


@settings(max_examples=examples(15))
@given(st.lists(sent, min_size=1, max_size=4))
def test_any_bytes_to_the_socket(many: list[bytes]):
    async def run() -> None:
        async with served(application()) as address:
            port = Port(address, int(address.rpartition(":")[2]))
            for answers in await asyncio.gather(*(port.exchange(data) for data in many)):
                assert b"HTTP/1.1 500" not in answers
            assert (await port.ask(post(json.dumps(body(99)).encode()))).status == 200

    bounded(run)


@settings(max_examples=examples(60))
@given(st.lists(bodies, min_size=1, max_size=8), header_text, header_text, header_text)
def test_any_body_and_headers(many: list[bytes], accept: str, last: str, kind: str):
    async def run() -> None:
        async with alive(application()) as app:
            for content in many:
                answered = await InMemory(app).call("POST", "/v1/assist", content)
                assert answered.status < 500
                odd = {"accept": accept, "last_event_id": last, "content_type": kind}
                assert (await InMemory(app).call("POST", "/v1/assist", content, **odd)).status < 500
            good = json.dumps(body(99, session="other")).encode()
            assert (await InMemory(app).call("POST", "/v1/assist", good)).status == 200

    bounded(run)


@settings(max_examples=examples(60))
@given(st.text(max_size=30), st.sampled_from(["GET", "DELETE", "HEAD", "POST"]))
def test_any_address(end: str, method: str):
    async def run() -> None:
        async with alive(application()) as app:
            for under in ("/", "/v1/", "/v1/requests/", f"/v1/requests/{body()['request_id']}/items/"):
                answered = await InMemory(app).call(method, under + end.replace("?", ""))
                assert answered.status in (200, 404, 405)

    bounded(run)


@settings(max_examples=examples(15))
@given(st.lists(frames, min_size=1, max_size=8))
def test_any_frames(many: list[tuple[bool | None, bytes]]):
    async def run() -> None:
        async with served(application()) as address, aiohttp.ClientSession(address) as client:
            hasty = cast("Any", aiohttp.ClientWSTimeout)(ws_close=0.05)
            async with client.ws_connect("/v1/ws", timeout=hasty) as socket:
                for kind, content in many:
                    await send_frame(socket, kind, content)
            async with client.ws_connect("/v1/ws") as socket:
                await socket.send_json(body(99, session="other"))
                assert (await socket.receive_json())["op"] == "delta"

    bounded(run)


async def send_frame(socket: Any, kind: bool | None, content: bytes) -> None:
    try:
        if kind is None:
            socket._writer.transport.write(content)
        elif kind:
            await socket.send_str(content.decode("utf-8", "replace"))
        else:
            await socket.send_bytes(content)
    except (ConnectionError, aiohttp.ClientError):
        return  # the server has hung up, as it may
