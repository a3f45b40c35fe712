"""The pool of connections: when one is used again, replaced or closed, what is sent, and what each failure is called."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import trustme

from accord.apis.failure import Failure
from accord.backends import upstream_connection
from accord.backends.upstream import UpstreamError, UpstreamRequest, UpstreamTimeouts
from accord.backends.upstream_direct import DirectUpstream
from accord.version import package_version
from tests.backends.models.test_upstream_connection import LOOPS, read_all, within
from tests.client.faulty_server import END, STREAM_HEAD, Do, FaultyServer, Step, chunk, in_turn, whole

TIMES = UpstreamTimeouts(5.0, 5.0, 5.0)
GOOD = whole(200, b'{"text": "Hello there."}')


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return request.param


def talk(url: str, body: bytes | None = b"{}", **headers: str) -> UpstreamRequest:
    return UpstreamRequest("POST", f"{url}/talk", headers, body)


async def body_of(upstream: DirectUpstream, request: UpstreamRequest) -> bytes:
    reply = await upstream.send(request)
    try:
        return await read_all(reply)
    finally:
        await reply.close()


@asynccontextmanager
async def pool(times: UpstreamTimeouts = TIMES, tls: ssl.SSLContext | None = None) -> AsyncGenerator[DirectUpstream]:
    upstream = DirectUpstream(times, tls=tls)
    try:
        yield upstream
    finally:
        await upstream.aclose()


Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Endpoints:
    """A server on this event loop, and its open connections."""

    url: str = ""
    open: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])


@asynccontextmanager
async def serving(serve: Served, host: str = "127.0.0.1") -> AsyncGenerator[Endpoints]:
    endpoints = Endpoints()

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        endpoints.open.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            writer.close()
            endpoints.open.discard(task)

    server = await asyncio.start_server(met, host, 0)
    port = server.sockets[0].getsockname()[1]
    endpoints.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        yield endpoints
    finally:
        server.close()
        if endpoints.open:  # they end as soon as the client has closed its side
            _, left = await asyncio.wait(endpoints.open, timeout=5)
            assert left == set()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return head + await reader.readexactly(int(length or b"0"))


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with its body, in two chunks that come apart."""
    while True:
        body = (await read_request(reader)).partition(b"\r\n\r\n")[2]
        writer.write(STREAM_HEAD + chunk(body[:1]))
        await asyncio.sleep(0)
        writer.write((chunk(body[1:]) if body[1:] else b"") + END)


REPEATED: dict[str, tuple[list[list[Step]], list[bytes | Failure], int, int]] = {
    "kept": ([[GOOD]], [GOOD, GOOD], 2, 1),
    "closed in order": (
        [[GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), Do.CLOSE]],
        [GOOD, GOOD],
        2,
        2,
    ),
    "closed by an answer of HTTP/1.0": ([[GOOD.replace(b"1.1", b"1.0"), Do.CLOSE]], [GOOD, GOOD], 2, 2),
    "closed on the second request": ([[GOOD], [Do.CLOSE], [GOOD]], [GOOD, GOOD], 3, 2),
    "reset on the second request": ([[GOOD], [Do.RESET], [GOOD]], [GOOD, GOOD], 3, 2),
    "closed on both attempts": ([[GOOD], [Do.CLOSE]], [GOOD, Failure.UNREACHABLE], 3, 2),
    "closed on the first request": ([[Do.CLOSE], [GOOD]], [Failure.UNREACHABLE, GOOD], 2, 2),
    "closed after a byte": ([[GOOD], [b"H", Do.CLOSE], [GOOD]], [GOOD, Failure.UNREACHABLE], 2, 1),
    "closed after an informational reply": (
        [[GOOD], [b"HTTP/1.1 100 Continue\r\n\r\n", Do.CLOSE]],
        [GOOD, Failure.UNREACHABLE],
        2,
        1,
    ),
    "more than an answer": ([[GOOD + GOOD]], [GOOD, GOOD], 2, 2),
    "half of another answer": ([[GOOD + b"HTTP/1.1 2"]], [GOOD, GOOD], 2, 2),
    "a malformed answer": ([[b"what?\r\n\r\n", Do.HOLD], [GOOD]], [Failure.NOT_UNDERSTOOD, GOOD], 2, 2),
}


