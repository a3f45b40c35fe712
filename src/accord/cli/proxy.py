"""`accord proxy`: stand between an editor and an agent. What is done with each line is decided in `acp_tools/proxy`."""

import errno
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from accord.assembly.loop import run_async
from accord.errors import UsageError
from accord.terminal import escape_line

if TYPE_CHECKING:
    from accord.acp_tools.proxy.guard import Mode
    from accord.acp_tools.trace.writer import ProxyFinding

MAX_TOLD: Final = 100
NOT_FOUND: Final = 127
NOT_STARTED: Final = 126
MODES: Final = ("guard", "adapt", "observe")


def proxy_command(
    command: Annotated[
        list[str] | None, typer.Argument(help="The agent's command with its arguments, after --.", show_default=False)
    ] = None,
    *,
    mode: Annotated[
        str, typer.Option(help="guard refuses what the agent did not declare, adapt degrades it, observe only looks.")
    ] = "guard",
    trace: Annotated[
        Path | None, typer.Option(help="Append every message and finding to this file, for accord trace show.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Keep long texts and media whole in the trace.")] = False,
) -> None:
    """Run an agent and stand between it and the editor: guard, adapt or observe what goes to and fro."""
    if mode not in MODES:
        raise UsageError(f"--mode {mode}: expected {', '.join(MODES)}")
    if not command:
        raise UsageError("which agent? Give its command after --, such as: accord proxy -- some-agent --acp")
    if full and trace is None and mode != "observe":
        raise UsageError("--full goes with --trace FILE")
    # The wire models take a moment to load, which no other command should wait for.
    from accord.acp_tools.proxy.guard import Mode  # noqa: PLC0415

    raise typer.Exit(run_async(_run(command, Mode(mode), _trace_path(trace, mode), full=full)))


def _trace_path(trace: Path | None, mode: str) -> Path | None:
    """An observer that writes nothing down would be of no use."""
    return Path("accord-trace.jsonl") if trace is None and mode == "observe" else trace


async def _run(command: list[str], mode: "Mode", trace: Path | None, *, full: bool) -> int:
    from accord.acp_tools.proxy import NoTrace, Proxy, TraceFile  # noqa: PLC0415
    from accord.acp_tools.proxy.guard import Guard, Mode  # noqa: PLC0415
    from accord.stdio import PeerStartError, open_stdio, start_peer  # noqa: PLC0415

    try:
        recorder = NoTrace() if trace is None else TraceFile(trace, full=full)
    except OSError as error:
        raise UsageError(f"{trace} cannot be written: {error.strerror}") from error
    if isinstance(recorder, TraceFile) and recorder.path != trace:
        print(f"accord: {trace} is being written; this conversation goes to {recorder.path}", file=sys.stderr)
    try:
        peer = await start_peer(command, keep_stderr=False)
    except PeerStartError as error:
        print(f"accord: {error}", file=sys.stderr)
        cause = error.__cause__
        return NOT_FOUND if isinstance(cause, OSError) and cause.errno == errno.ENOENT else NOT_STARTED
    with ExitStack() as stack:
        folder = None
        if mode is Mode.ADAPT:
            # Only the user may look into it, and it goes when the agent does.
            folder = stack.enter_context(TemporaryDirectory(prefix="accord-", ignore_cleanup_errors=True))
        reader, sink = await open_stdio()
        guard = Guard(mode, folder=folder)
        place = None if folder is None else Path(folder)
        ended = await Proxy(reader, sink, peer, guard, trace=recorder, folder=place, report=Reporter()).run()
        if ended.message:
            print(f"accord: {ended.message}", file=sys.stderr)
        return ended.status


class Reporter:
    """Tells the findings that matter on stderr, the first hundred of them: an agent may make any number."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, findings: "Iterable[ProxyFinding]") -> None:
        """Tell these."""
        for finding in findings:
            self._told += 1
            if self._told <= MAX_TOLD:
                about = f"message {finding.number} of the {finding.side}"
                print(
                    f"accord: {finding.severity}: {about}: {escape_line(finding.sentence)}", file=sys.stderr, flush=True
                )
            elif self._told == MAX_TOLD + 1:
                print("accord: further findings are told in the trace only", file=sys.stderr, flush=True)
