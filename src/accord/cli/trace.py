"""`accord trace`: show a recorded ACP conversation, in the terminal or as a page.

The file is read as a stream, so it may be of any size. A line that is not an entry, such as a last line that was cut
off, is skipped with a message; if it is the first line, the file is not a trace.
"""

import json
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from accord.acp_tools.trace.page import write_page
from accord.acp_tools.trace.summary import TraceRow, TraceSummarizer
from accord.console import Console, styled
from accord.errors import UsageError

trace_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)

COLOURS: Final = {"info": "cyan", "warning": "yellow", "error": "red"}
FATES: Final = {"refused": "red", "adapted": "yellow"}


@trace_app.callback()
def _trace() -> None:
    """Show a recorded ACP conversation.

    Example:
      accord trace show session.jsonl
    """


@trace_app.command("show")
def show_command(
    file: Annotated[Path, typer.Argument(help="File that accord proxy --trace wrote.")],
    *,
    html: Annotated[Path | None, typer.Option(help="Write a page with a sequence diagram to this file.")] = None,
) -> None:
    """Show the messages in order, each with its findings.

    Examples:
      accord trace show session.jsonl
      accord trace show session.jsonl --html session.html
    """
    summarizer = TraceSummarizer()
    if html is not None:
        rows = _rows(file, summarizer)
        first = [*islice(rows, 1)]  # before the page is opened: a file that is no trace must not overwrite a page
        try:
            with html.open("w", encoding="utf-8") as page:
                write_page(page, file.name, chain(first, rows))
        except OSError as error:
            raise UsageError(f"{html}: cannot be written: {error.strerror}") from error
        print(f"Wrote {html}", file=sys.stderr)
        return
    console = Console(soft_wrap=True)
    for row in _rows(file, summarizer):
        _print(console, row)
    console.print(summarizer.totals() or f"{file}: no messages yet; `accord proxy --trace {file}` records some")


def _rows(file: Path, summarizer: TraceSummarizer) -> Iterator[TraceRow]:
    try:
        lines = file.open(encoding="utf-8", errors="replace", newline="\n")
    except IsADirectoryError:
        raise UsageError(f"{file}: is a directory; give a file that `accord proxy --trace` wrote") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    with lines:
        has_begun = False
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            entry = _parse_entry(line)
            if entry is not None:
                has_begun = True
                yield summarizer.summarize(entry)
            elif not has_begun and line.endswith("\n"):
                raise UsageError(
                    f"{file}: line {number} is not an entry of a trace; expected a file that accord proxy --trace wrote"
                )
            else:
                problem = "is not an entry of a trace" if line.endswith("\n") else "was cut off"
                print(f"accord: {file}: line {number} {problem}", file=sys.stderr)


def _parse_entry(line: str) -> dict[str, Any] | None:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", read) if isinstance(read, dict) and "from" in read else None


def _print(console: Console, row: TraceRow) -> None:
    if row.begins:
        console.print(styled(f"{'':>23}another conversation", "dim"))
    line = styled(f"{row.number:>5} {row.at_ms:>11.1f} ms  ", "dim")
    line.append(f"{row.arrow}  ", "bold")
    line.append(row.title, "bold" if row.kind == "call" else "")
    line.append(f"  {row.summary}", "dim")
    if row.fate in FATES:
        line.append(f"  {row.fate}", FATES[row.fate])
    console.print(line)
    for finding in row.findings:
        console.print(styled(f"{'':>23}! {finding.severity}: {finding.sentence}", COLOURS.get(finding.severity, "")))
        console.print(styled(f"{'':>23}  {finding.clause}", "dim"))
