"""The examples run as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

OUTPUT = {
    "plan_by_hand.py": [
        "chosen: vision",
        "emulated by Accord: structured_output_json_schema",
        "not chosen: text-only: image_input (not declared)",
    ],
    "in_a_function.py": ["200 Any text starts the tour. These words show one thing each:", "404 not_found"],
    "my_agent.py": [],
    "my_backend.py": ["HELLO"],
}
ELSEWHERE = {"queue_client.py": "tests/queues/test_queue_client.py"}
"""Examples that need a service, and the test that runs each."""


@pytest.mark.parametrize("name", OUTPUT)
def test_each_example_prints_what_it_should(name: str):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == OUTPUT[name]


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*OUTPUT, *ELSEWHERE}
    for name, test in ELSEWHERE.items():
        assert f'"{name}"' in (EXAMPLES.parent / test).read_text(encoding="utf-8")
