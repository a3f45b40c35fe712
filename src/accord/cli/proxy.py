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
from accord.acp_tools.proxy.guard import DEFAULT_LIMITS, Guard, Mode, ProxyLimits
from accord.acp_tools.trace.entries import ProxyFinding
from accord.assembly.loop import run_async
from accord.core.prompt import ContentLimits
from accord.errors import UsageError
from accord.stdio import PeerStartError, open_stdio, start_peer
from accord.terminal import escape_line

MAX_PRINTED: Final = 100
NOT_FOUND: Final = 127
NOT_STARTED: Final = 126
"""The statuses that shells use for a program that is missing, and for one that cannot be run."""
DEFAULT_TRACE: Final = Path("accord-trace.jsonl")


def proxy_command(  # noqa: PLR0913 - one flag each
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
    max_block_bytes: Annotated[
        int | None, typer.Option(min=1, help="Refuse a larger content block (text or base64). Default: no limit.")
    ] = None,
    max_prompt_bytes: Annotated[
        int | None, typer.Option(min=1, help="Refuse a prompt whose blocks together are larger. Default: no limit.")
    ] = None,
    max_blocks: Annotated[
        int | None, typer.Option(min=1, help="Refuse a prompt with more content blocks. Default: no limit.")
    ] = None,
    max_line_bytes: Annotated[
        int, typer.Option(min=1, help="Refuse a longer line of the editor, to limit the memory of the proxy.")
    ] = DEFAULT_LIMITS.max_line_bytes,
    max_values: Annotated[
        int, typer.Option(min=1, help="Refuse a message with more JSON values, to limit the memory of the proxy.")
    ] = DEFAULT_LIMITS.max_values,
    max_embedded_chars: Annotated[
        int, typer.Option(min=1, help="adapt: send longer embedded text as a link to its address, else cut it.")
    ] = DEFAULT_LIMITS.max_text_chars,
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
    unlimited = DEFAULT_LIMITS.content
    content = ContentLimits(
        max_block_bytes or unlimited.max_block_bytes,
        max_prompt_bytes or unlimited.max_prompt_bytes,
        max_blocks or unlimited.max_blocks,
    )
    limits = ProxyLimits(content, max_line_bytes, max_values, max_embedded_chars)
    raise typer.Exit(run_async(_run(command, Mode(mode), trace, limits, full=full)))


async def _run(command: list[str], mode: Mode, trace: Path | None, limits: ProxyLimits, *, full: bool) -> int:
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
        guard = Guard(mode, folder=folder, limits=limits)
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
