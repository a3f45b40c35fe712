"""Terminal output: nothing that a peer wrote reaches the terminal unescaped."""

import os
import re
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, Any, Final, NoReturn, cast

import rich.console
from rich.cells import cell_len
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

# Makes control characters in text visible, so that what a peer wrote cannot drive a terminal or forge a line.
#
# The visible form is the one that JSON uses: ESC becomes `\u001b`. JSON text therefore keeps its exact meaning when
# it goes through here, and an escape sequence that arrives in pieces is harmless, since its first character is.

# C0 and C1 controls with DEL (cursor, colours, titles, clipboard, hyperlinks), the line separators and the
# bidirectional embeddings, overrides and isolates (text that reads differently from what it is), and lone
# surrogates, which cannot be written at all. The bidirectional marks U+200E and U+200F override nothing and stay.
_UNSAFE: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT: Final = re.compile(f"[{_UNSAFE}]|\r(?!\n)")
_IN_LINE: Final = re.compile(f"[{_UNSAFE}\t\n\r]")


def escape_controls(text: str) -> str:
    """The text with its control characters spelled out; tabs and line ends stay."""
    return _IN_TEXT.sub(_spell, text)


def escape_line(text: str) -> str:
    """The text as a single line: tabs and line ends are spelled out, too."""
    return _IN_LINE.sub(_spell, text)


def _spell(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


# Standard output and error of the `accord` command: nothing that a peer wrote reaches the terminal unescaped.
#
# `safe_streams` puts a filter over both streams, so that every `print` goes through it. Only rich writes escape
# sequences of its own, past that filter; `Console` therefore escapes what it is given, and never reads `[…]` in it as
# rich's markup. The rule is the same whether the output is a terminal, a pipe or a file: pipes end in terminals, too
# (`| less -R`, `| tee`). Programs use `--json`, whose meaning escaping does not change.

PIPE_WIDTH: Final = 100_000
"""The width of what is no terminal: a program that reads a table should find each row on one line."""
MIN_COLUMN: Final = 16
"""How far a column of a table may be narrowed before the rows are listed instead."""

Cell = Text | str
"""A cell of a table; text that others wrote becomes one with `styled`."""


class SafeStream:
    """A text stream that makes control characters visible; `unfiltered` is the stream itself."""

    def __init__(self, unfiltered: IO[str]) -> None:
        self.unfiltered: Final = unfiltered

    def write(self, text: str) -> int:
        """Write the text, made visible."""
        self.unfiltered.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of these texts, made visible."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


@contextmanager
def safe_streams() -> Generator[None]:
    """While this is open, everything printed to standard output or standard error is made visible."""
    out, err = (cast("IO[str]", SafeStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


@contextmanager
def unfiltered_streams() -> Generator[None]:
    """While this is open, the streams are as they were: an agent's own code runs, and may print in colour."""
    with redirect_stdout(unfiltered(sys.stdout)), redirect_stderr(unfiltered(sys.stderr)):
        yield


class Console(rich.console.Console):
    """A rich console that escapes what it is given and interprets no markup."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        file = unfiltered(sys.stderr if stderr else sys.stdout)
        # Who sets COLUMNS has chosen a width; rich reads it.
        width = None if file.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
        super().__init__(file=file, width=width, highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to `main`, which ends every command in the same way; rich would end with status 1."""
        raise BrokenPipeError

    @property
    def shows_colour(self) -> bool:
        """Whether escape sequences for colours are wanted: on a terminal, unless NO_COLOR is set."""
        return self.color_system is not None and not self.no_color

    def print_table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, title: str | None = None) -> None:
        """Print rows as a table; on a terminal too narrow for one, as a list with a line for each cell.

        No cell is ever cut off: what is too long is folded.
        """
        cells = [[cell if isinstance(cell, Text) else styled(cell) for cell in row] for row in rows]
        if self._fits(columns, cells):
            table = Table(title=title, title_justify="left")
            for column in columns:
                table.add_column(column, overflow="fold")
            for row in cells:
                table.add_row(*row)
            self.print(table)
            return
        if title:
            self.print(styled(title, "italic"), overflow="fold")
        for row in cells:
            lines = zip(columns, row, strict=True)
            self.print(
                *(Text.assemble((f"{name}: ", "bold"), cell) for name, cell in lines if cell), sep="\n", overflow="fold"
            )
            self.print()

    def _fits(self, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> bool:
        """Whether a table of these rows can be read on this console."""
        words = [
            [name, *(word for row in rows for word in row[number].plain.split())] for number, name in enumerate(columns)
        ]
        needed = sum(min(max(map(cell_len, column)), MIN_COLUMN) for column in words)
        return needed + 3 * len(columns) + 1 <= self.width

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What rich makes of this, escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


def unfiltered(stream: IO[str]) -> IO[str]:
    """The stream without its filter, for who writes escape sequences of ours and escapes everything else itself."""
    return stream.unfiltered if isinstance(stream, SafeStream) else stream


def styled(content: str, style: str = "") -> Text:
    """A text for a console, escaped before rich measures it, so that columns keep their widths."""
    return Text(escape_controls(content), style)


def styled_line(content: str, style: str = "") -> Text:
    """The same for what belongs on one line."""
    return Text(escape_line(content), style)


def format_count(count: int, noun: str) -> str:
    """How many of a thing, with the noun in its right form: `1 session`, `2 sessions`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def warn(sentences: Iterable[str]) -> None:
    """Print warnings, a line each, to standard error."""
    for sentence in sentences:
        print(f"accord: warning: {escape_line(sentence)}", file=sys.stderr)