@pytest.mark.parametrize(("answers", "outcomes", "requests", "connections"), REPEATED.values(), ids=REPEATED)
def test_each_second_request_uses_the_connection_it_should(
    answers: list[list[Step]], outcomes: list[bytes | Failure], requests: int, connections: int, loop: str
):
    async def twice(url: str) -> list[bytes | Failure]:
        results: list[bytes | Failure] = []
        async with pool() as upstream:
            for _ in range(2):
                try:
                    results.append(await body_of(upstream, talk(url)))
                except UpstreamError as error:
                    results.append(error.failure)
        return results

    with FaultyServer(in_turn(*answers)) as server:
        results = within(loop, lambda: twice(server.url))
    expected = [each.partition(b"\r\n\r\n")[2] if isinstance(each, bytes) else each for each in outcomes]
    assert results == expected
    assert (len(server.seen), server.connections) == (requests, connections)


def test_parallel_requests_on_kept_connections_get_their_own_answers(loop: str):
    async def many() -> None:
        async with serving(echo) as endpoints, pool() as upstream:

            async def several(first: int) -> None:
                for number in range(40):
                    body = b"%d" % (first + number)
                    assert await body_of(upstream, talk(endpoints.url, body)) == body

            await asyncio.gather(*(several(1_000 * worker) for worker in range(12)))
            assert len(endpoints.open) <= 12

    within(loop, many)


def test_the_connection_that_was_used_last_is_used_next():
    async def once() -> None:
        numbers: dict[Any, int] = {}

        async def numbered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            numbers[writer] = len(numbers)
            while await read_request(reader):
                writer.write(whole(200, b"%d" % numbers[writer]))

        async with serving(numbered) as endpoints, pool() as upstream:
            await asyncio.gather(*(body_of(upstream, talk(endpoints.url)) for _ in range(3)))
            later = [await body_of(upstream, talk(endpoints.url)) for _ in range(4)]
            assert len(numbers) == 3
            assert len(set(later)) == 1

    within("asyncio", once)


def test_an_idle_connection_is_closed_after_a_while(loop: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upstream_connection, "IDLE_S", 0.1)

    async def once() -> None:
        async with serving(echo) as endpoints, pool() as upstream:
            await body_of(upstream, talk(endpoints.url))
            await asyncio.wait(endpoints.open, timeout=5)
            assert endpoints.open == set()
            assert await body_of(upstream, talk(endpoints.url)) == b"{}"

    within(loop, once)


@pytest.mark.parametrize("warm", [False, True], ids=["on a new connection", "on a kept connection"])
def test_cancelling_at_every_step_leaves_no_connection_open(warm: bool, loop: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upstream_connection, "IDLE_S", 0.01)  # or a connection may be kept, if the reply was complete

    async def once() -> None:
        async with serving(echo) as endpoints:
            steps, task = 0, None
            while task is None or task.cancelled():
                upstream = DirectUpstream(UpstreamTimeouts(60.0, 60.0, 60.0))
                if warm:
                    await body_of(upstream, talk(endpoints.url))
                task = asyncio.create_task(body_of(upstream, talk(endpoints.url)))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                steps += 1
            assert steps > 3
            if endpoints.open:
                await asyncio.wait(endpoints.open, timeout=5)
            assert endpoints.open == set()

    within(loop, once)


@pytest.mark.parametrize("begun", [b"", STREAM_HEAD, STREAM_HEAD + chunk(b"a")], ids=["nothing", "a head", "a chunk"])
def test_cancelling_a_request_closes_its_connection_however_far_the_reply_is(begun: bytes, loop: str):
    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(begun)
        reached.set()
        await reader.read()

    reached = asyncio.Event()

    async def once() -> None:
        async with serving(begin) as endpoints:
            for steps in range(8):
                upstream = DirectUpstream(UpstreamTimeouts(60.0, 60.0, 60.0))
                reached.clear()
                task = asyncio.create_task(body_of(upstream, talk(endpoints.url)))
                await reached.wait()
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
            if endpoints.open:
                await asyncio.wait(endpoints.open, timeout=5)
            assert endpoints.open == set()

    within(loop, once)


