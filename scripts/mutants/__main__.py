"""Sample small changes of the source, run the tests that reach them, and print which changes no test noticed.

    python -m scripts.mutants [PATH ...] [--count N] [--seed N] [--kind KIND] [--jobs N] [--limit SECONDS]

Works in copies of the tree; the tree itself is not touched. The map from functions to tests is built once, by running
the tests with `reach.py`, and kept in build/mutants; `--map` builds it again. Mutants that no test can notice, since
they change nothing, are listed with the reason in equivalents.toml and left out.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock
from typing import Any, Final

from scripts.mutants.mutate import MODULE, Mutant, mutants_of, mutated

ROOT: Final = Path(__file__).parent.parent.parent
SOURCE: Final = ROOT / "src"
BUILD: Final = ROOT / "build" / "mutants"
EQUIVALENTS: Final = Path(__file__).parent / "equivalents.toml"
PATHS: Final = ("core", "run", "servers", "wire", "config", "client")
LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".venv", "build", "__pycache__", ".*_cache", ".hypothesis", "node_modules"
)
STARTING_S: Final = 40.0
"""What starting pytest may take, beside the tests themselves, on a busy machine."""
STEP_S: Final = 0.01
"""What a test costs beside what it does itself."""
SECOND_LOOK: Final = 8
"""A mutant that survives gets so many times the tests before it is called a survivor."""
NEVER_RUN: Final = ("tests/peers/", "tests/test_house.py", "tests/servers/http/test_contract.py")
PLUGINS: Final = ("-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:anyio")
"""Schemathesis, which only `test_contract.py` needs, takes as long to import as all the rest."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test of the suite, and what it reaches."""

    name: str
    seconds: float
    functions: frozenset[str]


class Tests:
    """The tests of the suite by what they reach."""

    def __init__(self, tests: Iterable[Test]) -> None:
        self._by_function: Final[defaultdict[str, list[Test]]] = defaultdict(list)
        self._by_module: Final[defaultdict[str, set[Test]]] = defaultdict(set)
        self._all: Final = list(tests)
        for test in self._all:
            for function in test.functions:
                self._by_function[function].append(test)
                self._by_module[function.partition("::")[0]].add(test)

    def reaching(self, mutant: Mutant) -> list[Test]:
        """The tests that may notice this mutant, the most likely ones first.

        Those that call its function; or, for what is no function's, any function of its module or of one that imports
        it. Those in the folder of the module's name as well: they may look at a table, or reach it in a process that
        they start.
        """
        found = self._by_function.get(f"{mutant.path}::{mutant.function}", [])
        if not found:
            modules = [mutant.path, *importers(mutant.path)]
            found = list({test for module in modules for test in self._by_module.get(module, ())})
        parts = mutant.path.removesuffix(".py").split("/")[1:]
        folder = "/".join(["tests", *parts[:-1], ""])
        near = [test for test in self._all if test.name.startswith(folder)]
        order = {
            test: (-_shared(test, parts), len(test.functions), test.seconds, test.name) for test in (*found, *near)
        }
        return sorted(order, key=lambda test: order[test])


def fitting(tests: Iterable[Test], limit_s: float) -> list[Test]:
    """Of these tests the first ones, as many as fit into the time."""
    chosen: list[Test] = []
    for test in tests:
        if test.seconds + STEP_S <= limit_s:
            chosen.append(test)
            limit_s -= test.seconds + STEP_S
    return chosen


def _shared(test: Test, parts: list[str]) -> int:
    path = test.name.partition("::")[0]
    return sum(part in path for part in parts)


