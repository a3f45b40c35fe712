"""Split streaming markdown into finished blocks and a tail that still grows, for a screen that draws each block once.

A finished block can be rendered by itself and never changes again. The texts of all blocks together are the input, and
where it was cut does not matter. A block is bounded: a long list, table or paragraph comes in several blocks, a fenced
code block line by line. How a block is drawn is not known here, and inline markdown is not read.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_CHARS: Final = 4_000
"""The longest block, and the longest line that is not cut. The tail is at most one of each."""
MAX_LINES: Final = 40
"""The most lines of a block: drawing a table takes time for each row."""
TAB: Final = 4

_CONTAINERS: Final = r"(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*"
_FENCE: Final = re.compile(_CONTAINERS + r"(`{3,}(?=[^`]*$)|~{3,})")
_ITEM: Final = re.compile(r"[ \t]*([-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_DELIMITERS: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
"""The second line of a table."""


class SourceKind(StrEnum):
    """How the text of a block is to be read."""

    MARKDOWN = "markdown"
    PLAIN = "plain"
    """As it is: the rest of a line that was too long, or any line if the text is no markdown."""
    FENCE = "fence"
    """The line before or after fenced code."""
    CODE = "code"
    """A line of fenced code."""


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """A part of the source that can be rendered by itself."""

    kind: SourceKind
    text: str
    before: str = ""
    """What has to be put before the text to render it: the header of a table that is continued."""
    indent: int = 0
    """How many columns the first line is indented, if the text is part of a list."""


class MarkdownSplitter:
    """Splits a text as it arrives. With `is_markdown=False`, every line is a block."""

    def __init__(self, *, is_markdown: bool = True) -> None:
        self._is_markdown: Final = is_markdown
        self._line = ""
        self._is_cut = False
        """Whether the beginning of this line is in an earlier block."""
        self._lines: list[str] = []
        self._size = 0
        self._before = ""
        self._indent = 0
        self._item_offset = 0
        """The column at which the text of the list item begins; 0 outside of a list."""
        self._fence = ""
        self._is_quoted_fence = False

    @property
    def tail(self) -> SourceBlock:
        """What is not finished yet."""
        if self._fence:
            return SourceBlock(SourceKind.CODE, self._line)
        if self._is_cut or not self._is_markdown:
            return SourceBlock(SourceKind.PLAIN, self._line)
        return SourceBlock(SourceKind.MARKDOWN, "".join(self._lines) + self._line, self._before, self._indent)

    def feed(self, text: str) -> list[SourceBlock]:
        """Take more text; return the blocks that are finished now."""
        done: list[SourceBlock] = []
        first, *others = text.split("\n")
        self._extend_line(first, done)
        for part in others:
            self._end_line("\n", done)
            self._extend_line(part, done)
        return done

    def close(self) -> list[SourceBlock]:
        """Return what is left, as finished."""
        done: list[SourceBlock] = []
        if self._line:
            self._end_line("", done)
        self._finish_block(done)
        return done

    def _extend_line(self, part: str, done: list[SourceBlock]) -> None:
        self._line += part
        while len(self._line) > MAX_CHARS:
            space = self._line.rfind(" ", MAX_CHARS // 2, MAX_CHARS)
            end = MAX_CHARS if space < 0 else space + 1
            self._line, rest = self._line[:end], self._line[end:]
            self._end_line("", done)
            self._finish_block(done)
            self._line, self._is_cut = rest, True

    def _end_line(self, newline: str, done: list[SourceBlock]) -> None:
        line, self._line = self._line + newline, ""
        was_cut, self._is_cut = self._is_cut, False
        if self._fence:
            self._end_code_line(line, done, was_cut=was_cut)
        elif was_cut or not self._is_markdown:
            done.append(SourceBlock(SourceKind.PLAIN, line))
        elif not line.strip():
            self._add_blank_line(line, done)
        else:
            self._add_line(line, done)

    def _end_code_line(self, line: str, done: list[SourceBlock], *, was_cut: bool) -> None:
        mark = line.strip().lstrip(" \t>" if self._is_quoted_fence else " \t")
        if self._is_quoted_fence and not was_cut and not line.lstrip().startswith(">"):
            # The code ends with the quotation that it is in.
            self._fence = ""
            self._line = line.removesuffix("\n")
            self._end_line("\n" if line.endswith("\n") else "", done)
        elif not was_cut and len(mark) >= len(self._fence) and not mark.strip(self._fence[0]):
            self._fence = ""
            done.append(SourceBlock(SourceKind.FENCE, line))
        else:
            done.append(SourceBlock(SourceKind.CODE, line))

    def _add_blank_line(self, line: str, done: list[SourceBlock]) -> None:
        """Add a blank line: it ends every block but an item of a list, which may go on after it."""
        self._make_room(line, done)
        self._append(line)
        if not self._item_offset:
            self._finish_block(done)

    def _add_line(self, line: str, done: list[SourceBlock]) -> None:
        item, columns = _ITEM.match(line), _indent_of(line)
        if self._item_offset and columns < self._item_offset:
            if item or not self._lines or not self._lines[-1].strip():
                self._finish_block(done)
                self._item_offset = 0
        elif not self._item_offset and columns >= TAB:
            item = None  # indented code, or the paragraph goes on
        is_nested = bool(self._item_offset)
        if item and not is_nested and (not self._lines or item[1] in "-*+" or item[1] in ("1.", "1)")):
            self._finish_block(done)
            self._item_offset = _indent_of(line, item.end()) if line[item.end() :].strip() else columns + 2
        if (is_nested or item or columns < TAB) and (fence := _FENCE.match(line)):
            self._finish_block(done)
            self._fence, self._is_quoted_fence = fence[1], ">" in line[: fence.start(1)]
            done.append(SourceBlock(SourceKind.FENCE, line))
            return
        is_heading = not is_nested and _HEADING.match(line) is not None
        if is_heading:
            self._finish_block(done)
        self._make_room(line, done)
        self._append(line)
        if is_heading:
            self._finish_block(done)

    def _append(self, line: str) -> None:
        if not self._lines and self._item_offset:
            self._indent = _indent_of(line)
        self._lines.append(line)
        self._size += len(line)

    def _make_room(self, line: str, done: list[SourceBlock]) -> None:
        """Finish the block before it becomes too long; a table goes on with its header."""
        is_full = self._size + len(line) > MAX_CHARS or len(self._lines) >= MAX_LINES
        if not (self._lines and is_full):
            return
        header = self._before or "".join(self._lines[:2])
        is_table = bool(self._before) or (len(self._lines) > 1 and _DELIMITERS.match(self._lines[1]) is not None)
        self._finish_block(done)
        self._before = header if is_table and "|" in header else ""

    def _finish_block(self, done: list[SourceBlock]) -> None:
        if self._lines:
            done.append(SourceBlock(SourceKind.MARKDOWN, "".join(self._lines), self._before, self._indent))
        self._lines, self._size, self._before, self._indent = [], 0, "", 0


def _indent_of(line: str, end: int | None = None) -> int:
    """The column of the first visible character, or of the character at `end`."""
    column = 0
    for char in line[: len(line) - len(line.lstrip(" \t")) if end is None else end]:
        column += TAB - column % TAB if char == "\t" else 1
    return column
