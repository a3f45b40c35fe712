"""A stream that breaks at any point: what is read is complete, in order and without repetition, or an error."""

import asyncio
import json
from typing import Any

import pytest

from accord.errors import (
    AccordError,
    BackendError,
    ConnectionFailedError,
    ErrorCode,
    InvalidMessageError,
    RefusedError,
    TurnCancelledError,
    UsageError,
)
from accord.wire.packet import DeltaPacket, ErrorPacket, StreamPacket
from tests.client.conftest import Drive
from tests.client.driving import EVENTS, EXPECTED, FAILED, PACKETS, Driver, Waits, driven, rest
from tests.client.faulty_server import (
    BARE_STREAM_HEAD,
    END,
    STREAM_HEAD,
    Answering,
    Do,
    FaultyServer,
    Seen,
    Step,
    chunk,
    event,
    in_turn,
    problem,
    whole,
)

BODY = b"".join(EVENTS)
TOKEN = "t0ken"  # noqa: S105
ALL: list[Step] = [STREAM_HEAD, chunk(BODY), END]
STORE_FAILED = (
    b'data: {"op":"error","p":{"code":"unavailable","message":"The store is away","severity":"transient"}}\n\n'
)
FAILED_EVENTS = [event(number, packet) for number, packet in enumerate(FAILED, 1)]


def raised(driver: Driver) -> AccordError:
    """The error that reading a new stream ends in."""
    with pytest.raises(AccordError) as caught:
        driver.read(driver.client.stream("Hi"), [])
    return caught.value


def test_a_stream_gives_every_packet_typed_and_in_order(drive: Drive):
    with FaultyServer(rest) as server, drive(server.url) as driver:
        assert driver.read(driver.client.stream("Hi"), []) == EXPECTED
    (seen,) = server.seen
    assert seen.line == "POST /v1/assist"
    assert seen.headers["accept"] == "text/event-stream"


def test_the_text_alone_can_be_read(drive: Drive):
    with FaultyServer(rest) as server, drive(server.url) as driver:
        assert driver.read(driver.client.stream("Hi"), [], "text") == ["Grüße, ", "world"]


def test_an_error_packet_is_raised_after_what_came_before_it(drive: Drive):
    with FaultyServer(lambda seen: rest(seen, FAILED_EVENTS)) as server, drive(server.url) as driver:
        came: list[Any] = []
        with pytest.raises(BackendError, match="The backend is gone"):
            driver.read(driver.client.stream("Hi"), came)
    assert came == [DeltaPacket(p="Hel")]


def test_an_error_packet_can_be_had_as_the_packet_it_is(drive: Drive):
    with FaultyServer(lambda seen: rest(seen, FAILED_EVENTS)) as server, drive(server.url) as driver:
        came = driver.read(driver.client.stream("Hi"), [], "packets")
    assert came == [StreamPacket.parse(packet) for packet in FAILED]
    assert isinstance(came[1], ErrorPacket)


@pytest.mark.parametrize("end", [Do.RESET, Do.CLOSE])
def test_a_connection_that_breaks_after_every_packet_loses_and_repeats_nothing(drive: Drive, end: Do):
    def one_packet(seen: Seen) -> list[Step]:
        # A reset overtakes what was sent before it, if the client is slow to read.
        return [STREAM_HEAD, chunk(EVENTS[seen.last_id]), Do.BEAT, end]

    waits = Waits()
    with FaultyServer(one_packet) as server, drive(server.url, wait=waits) as driver:
        stream = driver.client.stream("Hi")
        assert driver.read(stream, []) == EXPECTED
    requests = [(seen.method, seen.last_id) for seen in server.seen]
    assert sorted(set(requests), key=lambda pair: pair[1]) == [("POST", 0), ("GET", 1), ("GET", 2), ("GET", 3)]
    assert {seen.target for seen in server.seen[1:] if seen.method == "GET"} == {f"/v1/requests/{stream.request_id}"}
    assert set(waits.seconds_waited) <= {0.5, 1.0, 2.0}
    assert len(waits.seconds_waited) >= 3


