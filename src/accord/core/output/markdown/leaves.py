"""The leaf blocks: paragraphs, headings, code, formulas and tables turn their text into output.

A leaf block gets its text, its line ends and its close. How a line was recognised, and the containers around it, are
not known here. HTML blocks are in `html`.
"""

import re
from typing import Final, Protocol

from accord.core.output.markdown.inline import InlineParser
from accord.core.output.markdown.lines import BlockKind
from accord.core.output.markdown.lookahead import HOLD_LIMIT
from accord.core.output.markdown.output_buffer import MAX_BREAKS, OutputBuffer
from accord.core.output.markdown.profiles import Messages, NoteKind, NoteLog, describe_code

MAX_INFO_CHARS: Final = 64
CLOSING_HASHES: Final = re.compile(r"#+[ \t]*\Z")


class LeafBlock(Protocol):
    """A block that takes text."""

    @property
    def kind(self) -> BlockKind:
        """The kind of block that a following line may continue."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the block ended with the last line."""
        ...

    def feed(self, fragment: str, position: int, /) -> None:
        """Take part of a line, at this position of the input."""
        ...

    def end_line(self, position: int, /) -> None:
        """End the line."""
        ...

    def close(self) -> None:
        """End the block."""
        ...


class IgnoredLine:
    """A line that gives no output: a rule, an underline, a definition."""

    kind: BlockKind = "none"
    is_over = False

    def feed(self, fragment: str, position: int) -> None:
        """Ignore the text."""

    def end_line(self, position: int) -> None:
        """Ignore the line end."""

    def close(self) -> None:
        """Do nothing."""


class BlankLine(IgnoredLine):
    """A blank line."""

    def __init__(self, buffer: OutputBuffer) -> None:
        self._buffer = buffer

    def end_line(self, position: int) -> None:
        """Write one empty line, however many there are."""
        self._buffer.end_line(most=MAX_BREAKS)


class Paragraph:
    """InlineParser text on any number of lines; `suffix` is written after it. One object is used for all paragraphs."""

    kind: BlockKind = "paragraph"
    is_over = False

    def __init__(self, inline: InlineParser, buffer: OutputBuffer) -> None:
        self._inline = inline
        self._buffer = buffer
        self.suffix = ""
        self.feed = inline.feed
        self.end_line = inline.end_line

    def start(self, suffix: str = "") -> None:
        """Begin the next paragraph."""
        self.suffix = suffix
        self._inline.start(rows_possible=True)

    def close(self) -> None:
        """Release everything that is undecided."""
        self._inline.finish()
        if self.suffix:
            self._buffer.append_text(self.suffix)


class Heading:
    """InlineParser text on one line, without its closing hashes."""

    kind: BlockKind = "none"

    def __init__(self, inline: InlineParser, buffer: OutputBuffer) -> None:
        self._inline = inline
        self._buffer = buffer
        self._hashes = ""
        self._before = " "
        self.is_over = False
        inline.start()

    def feed(self, fragment: str, position: int) -> None:
        """Take inline text; hashes after a blank are kept back until it is known what follows them."""
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
        """End the heading, which is one line."""
        self.is_over = True
        self.close()
        self._buffer.end_line(most=MAX_BREAKS)

    def close(self) -> None:
        """Release everything that is undecided; hashes kept back were the closing ones and are removed."""
        self._hashes = ""
        self._inline.finish()


class CodeBlock:
    """A code block: written as it is, or described (if there are `messages`)."""

    is_over = False

    def __init__(
        self, kind: BlockKind, buffer: OutputBuffer, note_log: NoteLog, messages: Messages | None, position: int
    ) -> None:
        self.kind: BlockKind = kind
        self._buffer = buffer
        self._messages = messages
        self._info = ""
        self._in_info = kind == "fence"
        self._lines = 0
        self._blank_lines = 0
        self._partial = False
        buffer.start_new_line()
        if messages:
            note_log.add(NoteKind.CODE_BLOCK, position)

    @property
    def in_info(self) -> bool:
        """Whether the current line is the opening fence."""
        return self._in_info

    def feed(self, fragment: str, position: int) -> None:
        """Take code, or the info string of a fence."""
        if self._in_info:
            self._info += fragment[: MAX_INFO_CHARS - len(self._info)]
        elif fragment:
            self._partial = True
            if not self._messages:
                self._buffer.write_verbatim(fragment)

    def end_line(self, position: int) -> None:
        """End a line of code."""
        if self._in_info:
            self._in_info = False
            return
        if self._partial or self.kind == "fence":
            self._lines += self._blank_lines + 1
            self._blank_lines = 0
        else:
            self._blank_lines += 1
        self._partial = False
        if not self._messages:
            self._buffer.end_line()

    def feed_lines(self, text: str, *, mid_line: bool) -> None:
        """Take any number of lines of code at once (fast path)."""
        self._lines += text.count("\n")
        self._partial = mid_line
        if not self._messages:
            self._buffer.write_lines(text)

    def skip_lines(self, lines: int) -> None:
        """Count lines, and part of one, that were written by the fast path."""
        self._lines += lines
        self._partial = True

    def close(self) -> None:
        """Describe the code if it was not written."""
        if self._messages:
            lines = self._lines + (self._blank_lines + 1 if self._partial else 0)
            if lines:
                self._buffer.write(describe_code(self._info, lines, self._messages))
                self._buffer.end_line(most=MAX_BREAKS)
            if self._blank_lines and not self._partial:
                self._buffer.end_line(most=MAX_BREAKS)
        self._buffer.start_new_line()


