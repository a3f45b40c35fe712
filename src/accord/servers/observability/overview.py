"""The processes of a service, its running turns and its queue at one moment, as `accord top` shows them.

Pure: it is given statuses and what the store lists, with the time; it reads no clock, no channel and no store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accord.ports import ListedRun, LongestRuns, QueueDepth
from accord.servers.observability.status import ProcessStatus

MISSED: Final = 3
"""A process is silent after so many messages that did not come."""
FORGOTTEN_AFTER_S: Final = 300.0
"""How long a silent process is still shown."""
MAX_PROCESSES: Final = 1_000


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process: its last status, and how long ago that came."""

    status: ProcessStatus
    age_s: float

    @property
    def is_silent(self) -> bool:
        """Whether several messages did not come."""
        return self.age_s > MISSED * self.status.every_s

    @property
    def name(self) -> str:
        """The process as operators know it."""
        return f"{self.status.host}:{self.status.pid}"


class ProcessTable:
    """The last status of each process. Times are seconds of one monotonic clock, which the caller reads."""

    def __init__(self) -> None:
        self._known: Final[dict[str, tuple[float, ProcessStatus]]] = {}

    def add(self, status: ProcessStatus, now: float) -> None:
        """Take a status that has just come."""
        if status.is_stopped:
            self._known.pop(status.runner, None)
        elif status.runner in self._known or len(self._known) < MAX_PROCESSES:
            self._known[status.runner] = now, status

    def rows(self, now: float) -> list[ProcessRow]:
        """Every process with a recent status: by role, then by host and process id."""
        for runner in [each for each, (at, _) in self._known.items() if now - at > FORGOTTEN_AFTER_S]:
            del self._known[runner]
        rows = [ProcessRow(status, now - at) for at, status in self._known.values()]
        return sorted(rows, key=lambda row: (row.status.role, row.status.host, row.status.pid, row.status.runner))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the processes that are not silent; `running`, `waiting` and `oldest_s` are the store's."""

    processes: int
    silent: int
    running: int
    turn_limit: int | None
    waiting: int
    oldest_s: float
    done: int
    failed: int
    cancelled: int
    refused: int
    streams: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that is shown. `problem` says why the store could not be read; then there are no turns."""

    processes: Sequence[ProcessRow]
    turns: LongestRuns
    depths: Sequence[QueueDepth]
    problem: str | None = None

    @property
    def totals(self) -> Totals:
        """The sums."""
        live = [row.status for row in self.processes if not row.is_silent]
        limits = [status.turn_limit for status in live if status.turn_limit is not None]
        return Totals(
            processes=len(self.processes),
            silent=len(self.processes) - len(live),
            running=self.turns.total,
            turn_limit=sum(limits) if limits else None,
            waiting=sum(depth.waiting for depth in self.depths),
            oldest_s=max((depth.oldest_s for depth in self.depths), default=0.0),
            done=sum(status.done for status in live),
            failed=sum(status.failed for status in live),
            cancelled=sum(status.cancelled for status in live),
            refused=sum(status.refused for status in live),
            streams=sum(status.streams for status in live),
        )

    def process_of(self, turn: ListedRun) -> str:
        """The process that runs a turn; the beginning of its id if no status of it has come."""
        known = {row.status.runner: row.name for row in self.processes}
        return known.get(turn.runner, turn.runner[:8])

    def to_json(self) -> str:
        """One JSON object for programs; its members are those of the parts."""
        processes: list[Any] = [
            {
                **msgspec.to_builtins(row.status),
                "age_s": round(row.age_s, 3),
                "is_silent": row.is_silent,
            }
            for row in self.processes
        ]
        members = {
            "totals": self.totals,
            "processes": processes,
            "queue": self.depths,
            "turns": self.turns.oldest,
            "problem": self.problem,
        }
        return msgspec.json.encode(members).decode()
