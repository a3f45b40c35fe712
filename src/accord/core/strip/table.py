"""GFM tables: rows of cells, shown with commas, spoken with their column's name.

Decides how cells are split and joined. It must not know how a table was recognised.
"""

import re
from typing import Final

from accord.core.strip.inline import Inline
from accord.core.strip.lines import Body
from accord.core.strip.outlet import MOST_BREAKS, Outlet
from accord.core.strip.profiles import Messages

PIPE: Final = re.compile(r"\\?\|")
CELL_SEPARATOR: Final = ", "
ENDS_SENTENCE: Final = (".", "!", "?", "。")


def split_row(row: str) -> list[str]:
    """The cells of a row; an escaped pipe is content."""
    row = row.strip(" \t").removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    return [cell.strip(" \t").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)]


class Table:
    """One table after its header; `columns` are the header's cells, read."""

    body: Body = "table"
    is_over = False

    def __init__(self, inline: Inline, outlet: Outlet, messages: Messages | None, columns: list[str]) -> None:
        self._inline = inline
        self._outlet = outlet
        self._messages = messages
        self._columns = columns
        self._column = 0
        self._held = ""
        self._line_is_empty = True
        self._skips_line = True
        self._has_rows = False

    def text(self, fragment: str, position: int) -> None:
        """Part of a row; a backslash at its end waits for what it escapes."""
        if self._skips_line:
            return
        if not self._held and "|" not in fragment and "\\" not in fragment:
            self._cell_text(fragment, position)
            return
        text = self._held + fragment
        position -= len(self._held)
        self._held = "\\" if text.endswith("\\") else ""
        pos, size = 0, len(text) - len(self._held)
        for pipe in PIPE.finditer(text, 0, size):
            self._cell_text(text[pos : pipe.start()], position + pos)
            pos = pipe.end()
            if pipe.group() == "|":
                self._end_cell()
            else:
                self._cell_text("|", position + pipe.start() + 1)
        self._cell_text(text[pos:size], position + pos)

    def end_line(self, position: int) -> None:
        """The row is over."""
        if self._skips_line:
            self._skips_line = False
            return
        self._end_row()
        self._outlet.end_line(most=MOST_BREAKS)

    def close(self) -> None:
        """The table is over; a header without rows is worth saying after all."""
        self._end_row()
        if self._messages and not self._has_rows:
            self._outlet.write(CELL_SEPARATOR.join(filter(None, self._columns)))
        self._outlet.fresh_line()

    def _cell_text(self, text: str, position: int) -> None:
        if self._line_is_empty:
            text = text.lstrip(" \t")
            if not text:
                return
            self._line_is_empty = False
            self._start_cell()
        if text:
            self._inline.feed(text, position)

    def _start_cell(self) -> None:
        self._inline.start(line_break=" ")
        self._outlet.lead_in(self._lead())

    def _lead(self) -> str:
        if not self._messages:
            return CELL_SEPARATOR if self._outlet.mid_line else ""
        name = self._columns[self._column] if self._column < len(self._columns) else ""
        lead = self._messages["cell"].format(column=name) if name else ""
        if not self._outlet.mid_line:
            return lead
        return (" " if self._outlet.tail.endswith(ENDS_SENTENCE) else self._messages["cell_next"]) + lead

    def _end_cell(self) -> None:
        if self._line_is_empty:  # the pipe at the line's beginning
            self._line_is_empty = False
        else:
            self._inline.finish()
            self._column += 1
        self._start_cell()

    def _end_row(self) -> None:
        if self._held:
            self._inline.feed(self._held, 0)
            self._held = ""
        if not self._line_is_empty:
            self._inline.finish()
        self._outlet.lead_in("")
        if self._messages and self._outlet.mid_line and not self._line_is_empty:
            self._has_rows = True
            if not self._outlet.tail.endswith(ENDS_SENTENCE):
                self._outlet.trail(self._messages["row_end"])
        self._line_is_empty = True
        self._column = 0
