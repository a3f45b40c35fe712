"""The cost of a turn over HTTP: `POST /v1/assist`, as `accord serve` runs it, against a bare Starlette route.

Server and client have a processor each, every measurement has a server of its own, and the best of several rounds
counts; rounds are interleaved, since the machine is shared. Not named `http.py`, which would hide Python's module.
"""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from load import EVENTS, JSON, load
from served import PACE_S, PACED

PROCESSORS: Final = os.sched_getaffinity(0)
ROUNDS: Final = int(os.environ.get("ROUNDS", "4"))
SECONDS: Final = float(os.environ.get("SECONDS", "2"))
WARM: Final = 300
MEMORY_STEPS: Final = 10
FLAT: Final = 1.1
"""How much of the memory after two steps may be in use at the end."""


def main() -> None:
    """Print all figures."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    os.sched_setaffinity(0, {min(PROCESSORS)})
    print("Per second of the server's processor time, and in brackets per second of the clock.")
    print("Accord runs as `accord serve` does, with logs, metrics, authentication and the watchdog.")
    print("JSON, 64 at a time")
    best = compare(["bare-json", "json", "json-sqlite", "json-relay"], JSON, 64)
    print_line("a bare route", best["bare-json"])
    print_line("Accord, in memory", best["json"], best["bare-json"], goal=40)
    print_line("Accord, on SQLite", best["json-sqlite"], best["bare-json"])
    print_line("Accord, relaying a backend", best["json-relay"], best["bare-json"])
    print("Packets, 16 streams at a time")
    best = compare(["bare-events", "events", "bare-yielding", "yielding"], EVENTS, 16)
    print_line("a bare route", best["bare-events"])
    print_line("Accord", best["events"], best["bare-events"], goal=60)
    print_line("a bare route that yields after each", best["bare-yielding"])
    print_line("Accord, an agent that does so", best["yielding"], best["bare-yielding"])
    # Spread, because clients do not start at the same moment, and these would stay in step for ever.
    best = compare(["bare-paced", "paced"], EVENTS, 16, spread_s=PACED * PACE_S)
    ours, bare = best["paced"].first_ms, best["bare-paced"].first_ms
    print("First packet, 16 streams at a time at the pace of a model, half of them within")
    print(f"  {ours:.2f} ms, bare {bare:.2f} ms: {ours - bare:+.2f} ms   goal ≤ +3")
    memory(turns)


@dataclass(slots=True)
class Best:
    """The best of all rounds."""

    by_processor: float = 0.0
    by_clock: float = 0.0
    first_ms: float = float("inf")


def print_line(name: str, ours: Best, bare: Best | None = None, *, goal: int | None = None) -> None:
    """Print one line: the rate, and its share of the bare route's."""
    share = f"{ours.by_processor / bare.by_processor:5.0%} ({ours.by_clock / bare.by_clock:.0%})" if bare else ""
    suffix = f"   goal ≥ {goal} %" if goal else ""
    print(f"  {name:36} {ours.by_processor:9,.0f} ({ours.by_clock:,.0f}) {share}{suffix}")


def compare(names: list[str], accept: str, at_once: int, *, spread_s: float = 0.0) -> dict[str, Best]:
    """The highest rate of packets, or of JSON answers, of each server."""
    best = {name: Best() for name in names}
    for _ in range(ROUNDS):
        for name, rates in best.items():
            with server(name) as (address, pid):
                uvloop.run(load(address, accept, at_once, answers=WARM))
                before = processor_s(pid)
                found = uvloop.run(load(address, accept, at_once, seconds=SECONDS, spread_s=spread_s))
                used = processor_s(pid) - before
            packets = found.answers * (found.last.count(b"data: ") or 1)
            rates.by_processor = max(rates.by_processor, packets / used)
            rates.by_clock = max(rates.by_clock, packets / found.seconds)
            rates.first_ms = min(rates.first_ms, found.first_ms)
    return best


def memory(turns: int) -> None:
    """The memory of a server over many turns. On SQLite: a store in memory grows by design."""
    print(f"Memory over {turns:,} turns on SQLite (resident MB after each tenth):")
    seen: list[float] = []
    with server("json-sqlite") as (address, pid):
        for _ in range(MEMORY_STEPS):
            uvloop.run(load(address, JSON, 64, answers=turns // MEMORY_STEPS))
            seen.append(resident_mb(pid))
            print(f"  {seen[-1]:.1f}", end="", flush=True)
    print(f"\n  at the end {seen[-1] / seen[1]:.0%} of what it was after two tenths   goal ≤ {FLAT:.0%}")


def processor_s(pid: int) -> float:
    """The processor time of this process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """The resident memory of this process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def server(name: str) -> Generator[tuple[str, int]]:
    """One server in a process of its own: its address and its process."""
    command = [sys.executable, str(Path(__file__).with_name("served.py")), name, str(max(PROCESSORS))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else "", process.pid
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
