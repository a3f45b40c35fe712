"""A pytest plugin that records which functions of the package each test calls, and how long the test takes.

Loaded by `-p scripts.mutants.reach`; `ACCORD_REACH` names the folder that gets a file of each process that ran tests.
Only calls in the test's own process are seen, in all of its threads. Functions are named as in `mutate.py`.
"""

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SOURCE = str(Path(__file__).parent.parent.parent / "src") + os.sep


class Reach:
    """Collects the calls of the test that runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._called: set[CodeType] = set()
        self._found: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Record the calls from the test's set-up to the end of its tear-down."""
        self._called = set()
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # pyright: ignore[reportArgumentType]
            codes = [code for code in self._called.copy() if code.co_filename.startswith(SOURCE)]
            names = sorted({f"{code.co_filename.removeprefix(SOURCE)}::{code.co_qualname}" for code in codes})
            self._found.setdefault(item.nodeid, {})["functions"] = names

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep how long the test took, and whether it passed."""
        found = self._found.setdefault(report.nodeid, {})
        found["seconds"] = found.get("seconds", 0.0) + report.duration
        found["passed"] = found.get("passed", True) and report.outcome == "passed"

    def pytest_sessionfinish(self) -> None:
        """Write what this process found."""
        (self._folder / f"{os.getpid()}.json").write_text(json.dumps(self._found), encoding="utf-8")

    def _record(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._called.add(frame.f_code)


def pytest_configure(config: pytest.Config) -> None:
    """Record in the processes that run tests, not in the one that hands them out."""
    if not config.getoption("numprocesses", None):
        config.pluginmanager.register(Reach(Path(os.environ["ACCORD_REACH"])))
