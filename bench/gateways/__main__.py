"""Measure all gateways: `make bench-gateways`, or a few of them with ONLY=accord,bare.

A run of all contestants with at least the usual rounds and seconds writes docs/benchmarks.md; any other only prints.
"""

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

from .contestants import CONTESTANTS, ROOT, Contestant, Place, UnavailableError
from .load import Exchange, Load, LoadError, run_load
from .measure import measure
from .process import LOAD_PROCESSOR, PROCESSORS, free_port, running
from .report import Machine, Result, is_starved, summary, write_report

USUAL_ROUNDS: Final = 3
USUAL_SECONDS: Final = 2.0
RESULTS: Final = ROOT / "build" / "bench-gateways.json"


def main() -> None:
    """Run all rounds, print the tables, and write the report of a full run."""
    peers = Path(sys.argv[1]).resolve()
    rounds = int(os.environ.get("ROUNDS") or USUAL_ROUNDS)
    seconds = float(os.environ.get("SECONDS") or USUAL_SECONDS)
    chosen = choose(os.environ.get("ONLY") or "")
    machine = Machine(f"{datetime.now(UTC):%Y-%m-%d}", len(PROCESSORS), os.getloadavg()[0], rounds, seconds)
    signal.signal(signal.SIGTERM, interrupt)
    os.sched_setaffinity(0, {LOAD_PROCESSOR})
    results = {contestant.name: Result(contestant, contestant.version(peers)) for contestant in chosen}
    with TemporaryDirectory() as scratch:
        run_rounds(results, peers, Path(scratch), rounds, seconds)
    print("\n" + summary(results))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({name: result.figures for name, result in results.items()}, indent=1), encoding="utf-8"
    )
    starved = [result.contestant.title for name, result in results.items() if is_starved(results, name)]
    if len(chosen) < len(CONTESTANTS) or rounds < USUAL_ROUNDS or seconds < USUAL_SECONDS:
        print("docs/benchmarks.md is unchanged: this was not a full run.")
    elif starved:
        sys.exit(f"docs/benchmarks.md is unchanged: other programs used the processor of {', '.join(starved)}.")
    else:
        write_report(results, machine, ROOT / "docs")
        print("Wrote docs/benchmarks.md and docs/benchmarks/")


def choose(only: str) -> list[Contestant]:
    """The contestants with these names; all of them if no name is given."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = [contestant.name for contestant in CONTESTANTS]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"ONLY={only}: unknown contestant {', '.join(unknown)}; use some of {', '.join(known)}")
    return [contestant for contestant in CONTESTANTS if not names or contestant.name in names]


def interrupt(number: int, frame: FrameType | None) -> None:
    """End like Ctrl-C, so that every started program is ended."""
    del number, frame
    raise KeyboardInterrupt


def run_rounds(results: dict[str, Result], peers: Path, scratch: Path, rounds: int, seconds: float) -> None:
    """Measure each contestant in turn, in every round; one that cannot be started is left out of later rounds."""
    upstream_port = free_port()
    upstream = [sys.executable, "-m", "bench.gateways.upstream", str(upstream_port)]
    with running(upstream, scratch / "upstream.log", processor=LOAD_PROCESSOR, cwd=ROOT) as program:
        wait_for_upstream(upstream_port)
        for number in range(rounds):
            for result in results.values():
                if result.problems and not result.figures:
                    continue
                folder = scratch / f"{number}-{result.contestant.name}"
                folder.mkdir()
                place = Place(peers, folder, free_port(), upstream_port)
                measure_round(result, place, seconds)
                if program.has_ended():
                    sys.exit(f"The upstream ended: {program.last_lines()}")
                print(f"round {number + 1}/{rounds}  {line(result)}", flush=True)


def measure_round(result: Result, place: Place, seconds: float) -> None:
    """Add one round to the result, or the reason why there is none."""
    try:
        result.add_round(measure(result.contestant, place, seconds, result.problems))
    except UnavailableError as error:
        result.problems.append(str(error))


def line(result: Result) -> str:
    """The best figures so far in one line."""
    figures = result.figures
    title = f"{result.contestant.title:20}"
    if not figures:
        return f"{title} {result.problems[-1][:200] if result.problems else ''}"
    return (
        f"{title} {figures.get('rate_64', 0):9,.0f} req/s at 64, p50 {figures.get('p50_1', 0):.2f} ms at 1, "
        f"{figures.get('chunk_rate', 0):,.0f} chunks/s"
    )


def wait_for_upstream(port: int) -> None:
    """Wait until the upstream answers."""
    request = Exchange(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n", b'"ok"', 1)
    for _ in range(400):
        try:
            run_load(Load(port, request, 1))
        except LoadError:
            time.sleep(0.02)
        else:
            return
    sys.exit("The upstream does not answer.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nInterrupted; everything that was started has been ended.")
