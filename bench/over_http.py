"""What a turn costs over HTTP: `POST /v1/assist` against a bare Starlette route on the same server.

Server and client have a processor each, every measurement a server of its own, and the best of several rounds counts;
rounds are interleaved, since the machine is shared. Not named `http.py`: beside the other benchmarks that would hide
Python's own module.
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
    print("Each a second of the server's own processor time (others use this machine, too), and as the client saw it.")
    print("JSON, 64 at a time")
    told = compare(["bare-json", "json", "json-sqlite", "json-relay"], JSON, 64)
    tell("a bare route", told["bare-json"])
    tell("Accord, in memory", told["json"], told["bare-json"], goal=50)
    tell("Accord, on SQLite", told["json-sqlite"], told["bare-json"])
    tell("Accord, relaying a backend", told["json-relay"], told["bare-json"])
    print("Packets, 16 streams at a time")
    told = compare(["bare-events", "events", "bare-yielding", "yielding"], EVENTS, 16)
    tell("a bare route", told["bare-events"])
    tell("Accord", told["events"], told["bare-events"], goal=40)
    tell("a bare route that yields after each", told["bare-yielding"])
    tell("Accord, an agent that does so", told["yielding"], told["bare-yielding"])
    # Readers of streams do not begin in step, and these would stay in step for ever.
    told = compare(["bare-paced", "paced"], EVENTS, 16, spread_s=PACED * PACE_S)
    ours, bare = told["paced"].first_ms, told["bare-paced"].first_ms
    print("First packet, 16 streams at a time at the pace of a model, half of them within")
    print(f"  {ours:.2f} ms, bare {bare:.2f} ms: {ours - bare:+.2f} ms   goal ≤ +3")
    memory(turns)


@dataclass(slots=True)
class Best:
    """The best of all rounds."""

    by_processor: float = 0.0
    by_clock: float = 0.0
    first_ms: float = float("inf")


def tell(name: str, ours: Best, bare: Best | None = None, *, goal: int | None = None) -> None:
    """One line: how much, and what share of the bare route's."""
    share = f"{ours.by_processor / bare.by_processor:5.0%} ({ours.by_clock / bare.by_clock:.0%})" if bare else ""
    aim = f"   goal ≥ {goal} %" if goal else ""
    print(f"  {name:36} {ours.by_processor:9,.0f} ({ours.by_clock:,.0f}) {share}{aim}")


def compare(names: list[str], accept: str, at_once: int, *, spread_s: float = 0.0) -> dict[str, Best]:
    """The most packets, or whole answers, that each server gave."""
    best = {name: Best() for name in names}
    for _ in range(ROUNDS):
        for name, most in best.items():
            with server(name) as (address, pid):
                uvloop.run(load(address, accept, at_once, answers=WARM))
                before = processor_s(pid)
                found = uvloop.run(load(address, accept, at_once, seconds=SECONDS, spread_s=spread_s))
                used = processor_s(pid) - before
            packets = found.answers * (found.last.count(b"data: ") or 1)
            most.by_processor = max(most.by_processor, packets / used)
            most.by_clock = max(most.by_clock, packets / found.seconds)
            most.first_ms = min(most.first_ms, found.first_ms)
    return best


def memory(turns: int) -> None:
    """The memory of a server over many turns. On SQLite: what the store in memory keeps, it keeps there by design."""
    print(f"Memory over {turns:,} turns on SQLite (resident MB after each tenth):")
    seen: list[float] = []
    with server("json-sqlite") as (address, pid):
        for _ in range(MEMORY_STEPS):
            uvloop.run(load(address, JSON, 64, answers=turns // MEMORY_STEPS))
            seen.append(resident_mb(pid))
            print(f"  {seen[-1]:.1f}", end="", flush=True)
    print(f"\n  at the end {seen[-1] / seen[1]:.0%} of what it was after two tenths   goal ≤ {FLAT:.0%}")


def processor_s(pid: int) -> float:
    """How much processor time this process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """How much memory this process has now."""
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
