"""Run the checks and show their progress on standard error."""

import asyncio
import signal
from collections.abc import Sequence

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column

from accord.acp_tools.inspect.checks import Check
from accord.acp_tools.inspect.probe import InspectSettings
from accord.acp_tools.inspect.report.text import result_words
from accord.acp_tools.inspect.run import OnProgress, inspect_agent
from accord.console import Console
from accord.errors import UsageError
from accord.stdio import PeerStartError
from accord.wire.inspection import InspectionFinding, InspectionReport


def run_with_progress(settings: InspectSettings, checks: Sequence[Check]) -> InspectionReport:
    """Run the checks with progress on standard error; raises `UsageError` if the agent cannot be started."""
    console = Console(stderr=True)
    try:
        if not console.is_terminal:
            return asyncio.run(_inspect(settings, checks, _progress_lines(console, len(checks))))
        names = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        columns = (SpinnerColumn(), BarColumn(bar_width=20), MofNCompleteColumn(), names)
        with Progress(*columns, console=console, transient=True) as progress:
            return asyncio.run(_inspect(settings, checks, _progress_bar(progress, len(checks))))
    except PeerStartError as error:
        raise UsageError(str(error)) from None
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None


def _progress_lines(console: Console, total: int) -> OnProgress:
    """Print a line for each finished check, in the order in which they finish."""
    finished: list[str] = []

    def show(check: Check, finding: InspectionFinding | None) -> None:
        if finding is not None:
            finished.append(check.id)
            console.print(f"[{len(finished)}/{total}] {check.id}: {result_words(finding.result)}", soft_wrap=True)

    return show


def _progress_bar(progress: Progress, total: int) -> OnProgress:
    """Show a bar with the names of the checks that are running."""
    bar, running = progress.add_task("starting the agent", total=total), dict[str, None]()

    def show(check: Check, finding: InspectionFinding | None) -> None:
        if finding is None:
            running[check.id] = None
        else:
            running.pop(check.id, None)
        progress.update(bar, description=", ".join(running), advance=0 if finding is None else 1)

    return show


async def _inspect(settings: InspectSettings, checks: Sequence[Check], show: OnProgress) -> InspectionReport:
    """Inspect the agent; SIGTERM cancels it, which ends every process that it started."""
    running = asyncio.ensure_future(inspect_agent(settings, checks, on_progress=show))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await running