def test_a_stream_cut_at_any_byte_is_read_whole():
    # One kind of client will do: both read by the same code, and this is some hundred connections.
    for cut in range(len(BODY)):
        answers = _cut_at(cut)
        waits = Waits()
        with FaultyServer(answers) as server, driven("awaiting", server.url, wait=waits) as driver:
            assert driver.read(driver.client.stream("Hi"), []) == EXPECTED, cut
        assert waits.seconds_waited == [0.5], cut


def _cut_at(cut: int) -> Answering:
    def answer(seen: Seen) -> list[Step]:
        return [BARE_STREAM_HEAD, BODY[:cut], Do.CLOSE] if seen.number == 0 else rest(seen)

    return answer


@pytest.mark.parametrize(
    "broken",
    [
        [b"this is not HTTP at all\r\n\r\n", Do.CLOSE],
        [b"HTTP/1.1 200 OK\r\nContent-Ty", Do.CLOSE],
        [STREAM_HEAD, b"zzz\r\nnot a chunk", Do.CLOSE],
        [STREAM_HEAD, Do.BEAT, b"zzz\r\nnot a chunk", Do.CLOSE],
        [STREAM_HEAD, Do.BEAT, b"zzz\r\nnot a chunk", Do.HOLD],
        [STREAM_HEAD, chunk(b"id: 1\nda"), Do.CLOSE],
        [STREAM_HEAD, chunk(EVENTS[0][:-1]), END],
        [STREAM_HEAD, END],
        [Do.CLOSE],
        [Do.RESET],
        [whole(502, b"<html>Bad gateway</html>", kind="text/html")],
        [whole(504, b"", kind="text/html")],
        [STREAM_HEAD, chunk(EVENTS[2]), END],
        [STREAM_HEAD, chunk(STORE_FAILED + b'data: {"op":"close"}\n\n'), END],
        [STREAM_HEAD, chunk(STORE_FAILED), Do.HOLD],
        [STREAM_HEAD, chunk(b'data: {"op":"close"}\n\n'), END],
    ],
    ids=[
        "not HTTP",
        "half a head",
        "not a chunk",
        "not a chunk, after a pause",
        "not a chunk, and no close",
        "half an event",
        "an event without its end",
        "nothing",
        "closed",
        "reset",
        "502 of a proxy",
        "504 of a proxy",
        "a packet is missing",
        "an error and a close without an id",
        "an error without an id, and no close",
        "a close without an id",
    ],
)
def test_a_broken_response_is_requested_again(drive: Drive, broken: list[Step]):
    waits = Waits()
    # The default of `idle_s` is far above what a test may take: all of this is noticed without it.
    with FaultyServer(in_turn(broken, ALL)) as server, drive(server.url, wait=waits) as driver:
        assert driver.read(driver.client.stream("Hi"), []) == EXPECTED
    assert waits.seconds_waited == [0.5]
    assert server.lines == ["POST /v1/assist"] * 2
    assert server.seen[0].body == server.seen[1].body


def test_a_fatal_error_without_an_id_is_raised_after_the_packets_before_it(drive: Drive):
    fatal = STORE_FAILED.replace(b"transient", b"fatal")
    with FaultyServer(in_turn([STREAM_HEAD, chunk(EVENTS[0] + fatal), END])) as server, drive(server.url) as driver:
        came: list[Any] = []
        with pytest.raises(RefusedError, match="The store is away"):
            driver.read(driver.client.stream("Hi"), came)
    assert came == EXPECTED[:1]
    assert len(server.seen) == 1


def test_a_store_that_stays_away_is_the_error_that_the_service_stated(drive: Drive):
    away = [STREAM_HEAD, chunk(STORE_FAILED), END]
    with FaultyServer(in_turn(away)) as server, drive(server.url, max_attempts=3) as driver:
        error = raised(driver)
    assert (type(error), error.code, error.message) == (RefusedError, ErrorCode.UNAVAILABLE, "The store is away")
    assert len(server.seen) == 3


