"""The status of a process: its message, its percentiles, and when it is published."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from accord.ports import Channel
from accord.ports.queue import Receive
from accord.servers.observability.status import (
    MAX_AGENTS,
    MAX_NAME,
    MAX_STATUS_BYTES,
    REQUEST_TOPIC,
    STATUS_TOPIC,
    WINDOW_S,
    WINDOW_SIZE,
    Percentiles,
    ProcessRole,
    ProcessStatus,
    RecentDurations,
    StatusCounts,
    StatusFacts,
    StatusPublisher,
    decode_status,
    encode_status,
)
from tests.servers.observability.turns import CANCELLED, FAILED, REFUSED, a_call, an_eventful_turn


def a_status(**fields: Any) -> ProcessStatus:
    usual: dict[str, Any] = {
        "runner": "r1",
        "role": ProcessRole.WORKER,
        "host": "h",
        "pid": 7,
        "version": "1.0",
        "agents": ("demo",),
        "started_at": 1_000.0,
        "running": 2,
        "turn_limit": 100,
        "done": 10,
        "failed": 1,
        "cancelled": 3,
        "refused": 4,
        "waited": Percentiles(0.01, 0.02),
        "first_packet": None,
        "turn": Percentiles(1.0, 2.0),
        "streams": 5,
        "cpu_s": 1.5,
        "cpu_share": 0.25,
        "memory_mb": 80.0,
    }
    return ProcessStatus(**{**usual, **fields})


def test_a_status_is_read_as_it_was_written():
    assert decode_status(encode_status(a_status())) == a_status()


def test_a_status_with_more_members_is_read():
    written: dict[str, Any] = msgspec.json.decode(encode_status(a_status()))
    assert decode_status(msgspec.json.encode({**written, "new": 1})) == a_status()


WRONG: dict[str, dict[str, Any]] = {
    "another format": {"format": 2},
    "a runner that is no name": {"runner": "\x1b[2J"},
    "an empty runner": {"runner": ""},
    "messages that never come": {"every_s": 1e9},
    "messages without a pause": {"every_s": 0},
    "too many agents": {"agents": ["a"] * (MAX_AGENTS + 1)},
    "a role that is unknown": {"role": "king"},
    "a number that is none": {"running": "2"},
    "too large": {"host": "h" * MAX_STATUS_BYTES},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_malformed_or_foreign_status_is_ignored(name: str):
    written: dict[str, Any] = msgspec.json.decode(encode_status(a_status()))
    assert decode_status(msgspec.json.encode({**written, **WRONG[name]})) is None


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_status_and_no_error(payload: bytes):
    assert decode_status(payload) is None


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], None),
        ([3.0], Percentiles(3.0, 3.0)),
        ([3.0, 1.0], Percentiles(1.0, 3.0)),
        ([float(number) for number in range(1, 101)], Percentiles(50.0, 99.0)),
    ],
)
def test_percentiles_are_of_the_nearest_rank(seconds: list[float], expected: Percentiles | None):
    durations = RecentDurations(Clock())
    for each in seconds:
        durations.add(each)
    assert durations.percentiles() == expected


def test_only_the_last_minute_and_a_limited_number_count():
    clock = Clock()
    durations = RecentDurations(clock)
    durations.add(9.0)
    clock.now += WINDOW_S + 1
    durations.add(1.0)
    assert durations.percentiles() == Percentiles(1.0, 1.0)
    for _ in range(WINDOW_SIZE):
        durations.add(2.0)
    assert durations.percentiles() == Percentiles(2.0, 2.0)
    clock.now += WINDOW_S + 1
    assert durations.percentiles() is None


def test_turns_are_counted_by_their_receipts_and_model_calls_are_not():
    counts = StatusCounts(Clock())
    for receipt in (
        an_eventful_turn(),
        an_eventful_turn(outcome=FAILED),
        an_eventful_turn(outcome=CANCELLED),
        an_eventful_turn(outcome=REFUSED),
        a_call(),
    ):
        counts.turn_ended(receipt)
    assert dict(counts.ended) == {"done": 1, "failed": 1, "cancelled": 1, "refused": 1}
    assert counts.turn.percentiles() is not None
    counts.stream_opened("sse")
    counts.stream_opened("websocket")
    counts.stream_closed("sse")
    assert counts.streams == 1


class OneProcessChannel:
    """A channel without other processes: everybody in this one gets each message at once."""

    def __init__(self) -> None:
        self.max_bytes = 7_000
        self.is_connected = True
        self._receivers: list[tuple[str, Receive]] = []

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def publish(self, topic: str, payload: bytes) -> None:
        for subscribed, receive in list(self._receivers):
            if subscribed == topic:
                receive(payload)

    def subscribe(self, topic: str, receive: Receive) -> Any:
        self._receivers.append((topic, receive))
        return lambda: self._receivers.remove((topic, receive))

    def on_gap(self, lost: Any) -> None:
        """Nothing is lost."""


def facts(*agents: str) -> StatusFacts:
    return StatusFacts("r1", ProcessRole.BOTH, "1.0", agents, turn_limit=None, running=lambda: 3)


def test_a_status_is_published_at_the_start_regularly_on_request_and_at_the_end():
    async def run() -> None:
        channel: Channel = OneProcessChannel()
        seen: asyncio.Queue[ProcessStatus | None] = asyncio.Queue()
        channel.subscribe(STATUS_TOPIC, lambda payload: seen.put_nowait(decode_status(payload)))
        publisher = StatusPublisher(channel, facts("demo"), StatusCounts(), every_s=0.01)
        publisher.start()
        first, second, third = [await asyncio.wait_for(seen.get(), 10) for _ in range(3)]
        assert first is not None
        assert third is not None
        assert (first.running, first.cpu_share, first.is_stopped) == (3, None, False)
        assert third.cpu_share is not None
        assert third.memory_mb > 1
        del second
        slow = StatusPublisher(channel, facts("demo"), StatusCounts(), every_s=50)
        await publisher.close()
        slow.start()
        await asyncio.sleep(0)
        while not seen.empty():
            last = seen.get_nowait()
        channel.publish(REQUEST_TOPIC, b"")
        assert seen.qsize() == 1
        await slow.close()
        await slow.close()  # closing twice is no error
        seen.get_nowait()
        last = seen.get_nowait()
        assert last is not None
        assert last.is_stopped
        channel.publish(REQUEST_TOPIC, b"")
        assert seen.empty()

    asyncio.run(run())


def test_a_status_is_small_whatever_agents_are_called():
    names = [f"{number}" + "\U0001f600" * 500 for number in range(50)]
    status = StatusPublisher(OneProcessChannel(), facts(*names), StatusCounts()).status()
    assert len(status.agents) == MAX_AGENTS
    assert {len(name) for name in status.agents} == {MAX_NAME}
    assert len(encode_status(status)) <= MAX_STATUS_BYTES
    assert decode_status(encode_status(status)) == status
    assert decode_status(encode_status(replace(status, is_stopped=True))) is not None