def importers(path: str) -> list[str]:
    """The modules that import this one by name."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return [
        str(module.relative_to(SOURCE))
        for module in SOURCE.rglob("*.py")
        if f"from {name} import" in module.read_text(encoding="utf-8")
    ]


def read_map(*, anew: bool) -> Tests:
    """What each test reaches; from the last time, unless there was none."""
    folder = BUILD / "reach"
    if anew or not any(folder.glob("*.json")):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print("Running the suite once to learn which tests reach which functions ...", file=sys.stderr)
        command = [sys.executable, "-m", "pytest", "-p", "scripts.mutants.reach", "-q", "--timeout", "300"]
        environment = {**os.environ, "ACCORD_REACH": str(folder), "ACCORD_EXAMPLES": "20", "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL)
    found: dict[str, dict[str, Any]] = {}
    for file in folder.glob("*.json"):
        found |= json.loads(file.read_text(encoding="utf-8"))
    return Tests(
        Test(name, record["seconds"], frozenset(record["functions"]))
        for name, record in found.items()
        if record.get("passed") and "functions" in record and not name.startswith(NEVER_RUN)
    )


class Copies:
    """Copies of the tree, one for each job."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: Final[SimpleQueue[Path]] = SimpleQueue()
        self._stopped: Final = Event()
        self._running: Final[set[int]] = set()
        self._lock: Final = Lock()
        self._written = 0
        for number in range(count):
            copy = folder / str(number)
            shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
            (copy / ".venv").symlink_to(ROOT / ".venv")
            self._free.put(copy)

    def is_noticed(self, mutant: Mutant, tests: list[Test], limit_s: float) -> bool | None:
        """Whether one of these tests fails on the mutant, or takes for ever; None if the run was stopped."""
        copy = self._free.get()
        file = copy / "src" / mutant.path
        source = file.read_text(encoding="utf-8")
        try:
            self._write(file, mutated(source, mutant))
            first = fitting(tests, limit_s)
            others = fitting([test for test in tests if test not in first], SECOND_LOOK * limit_s)
            noticed = self._run(copy, first) if first else False
            return self._run(copy, others) if noticed is False and others else noticed
        finally:
            self._write(file, source)
            self._free.put(copy)

    def stop(self) -> None:
        """End every run."""
        self._stopped.set()
        with self._lock:
            for group in self._running:
                os.killpg(group, signal.SIGKILL)

    def _write(self, file: Path, source: str) -> None:
        file.write_text(source, encoding="utf-8")
        # Compiled files are distinguished by whole seconds: no two versions of a file may have the same time.
        with self._lock:
            self._written += 2
            os.utime(file, (self._written, 1_000_000_000 + self._written))

    def _run(self, copy: Path, tests: list[Test]) -> bool | None:
        limit_s = STARTING_S + 3 * sum(test.seconds for test in tests)
        names = copy / "build" / "tests"
        names.parent.mkdir(exist_ok=True)
        names.write_text("\n".join(test.name for test in tests), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", *PLUGINS, f"@{names}"]
        environment = {
            **os.environ,
            "PYTHONPATH": str(copy / "src"),
            "PYTHONPYCACHEPREFIX": str(copy / "pycache"),
            "ACCORD_EXAMPLES": os.environ.get("ACCORD_EXAMPLES", "30"),
        }
        with self._lock:
            if self._stopped.is_set():
                return None
            process = subprocess.Popen(
                command,
                cwd=copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            self._running.add(process.pid)
        try:
            is_noticed = process.wait(limit_s) != 0
        except subprocess.TimeoutExpired:
            is_noticed = True
        finally:
            self._end(process)
        return None if self._stopped.is_set() else is_noticed

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill what the tests started and did not end, too."""
        with self._lock:
            self._running.discard(process.pid)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def sample(found: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many mutants, every kind as often as every other while there are any."""
    dice = random.Random(seed)  # noqa: S311
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in found:
        by_kind.setdefault(mutant.kind, []).append(mutant)
    for mutants in by_kind.values():
        dice.shuffle(mutants)
    chosen: list[Mutant] = []
    while by_kind and len(chosen) < count:
        kind = dice.choice(sorted(by_kind))
        chosen.append(by_kind[kind].pop())
        if not by_kind[kind]:
            del by_kind[kind]
    return chosen


def equivalents() -> dict[str, str]:
    """The mutants that change nothing, each with the reason."""
    listed = tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8"))
    return {row["name"]: row["reason"] for row in listed.get("mutant", [])}


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.mutants", description="Sample small changes of the source."
    )
    parser.add_argument("paths", nargs="*", default=PATHS, help="files or folders below src/accord")
    parser.add_argument("--count", type=int, default=100, help="how many mutants (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=15.0, help="seconds of tests at first (default: %(default)s)")
    parser.add_argument("--kind", action="append", help="only this kind of change, such as row; may be repeated")
    parser.add_argument("--map", action="store_true", help="learn again which tests reach which functions")
    return parser.parse_args()


def collect(paths: Iterable[str]) -> list[Mutant]:
    """Every mutant of these files and folders."""
    files: set[Path] = set()
    for path in paths:
        place = SOURCE / "accord" / path
        found = place.rglob("*.py") if place.is_dir() else [place]
        files.update(file for file in found if file.is_file())
    if not files:
        raise SystemExit(f"No modules below src/accord: {', '.join(paths)}")
    return [
        mutant
        for file in sorted(files)
        for mutant in mutants_of(str(file.relative_to(SOURCE)), file.read_text(encoding="utf-8"))
    ]


def run(chosen: dict[Mutant, list[Test]], jobs: int, limit_s: float) -> dict[Mutant, bool]:
    """Whether each of these mutants is noticed by its tests; those that were run before Ctrl-C."""
    results: dict[Mutant, bool] = {}
    with tempfile.TemporaryDirectory(prefix="accord-mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies = Copies(Path(folder), jobs)
        runs = {pool.submit(copies.is_noticed, mutant, tests, limit_s): mutant for mutant, tests in chosen.items()}
        try:
            for done in as_completed(runs):
                mutant, is_noticed = runs[done], done.result()
                if is_noticed is not None:
                    results[mutant] = is_noticed
                if is_noticed is False:
                    print(f"\rsurvived  {_line(mutant)}", flush=True)
                survived = len(results) - sum(results.values())
                print(f"\r{len(results)} of {len(runs)} run, {survived} survived", end="", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            copies.stop()
    print(file=sys.stderr)
    return results


def main() -> int:
    """Run the sample; the exit status says whether everything was noticed."""
    asked = arguments()
    known = equivalents()
    found = [mutant for mutant in collect(asked.paths) if asked.kind is None or mutant.kind in asked.kind]
    if stale := known.keys() - {mutant.name for mutant in collect(PATHS)}:
        print("Listed as equivalent but not in the source any more:", *sorted(stale), sep="\n  ")
    tests = read_map(anew=asked.map)
    sampled = sample([mutant for mutant in found if mutant.name not in known], asked.count, asked.seed)
    chosen = {mutant: tests.reaching(mutant) for mutant in sampled}
    unreached = [mutant for mutant, reaching in chosen.items() if not reaching]
    for mutant in unreached:
        print(f"unreached {_line(mutant)}")
    results = run({mutant: reaching for mutant, reaching in chosen.items() if reaching}, asked.jobs, asked.limit)
    noticed, total = sum(results.values()), len(results) + len(unreached)
    share = 100 * noticed / total if total else 100.0
    print(
        f"{noticed} of {total} noticed ({share:.1f} %); {len(results) - noticed} survived, "
        f"{len(unreached)} reached by no test"
    )
    left_out = sum(mutant.name in known for mutant in found)
    print(f"Sampled with seed {asked.seed} from {len(found)} mutants, of which {left_out} are listed as equivalent")
    return int(noticed < total)


def _line(mutant: Mutant) -> str:
    where = "" if mutant.function == MODULE else f" in {mutant.function}"
    return f"src/{mutant.path}:{mutant.line}{where}: {mutant.kind}: {mutant.change}"


if __name__ == "__main__":
    sys.exit(main())
