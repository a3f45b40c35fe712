"""Run the checks and show their progress on standard error."""

import asyncio
import signal
from collections.abc import Sequence

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column

from accord.acp_tools.inspect.checks import Check
from accord.acp_tools.inspect.inspection import InspectSettings
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
            return asyncio.run(_inspect(settings, checks, _progress_lines(console, checks)))
        names = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        columns = (SpinnerColumn(), BarColumn(bar_width=20), MofNCompleteColumn(), names)
        with Progress(*columns, console=console, transient=True) as progress:
            return asyncio.run(_inspect(settings, checks, _progress_bar(progress, checks)))
    except PeerStartError as error:
        raise UsageError(str(error)) from None
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None


# A failed handshake is reported even if it was not chosen, which makes one check more.


def _progress_lines(console: Console, checks: Sequence[Check]) -> OnProgress:
    """Print a line for each finished check, in the order in which they finish."""
    known, finished = {check.id for check in checks}, list[str]()

    def show(check: Check, finding: InspectionFinding | None) -> None:
        known.add(check.id)
        if finding is not None:
            finished.append(check.id)
            text = f"[{len(finished)}/{len(known)}] {check.id}: {result_words(finding.result)}"
            console.print(text, soft_wrap=True)

    return show


def _progress_bar(progress: Progress, checks: Sequence[Check]) -> OnProgress:
    """Show a bar with the names of the checks that are running."""
    known, running = {check.id for check in checks}, dict[str, None]()
    bar = progress.add_task("starting the agent", total=len(known))

    def show(check: Check, finding: InspectionFinding | None) -> None:
        known.add(check.id)
        if finding is None:
            running[check.id] = None
        else:
            running.pop(check.id, None)
        done = 0 if finding is None else 1
        progress.update(bar, total=len(known), advance=done, description=", ".join(running))

    return show


async def _inspect(settings: InspectSettings, checks: Sequence[Check], show: OnProgress) -> InspectionReport:
    """Inspect the agent; SIGTERM cancels it, which ends every process that it started."""
    running = asyncio.ensure_future(inspect_agent(settings, checks, on_progress=show))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await running
