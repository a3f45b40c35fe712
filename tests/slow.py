"""The tests that `make test` leaves out and `make test-slow` runs, and how long each test takes.

`slow.txt` has a folder, a file or a test function on each line. `make slow-tests` runs every test, measures it and writes the list
again; a line with a comment was added by hand and stays.
"""

import json
import os
import resource
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path, PurePosixPath
from time import perf_counter
from typing import Final

import pytest

LIST: Final = Path(__file__).with_name("slow.txt")
MAX_CPU_S: Final = 0.3
"""What a test may use of a processor, with the programs that it starts, on average over its parameters."""
MAX_S: Final = 1.0
"""How long a test may take, on average over its parameters."""


def read_list() -> dict[str, str]:
    """The listed names, each with its comment."""
    lines = [line.partition("#") for line in LIST.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {name.strip(): comment.strip() for name, _, comment in lines}


SLOW: Final = frozenset(read_list())


def is_slow(node_id: str) -> bool:
    """Whether the function of a test, its file or a folder of it is listed."""
    return not SLOW.isdisjoint(names_of(node_id))


def names_of(node_id: str) -> set[str]:
    """Everything that a line may name to list this test."""
    function = node_id.partition("[")[0]
    file = function.partition("::")[0]
    return {function, file, *(f"{folder}/" for folder in PurePosixPath(file).parents)}


def cpu_s() -> float:
    """The processor time of this process and of the programs that it has started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write down what a test takes, if `-p tests.slow` loads this module."""
    start, used = perf_counter(), cpu_s()
    try:
        return (yield)
    finally:
        row = [item.nodeid, cpu_s() - used, perf_counter() - start]
        with (Path(os.environ["ACCORD_TIMES"]) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def slow_names(times: Iterable[tuple[str, float, float]], kept: Mapping[str, str]) -> dict[str, str]:
    """The functions that take too long, or their file if that has no others, and the lines that were added by hand."""
    functions: dict[str, list[tuple[float, float]]] = defaultdict(list)
    files: dict[str, set[str]] = defaultdict(set)
    for node_id, cpu, wall in times:
        function = node_id.partition("[")[0]
        functions[function].append((cpu, wall))
        files[function.partition("::")[0]].add(function)
    slow = {
        function
        for function, rows in functions.items()
        if sum(cpu for cpu, _ in rows) > MAX_CPU_S * len(rows) or sum(wall for _, wall in rows) > MAX_S * len(rows)
    }
    names = {name: comment for name, comment in kept.items() if comment}
    for file, members in files.items():
        if names.keys().isdisjoint(names_of(file)):
            names |= dict.fromkeys([file] if members <= slow else members & slow, "")
    return dict(sorted(names.items()))


def main(folder: Path) -> None:
    """Write the list from the times in a folder."""
    times = [tuple(json.loads(line)) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    names = slow_names(times, read_list())
    lines = [f"{name}  # {comment}" if comment else name for name, comment in names.items()]
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(times)} tests measured; {len(names)} files and functions are listed in {LIST.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
