"""Inspect the misbehaving agent, for the tests of the checks."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from accord.acp_tools.inspect import InspectSettings, inspect_agent
from accord.acp_tools.inspect.checks import Check
from accord.wire.inspection import InspectionReport, Result

MISBEHAVING_AGENT = str(Path(__file__).parent / "misbehaving_agent.py")


def inspect(
    checks: Sequence[Check],
    *faults: str,
    protocol: int = 1,
    timeout_s: float = 5.0,
    startup_s: float = 20.0,
    quick: bool = False,
) -> InspectionReport:
    """Run these checks on the agent with these faults."""
    settings = InspectSettings(
        (sys.executable, MISBEHAVING_AGENT, *faults),
        session_cwd=str(Path(__file__).parent),
        protocol=protocol,
        timeout_s=timeout_s,
        startup_s=startup_s,
        watch_s=0.1,
        quick=quick,
    )
    return asyncio.run(inspect_agent(settings, checks))


def with_result(report: InspectionReport, result: Result) -> set[str]:
    """The checks with this result."""
    return {found.check for found in report.findings if found.result is result}
