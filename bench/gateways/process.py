"""Programs that the benchmark starts: pinned to a processor, measured through /proc with their children, then ended."""

import os
import signal
import socket
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
STOP_S: Final = 3.0
"""How long a program may take to end before it is killed."""
PROCESSORS: Final = sorted(os.sched_getaffinity(0))
GATEWAY_PROCESSOR: Final = PROCESSORS[-1]
LOAD_PROCESSOR: Final = PROCESSORS[0]


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@dataclass(frozen=True, slots=True)
class Program:
    """A running program, with the file that has its output."""

    process: subprocess.Popen[bytes]
    started_at: float
    log: Path

    def has_ended(self) -> bool:
        """Whether it is no longer running."""
        return self.process.poll() is not None

    def last_lines(self, count: int = 5) -> str:
        """The end of its output, in one line."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines[-count:] if line.strip())

    def processor_s(self) -> float:
        """The processor time so far: of the program, its children and the children that have ended."""
        return sum(sum(int(value) for value in stat[11:15]) for _, stat in self._tree()) / TICKS

    def resident_mb(self) -> float:
        """The resident memory of the program and its children; what they share counts for each."""
        return sum(int(stat[21]) for _, stat in self._tree()) * PAGE / 1e6

    def _tree(self) -> Iterator[tuple[int, list[str]]]:
        """Each process of the tree with the fields of its stat file after the name."""
        stats = dict(read_stats())
        wanted = {self.process.pid}
        while found := {pid for pid, stat in stats.items() if int(stat[1]) in wanted} - wanted:
            wanted |= found
        yield from ((pid, stats[pid]) for pid in wanted if pid in stats)


def read_stats() -> Iterator[tuple[int, list[str]]]:
    """Every process of the machine with the fields of its stat file after the name."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            yield int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, *, processor: int, cwd: Path, env: Mapping[str, str] | None = None
) -> Generator[Program]:
    """Run a program on one processor, in a session of its own, which is ended whatever happens."""
    before = os.sched_getaffinity(0)
    with log.open("wb") as output:
        # A program inherits the processors of the thread that starts it, and so do all its threads and children.
        os.sched_setaffinity(0, {processor})
        try:
            started_at = perf_counter()
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        finally:
            os.sched_setaffinity(0, before)
    try:
        yield Program(process, started_at, log)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the program, and after a while whatever is left of its session."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_S)
