"""The start of a line: which containers continue, which open, and what kind of line it is.

Reads the block state and as little of the line as possible; changes no state and knows no inline markdown. Most lines
take the fast path of `_read_fast`, which must decide as the full rule does.
"""

import re
from typing import Final

from accord.core.output.markdown import lines
from accord.core.output.markdown.lines import (
    BLOCK_QUOTE,
    BlockKind,
    BlockQuote,
    BlockState,
    LineKind,
    LineStart,
    ListItem,
)
from accord.core.output.markdown.lookahead import HOLD_LIMIT, Construct, find_tag

MAX_DEPTH: Final = 32
CODE_INDENT: Final = 4
TAB: Final = 4


class _MoreTextNeededError(Exception):
    """The line so far may still become several things."""


class _LineCursor:
    """A position in the start of one line, in characters and in columns."""

    __slots__ = ("at", "base", "column", "final", "full", "origin", "size", "state", "text")

    def __init__(self, text: str, at: int, state: BlockState, *, final: bool) -> None:
        self.text = text
        self.full = len(text) - at >= HOLD_LIMIT
        self.size = at + HOLD_LIMIT if self.full else len(text)
        self.at = self.origin = at
        self.column = 0
        self.base = 0
        """The column at which the content of the innermost container begins."""
        self.state = state
        self.final = final and not self.full
        self.skip_space()

    @property
    def indent(self) -> int:
        return self.column - self.base

    def skip_space(self) -> None:
        """Move to the next visible character, counting columns."""
        match = lines.SPACE.match(self.text, self.at, self.size)
        end = match.end() if match else self.at
        if "\t" in (blanks := self.text[self.at : end]):
            for blank in blanks:
                self.column += TAB - self.column % TAB if blank == "\t" else 1
        else:
            self.column += end - self.at
        self.at = end
        if end == self.size:
            self.need_more()

    def need_more(self) -> None:
        """Stop reading, unless the text is complete or the window is full."""
        if not (self.final or self.full):
            raise _MoreTextNeededError

    def char(self) -> str:
        """Return the current character; a line end after the text, a blank after the window."""
        if self.at < self.size:
            return self.text[self.at]
        return " " if self.full else "\n"

    def advance(self, end: int) -> None:
        self.column += end - self.at
        self.at = end

    def match(self, whole: re.Pattern[str], partial: re.Pattern[str]) -> re.Match[str] | None:
        """Return the match of `whole`, once more text cannot change it."""
        if partial.match(self.text, self.at, self.size):
            self.need_more()
        return whole.match(self.text, self.at, self.size)

    def line_end(self, start: int) -> int:
        end = self.text.find("\n", start, self.size)
        return self.size if end < 0 else end


def read_line_start(text: str, at: int, state: BlockState, *, final: bool) -> LineStart | None:
    """Read the start of the line at `at`; `None` while it may still become several things."""
    if start := _read_fast(text, at, state):
        return start
    try:
        return _read(_LineCursor(text, at, state, final=final))
    except _MoreTextNeededError:
        return None


def _read_fast(text: str, at: int, state: BlockState) -> LineStart | None:
    """Read the line starts that most lines have; `None` for every other."""
    block, char, end = state.block, text[at], at + HOLD_LIMIT - 1
    if block == "paragraph" or block == "none":
        if state.header_cells:
            return None
        if char not in "#`~":
            line = lines.COMMON_LINE.match(text, at, end)
            if line is None:
                return None
            indent, marker, padding = line.groups("")
            start = start_text_line(state, len(indent), marker, len(padding), in_paragraph=block == "paragraph")
            if start:
                start.at = line.end()
            return start
        # At column 0 no list item continues, and a quote needs its own marker.
        opening = lines.PLAIN_START.match(text, at, end)
        if opening is None:
            return None
        if not opening["fence"]:
            return LineStart("heading", opening.end())
        start = LineStart("fence", opening.end())
        start.detail = opening["fence"]
        return start
    if state.containers:
        return None
    if block == "fence":
        if state.fence_indent or char in " \t":
            return None
        if char != state.fence[0]:
            return LineStart("more", at)
        closing = lines.PLAIN_START.match(text, at, end)
        if closing is None or closing["info"] or len(closing["fence"]) < len(state.fence):
            return None
        return LineStart("fence_end", at)
    if block == "html" or block == "html_until_blank":
        return LineStart("more", at) if lines.VISIBLE.match(text, at, end) else None
    if block == "indented" and (code := lines.INDENTED.match(text, at, end)):
        start = LineStart("indented", code.end())
        start.indent = code.end() - at - CODE_INDENT
        return start
    return None