def test_the_waits_double_up_to_half_a_minute_and_then_the_client_gives_up(drive: Drive):
    waits = Waits()
    with FaultyServer(in_turn([Do.CLOSE])) as server, drive(server.url, wait=waits, max_attempts=10) as driver:
        error = raised(driver)
    assert waits.seconds_waited == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert isinstance(error, ConnectionFailedError)
    assert error.message.startswith("The service cannot be reached: ")
    assert error.details == {"attempts": 10}
    assert len(server.seen) == 10


def test_a_packet_or_a_heartbeat_starts_the_count_of_attempts_again(drive: Drive):
    alive = [STREAM_HEAD, chunk(b": still here\n"), Do.BEAT, Do.CLOSE]
    dead = [Do.CLOSE]
    waits = Waits()
    answering = in_turn(dead, alive, dead, alive, dead, ALL)
    with FaultyServer(answering) as server, drive(server.url, wait=waits, max_attempts=3) as driver:
        assert driver.read(driver.client.stream("Hi"), []) == EXPECTED
    assert waits.seconds_waited == [0.5, 0.5, 1, 0.5, 1]


@pytest.mark.parametrize(("status", "code"), [(503, "unavailable"), (429, "rate_limit_exceeded")])
def test_a_busy_service_is_tried_again_after_its_retry_after(drive: Drive, status: int, code: str):
    busy = [problem(status, code, "Retry-After: 7")]
    waits = Waits()
    with FaultyServer(in_turn(busy, busy, ALL)) as server, drive(server.url, wait=waits) as driver:
        assert driver.read(driver.client.stream("Hi"), []) == EXPECTED
    assert waits.seconds_waited == [7, 7]


def test_a_service_that_stays_busy_raises_its_error(drive: Drive):
    busy = [problem(503, "unavailable", "Retry-After: 1", retry_after=1)]
    with FaultyServer(in_turn(busy)) as server, drive(server.url, max_attempts=3) as driver:
        error = raised(driver)
    assert (type(error), error.code) == (RefusedError, ErrorCode.UNAVAILABLE)
    assert (error.message, error.details) == ("Told unavailable", {"retry_after": 1})
    assert len(server.seen) == 3


def test_a_service_that_asks_for_too_long_a_wait_is_not_waited_for(drive: Drive):
    waits = Waits()
    patient = in_turn([problem(429, "rate_limit_exceeded", "Retry-After: 86400")])
    with FaultyServer(patient) as server, drive(server.url, wait=waits) as driver:
        assert raised(driver).message == "Told rate_limit_exceeded"
    assert waits.seconds_waited == []


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (problem(422, "content_unsupported"), RefusedError, "Told content_unsupported"),
        (problem(401, "unauthenticated"), RefusedError, "Told unauthenticated"),
        (problem(409, "request_conflict"), RefusedError, "Told request_conflict"),
        (problem(500, "internal_error"), RefusedError, "Told internal_error"),
        (problem(502, "backend_failed"), BackendError, "Told backend_failed"),
        (whole(404, b"nothing here", kind="text/plain"), RefusedError, "The service answered 404 Not Found"),
        (whole(307, b"", "Location: http://127.0.0.1:1/"), RefusedError, "The service answered 307 Temporary Redirect"),
        (
            whole(200, b"<html>Log in</html>", kind="text/html"),
            InvalidMessageError,
            "Not a valid event stream: content-type: text/event-stream",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_error_that_a_retry_cannot_fix_is_raised_at_once(
    drive: Drive, answer: bytes, error: type[AccordError], sentence: str
):
    with FaultyServer(in_turn([answer])) as server, drive(server.url) as driver, pytest.raises(error) as caught:
        driver.read(driver.client.stream("Hi"), [])
    assert caught.value.message == sentence
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("garbage", "sentence"),
    [
        (b"id: 2\ndata: garbage\n\n", "Not a valid StreamPacket"),
        (b'id: 2\ndata: {"op":"sing"}\n\n', "Not a valid StreamPacket"),
        (b'id: 2\ndata: {"op":"delta","p":"\xff"}\n\n', "Not a valid StreamPacket"),
        (
            b'data: {"op":"delta","p":"x"}\n\n',
            "Not a valid event stream: id: the number of the packet, counted from 1",
        ),
        (b'id:\ndata: {"op":"close"}\n\n', "Not a valid event stream: id: the number of the packet, counted from 1"),
        (b'id: -1\ndata: {"op":"close"}\n\n', "Not a valid event stream: id: the number of the packet"),
        (b"id: " + b"9" * 5000 + b'\ndata: {"op":"close"}\n\n', "Not a valid event stream: id: the number"),
        (b"data: " + b"x" * 10_000, "Not a valid event stream: event: at most 9000 bytes"),
    ],
    ids=[
        "not JSON",
        "no such packet",
        "not UTF-8",
        "no id",
        "an empty id",
        "not a number",
        "a huge number",
        "too long",
    ],
)
def test_garbage_is_an_error_that_names_it_after_the_packets_before_it(drive: Drive, garbage: bytes, sentence: str):
    content = [STREAM_HEAD, chunk(EVENTS[0] + garbage), Do.HOLD]
    with FaultyServer(in_turn(content)) as server, drive(server.url, max_event_bytes=9000) as driver:
        came: list[Any] = []
        stream = driver.client.stream("Hi")
        with pytest.raises(InvalidMessageError, match=sentence):
            driver.read(stream, came)
        assert server.left.wait(10)
        with pytest.raises(InvalidMessageError, match=sentence):
            driver.read(stream, [])
    assert came == EXPECTED[:1]
    assert len(server.seen) == 1


