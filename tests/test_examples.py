"""Every command of examples/README.md is run as a user types it, and prints what the page says."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.process import accord_serve

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PAGE = (EXAMPLES / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
RUN = {Path(re.findall(r"examples/\S+", command)[0]).name: (command, output) for command, output in SHOWN}
ELSEWHERE = {"09_queue_worker.py": "tests/queues/test_queue_client.py"}
"""Examples that need more than one service, and the test that runs each."""
OMITTED = "…"
LIMIT_S = 60


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one service with the demo agent, which all clients share."""
    with asyncio.Runner() as runner:
        serving = accord_serve(tmp_path_factory.mktemp("examples"))
        served = runner.run(serving.__aenter__())
        try:
            yield served.address
        finally:
            runner.run(serving.__aexit__(None, None, None))


def matches(printed: str, shown: str) -> bool:
    """Whether these lines were printed; a line `…` stands for any number of lines."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == OMITTED else re.escape(line.rstrip()) + "[ ]*\n" for line in shown.splitlines()
    ]
    return re.fullmatch("".join(lines), printed) is not None


@pytest.mark.parametrize("name", RUN)
def test_each_example_prints_what_its_page_shows(name: str, address: str):
    command, shown = RUN[name]
    if "--url" in (EXAMPLES / name).read_text(encoding="utf-8"):
        command = f"{command.strip()} --url {address}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert matches(done.stdout, shown), done.stdout


def test_every_example_is_listed_and_run():
    files = {path.name for path in EXAMPLES.glob("*.py")}
    assert set(re.findall(r"^\| \[(\w+\.py)\]\(\1\)", PAGE, flags=re.MULTILINE)) == files
    assert {*RUN, *ELSEWHERE} == files
    for name, test in ELSEWHERE.items():
        assert f'"{name}"' in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_each_example_says_how_to_run_it(path: Path):
    docstring = path.read_text(encoding="utf-8").split('"""')[1]
    assert f" examples/{path.name}" in docstring
    assert "Needs " in docstring or " needs " in docstring