def start_text_line(
    state: BlockState, column: int, marker: str, padding: int, *, in_paragraph: bool
) -> LineStart | None:
    """Return the start of a line of text at a column, with or without a list marker; `None` for the full rule."""
    base = matched = 0
    containers = state.containers
    for container in containers:
        if isinstance(container, BlockQuote):
            return None
        if column - base < container.width:
            break
        base += container.width
        matched += 1
    indent = column - base
    if indent >= CODE_INDENT and (marker or not in_paragraph):
        return None
    start = LineStart("text", 0, matched)
    if not marker:
        start.interrupts = not in_paragraph
        return start
    is_ordinal = len(marker) > 1
    if matched >= MAX_DEPTH or (is_ordinal and in_paragraph and matched == len(containers) and int(marker[:-1]) != 1):
        return None
    start.opened = (ListItem(indent + len(marker) + padding),)
    if is_ordinal:
        start.ordinal = marker + " "
    return start


def _read(cursor: _LineCursor) -> LineStart:
    state = cursor.state
    matched = _match_containers(cursor)
    all_matched = matched == len(state.containers)
    block = state.block if all_matched else "none"
    if block in ("fence", "maths", "html"):
        return _continue_unparsed(cursor, matched, block)
    start = LineStart("text", cursor.at, matched)
    in_paragraph = state.block == "paragraph"
    while cursor.char() != "\n":
        may_continue = in_paragraph and not start.opened
        if block == "html_until_blank" and not start.opened:
            start.kind = "more"
            break
        if cursor.indent >= CODE_INDENT:
            start.kind = "text" if may_continue else "indented"
            start.indent = cursor.indent - CODE_INDENT
            break
        if cursor.char() not in lines.STARTERS:
            break
        if not _read_block_start(cursor, start, may_continue, all_matched=all_matched and not start.opened):
            break
    else:
        start.kind = "blank"
    start.at = cursor.at
    start.interrupts = not (in_paragraph and not start.opened and start.kind == "text")
    return start


def _match_containers(cursor: _LineCursor) -> int:
    """Return how many of the open containers this line continues, and move past their markers."""
    matched = 0
    containers = cursor.state.containers
    for container in containers:
        if isinstance(container, BlockQuote):
            if cursor.indent >= CODE_INDENT or cursor.char() != ">":
                break
            _enter_quote(cursor)
        elif cursor.char() == "\n":
            if matched == len(containers) - 1 and cursor.state.bare_item:
                break
        elif cursor.indent >= container.width:
            cursor.base += container.width
        else:
            break
        matched += 1
    return matched


def _enter_quote(cursor: _LineCursor) -> None:
    cursor.advance(cursor.at + 1)
    cursor.base = cursor.column
    if cursor.at == cursor.size:
        cursor.need_more()
    cursor.skip_space()
    if cursor.column > cursor.base:
        cursor.base += 1


def _continue_unparsed(cursor: _LineCursor, matched: int, block: BlockKind) -> LineStart:
    """Read a line inside code, a formula or raw HTML, where only the end of the block matters."""
    state = cursor.state
    kind: LineKind = "more"
    if block == "fence" and cursor.indent < CODE_INDENT and cursor.char() == state.fence[0]:
        mark = re.escape(state.fence[0])
        run = rf"{mark}{{{len(state.fence)},}}[ \t]*"
        if cursor.match(re.compile(rf"{run}(?=\n|\Z)"), re.compile(rf"{mark}+[ \t]*\Z")):
            kind = "fence_end"
    elif block == "maths" and cursor.char() in "$\\":
        closer = "$$" if state.fence == "$$" else "\\]"
        if cursor.size - cursor.at < len(closer):
            cursor.need_more()
        if cursor.text.startswith(closer, cursor.at):
            kind = "fence_end"
    if kind == "more" and not state.containers and not state.fence_indent:
        return LineStart(kind, cursor.origin)
    start = LineStart(kind, cursor.at, matched)
    start.indent = max(0, cursor.indent - state.fence_indent)
    return start


def _read_block_start(cursor: _LineCursor, start: LineStart, may_continue: bool, *, all_matched: bool) -> bool:
    """Read one block start; True if it was a container, after which another start may follow."""
    char = cursor.char()
    depth = start.matched + len(start.opened)
    continues = may_continue and all_matched
    if cursor.state.header_cells and continues and char in "|:-" and _is_delimiter_row(cursor):
        start.kind = "table"
    elif char == ">":
        if depth < MAX_DEPTH:
            _enter_quote(cursor)
            start.opened += (BLOCK_QUOTE,)
            return True
    elif char == "#":
        if heading := cursor.match(lines.HEADING, lines.HEADING_OPEN):
            start.kind = "heading"
            cursor.advance(heading.end())
    elif char in "`~":
        if fence := cursor.match(lines.FENCE, lines.FENCE_OPEN):
            if fence.end() == cursor.size:
                cursor.need_more()
            if fence["fence"][0] == "~" or "`" not in fence["info"]:
                start.kind = "fence"
                start.indent = cursor.indent
                start.detail = fence["fence"]
                cursor.advance(fence.end() - len(fence["info"]))
    elif char in "-*_+=":
        return _read_rule_or_bullet(cursor, start, continues=continues)
    elif char.isdigit():
        ordinal = cursor.match(lines.ORDINAL, lines.ORDINAL_OPEN)
        if ordinal and depth < MAX_DEPTH and (not continues or int(ordinal.group()[:-1]) == 1):
            return _enter_item(cursor, start, ordinal, continues=continues)
    elif char == "<":
        _read_html(cursor, start, may_continue=may_continue)
    elif char == "[":
        _read_label(cursor, start, may_continue=may_continue)
    elif char in "$\\" and (formula := cursor.match(lines.FORMULA, lines.FORMULA_OPEN)):
        start.kind = "maths"
        start.detail = formula.group().strip()
    return False