def test_packets_that_come_again_are_given_once(drive: Drive):
    first = [STREAM_HEAD, chunk(EVENTS[0] + EVENTS[1]), Do.BEAT, Do.CLOSE]
    again = [STREAM_HEAD, chunk(BODY), END]
    with FaultyServer(in_turn(first, again)) as server, drive(server.url) as driver:
        assert driver.read(driver.client.stream("Hi"), []) == EXPECTED
    assert [seen.last_id for seen in server.seen] == [0, 2]


def test_a_service_that_has_forgotten_the_turn_does_not_run_it_again(drive: Drive):
    first = [STREAM_HEAD, chunk(EVENTS[0]), Do.BEAT, Do.CLOSE]
    with FaultyServer(in_turn(first, [problem(404, "not_found")])) as server, drive(server.url) as driver:
        came: list[Any] = []
        with pytest.raises(RefusedError, match="Told not_found"):
            driver.read(driver.client.stream("Hi"), came)
    assert came == EXPECTED[:1]


def test_a_stream_survives_a_service_that_refuses_connections_while_it_restarts(drive: Drive):
    waits = Waits()
    begun: list[Step] = [STREAM_HEAD, chunk(EVENTS[0]), Do.BEAT, Do.CLOSE]
    with FaultyServer(in_turn(begun)) as first:
        second = FaultyServer(rest, port=first.port)

        async def restart(seconds: float) -> None:
            await waits(seconds)
            if len(waits.seconds_waited) == 1:
                await asyncio.to_thread(first.stop)
            elif len(waits.seconds_waited) == 3:
                await asyncio.to_thread(second.__enter__)

        with drive(first.url, wait=restart) as driver:
            assert driver.read(driver.client.stream("Hi"), []) == EXPECTED
        second.stop()
    assert waits.seconds_waited == [0.5, 1, 2]
    assert [(seen.method, seen.last_id) for seen in second.seen] == [("GET", 1)]


def test_every_line_end_and_many_small_pieces_read_the_same(drive: Drive):
    for line_end in (b"\r\n", b"\r", b"\n"):
        content = b"\xef\xbb\xbf" + BODY.replace(b"\n", line_end)
        pieces = [chunk(content[at : at + 1]) for at in range(len(content))]
        with FaultyServer(in_turn([STREAM_HEAD, *pieces, END])) as server, drive(server.url) as driver:
            assert driver.read(driver.client.stream("Hi"), []) == EXPECTED


