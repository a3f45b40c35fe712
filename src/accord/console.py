"""Tables and colours on a terminal, with rich, and with the control characters of peers escaped.

Apart from `terminal.py`, because rich takes 3 MB and 25 ms to load, which a service does not need.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

import rich.console
from rich.cells import cell_len
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from accord.terminal import escape_controls, escape_line, unfiltered

PIPE_WIDTH: Final = 100_000
"""The width where there is no terminal: a program that reads a table should find each row on one line."""
MIN_COLUMN: Final = 16
"""The width to which a column may be narrowed; below that, rows are printed as lists."""

Cell = Text | str
"""A cell of a table; `styled` makes one."""


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


def styled(content: str, style: str = "") -> Text:
    """Make a text for a console, escaped before rich measures it, so that columns keep their widths."""
    return Text(escape_controls(content), style)


def styled_line(content: str, style: str = "") -> Text:
    """Make a text for a console that stays on one line."""
    return Text(escape_line(content), style)