def test_closing_the_pool_ends_requests_in_progress(loop: str):
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(GOOD)
        await read_request(reader)
        requests.append(b"the second one")
        reached.set()
        await reader.read()

    reached, requests = asyncio.Event(), list[bytes]()

    async def once() -> None:
        async with serving(answer_once) as endpoints, pool(UpstreamTimeouts(5.0, 60.0, 60.0)) as upstream:
            await body_of(upstream, talk(endpoints.url))
            task = asyncio.create_task(body_of(upstream, talk(endpoints.url)))
            await reached.wait()
            await upstream.aclose()
            with pytest.raises(UpstreamError, match="the connection was closed"):
                await task
            assert len(requests) == 1  # it was not the endpoint that closed the connection, so it is not sent again

    within(loop, once)


def test_a_request_is_written_as_it_was_given():
    written: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await read_request(reader):
            written.append(data)
            writer.write(GOOD)

    async def once() -> None:
        async with serving(record) as endpoints, pool() as upstream:
            given = {"X-Key": "a\tb ü", "Accept-Encoding": "gzip", "connection": "close", "Content-Length": "9"}
            await body_of(upstream, UpstreamRequest("POST", f"{endpoints.url}/talk?a=b#c", given, b"{}"))
            await body_of(upstream, UpstreamRequest("GET", endpoints.url))
            await body_of(upstream, UpstreamRequest("POST", endpoints.url, {"host": "other.example"}, None))
            host = endpoints.url.removeprefix("http://")
            common = f"accept-encoding: identity\r\nhost: {host}\r\nuser-agent: accord/{package_version()}\r\naccept: */*\r\n"
            expected = [
                f"POST /talk?a=b HTTP/1.1\r\n{common}x-key: a\tb ü\r\ncontent-length: 2\r\n\r\n{{}}",
                f"GET / HTTP/1.1\r\n{common}\r\n",
                f"POST / HTTP/1.1\r\n{common.replace(host, 'other.example')}content-length: 0\r\n\r\n",
            ]
            assert [each.decode() for each in written] == expected

    within("asyncio", once)


def test_a_changed_header_is_sent_though_the_head_was_kept():
    with FaultyServer(in_turn([GOOD])) as server:

        async def once() -> None:
            async with pool() as upstream:
                for value in ("one", "two", "two"):
                    await body_of(upstream, talk(server.url, key=value))

        within("asyncio", once)
    assert [seen.headers["key"] for seen in server.seen] == ["one", "two", "two"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a\r\nb", "c"),
        ("a", "b\r\nc: d"),
        ("a", "b\nc"),
        ("a", "b\0"),
        ("a b", "c"),
        ("", "c"),
        ("ä", "c"),
        ("a:", "c"),
    ],
)
def test_no_header_can_add_another_one(name: str, value: str):
    with FaultyServer(in_turn([GOOD])) as server:

        async def once() -> None:
            async with pool() as upstream:
                with pytest.raises(UpstreamError) as caught:
                    await upstream.send(UpstreamRequest("POST", server.url, {name: value}, b""))
                assert caught.value.failure is Failure.BAD_REQUEST

        within("asyncio", once)
    assert server.connections == 0


@pytest.mark.parametrize(
    ("url", "failure", "reason"),
    [
        ("ftp://127.0.0.1/", Failure.NO_SUCH_MODEL, "its address is malformed"),
        ("http:///talk", Failure.NO_SUCH_MODEL, "its address is malformed"),
        ("http://127.0.0.1:99999/", Failure.NO_SUCH_MODEL, "its address is malformed"),
        ("http://[::1/", Failure.NO_SUCH_MODEL, "its address is malformed"),
        ("http://127.0.0.1/a b", Failure.NO_SUCH_MODEL, "its address is malformed"),
        ("http://127.0.0.1/ü", Failure.NO_SUCH_MODEL, "its address is malformed"),
        (f"http://{'a' * 64}.example/", Failure.UNREACHABLE, "its name cannot be resolved"),
        ("http://127.0.0.1:9/", Failure.UNREACHABLE, "Connection refused"),
        ("http://[::1]:9/", Failure.UNREACHABLE, None),
    ],
)
def test_each_wrong_address_has_its_failure(url: str, failure: Failure, reason: str | None, loop: str):
    async def once() -> None:
        async with pool() as upstream:
            with pytest.raises(UpstreamError) as caught:
                await upstream.send(UpstreamRequest("GET", url))
            assert caught.value.failure is failure
            assert reason is None or caught.value.reason == reason

    within(loop, once)


