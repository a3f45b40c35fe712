"""`accord trace show`: a recorded conversation as a sequence that people can read, in a terminal or as a page.

The file is read as a stream, so it may be of any size; a line that is no entry, such as a last one that was cut short,
costs one line on stderr. A file whose first line is none is no trace.
"""

import json
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from accord.acp_tools.trace.summary import TraceRow, TraceSummarizer
from accord.errors import UsageError
from accord.terminal import Console, styled

trace_app = typer.Typer(
    help="Show conversations that accord proxy recorded.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

COLOURS: Final = {"info": "cyan", "warning": "yellow", "error": "red"}
FATES: Final = {"refused": "red", "adapted": "yellow"}


@trace_app.callback()
def _trace() -> None:
    """Look at conversations that accord proxy recorded."""


@trace_app.command("show")
def show_command(
    file: Annotated[Path, typer.Argument(help="What accord proxy --trace wrote.")],
    *,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the sequence drawn to this file instead.")
    ] = None,
) -> None:
    """Show who said what, in order, and what was noticed about it."""
    if html is not None:
        from accord.acp_tools.trace.page import write_page  # noqa: PLC0415 - only for a page

        shown = _shown(file)
        first = [*islice(shown, 1)]  # before the page is opened: what is no trace should not cost a page that is there
        try:
            with html.open("w", encoding="utf-8") as page:
                write_page(page, file.name, chain(first, shown))
        except OSError as error:
            raise UsageError(f"{html} cannot be written: {error.strerror}") from error
        print(f"Wrote {html}", file=sys.stderr)
        return
    console = Console(soft_wrap=True)
    summarizer = TraceSummarizer()
    for entry in _entries(file):
        _print(console, summarizer.summarize(entry))
    console.print(summarizer.totals() or f"{file}: no messages yet; `accord proxy --trace {file}` records some")


def _shown(file: Path) -> Iterator[TraceRow]:
    summarizer = TraceSummarizer()
    for entry in _entries(file):
        yield summarizer.summarize(entry)


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = file.open(encoding="utf-8", errors="replace", newline="\n")
    except IsADirectoryError:
        raise UsageError(f"{file}: is a directory; give a file that `accord proxy --trace` wrote") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    with lines:
        has_begun = False
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            entry = _entry(line)
            if entry is not None:
                has_begun = True
                yield entry
            elif not has_begun and line.endswith("\n"):
                raise UsageError(
                    f"{file}: line {number} is no entry of a trace; expected what accord proxy --trace wrote"
                )
            else:
                told = "is no entry of a trace" if line.endswith("\n") else "was cut short"
                print(f"accord: {file}: line {number} {told}", file=sys.stderr)


def _entry(line: str) -> dict[str, Any] | None:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", read) if isinstance(read, dict) and "from" in read else None


def _print(console: Console, shown: TraceRow) -> None:
    if shown.begins:
        console.print(styled(f"{'':>23}another conversation", "dim"))
    line = styled(f"{shown.number:>5} {shown.at_ms:>11.1f} ms  ", "dim")
    line.append(f"{shown.arrow}  ", "bold")
    line.append(shown.title, "bold" if shown.kind == "call" else "")
    line.append(f"  {shown.summary}", "dim")
    if shown.fate in FATES:
        line.append(f"  {shown.fate}", FATES[shown.fate])
    console.print(line)
    for finding in shown.findings:
        console.print(styled(f"{'':>23}! {finding.severity}: {finding.sentence}", COLOURS.get(finding.severity, "")))
        console.print(styled(f"{'':>23}  {finding.clause}", "dim"))
