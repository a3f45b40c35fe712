"""A service that stops sending: every wait of a client is limited, and slow progress is not silence."""

import json
import socket

import pytest

from accord.errors import AccordError, ConnectionFailedError
from tests.client.conftest import Drive
from tests.client.driving import EVENTS, EXPECTED, Driver, Waits, driven, rest
from tests.client.faulty_server import BARE_STREAM_HEAD, STREAM_HEAD, Do, FaultyServer, Step, chunk, in_turn


def raised(driver: Driver) -> AccordError:
    """The error that reading a new stream ends in."""
    with pytest.raises(AccordError) as caught:
        driver.read(driver.client.stream("Hi"), [])
    return caught.value


def test_a_silent_stream_is_opened_again_and_one_with_a_heartbeat_is_not(drive: Drive):
    beats: list[Step] = [chunk(b": beat\n\n"), Do.BEAT] * 6
    quick = [STREAM_HEAD, chunk(EVENTS[0]), *beats, *(chunk(event) for event in EVENTS[1:3]), Do.HOLD]
    waits = Waits()
    with FaultyServer(lambda seen: quick if seen.number == 0 else rest(seen)) as server:
        with drive(server.url, wait=waits, idle_s=0.4) as driver:
            assert driver.read(driver.client.stream("Hi"), []) == EXPECTED
        assert server.left.wait(10)
    assert [seen.last_id for seen in server.seen] == [0, 3]
    assert waits.seconds_waited == [0.5]


@pytest.mark.parametrize("event", [[], [b"HTTP/1.1 100 Continue\r\n\r\n"], [b"HTTP/1.1 200 OK\r\nContent-Ty"]])
def test_a_service_that_never_answers_is_given_up(drive: Drive, event: list[Step]):
    silent = [*event, Do.HOLD]
    with (
        FaultyServer(in_turn(silent)) as server,
        drive(server.url, connect_s=0.1, idle_s=0.1, max_attempts=2) as driver,
    ):
        error = raised(driver)
    assert error.message == "The service cannot be reached: no answer began in time"
    assert len(server.seen) == 2


@pytest.mark.parametrize("head", [STREAM_HEAD, BARE_STREAM_HEAD], ids=["chunked", "until closed"])
def test_a_stream_that_falls_silent_for_ever_is_given_up(drive: Drive, head: bytes):
    with FaultyServer(in_turn([head, Do.HOLD])) as server, drive(server.url, idle_s=0.1, max_attempts=2) as driver:
        error = raised(driver)
    assert error.message == "The service cannot be reached: nothing arrived for 0.1 s"
    assert len(server.seen) == 2


def test_a_service_that_does_not_take_the_question_is_given_up(drive: Drive):
    deaf = socket.create_server(("127.0.0.1", 0))
    with drive(f"http://127.0.0.1:{deaf.getsockname()[1]}", connect_s=0.1, idle_s=0.2, max_attempts=2) as driver:
        with deaf, pytest.raises(ConnectionFailedError, match="no answer began in time"):
            # More than the buffers of both ends hold.
            driver.read(driver.client.stream("x" * 16_000_000), [])
        # The system has reset what was never accepted; the client's loop has to run once to see it.
        with pytest.raises(ConnectionFailedError):
            driver.run("health")


def test_a_large_question_arrives_whole_however_long_it_takes():
    size = 20_000_000
    # Reading it takes two seconds, longer than `connect_s` and `idle_s` together; the buffers between hold a part of it.
    with (
        FaultyServer(rest, bytes_per_read=500_000) as server,
        driven("awaiting", server.url, connect_s=0.1, idle_s=1.0) as driver,
    ):
        assert driver.read(driver.client.stream("x" * size), []) == EXPECTED
    (seen,) = server.seen
    assert len(json.loads(seen.body)["payload"]["query"]) == size