def test_an_address_of_ipv6_and_a_name_are_reached(loop: str):
    async def once(host: str) -> None:
        async with serving(echo, host) as endpoints, pool() as upstream:
            for url in (endpoints.url, endpoints.url.replace("127.0.0.1", "localhost")):
                assert await body_of(upstream, talk(url)) == b"{}"

    within(loop, lambda: once("127.0.0.1"))
    try:
        within(loop, lambda: once("::1"))
    except OSError:
        pytest.skip("this machine has no IPv6")


LARGE = bytes(range(256)) * (32 << 10)


def test_a_large_body_is_written_as_fast_as_the_endpoint_reads(loop: str):
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        received = 0
        while received < len(LARGE):
            data = await reader.read(100_000)
            assert data == LARGE[received : received + len(data)]
            received += len(data)
        writer.write(whole(200, b"%d" % received))
        await reader.read()

    async def once() -> None:
        async with serving(slow) as endpoints, pool() as upstream:
            assert await body_of(upstream, talk(endpoints.url, LARGE)) == b"%d" % len(LARGE)

    within(loop, once)


@pytest.mark.parametrize(
    "answer", [whole(413, b"too large"), STREAM_HEAD.replace(b"200", b"413") + chunk(b"too large")]
)
def test_a_refusal_is_read_before_a_large_body_is_written(answer: bytes, loop: str):
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await asyncio.wait_for(gone.wait(), 10)

    gone = asyncio.Event()

    async def once() -> None:
        # A reply that is only read when the request was given up would come too late for these timeouts.
        async with serving(refuse) as endpoints, pool(UpstreamTimeouts(5.0, 60.0, 60.0)) as upstream:
            reply = await upstream.send(talk(endpoints.url, LARGE))
            assert (reply.status, await reply.read()) == (413, b"too large")
            await reply.close()
            await (await upstream.send(talk(endpoints.url))).close()
            assert len(endpoints.open) == 2  # half of a request was written to the first connection
            gone.set()

    within(loop, once)


def tls_server(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cast("Any", authority.issue_cert(name)).configure_cert(context)
    return context


def tls_client(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    cast("Any", authority).configure_trust(context)
    return context


def test_tls_keeps_connections_and_carries_large_bodies(loop: str):
    authority = trustme.CA()

    async def once(url: str) -> None:
        async with pool(tls=tls_client(authority)) as upstream:
            for _ in range(2):
                assert await body_of(upstream, talk(url, LARGE)) == GOOD.partition(b"\r\n\r\n")[2]

    with FaultyServer(in_turn([GOOD]), tls=tls_server(authority)) as server:
        within(loop, lambda: once(server.url))
    assert [seen.body == LARGE for seen in server.seen] == [True, True]
    assert server.connections == 1


def test_each_failure_of_tls_is_named_without_an_address(loop: str):
    authority = trustme.CA()

    async def failure(url: str, tls: ssl.SSLContext | None) -> tuple[Failure, str]:
        async with pool(tls=tls) as upstream:
            with pytest.raises(UpstreamError) as caught:
                await upstream.send(talk(url))
        return caught.value.failure, caught.value.reason

    with FaultyServer(in_turn([GOOD]), tls=tls_server(authority)) as server:
        untrusted = within(loop, lambda: failure(server.url, None))
    with FaultyServer(in_turn([GOOD]), tls=tls_server(authority, "models.example")) as server:
        elsewhere = within(loop, lambda: failure(server.url, tls_client(authority)))

    async def answer_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(GOOD)
        await reader.read()

    async def without_tls() -> tuple[Failure, str]:
        async with serving(answer_plainly) as endpoints:
            return await failure(endpoints.url.replace("http", "https"), None)

    assert untrusted == (Failure.UNTRUSTED, "unable to get local issuer certificate")
    assert elsewhere == (Failure.UNTRUSTED, "it is for another name")
    assert within(loop, without_tls) == (Failure.UNREACHABLE, "TLS could not be established")


def test_a_handshake_that_does_not_end_is_timed_out_and_closed(loop: str):
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def once() -> None:
        async with serving(silent) as endpoints, pool(UpstreamTimeouts(0.2, 5.0, 5.0)) as upstream:
            with pytest.raises(UpstreamError, match="no connection was made in time") as caught:
                await upstream.send(talk(endpoints.url.replace("http", "https")))
            assert caught.value.failure is Failure.TIMED_OUT
            await asyncio.wait(endpoints.open, timeout=5)
            assert endpoints.open == set()

    within(loop, once)
