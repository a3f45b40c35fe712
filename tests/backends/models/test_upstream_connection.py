"""One connection to an endpoint: the same reply however its bytes are cut, limits, and no state left behind by a failure.

The connection is a real one, to a socket that sends nothing. The tests give it the bytes of a reply themselves, since
over a network the cuts between them cannot be chosen.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accord.apis.failure import Failure
from accord.backends.upstream import UpstreamError, UpstreamReply, UpstreamTimeouts
from accord.backends.upstream_connection import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_UNREAD_BYTES,
    READ_BYTES,
    UpstreamConnection,
)
from tests.client.faulty_server import END, STREAM_HEAD, chunk, whole
from tests.laws import examples

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
SYSTEM_READ_BYTES = 256 << 10
"""The most that an event loop reads at once."""
HEAD, BODY = b"POST /talk HTTP/1.1\r\n\r\n", b"{}"


async def read_all(reply: UpstreamReply) -> bytes:
    """The rest of the body."""
    parts: list[bytes] = []
    while part := await reply.read():
        parts.append(part)
    return b"".join(parts)


def within(loop: str, task: Callable[[], Awaitable[Any]]) -> Any:
    """Run it on this kind of event loop, in bounded time; nothing may be logged as an unhandled error."""
    unhandled: list[dict[str, Any]] = []

    async def bounded() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        return await asyncio.wait_for(task(), 20)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        result = runner.run(bounded())
    assert unhandled == []
    return result


@dataclass
class Wire:
    """A connection, its transport, the socket at its other end, and what was reported as ready for another request."""

    connection: UpstreamConnection
    transport: asyncio.Transport
    peer: socket.socket
    idle: list[UpstreamConnection]

    async def outcome(self, pieces: Sequence[bytes], *, ends: bool = False) -> "Outcome":
        """Send a request, give the connection these bytes, and read the reply."""
        sending = asyncio.create_task(self.connection.send(HEAD, BODY))
        await asyncio.sleep(0)
        for piece in pieces:
            if self.connection.is_open:
                self.connection.data_received(piece)
        if ends and self.connection.is_open:
            self.connection.eof_received()
        body = b""
        try:
            reply = await sending
            status = reply.status
        except UpstreamError as error:
            return Outcome(error.failure, error.reason)
        try:
            while data := await reply.read():
                body += data
        except UpstreamError as error:
            return Outcome(error.failure, error.reason, status, body)
        return Outcome(None, "", status, body)


@dataclass(frozen=True)
class Outcome:
    """How a request ended, and what of its reply arrived."""

    failure: Failure | None
    reason: str
    status: int = 0
    body: bytes = b""


@asynccontextmanager
async def wired(timeouts: UpstreamTimeouts | None = None) -> AsyncGenerator[Wire]:
    near, far = socket.socketpair()
    far.setblocking(False)
    loop = asyncio.get_running_loop()
    idle: list[UpstreamConnection] = []
    made = UpstreamConnection(
        loop, timeouts or UpstreamTimeouts(5.0, 5.0, 5.0), idle.append, lambda _: None, lambda: None
    )
    transport, connection = await loop.create_connection(lambda: made, sock=near)
    try:
        yield Wire(connection, transport, far, idle)
    finally:
        connection.abort()
        await asyncio.wait_for(connection.lost, 5)
        far.close()


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """The data in pieces, cut at these places."""
    bounds = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[begin:end] for begin, end in pairwise(bounds) if begin < end]


def chunked(parts: Sequence[bytes], trailer: bytes = b"") -> bytes:
    return STREAM_HEAD + b"".join(map(chunk, filter(None, parts))) + b"0\r\n" + trailer + b"\r\n"


FRAMINGS: dict[str, Callable[[Sequence[bytes]], bytes]] = {
    "length": lambda parts: whole(200, b"".join(parts)),
    "chunked": chunked,
    "chunked with a trailer": lambda parts: chunked(parts, b"X-Sum: 1\r\n"),
    "until close": lambda parts: b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(parts),
    "HTTP/1.0": lambda parts: b"HTTP/1.0 200 OK\r\n\r\n" + b"".join(parts),
    "after informational replies": lambda parts: (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + chunked(parts)
    ),
    "no reason, one word": lambda parts: b"HTTP/1.1 200\r\n" + whole(200, b"".join(parts)).partition(b"\r\n")[2],
}
ENDS_WITH_CONNECTION = ("until close", "HTTP/1.0")
BODIES = st.lists(st.binary(max_size=40), max_size=5)
ANY_LOOP = st.sampled_from([*LOOPS])


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from([*FRAMINGS]), BODIES, st.lists(st.integers(0, 2_000), max_size=12), ANY_LOOP)
def test_a_reply_does_not_depend_on_where_its_bytes_are_cut(
    framing: str, parts: list[bytes], places: list[int], loop: str
):
    async def twice() -> None:
        data = FRAMINGS[framing](parts)
        ends = framing in ENDS_WITH_CONNECTION
        async with wired() as wire:
            for number in range(1 if ends else 2):
                outcome = await wire.outcome(cut(data, places), ends=ends)
                assert outcome == Outcome(None, "", 200, b"".join(parts))
                assert len(wire.idle) == (0 if ends else number + 1)

    within(loop, twice)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_reply_may_be_cut_after_every_byte(framing: str):
    async def each() -> None:
        data = FRAMINGS[framing]([b"Hello ", b"there."])
        ends = framing in ENDS_WITH_CONNECTION
        for place in range(1, len(data)):
            async with wired() as wire:
                assert (await wire.outcome(cut(data, [place]), ends=ends)).body == b"Hello there."
        async with wired() as wire:
            assert (await wire.outcome(cut(data, range(len(data))), ends=ends)).body == b"Hello there."

    within("asyncio", each)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A reply with one byte replaced by others or by nothing."""
    data = FRAMINGS[draw(st.sampled_from([*FRAMINGS]))](draw(BODIES))
    place = draw(st.integers(0, len(data) - 1))
    return data[:place] + draw(st.binary(max_size=3)) + data[place + 1 :]