class FormulaBlock:
    """A formula on its own lines: kept as it is, its brackets without their backslash."""

    kind: BlockKind = "maths"

    def __init__(self, buffer: OutputBuffer, note_log: NoteLog, position: int) -> None:
        self._buffer = buffer
        self.is_over = False
        self._first = True
        buffer.start_new_line()
        note_log.add(NoteKind.MATH, position)

    def close_after_line(self) -> None:
        """End the block after the current line."""
        self.is_over = self._first = True

    def feed(self, fragment: str, position: int) -> None:
        """Take part of the formula."""
        if self._first:
            self._first = False
            fragment = fragment.removeprefix("\\")
        self._buffer.write_verbatim(fragment)

    def end_line(self, position: int) -> None:
        """End a line of the formula."""
        self._buffer.end_line()

    def close(self) -> None:
        """End the formula."""
        self._buffer.start_new_line()


PIPE: Final = re.compile(r"\\?\|")
CELL_SEPARATOR: Final = ", "
ENDS_SENTENCE: Final = (".", "!", "?", "。")


def split_row(row: str) -> list[str]:
    """Return the cells of a row; an escaped pipe is content."""
    row = row.strip(" \t").removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    return [cell.strip(" \t").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)]


class TableBlock:
    """A GFM table after its header: cells are separated by commas, or spoken with the name of their column."""

    kind: BlockKind = "table"
    is_over = False

    def __init__(
        self, inline: InlineParser, buffer: OutputBuffer, messages: Messages | None, columns: list[str]
    ) -> None:
        self._inline = inline
        self._buffer = buffer
        self._messages = messages
        self._columns = columns
        self._column = 0
        self._held = ""
        self._line_is_empty = True
        self._skips_line = True
        self._has_rows = False

    def feed(self, fragment: str, position: int) -> None:
        """Take part of a row; a backslash at its end is kept back until it is known what it escapes."""
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
                if self._line_is_empty:  # the pipe at the start of the line
                    self._line_is_empty = False
                else:
                    self._inline.finish()
                    self._column += 1
                self._start_cell()
            else:
                self._cell_text("|", position + pipe.start() + 1)
        self._cell_text(text[pos:size], position + pos)

    def end_line(self, position: int) -> None:
        """End the row; the first line is the delimiter row, which gives no output."""
        if self._skips_line:
            self._skips_line = False
            return
        self._end_row()
        self._buffer.end_line(most=MAX_BREAKS)

    def close(self) -> None:
        """End the table; a header without rows is spoken here."""
        self._end_row()
        if self._messages and not self._has_rows:
            self._buffer.write(CELL_SEPARATOR.join(filter(None, self._columns)))
        self._buffer.start_new_line()

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
        separator = ""
        if not self._messages:
            if self._buffer.mid_line:
                separator = CELL_SEPARATOR
        else:
            if self._buffer.mid_line:
                separator = " " if self._buffer.tail.endswith(ENDS_SENTENCE) else self._messages["cell_next"]
            name = self._columns[self._column] if self._column < len(self._columns) else ""
            separator += self._messages["cell"].format(column=name) if name else ""
        self._buffer.set_lead_in(separator)

    def _end_row(self) -> None:
        if self._held:
            self._inline.feed(self._held, 0)
            self._held = ""
        if not self._line_is_empty:
            self._inline.finish()
        self._buffer.set_lead_in("")
        if self._messages and self._buffer.mid_line and not self._line_is_empty:
            self._has_rows = True
            if not self._buffer.tail.endswith(ENDS_SENTENCE):
                self._buffer.append_text(self._messages["row_end"])
        self._line_is_empty = True
        self._column = 0
