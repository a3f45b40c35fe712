"""What a process of a service says about itself to `accord top`, over the channel that all its processes share.

Each process publishes a small message every few seconds, when it starts and stops, and when a viewer requests one.
A message can be lost: the next one says everything again. The view of these messages is `overview.py`.
"""

import asyncio
import os
import re
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import monotonic, process_time, time
from typing import Any, Final

import msgspec

from accord.ports import Channel
from accord.servers.service import NullObserver
from accord.wire.receipt import OutcomeStatus

STATUS_TOPIC: Final = "status"
REQUEST_TOPIC: Final = "status-request"
"""A viewer that has just started requests a status of every process, so that it need not wait."""
EVERY_S: Final = 2.0
WINDOW_S: Final = 60.0
WINDOW_SIZE: Final = 1_000
"""Percentiles are of the last minute, and of at most so many turns."""
FORMAT: Final = 1
"""Counted up when an older viewer would misread a status; it then ignores the message."""
MAX_AGENTS: Final = 8
MAX_NAME: Final = 64
"""How many agents a status names, and how many characters of each: PostgreSQL's messages have at most 8,000 bytes."""
MAX_STATUS_BYTES: Final = 6_000

_RUNNER: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


class ProcessRole(StrEnum):
    """What a process does: serve clients, run turns of a queue, or both."""

    SERVER = "server"
    WORKER = "worker"
    BOTH = "both"


class Percentiles(msgspec.Struct, frozen=True):
    """Half of some durations, and 99 in 100 of them, were at most so many seconds."""

    p50_s: float
    p99_s: float


class ProcessStatus(msgspec.Struct, frozen=True):
    """The state of one process. Durations are of the last minute, and None if there were none."""

    runner: str
    role: ProcessRole
    host: str
    pid: int
    version: str
    agents: tuple[str, ...]
    started_at: float
    """Seconds since 1970, by the clock of its host."""
    running: int
    turn_limit: int | None
    done: int
    failed: int
    cancelled: int
    refused: int
    waited: Percentiles | None
    first_packet: Percentiles | None
    turn: Percentiles | None
    streams: int
    cpu_s: float
    cpu_share: float | None
    """How many processor cores it used since the message before."""
    memory_mb: float
    every_s: float = EVERY_S
    is_stopped: bool = False
    """Whether this is the last message of the process."""
    format: int = FORMAT


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(ProcessStatus).decode


def encode_status(status: ProcessStatus) -> bytes:
    """The message of a status."""
    return _encode(status)


def decode_status(payload: bytes) -> ProcessStatus | None:
    """The status in a message; None for one that is malformed, or of a version with another format."""
    if len(payload) > MAX_STATUS_BYTES:
        return None
    try:
        status = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_usable = (
        status.format == FORMAT
        and _RUNNER.fullmatch(status.runner) is not None
        and 0 < status.every_s <= WINDOW_S
        and len(status.agents) <= MAX_AGENTS
    )
    return status if is_usable else None


class RecentDurations:
    """Percentiles of the durations of the last minute, in a bounded amount of memory."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock: Final = clock
        self._seconds: Final[deque[tuple[float, float]]] = deque(maxlen=WINDOW_SIZE)

    def add(self, seconds: float) -> None:
        """Count one duration that has just ended."""
        self._seconds.append((self._clock(), seconds))

    def percentiles(self) -> Percentiles | None:
        """The percentiles; None if nothing ended in the last minute."""
        oldest = self._clock() - WINDOW_S
        while self._seconds and self._seconds[0][0] < oldest:
            self._seconds.popleft()
        ordered = sorted(seconds for _, seconds in self._seconds)
        if not ordered:
            return None
        # The nearest rank: the smallest duration that so many of them do not exceed.
        p50_s, p99_s = (ordered[-(-len(ordered) * share // 100) - 1] for share in (50, 99))
        return Percentiles(round(p50_s, 6), round(p99_s, 6))


class StatusCounts(NullObserver):
    """An observer that counts what a status reports."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.ended: Final = dict.fromkeys(OutcomeStatus, 0)
        self.streams = 0
        self.waited: Final = RecentDurations(clock)
        self.first_packet: Final = RecentDurations(clock)
        self.turn: Final = RecentDurations(clock)

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """Count a turn by its receipt; calls of the model APIs are no turns."""
        if "call" in receipt:
            return
        self.ended[OutcomeStatus(receipt["outcome"]["status"])] += 1
        timings = receipt["timings"]
        self.turn.add(timings["total_ms"] / 1_000)
        if "first_packet_ms" in timings:
            self.first_packet.add(timings["first_packet_ms"] / 1_000)

    def stream_opened(self, transport: str) -> None:
        """Count one more stream."""
        del transport
        self.streams += 1

    def stream_closed(self, transport: str) -> None:
        """Count one stream less."""
        del transport
        self.streams -= 1


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What does not change while a process runs, and how many turns it runs now."""

    runner: str
    role: ProcessRole
    version: str
    agents: Sequence[str]
    turn_limit: int | None
    running: Callable[[], int]


class StatusPublisher:
    """Publishes the status of this process, from `start` to `close`; without a channel, nothing."""

    def __init__(
        self, channel: Channel | None, facts: StatusFacts, counts: StatusCounts, *, every_s: float = EVERY_S
    ) -> None:
        self._channel: Final = channel
        self._facts: Final = facts
        self._counts: Final = counts
        self._every_s: Final = every_s
        self._host: Final = socket.gethostname()[:MAX_NAME]
        self._started_at: Final = time()
        self._last: tuple[float, float] = monotonic(), process_time()
        self._cpu_share: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._end: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Publish a status now and regularly, and whenever a viewer requests one."""
        if self._channel is not None:
            self._end = self._channel.subscribe(REQUEST_TOPIC, lambda _: self._publish())
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Publish the last status."""
        if self._task is not None:
            self._end()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            self._publish(is_stopped=True)

    async def _run(self) -> None:
        while True:
            self._publish()
            await asyncio.sleep(self._every_s)
            now, used_s = monotonic(), process_time()
            self._cpu_share = round((used_s - self._last[1]) / max(now - self._last[0], 0.001), 3)
            self._last = now, used_s

    def _publish(self, *, is_stopped: bool = False) -> None:
        if self._channel is not None:
            self._channel.publish(STATUS_TOPIC, encode_status(self.status(is_stopped=is_stopped)))

    def status(self, *, is_stopped: bool = False) -> ProcessStatus:
        """The status now."""
        facts, counts = self._facts, self._counts
        return ProcessStatus(
            runner=facts.runner,
            role=facts.role,
            host=self._host,
            pid=os.getpid(),
            version=facts.version,
            agents=tuple(agent[:MAX_NAME] for agent in facts.agents[:MAX_AGENTS]),
            started_at=round(self._started_at, 3),
            running=facts.running(),
            turn_limit=facts.turn_limit,
            done=counts.ended[OutcomeStatus.DONE],
            failed=counts.ended[OutcomeStatus.FAILED],
            cancelled=counts.ended[OutcomeStatus.CANCELLED],
            refused=counts.ended[OutcomeStatus.REFUSED],
            waited=counts.waited.percentiles(),
            first_packet=counts.first_packet.percentiles(),
            turn=counts.turn.percentiles(),
            streams=counts.streams,
            cpu_s=round(process_time(), 3),
            cpu_share=self._cpu_share,
            memory_mb=round(memory_mb(), 1),
            every_s=self._every_s,
            is_stopped=is_stopped,
        )


def memory_mb() -> float:
    """The resident memory of this process; where the system does not report it, the peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1_024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