@settings(max_examples=examples(300), deadline=None)
@given(st.one_of(st.binary(), damaged()), st.lists(st.integers(0, 500), max_size=6), ANY_LOOP)
@example(b"", [], "asyncio")
@example(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nrest", [], "asyncio")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [], "asyncio")
def test_arbitrary_bytes_end_in_a_reply_or_a_failure_and_leave_nothing_open(data: bytes, places: list[int], loop: str):
    async def once() -> None:
        async with wired() as wire:
            outcome = await wire.outcome(cut(data, places), ends=True)
            assert outcome.failure in (None, Failure.UNREACHABLE, Failure.BROKEN_OFF, Failure.NOT_UNDERSTOOD)
            # Either the reply was complete, or the connection is closed.
            assert outcome.failure is None or not wire.connection.is_open

    within(loop, once)


def headers(count: int) -> bytes:
    return b"".join(b"X-%d: y\r\n" % number for number in range(count))


LONG = b"a" * (MAX_HEAD_BYTES + 1)
ONE_KB = b"a" * 1024
BAD: dict[str, tuple[list[bytes], Failure, int]] = {
    "many headers": ([b"HTTP/1.1 200 OK\r\n" + headers(MAX_HEADERS + 1) + b"\r\n"], Failure.NOT_UNDERSTOOD, 0),
    "a long header": ([b"HTTP/1.1 200 OK\r\nX: " + LONG + b"\r\n\r\n"], Failure.NOT_UNDERSTOOD, 0),
    "a header without end": ([b"HTTP/1.1 200 OK\r\nX: ", *[ONE_KB] * 70], Failure.NOT_UNDERSTOOD, 0),
    "a reason without end": ([b"HTTP/1.1 200 ", *[ONE_KB] * 70], Failure.NOT_UNDERSTOOD, 0),
    "informational replies without end": ([b"HTTP/1.1 100 Continue\r\n\r\n" * 40] * 70, Failure.NOT_UNDERSTOOD, 0),
    "a trailer without end": ([STREAM_HEAD, b"0\r\nX: ", *[ONE_KB] * 70], Failure.BROKEN_OFF, 200),
    "a chunk extension without end": ([STREAM_HEAD, b"1;", *[ONE_KB] * 70], Failure.BROKEN_OFF, 200),
    "a change of protocol": ([b"HTTP/1.1 101 Switching\r\n\r\n"], Failure.NOT_UNDERSTOOD, 0),
    "an unknown coding": (
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + END],
        Failure.NOT_UNDERSTOOD,
        0,
    ),
    "two lengths": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
        Failure.NOT_UNDERSTOOD,
        0,
    ),
    "a negative length": ([b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"], Failure.NOT_UNDERSTOOD, 0),
    "a chunk without a size, at once": ([STREAM_HEAD + b"zz\r\n"], Failure.BROKEN_OFF, 200),
    "a compressed body": ([whole(200, b"abc", "Content-Encoding: gzip")], Failure.NOT_UNDERSTOOD, 200),
    "a compressed refusal": ([whole(401, b"abc", "Content-Encoding: gzip")], Failure.NOT_UNDERSTOOD, 401),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("pieces", "failure", "status"), BAD.values(), ids=BAD)
def test_each_bad_reply_has_its_failure(pieces: list[bytes], failure: Failure, status: int, loop: str):
    async def once() -> None:
        async with wired() as wire:
            outcome = await wire.outcome(pieces)
            assert (outcome.failure, outcome.status, outcome.body) == (failure, status, b"")
            assert (wire.connection.is_open, wire.idle) == (False, [])

    within(loop, once)


SURPLUS = (b"x", b"HTTP/1.1 2", whole(200, b"another"), b"\0" * 10)


@pytest.mark.parametrize("surplus", SURPLUS)
@pytest.mark.parametrize("apart", [False, True], ids=["in one read", "in the next read"])
def test_bytes_after_the_end_of_a_reply_close_the_connection(surplus: bytes, apart: bool):
    async def once() -> None:
        async with wired() as wire:
            pieces = [whole(200, b"{}"), surplus] if apart else [whole(200, b"{}") + surplus]
            assert await wire.outcome(pieces) == Outcome(None, "", 200, b"{}")
            assert not wire.connection.is_open
            assert len(wire.idle) == apart  # it had been ready before they came, and was then closed

    within("asyncio", once)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_endpoint_waits_for_a_slow_reader(loop: str):
    async def once() -> None:
        running, size = asyncio.get_running_loop(), 32 << 20
        async with wired() as wire:
            sending = asyncio.create_task(wire.connection.send(HEAD, BODY))
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
            writing = asyncio.create_task(running.sock_sendall(wire.peer, head + bytes(size)))
            reply = await sending
            while wire.transport.is_reading():  # noqa: ASYNC110 - a transport tells nobody that it was paused
                await asyncio.sleep(0)
            held = 0
            while not wire.transport.is_reading():
                held += len(await reply.read())
            assert MAX_UNREAD_BYTES < held <= MAX_UNREAD_BYTES + SYSTEM_READ_BYTES
            assert not writing.done()
            assert held + len(await read_all(reply)) == size
            await writing
            assert wire.idle == [wire.connection]
            assert wire.transport.is_reading()  # or it would not notice that it is closed

    within(loop, once)


def test_data_that_has_arrived_is_read_without_a_wait():
    async def once() -> None:
        async with wired() as wire:
            sending = asyncio.create_task(wire.connection.send(HEAD, BODY))
            await asyncio.sleep(0)
            wire.connection.data_received(STREAM_HEAD + chunk(b"a") + chunk(b"b"))
            reply = await sending
            reading = reply.read()
            with pytest.raises(StopIteration) as ended:
                reading.send(None)
            assert ended.value.value == b"ab"

    within("asyncio", once)


def test_much_that_has_arrived_is_read_in_parts_between_which_others_get_their_turn():
    async def once() -> None:
        async with wired() as wire:
            sending = asyncio.create_task(wire.connection.send(HEAD, BODY))
            await asyncio.sleep(0)
            text = bytes(range(256)) * 1024
            wire.connection.data_received(STREAM_HEAD + chunk(text) + chunk(b""))
            reply, turns, parts = await sending, 0, list[bytes]()

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(others())
            while part := await reply.read():
                assert turns >= len(parts)
                parts.append(part)
            other.cancel()
            assert b"".join(parts) == text
            assert [len(part) for part in parts] == [READ_BYTES] * (len(text) // READ_BYTES)

    within("asyncio", once)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reply_that_goes_on_slowly_is_not_stalled_and_one_that_stops_is(loop: str):
    async def once() -> None:
        async with wired(UpstreamTimeouts(5.0, 5.0, gap_s=0.15)) as wire:
            sending = asyncio.create_task(wire.connection.send(HEAD, BODY))
            await asyncio.sleep(0)
            wire.connection.data_received(STREAM_HEAD)
            reply, running = await sending, asyncio.get_running_loop()
            began = running.time()
            for number in range(5):
                running.call_later(0.08, wire.connection.data_received, chunk(b"%d" % number))
                assert await reply.read() == b"%d" % number
            assert running.time() - began > 0.3  # longer than one gap may be
            with pytest.raises(UpstreamError, match="the answer stalled") as caught:
                await reply.read()
            assert caught.value.failure is Failure.TIMED_OUT
            assert not wire.connection.is_open

    within(loop, once)


def test_a_reply_that_nobody_reads_for_long_has_not_stalled():
    async def once() -> None:
        async with wired(UpstreamTimeouts(5.0, 0.1, 0.1)) as wire:
            sending = asyncio.create_task(wire.connection.send(HEAD, BODY))
            await asyncio.sleep(0)
            wire.connection.data_received(STREAM_HEAD + chunk(b"a"))
            reply = await sending
            past = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.3, past.set_result, None)
            await past
            assert await reply.read() == b"a"
            asyncio.get_running_loop().call_soon(wire.connection.data_received, chunk(b"b") + END)
            assert await reply.read() == b"b"

    within("asyncio", once)


def test_a_read_that_is_cancelled_can_be_repeated():
    async def once() -> None:
        async with wired() as wire:
            sending = asyncio.create_task(wire.connection.send(HEAD, BODY))
            await asyncio.sleep(0)
            wire.connection.data_received(STREAM_HEAD)
            reply = await sending
            reading = asyncio.create_task(reply.read())
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            wire.connection.data_received(chunk(b"a") + END)
            assert [await reply.read(), await reply.read()] == [b"a", b""]
            assert wire.idle == [wire.connection]

    within("asyncio", once)


def test_cancelling_a_request_whose_reply_is_complete_leaves_the_next_one_alone():
    async def once() -> None:
        async with wired() as wire:
            first = asyncio.create_task(wire.connection.send(HEAD, BODY))
            await asyncio.sleep(0)
            wire.connection.data_received(whole(200, b"{}"))
            assert wire.idle == [wire.connection]
            second = wire.connection.send(HEAD, BODY)
            second.send(None)  # it waits for its reply before the first one has seen that it may go on
            first.cancel()
            await asyncio.wait([first])
            assert wire.connection.is_open
            second.close()
            assert not wire.connection.is_open

    within("asyncio", once)


def test_a_connection_that_was_paused_reads_again_before_it_is_kept():
    async def once() -> None:
        async with wired() as wire:
            sending = asyncio.create_task(wire.connection.send(HEAD, BODY))
            await asyncio.sleep(0)
            wire.connection.data_received(STREAM_HEAD + chunk(bytes(MAX_UNREAD_BYTES + 1)))
            assert not wire.transport.is_reading()
            wire.connection.data_received(END)  # as TLS may deliver what it has decrypted
            assert wire.transport.is_reading()
            assert len(await read_all(await sending)) == MAX_UNREAD_BYTES + 1

    within("asyncio", once)
