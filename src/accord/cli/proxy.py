"""`accord proxy`: enforce content rules between an editor and an agent; `acp_tools/proxy` decides about each line."""

import errno
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer

from accord.acp_tools.json_values import as_list, as_object, as_text
from accord.acp_tools.proxy import Proxy
from accord.acp_tools.proxy.guard import DEFAULT_LIMITS, Guard, Mode, ProxyFinding, ProxyLimits
from accord.acp_tools.proxy.log import ProxyLog, describe, read_entry
from accord.assembly.loop import run_async
from accord.console import Console, styled_line
from accord.core.prompt import ContentLimits
from accord.errors import UsageError
from accord.stdio import PeerStartError, open_stdio, start_peer
from accord.terminal import escape_line

MAX_PRINTED: Final = 100
NOT_FOUND: Final = 127
NOT_STARTED: Final = 126
"""The statuses that shells use for a program that is missing, and for one that cannot be run."""
DEFAULT_LOG: Final = Path("accord-proxy.jsonl")
REPLACED: Final = "--trace and --full are now --log FILE, which keeps everything; `accord proxy --show FILE` prints it"
COLOURS: Final = {"info": "cyan", "warning": "yellow", "error": "red", "refused": "red", "adapted": "yellow"}


def proxy_command(  # noqa: PLR0913 - one flag each
    command: Annotated[
        list[str] | None, typer.Argument(help="Command that starts the agent, after --.", show_default=False)
    ] = None,
    *,
    mode: Annotated[
        str,
        typer.Option(help="guard: refuse what the agent did not declare; adapt: degrade it; observe: change nothing."),
    ] = "guard",
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append every message and finding to this file as JSON lines.")
    ] = None,
    show: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Print what --log FILE has, instead of running an agent.")
    ] = None,
    replaced: Annotated[str | None, typer.Option("--trace", "--full", hidden=True, help=REPLACED)] = None,
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
    missing, 126 if it cannot be started. --mode observe without --log writes accord-proxy.jsonl.

    Examples:
      accord proxy -- some-agent --acp
      accord proxy --mode adapt --log session.jsonl -- some-agent --acp
      accord proxy --show session.jsonl
    """
    if replaced is not None:
        raise UsageError(REPLACED)
    if show is not None:
        return show_log(show, command)
    if mode not in list(Mode):
        raise UsageError(f'--mode: unknown mode "{mode}"; use {", ".join(Mode)}')
    if not command:
        raise UsageError(
            "The command of the agent is missing; give it after --, as in: accord proxy -- some-agent --acp"
        )
    if log is None and mode == Mode.OBSERVE:
        log = DEFAULT_LOG
    unlimited = DEFAULT_LIMITS.content
    content = ContentLimits(
        max_block_bytes or unlimited.max_block_bytes,
        max_prompt_bytes or unlimited.max_prompt_bytes,
        max_blocks or unlimited.max_blocks,
    )
    limits = ProxyLimits(content, max_line_bytes, max_values, max_embedded_chars)
    raise typer.Exit(run_async(_run(command, Mode(mode), log, limits)))


async def _run(command: list[str], mode: Mode, path: Path | None, limits: ProxyLimits) -> int:
    """Run the agent behind the proxy until one side ends; return the exit status."""
    try:
        log = None if path is None else ProxyLog(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    if log is not None and log.path != path:
        print(f"accord: {path} is in use; this conversation is written to {log.path}", file=sys.stderr)
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
        ended = await Proxy(reader, sink, peer, guard, log=log, report=FindingPrinter()).run()
        if ended.message:
            print(f"accord: {ended.message}", file=sys.stderr)
        return ended.status


def show_log(file: Path, command: list[str] | None = None) -> None:
    """Print the messages of a log in order, each with its findings. The file is read as a stream: it may be large."""
    if command:
        raise UsageError("--show prints a log and starts no agent; leave out the command, or use --log to write one")
    try:
        lines = file.open(encoding="utf-8", errors="replace", newline="\n")
    except IsADirectoryError:
        raise UsageError(f"{file}: is a directory; give a file that accord proxy --log wrote") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    console, number = Console(soft_wrap=True), 0
    with lines:
        for number, line in enumerate(lines, start=1):
            entry = read_entry(line)
            if entry is not None:
                _print_entry(console, entry)
            elif number == 1:
                raise UsageError(f"{file}: line 1 is no entry of a log; expected a file that accord proxy --log wrote")
            else:
                print(f"accord: {file}: line {number} is no entry of a log, or was cut off", file=sys.stderr)
    if not number:
        print(f"{file}: no messages yet; accord proxy --log {file} -- COMMAND writes some")


def _print_entry(console: Console, entry: dict[str, Any]) -> None:
    time, sender, to, outcome = (as_text(entry.get(key)) for key in ("time", "from", "to", "outcome"))
    text = styled_line(f"{entry.get('number')} {time[:23]} {sender} → {to}  ", "dim")
    text.append(styled_line(describe(entry)))
    text.append(styled_line("" if outcome == "passed" else f"  {outcome}", COLOURS.get(outcome, "dim")))
    console.print(text)
    for finding in map(as_object, as_list(entry.get("findings"))):
        severity = as_text(finding.get("severity"))
        sentence = f"  {severity}: {as_text(finding.get('sentence'))} ({as_text(finding.get('clause'))})"
        console.print(styled_line(sentence, COLOURS.get(severity, "")))


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
                print("accord: further findings are in the log only (--log FILE)", file=sys.stderr, flush=True)
