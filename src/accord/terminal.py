"""Terminal output, with the control characters of peers escaped, so that they cannot drive a terminal or forge a line.

They are written as in JSON, so that JSON text keeps its meaning. An escape sequence that arrives in pieces is harmless,
since its first character is escaped.

`safe_streams` filters both standard streams, so that every `print` is escaped. Only rich writes escape sequences of its
own, past that filter; `Console` therefore escapes what it prints, and does not interpret `[…]` as markup. The rule is
the same for a terminal, a pipe and a file: pipes end in terminals, too (`| less -R`, `| tee`).
"""

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

# C0 and C1 controls with DEL (cursor, colours, titles, clipboard, hyperlinks), the line separators and the
# bidirectional embeddings, overrides and isolates (text that reads differently from what it is), and lone
# surrogates, which cannot be written at all. The bidirectional marks U+200E and U+200F override nothing and stay.
_UNSAFE: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT: Final = re.compile(f"[{_UNSAFE}]|\r(?!\n)")
_IN_LINE: Final = re.compile(f"[{_UNSAFE}\t\n\r]")

PIPE_WIDTH: Final = 100_000
"""The width where there is no terminal: a program that reads a table should find each row on one line."""
MIN_COLUMN: Final = 16
"""The width to which a column may be narrowed; below that, rows are printed as lists."""

Cell = Text | str
"""A cell of a table; `styled` makes one."""


def escape_controls(text: str) -> str:
    """Escape control characters, except for tabs and line ends."""
    return _IN_TEXT.sub(_escape, text)


def escape_line(text: str) -> str:
    """Escape control characters, tabs and line ends, so that the text is a single line."""
    return text if text.isprintable() else _IN_LINE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class SafeStream:
    """A text stream that escapes control characters; `unfiltered` is the stream behind it."""

    def __init__(self, unfiltered: IO[str]) -> None:
        self.unfiltered: Final = unfiltered

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        self.unfiltered.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of these texts, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


@contextmanager
def safe_streams() -> Generator[None]:
    """Escape everything that is printed to standard output and standard error inside this context."""
    out, err = (cast("IO[str]", SafeStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


@contextmanager
def unfiltered_streams() -> Generator[None]:
    """Use the streams without their filter inside this context: an agent's code runs, and may print in colour."""
    with redirect_stdout(unfiltered(sys.stdout)), redirect_stderr(unfiltered(sys.stderr)):
        yield


class Console(rich.console.Console):
    """A rich console that escapes what it is given and interprets no markup."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        file = unfiltered(sys.stderr if stderr else sys.stdout)
        # rich reads COLUMNS itself.
        width = None if file.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
        super().__init__(file=file, width=width, highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap)

    def on_broken_pipe(self) -> NoReturn:
        """Let `main` handle it, as for every command; rich would exit with status 1."""
        raise BrokenPipeError

    @property
    def shows_colour(self) -> bool:
        """Whether to print colours: on a terminal, unless NO_COLOR is set."""
        return self.color_system is not None and not self.no_color

    def print_table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, title: str | None = None) -> None:
        """Print rows as a table or, on a terminal that is too narrow, as lists with a line for each cell.

        Long cells are folded, never cut off.
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
        """Whether a table of these rows fits this console."""
        words = [
            [name, *(word for row in rows for word in row[number].plain.split())] for number, name in enumerate(columns)
        ]
        needed = sum(min(max(map(cell_len, column)), MIN_COLUMN) for column in words)
        return needed + 3 * len(columns) + 1 <= self.width

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, and escape the result."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


def unfiltered(stream: IO[str]) -> IO[str]:
    """Return the stream without its filter, for code that writes escape sequences and escapes all else itself."""
    return stream.unfiltered if isinstance(stream, SafeStream) else stream


def styled(content: str, style: str = "") -> Text:
    """Make a text for a console, escaped before rich measures it, so that columns keep their widths."""
    return Text(escape_controls(content), style)


def styled_line(content: str, style: str = "") -> Text:
    """Make a text for a console that stays on one line."""
    return Text(escape_line(content), style)


def format_count(count: int, noun: str) -> str:
    """Write a count with its noun: `1 session`, `2 sessions`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def warn(sentences: Iterable[str]) -> None:
    """Print warnings, a line each, to standard error."""
    for sentence in sentences:
        print(f"accord: warning: {escape_line(sentence)}", file=sys.stderr)
