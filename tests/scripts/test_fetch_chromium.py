"""Bringing the browser of the tests: the named one is tried, and what was tried is listed when there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.page.browser import CHROMIUM

ROOT = Path(__file__).parent.parent.parent


def fetch(target: Path, program: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "scripts.fetch_chromium", str(target)]
    environment = {**os.environ, "ACCORD_CHROMIUM": program}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=50, check=False)


def test_the_browser_that_is_named_is_tried_and_taken(tmp_path: Path):
    done = fetch(tmp_path / "chromium", str(CHROMIUM))
    assert done.returncode == 0
    assert done.stderr.endswith(" for the browser tests: ACCORD_CHROMIUM\n")
    assert str(CHROMIUM) in (tmp_path / "chromium" / "chromium").read_text()


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("/no/such/browser", "ACCORD_CHROMIUM=/no/such/browser is not a program"),
        ("false", "BrowserType.launch: Target page, context or browser has been closed"),
    ],
)
def test_without_a_browser_that_works_the_command_fails_and_says_why(tmp_path: Path, program: str, problem: str):
    done = fetch(tmp_path / "chromium", program)
    assert done.returncode == 1
    assert done.stderr == (
        f"There is no Chromium for the browser tests:\n  ACCORD_CHROMIUM: {problem}\n"
        "Install one and name it: ACCORD_CHROMIUM=/path/to/chrome make test\n"
    )
    assert not (tmp_path / "chromium").exists()
