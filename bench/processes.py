"""What a second process brings: JSON turns in a second from `accord serve` with `--workers 1` and `--workers 2`.

The real command, with everything that it does by default; its log goes to /dev/null. The load comes from a process of
its own (`load.py`), whose processor time is printed, since it competes with the service for the processors. Each
measurement has a service and a store of its own, rounds are interleaved since the machine is shared, and the best
round counts.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvloop

from load import JSON, load

WORKERS: Final = (1, 2)
CONNECTIONS: Final = int(os.environ.get("CONNECTIONS", "64"))
ROUNDS: Final = int(os.environ.get("ROUNDS", "5"))
SECONDS: Final = float(os.environ.get("SECONDS", "3"))
WARM_S: Final = 1.0
GOAL: Final = 1.7
AGENT: Final = """
from accord import Agent

async def answer(turn):
    yield "Here is a short answer."

agent = Agent(answer)
"""


def main() -> None:
    """Print all figures; as `processes.py ADDRESS SECONDS`, be the load."""
    if len(sys.argv) > 1:
        print(json.dumps(send_load(sys.argv[1], float(sys.argv[2]))))
        return
    cores = len(os.sched_getaffinity(0))
    print(f"JSON turns in a second, {CONNECTIONS} at a time, on {cores} processor cores; SQLite, `accord serve`")
    print("  workers  requests/s   cores used: service  load   µs of the service per request")
    best = dict.fromkeys(WORKERS, 0.0)
    for _ in range(ROUNDS):
        for workers in WORKERS:
            best[workers] = max(best[workers], measure(workers))
    ratio = best[2] / best[1]
    print(f"Best: {best[1]:,.0f} with one process, {best[2]:,.0f} with two: {ratio:.2f} ×   goal ≥ {GOAL} ×")


def measure(workers: int) -> float:
    """Print and return the rate of a service with so many processes."""
    with service(workers) as (address, pid):
        run_load(address, WARM_S)
        before = processor_s(pid)
        found = run_load(address, SECONDS)
        used_s = processor_s(pid) - before
    rate, seconds = found["answers"] / found["seconds"], found["seconds"]
    print(
        f"  {workers:7} {rate:11,.0f} {used_s / seconds:21.2f} {found['processor_s'] / seconds:5.2f}"
        f" {used_s / found['answers'] * 1e6:9.0f}",
        flush=True,
    )
    return rate


def run_load(address: str, seconds: float) -> dict[str, Any]:
    """Send requests for so long, from another process."""
    command = [sys.executable, __file__, address, str(seconds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


def send_load(address: str, seconds: float) -> dict[str, Any]:
    """Send requests for so long; the answers, the time, and the processor time of this process meanwhile."""
    before = _own_processor_s()
    found = uvloop.run(load(address, JSON, CONNECTIONS, seconds=seconds))
    return {"answers": found.answers, "seconds": found.seconds, "processor_s": _own_processor_s() - before}


def _own_processor_s() -> float:
    used = getrusage(RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def processor_s(parent: int) -> float:
    """The processor time so far of this process and of those that it has started."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if parent in (int(stat.parent.name), int(fields[1])):
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


@contextmanager
def service(workers: int) -> Generator[tuple[str, int]]:
    """The service, in a folder of its own: its address and its process."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "agent.py").write_text(AGENT)
        command = [sys.executable, "-P", "-m", "accord", "serve", "agent.py", "--port", "0", "--store", "bench.db"]
        process = subprocess.Popen(
            [*command, "--workers", str(workers)],
            cwd=folder,
            env={**os.environ, "ACCORD_STATE_DIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with process:
            try:
                line = process.stdout.readline() if process.stdout else ""
                found = re.search(r"http://\S+?(?=/v1)", line)
                if found is None:
                    sys.exit("The service did not start")
                yield found.group(), process.pid
            finally:
                process.terminate()
                process.wait(30)


if __name__ == "__main__":
    main()
