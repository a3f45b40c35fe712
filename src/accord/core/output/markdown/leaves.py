"""Leaf blocks, which hold text: paragraphs, headings, code, formulas, HTML and tables."""

import re
from typing import Final, Protocol

from accord.core.output.markdown.inline import Inline
from accord.core.output.markdown.lines import Body
from accord.core.output.markdown.lookahead import HOLD_LIMIT
from accord.core.output.markdown.outlet import MOST_BREAKS, Outlet
from accord.core.output.markdown.profiles import Messages, Notebook, NoteKind, describe_code

# The blocks that hold text: paragraphs, headings, code, formulas, HTML; tables have a file of their own.
#
# Decides what a block's lines turn into. A leaf is told its text, its line ends and its close; it must not know
# containers, nor how a line was recognised.

LONGEST_INFO: Final = 64
CLOSING_HASHES: Final = re.compile(r"#+[ \t]*\Z")


class Leaf(Protocol):
    """A block that takes text."""

    @property
    def body(self) -> Body:
        """What kind of block a following line would continue."""
        ...

    @property
    def is_over(self) -> bool:
        """The block ended with the line that was read last."""
        ...

    def text(self, fragment: str, position: int, /) -> None:
        """Part of a line; `position` is where it stands in the source."""
        ...

    def end_line(self, position: int, /) -> None:
        """The line is over."""
        ...

    def close(self) -> None:
        """The block is over."""
        ...


class Nothing:
    """A line without text: a rule, an underline, a definition."""

    body: Body = "none"
    is_over = False

    def text(self, fragment: str, position: int) -> None:
        """Not shown."""

    def end_line(self, position: int) -> None:
        """Not shown either."""

    def close(self) -> None:
        """Nothing to release."""


class Gap(Nothing):
    """A blank line."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def end_line(self, position: int) -> None:
        """One empty line, however many there are."""
        self._outlet.end_line(most=MOST_BREAKS)


class Paragraph:
    """Inline text over any number of lines; `suffix` is said after it. One object serves every paragraph."""

    body: Body = "paragraph"
    is_over = False

    def __init__(self, inline: Inline, outlet: Outlet) -> None:
        self._inline = inline
        self._outlet = outlet
        self.suffix = ""
        self.text = inline.feed
        self.end_line = inline.end_line

    def start(self, suffix: str = "") -> None:
        """The next paragraph."""
        self.suffix = suffix
        self._inline.start(pipes=True)

    def close(self) -> None:
        """Decide everything that is open."""
        self._inline.finish()
        if self.suffix:
            self._outlet.trail(self.suffix)


class Heading:
    """Inline text on one line, less its closing hashes."""

    body: Body = "none"

    def __init__(self, inline: Inline, outlet: Outlet) -> None:
        self._inline = inline
        self._outlet = outlet
        self._hashes = ""
        self._before = " "
        self.is_over = False
        inline.start()

    def text(self, fragment: str, position: int) -> None:
        """Inline text; hashes behind a blank wait for what follows them."""
        if not self._hashes and fragment and "#" not in fragment:
            self._before = fragment[-1]
            self._inline.feed(fragment, position)
            return
        text = self._hashes + fragment
        position -= len(self._hashes)
        closing = CLOSING_HASHES.search(text)
        start = closing.start() if closing else len(text)
        before = text[start - 1] if start else self._before
        if before not in " \t" or len(text) - start > HOLD_LIMIT:
            start = len(text)
        if start:
            self._before = text[start - 1]
            self._inline.feed(text[:start], position)
        self._hashes = text[start:]

    def end_line(self, position: int) -> None:
        """A heading is one line."""
        self.is_over = True
        self.close()
        self._outlet.end_line(most=MOST_BREAKS)

    def close(self) -> None:
        """Decide everything that is open; hashes that still wait were the closing ones."""
        self._hashes = ""
        self._inline.finish()


class Code:
    """A code block: shown as it stands, or told."""

    is_over = False

    def __init__(
        self, body: Body, outlet: Outlet, notebook: Notebook, messages: Messages | None, position: int
    ) -> None:
        self.body: Body = body
        self._outlet = outlet
        self._messages = messages
        self._info = ""
        self._in_info = body == "fence"
        self._lines = 0
        self._blank_lines = 0
        self._partial = False
        outlet.fresh_line()
        if messages:
            notebook.add(NoteKind.CODE_BLOCK, position)

    @property
    def in_info(self) -> bool:
        """Still on the fence's own line."""
        return self._in_info

    def text(self, fragment: str, position: int) -> None:
        """Code, or the info string of a fence."""
        if self._in_info:
            self._info += fragment[: LONGEST_INFO - len(self._info)]
        elif fragment:
            self._partial = True
            if not self._messages:
                self._outlet.write_verbatim(fragment)

    def end_line(self, position: int) -> None:
        """The next line of code."""
        if self._in_info:
            self._in_info = False
            return
        if self._partial or self.body == "fence":
            self._lines += self._blank_lines + 1
            self._blank_lines = 0
        else:
            self._blank_lines += 1
        self._partial = False
        if not self._messages:
            self._outlet.end_line()

    def flow(self, text: str, *, mid_line: bool) -> None:
        """The fast lane of a fence: lines and parts of lines at once."""
        self._lines += text.count("\n")
        self._partial = mid_line
        if not self._messages:
            self._outlet.write_lines(text)

    def flowed(self, lines: int) -> None:
        """So many lines and part of one went out past us."""
        self._lines += lines
        self._partial = True

    def close(self) -> None:
        """Tell what was not shown."""
        if self._messages:
            lines = self._lines + (self._blank_lines + 1 if self._partial else 0)
            if lines:
                self._outlet.write(describe_code(self._info, lines, self._messages))
                self._outlet.end_line(most=MOST_BREAKS)
            if self._blank_lines and not self._partial:
                self._outlet.end_line(most=MOST_BREAKS)
        self._outlet.fresh_line()


class Formula:
    """A formula on lines of its own: kept as it stands, its brackets without their backslash."""

    body: Body = "maths"

    def __init__(self, outlet: Outlet, notebook: Notebook, position: int) -> None:
        self._outlet = outlet
        self.is_over = False
        self._first = True
        outlet.fresh_line()
        notebook.add(NoteKind.MATH, position)

    def close_after_line(self) -> None:
        """The line that follows is the last one."""
        self.is_over = self._first = True

    def text(self, fragment: str, position: int) -> None:
        """Part of the formula."""
        if self._first:
            self._first = False
            fragment = fragment.removeprefix("\\")
        self._outlet.write_verbatim(fragment)

    def end_line(self, position: int) -> None:
        """The next line of the formula."""
        self._outlet.end_line()

    def close(self) -> None:
        """The formula is complete."""
        self._outlet.fresh_line()


# GFM tables: rows of cells, shown with commas, spoken with their column's name.
#
# Decides how cells are split and joined. It must not know how a table was recognised.

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