def test_a_stream_of_an_earlier_question_goes_on_after_any_packet(drive: Drive):
    with FaultyServer(rest) as server, drive(server.url) as driver:
        for after in range(4):
            assert driver.read(driver.client.resume("r 1/..", after=after), []) == EXPECTED[after:]
    assert set(server.lines) == {"GET /v1/requests/r%201%2F%2E%2E"}
    assert [seen.last_id for seen in server.seen] == [0, 1, 2, 3]


def test_another_stream_can_go_on_after_the_last_packet_that_was_taken(drive: Drive):
    class Noting(list[Any]):
        def append(self, item: Any) -> None:
            super().append((stream.last_id, item))

    with FaultyServer(in_turn(ALL)) as server, drive(server.url) as driver:
        stream = driver.client.stream("Hi")
        assert stream.last_id == 0
        assert driver.read(stream, Noting()) == list(enumerate(EXPECTED, 1))


@pytest.mark.parametrize(
    ("capabilities", "header"),
    [
        ("voice", "voice"),
        ({"supported_events": ["prüfung"]}, '{"supported_events": ["pr\\u00fcfung"]}'),
        ({"prefers_markdown": False}, '{"prefers_markdown": false}'),
    ],
)
def test_a_stream_in_a_view_of_its_own_asks_for_it_on_every_connection(drive: Drive, capabilities: Any, header: str):
    broken: list[Step] = [STREAM_HEAD, chunk(EVENTS[0]), Do.CLOSE]
    with (
        FaultyServer(lambda seen: rest(seen) if seen.last_id else broken) as server,
        drive(server.url) as driver,
    ):
        assert driver.read(driver.client.resume("r", capabilities=capabilities), []) == EXPECTED
    assert [(seen.last_id, seen.headers.get("accord-capabilities")) for seen in server.seen] == [
        (0, header),
        (1, header),
    ]


def test_a_cancelled_turn_ends_in_its_own_error(drive: Drive):
    cancelled = '{"op":"error","p":{"code":"cancelled","message":"The turn was cancelled","severity":"transient"}}'
    events = [event(1, PACKETS[0]), event(2, cancelled), event(3, '{"op":"close"}')]

    def answer(seen: Seen) -> list[Step]:
        if seen.method == "DELETE":
            return [b"HTTP/1.1 204 No Content\r\n\r\n"]
        return rest(seen, events)

    with FaultyServer(answer) as server, drive(server.url) as driver:
        stream = driver.client.stream("Hi")
        driver.cancel(stream)
        with pytest.raises(TurnCancelledError, match="The turn was cancelled"):
            driver.read(stream, [])
    assert server.lines[0] == f"DELETE /v1/requests/{stream.request_id}"


def test_streams_share_a_connection_one_after_the_other(drive: Drive):
    with FaultyServer(rest) as server, drive(server.url) as driver:
        for _ in range(5):
            driver.read(driver.client.stream("Hi"), [])
    assert server.connections == 1


def test_a_stream_that_is_over_gives_nothing_more(drive: Drive):
    with FaultyServer(rest) as server, drive(server.url) as driver:
        stream = driver.client.stream("Hi")
        driver.read(stream, [])
        assert driver.read(stream, []) == []
    assert len(server.seen) == 1


def test_a_closed_client_raises_an_error(drive: Drive):
    with FaultyServer(rest) as server, drive(server.url) as driver:
        stream = driver.client.stream("Hi")
        driver.close()
        with pytest.raises(UsageError, match="This client is closed"):
            driver.read(stream, [])
    assert server.seen == []


def test_every_request_carries_the_same_question(drive: Drive):
    with FaultyServer(rest) as server, drive(server.url, token=TOKEN, session_id="s1") as driver:
        driver.read(driver.client.stream("Hi", meta={"a": 1}), [])
    (seen,) = server.seen
    content = json.loads(seen.body)
    assert content["context"] == {"session_id": "s1", "user": {"id": "ann", "name": "ann"}}
    assert content["payload"]["query"] == "Hi"
    assert content["payload"]["meta"] == {"a": 1}
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["content-type"] == "application/json"
