"""`accord proxy`: enforce content rules between an editor and an agent; `acp_tools/proxy` decides about each line."""

import errno
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from accord.acp_tools.proxy import NoTrace, Proxy, TraceFile
from accord.acp_tools.proxy.guard import Guard, Mode
from accord.acp_tools.trace.entries import ProxyFinding
from accord.assembly.loop import run_async
from accord.errors import UsageError
from accord.stdio import PeerStartError, open_stdio, start_peer
from accord.terminal import escape_line

MAX_PRINTED: Final = 100
NOT_FOUND: Final = 127
NOT_STARTED: Final = 126
"""The statuses that shells use for a program that is missing, and for one that cannot be run."""
DEFAULT_TRACE: Final = Path("accord-trace.jsonl")


def proxy_command(
    command: Annotated[
        list[str] | None, typer.Argument(help="Command that starts the agent, after --.", show_default=False)
    ] = None,
    *,
    mode: Annotated[
        str,
        typer.Option(help="guard: refuse what the agent did not declare; adapt: degrade it; observe: change nothing."),
    ] = "guard",
    trace: Annotated[
        Path | None, typer.Option(help="Append every message and finding to this file, for accord trace show.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Keep long texts and media in the trace.")] = False,
) -> None:
    """Enforce content rules between an editor and an agent.

    Configure this as the agent's command in the editor. The exit status is that of the agent; 127 if its program is
    missing, 126 if it cannot be started. --mode observe without --trace writes accord-trace.jsonl.

    Examples:
      accord proxy -- some-agent --acp
      accord proxy --mode adapt --trace session.jsonl -- some-agent --acp
    """
    if mode not in list(Mode):
        raise UsageError(f'--mode: unknown mode "{mode}"; use {", ".join(Mode)}')
    if not command:
        raise UsageError(
            "The command of the agent is missing; give it after --, as in: accord proxy -- some-agent --acp"
        )
    if trace is None and mode == Mode.OBSERVE:
        trace = DEFAULT_TRACE
    if full and trace is None:
        raise UsageError("--full needs --trace FILE")
    raise typer.Exit(run_async(_run(command, Mode(mode), trace, full=full)))


async def _run(command: list[str], mode: Mode, trace: Path | None, *, full: bool) -> int:
    """Run the agent behind the proxy until one side ends; return the exit status."""
    try:
        recorder = NoTrace() if trace is None else TraceFile(trace, full=full)
    except OSError as error:
        raise UsageError(f"{trace}: cannot be written: {error.strerror}") from error
    if isinstance(recorder, TraceFile) and recorder.path != trace:
        print(f"accord: {trace} is in use; this conversation is written to {recorder.path}", file=sys.stderr)
    try:
        peer = await start_peer(command, keep_stderr=False)
    except PeerStartError as error:
        print(f"accord: {error}", file=sys.stderr)
        cause = error.__cause__
        return NOT_FOUND if isinstance(cause, OSError) and cause.errno == errno.ENOENT else NOT_STARTED
    with ExitStack() as stack:
        folder = None
        if mode is Mode.ADAPT:
            # Readable by this user only, and deleted when the agent ends.
            folder = stack.enter_context(TemporaryDirectory(prefix="accord-", ignore_cleanup_errors=True))
        reader, sink = await open_stdio()
        guard = Guard(mode, folder=folder)
        ended = await Proxy(reader, sink, peer, guard, trace=recorder, report=FindingPrinter()).run()
        if ended.message:
            print(f"accord: {ended.message}", file=sys.stderr)
        return ended.status


class FindingPrinter:
    """Prints findings to standard error, but only the first hundred: an agent may cause any number."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, findings: Iterable[ProxyFinding]) -> None:
        """Print these findings."""
        for finding in findings:
            self._count += 1
            if self._count <= MAX_PRINTED:
                place = f"message {finding.number} of the {finding.side}"
                line = f"accord: {finding.severity}: {place}: {escape_line(finding.sentence)}"
                print(line, file=sys.stderr, flush=True)
            elif self._count == MAX_PRINTED + 1:
                print("accord: further findings are in the trace only", file=sys.stderr, flush=True)