def _read_rule_or_bullet(cursor: _LineCursor, start: LineStart, *, continues: bool) -> bool:
    char = cursor.char()
    kind: LineKind | None = None
    if continues and char in "-=" and cursor.match(lines.UNDERLINE, lines.UNDERLINE_OPEN):
        kind = "underline"
    elif char in "-*_" and cursor.match(lines.RULE, lines.RULE_OPEN):
        kind = "rule"
    if kind:
        # A rule that is longer than the window ends with the window; the rest is text.
        if cursor.full and "\n" not in cursor.text[cursor.at : cursor.size]:
            cursor.advance(cursor.size)
        else:
            start.kind = kind
        return False
    if char in "-*+":
        if cursor.at + 1 == cursor.size:
            cursor.need_more()
        bullet = lines.BULLET.match(cursor.text, cursor.at, cursor.size)
        if bullet and start.matched + len(start.opened) < MAX_DEPTH:
            return _enter_item(cursor, start, bullet, continues=continues)
    return False


def _enter_item(cursor: _LineCursor, start: LineStart, marker: re.Match[str], *, continues: bool) -> bool:
    indent, column, base = cursor.indent, cursor.column, cursor.base
    after = marker.end()
    if continues and lines.SPACE.fullmatch(cursor.text, after, cursor.line_end(after)):
        if cursor.line_end(after) == cursor.size:
            cursor.need_more()
        return False  # an empty item cannot interrupt a paragraph
    cursor.advance(after)
    cursor.skip_space()
    padding = cursor.column - (column + len(marker.group()))
    if padding > CODE_INDENT or cursor.char() == "\n":
        padding = 1
    width = indent + len(marker.group()) + padding
    cursor.base = base + width
    start.opened += (ListItem(width),)
    if marker.group()[0].isdigit():
        start.ordinal += marker.group() + " "
    if cursor.char() == "[" and (task := cursor.match(lines.TASK, lines.TASK_OPEN)):
        start.task = task["mark"]
        cursor.advance(task.end())
        return False  # the text of a task is a paragraph, whatever it begins with
    return True


def _read_html(cursor: _LineCursor, start: LineStart, *, may_continue: bool) -> None:
    text, at = cursor.text[: cursor.size], cursor.at
    if lines.HTML_OPEN.match(text, at):
        cursor.need_more()
    if raw := lines.HTML_RAW.match(text, at):
        start.kind, start.detail = "html", raw["name"].lower()
    elif lines.HTML_DECLARATION.match(text, at):
        start.kind, start.detail = "html", "<"
    elif lines.HTML_BLOCK.match(text, at):
        start.kind = "html"
    elif not may_continue:
        end = cursor.line_end(at)
        tag = find_tag(text, at, end, final=True)
        if end == cursor.size and (isinstance(tag, Construct) or find_tag(text, at, end, final=False) is not tag):
            cursor.need_more()
        if isinstance(tag, Construct) and tag.kind == "tag" and not text[tag.end : end].strip(" \t"):
            start.kind = "html"


def _read_label(cursor: _LineCursor, start: LineStart, *, may_continue: bool) -> None:
    """Read a footnote or a reference definition."""
    if cursor.size - cursor.at < 2:
        cursor.need_more()
    if cursor.text.startswith("^", cursor.at + 1):
        if footnote := cursor.match(lines.FOOTNOTE, lines.FOOTNOTE_OPEN):
            start.kind = "footnote"
            start.detail = footnote["label"]
            cursor.advance(footnote.end())
    elif not may_continue and (definition := cursor.match(lines.DEFINITION, lines.DEFINITION_OPEN)):
        start.kind = "definition"
        start.detail = definition["label"]
        cursor.advance(definition.end())


def _is_delimiter_row(cursor: _LineCursor) -> bool:
    """Whether the line is a table's delimiter row with as many cells as the header before it."""
    row = cursor.match(lines.DELIMITER_ROW, lines.DELIMITER_ROW_OPEN)
    if row is None or row.group().strip(" \t") == "-":  # that underlines a heading
        return False
    if row.end() == cursor.size and cursor.full:
        return True  # too long to wait for; only a table looks like this
    cells = row.group().strip(" \t").removeprefix("|").removesuffix("|").split("|")
    if not all(lines.DELIMITER_CELL.fullmatch(cell) for cell in cells):
        return False
    return len(cells) == cursor.state.header_cells
