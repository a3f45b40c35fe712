"""The beginning of a line: which containers continue, which open, and what kind of line it is."""

import re
from typing import Final

from accord.core.output.markdown import lines as starts
from accord.core.output.markdown.lines import QUOTE, Body, Context, Head, Item, Kind, Quote
from accord.core.output.markdown.lookahead import HOLD_LIMIT, Found, tag

# The beginnings that most lines have, read at a glance: text, list items, fences, headings, more of a block.
#
# Decides only what one look can decide, and the same way as `heads`, which reads everything else. It must not
# change any state.

MAX_DEPTH: Final = 32
CODE_INDENT: Final = 4


def read_at_a_glance(text: str, at: int, context: Context) -> Head | None:
    """The fast lanes: what most lines begin with, and nothing else."""
    body = context.body
    if body == "paragraph" or body == "none":
        if context.header_cells:
            return None
        return _read_common(text, at, context) if text[at] not in "#`~" else _read_plain_start(text, at)
    if context.containers:
        return None
    if body == "fence":
        return _read_code_line(text, at, context)
    if body == "html" or body == "html_until_blank":
        return Head("more", at) if starts.VISIBLE.match(text, at, at + HOLD_LIMIT - 1) else None
    if body == "indented" and (code := starts.INDENTED.match(text, at, at + HOLD_LIMIT - 1)):
        head = Head("indented", code.end())
        head.indent = code.end() - at - CODE_INDENT
        return head
    return None


def _read_plain_start(text: str, at: int) -> Head | None:
    # No container goes on at the very beginning of a line, unless by its own sign.
    start = starts.PLAIN_START.match(text, at, at + HOLD_LIMIT - 1)
    if start is None:
        return None
    if not start["fence"]:
        return Head("heading", start.end())
    head = Head("fence", start.end())
    head.detail = start["fence"]
    return head


def _read_code_line(text: str, at: int, context: Context) -> Head | None:
    if context.fence_indent or text[at] in " \t":
        return None
    if text[at] != context.fence[0]:
        return Head("more", at)
    closing = starts.PLAIN_START.match(text, at, at + HOLD_LIMIT - 1)
    if closing is None or closing["info"] or len(closing["fence"]) < len(context.fence):
        return None
    return Head("fence_end", at)


def _read_common(text: str, at: int, context: Context) -> Head | None:
    """The fast lane for what most lines are: text, or a list item with text, inside list items or nothing."""
    line = starts.COMMON_LINE.match(text, at, at + HOLD_LIMIT - 1)
    if line is None:
        return None
    indent, marker, padding = line.groups("")
    head = place_line(context, len(indent), marker, len(padding), in_paragraph=context.body == "paragraph")
    if head:
        head.at = line.end()
    return head


def place_line(context: Context, column: int, marker: str, padding: int, *, in_paragraph: bool) -> Head | None:
    """Where a line of text belongs that starts at a column, maybe behind a list marker and its padding."""
    base = matched = 0
    containers = context.containers
    for container in containers:
        if isinstance(container, Quote):
            return None
        if column - base < container.width:
            break
        base += container.width
        matched += 1
    indent = column - base
    if indent >= CODE_INDENT and (marker or not in_paragraph):
        return None
    head = Head("text", 0, matched)
    if not marker:
        head.interrupts = not in_paragraph
        return head
    is_ordinal = len(marker) > 1
    if matched >= MAX_DEPTH or (is_ordinal and in_paragraph and matched == len(containers) and int(marker[:-1]) != 1):
        return None
    head.opened = (Item(indent + len(marker) + padding),)
    if is_ordinal:
        head.ordinal = marker + " "
    return head


# The beginning of a line: which containers go on, which open, and what kind of line it is.
#
# Decides from the state of the block structure and as little of the line as it takes; answers `None` while more
# text is needed. It must not change any state, and must not know inline markdown.

TAB: Final = 4


class _MoreNeededError(Exception):
    """The line so far does not say what it is."""


class _Reader:
    """Walks along one line's beginning."""

    __slots__ = ("at", "base", "column", "context", "final", "full", "origin", "size", "text")

    def __init__(self, text: str, at: int, context: Context, *, final: bool) -> None:
        self.text = text
        self.full = len(text) - at >= HOLD_LIMIT
        self.size = at + HOLD_LIMIT if self.full else len(text)
        self.at = self.origin = at
        self.column = 0
        self.base = 0
        self.context = context
        self.final = final and not self.full
        self.skip_space()

    @property
    def indent(self) -> int:
        return self.column - self.base

    def skip_space(self) -> None:
        """Go to the next visible character, counting columns."""
        match = starts.SPACE.match(self.text, self.at, self.size)
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
        """Stop here unless the text is over or the window is full."""
        if not (self.final or self.full):
            raise _MoreNeededError

    def char(self) -> str:
        """The character at hand; past the text a line end, past the window a blank."""
        if self.at < self.size:
            return self.text[self.at]
        return " " if self.full else "\n"

    def advance(self, end: int) -> None:
        self.column += end - self.at
        self.at = end

    def match(self, whole: re.Pattern[str], partial: re.Pattern[str]) -> re.Match[str] | None:
        """The match of `whole`, once it is certain that more text cannot change it."""
        if partial.match(self.text, self.at, self.size):
            self.need_more()
        return whole.match(self.text, self.at, self.size)


def read_head(text: str, at: int, context: Context, *, final: bool) -> Head | None:
    """The beginning of the line at `at`, or `None` while it could still be several things."""
    if head := read_at_a_glance(text, at, context):
        return head
    try:
        return _read(_Reader(text, at, context, final=final))
    except _MoreNeededError:
        return None


def _read(reader: _Reader) -> Head:
    context = reader.context
    matched = _match_containers(reader)
    all_matched = matched == len(context.containers)
    body = context.body if all_matched else "none"
    if body in ("fence", "maths", "html"):
        return _continue_raw(reader, matched, body)
    head = Head("text", reader.at, matched)
    in_paragraph = context.body == "paragraph"
    while reader.char() != "\n":
        may_continue = in_paragraph and not head.opened
        if body == "html_until_blank" and not head.opened:
            head.kind = "more"
            break
        if reader.indent >= CODE_INDENT:
            head.kind = "text" if may_continue else "indented"
            head.indent = reader.indent - CODE_INDENT
            break
        if reader.char() not in starts.STARTERS:
            break
        if not _read_start(reader, head, may_continue, all_matched=all_matched and not head.opened):
            break
    else:
        head.kind = "blank"
    head.at = reader.at
    head.interrupts = not (in_paragraph and not head.opened and head.kind == "text")
    return head


def _match_containers(reader: _Reader) -> int:
    matched = 0
    for container in reader.context.containers:
        blank = reader.char() == "\n"
        if isinstance(container, Quote):
            if reader.indent >= CODE_INDENT or reader.char() != ">":
                break
            _enter_quote(reader)
        elif blank:
            last = matched == len(reader.context.containers) - 1
            if last and reader.context.bare_item:
                break
        elif reader.indent >= container.width:
            reader.base += container.width
        else:
            break
        matched += 1
    return matched


def _enter_quote(reader: _Reader) -> None:
    reader.advance(reader.at + 1)
    reader.base = reader.column
    if reader.at == reader.size:
        reader.need_more()
    reader.skip_space()
    if reader.column > reader.base:
        reader.base += 1


def _continue_raw(reader: _Reader, matched: int, body: Body) -> Head:
    context = reader.context
    kind = "more"
    if body == "fence" and reader.indent < CODE_INDENT and reader.char() == context.fence[0]:
        mark = re.escape(context.fence[0])
        run = rf"{mark}{{{len(context.fence)},}}[ \t]*"
        if reader.match(re.compile(rf"{run}(?=\n|\Z)"), re.compile(rf"{mark}+[ \t]*\Z")):
            kind = "fence_end"
    elif body == "maths" and reader.char() in "$\\":
        closer = "$$" if context.fence == "$$" else "\\]"
        if reader.size - reader.at < len(closer):
            reader.need_more()
        if reader.text.startswith(closer, reader.at):
            kind = "fence_end"
    if kind == "more" and not context.containers and not context.fence_indent:
        return Head(kind, reader.origin)
    head = Head(kind, reader.at, matched)
    head.indent = max(0, reader.indent - context.fence_indent)
    return head


def _read_start(reader: _Reader, head: Head, may_continue: bool, *, all_matched: bool) -> bool:
    """Read one block start; True when it was a container and the line goes on behind it."""
    char = reader.char()
    depth = head.matched + len(head.opened)
    continues = may_continue and all_matched
    if reader.context.header_cells and continues and char in "|:-" and _is_delimiter_row(reader):
        head.kind = "table"
    elif char == ">":
        if depth < MAX_DEPTH:
            _enter_quote(reader)
            head.opened += (QUOTE,)
            return True
    elif char == "#":
        if heading := reader.match(starts.HEADING, starts.HEADING_OPEN):
            head.kind = "heading"
            reader.advance(heading.end())
    elif char in "`~":
        _read_fence(reader, head)
    elif char in "-*_+=":
        return _read_marks(reader, head, continues=continues)
    elif char.isdigit():
        ordinal = reader.match(starts.ORDINAL, starts.ORDINAL_OPEN)
        if ordinal and depth < MAX_DEPTH and (not continues or int(ordinal.group()[:-1]) == 1):
            return _enter_item(reader, head, ordinal, continues=continues)
    elif char == "<":
        _read_html(reader, head, may_continue=may_continue)
    elif char == "[":
        _read_brackets(reader, head, may_continue=may_continue)
    elif char in "$\\" and (formula := reader.match(starts.FORMULA, starts.FORMULA_OPEN)):
        head.kind = "maths"
        head.detail = formula.group().strip()
    return False


def _read_fence(reader: _Reader, head: Head) -> None:
    fence = reader.match(starts.FENCE, starts.FENCE_OPEN)
    if fence is None:
        return
    if fence.end() == reader.size:
        reader.need_more()
    if fence["fence"][0] == "~" or "`" not in fence["info"]:
        head.kind = "fence"
        head.indent = reader.indent
        head.detail = fence["fence"]
        reader.advance(fence.end() - len(fence["info"]))


def _read_marks(reader: _Reader, head: Head, *, continues: bool) -> bool:
    char = reader.char()
    if continues and char in "-=" and reader.match(starts.UNDERLINE, starts.UNDERLINE_OPEN):
        return _swallow(reader, head, "underline")
    if char in "-*_" and reader.match(starts.RULE, starts.RULE_OPEN):
        return _swallow(reader, head, "rule")
    if char in "-*+":
        if reader.at + 1 == reader.size:
            reader.need_more()
        bullet = starts.BULLET.match(reader.text, reader.at, reader.size)
        if bullet and head.matched + len(head.opened) < MAX_DEPTH:
            return _enter_item(reader, head, bullet, continues=continues)
    return False


def _swallow(reader: _Reader, head: Head, kind: Kind) -> bool:
    # A rule longer than the window is taken for one as far as the window goes; the rest is text.
    if reader.full and "\n" not in reader.text[reader.at : reader.size]:
        reader.advance(reader.size)
    else:
        head.kind = kind
    return False


def _enter_item(reader: _Reader, head: Head, marker: re.Match[str], *, continues: bool) -> bool:
    indent, column, base = reader.indent, reader.column, reader.base
    after = marker.end()
    if continues and starts.SPACE.fullmatch(reader.text, after, _line_end(reader, after)):
        if _line_end(reader, after) == reader.size:
            reader.need_more()
        return False  # an empty item cannot interrupt a paragraph
    reader.advance(after)
    reader.skip_space()
    padding = reader.column - (column + len(marker.group()))
    if padding > CODE_INDENT or reader.char() == "\n":
        padding = 1
    width = indent + len(marker.group()) + padding
    reader.base = base + width
    head.opened += (Item(width),)
    if marker.group()[0].isdigit():
        head.ordinal += marker.group() + " "
    if reader.char() == "[" and (task := reader.match(starts.TASK, starts.TASK_OPEN)):
        head.task = task["mark"]
        reader.advance(task.end())
        return False  # what is to be done is text, whatever it begins with
    return True


def _line_end(reader: _Reader, start: int) -> int:
    end = reader.text.find("\n", start, reader.size)
    return reader.size if end < 0 else end


def _read_html(reader: _Reader, head: Head, *, may_continue: bool) -> None:
    text, at = reader.text[: reader.size], reader.at
    if starts.HTML_OPEN.match(text, at):
        reader.need_more()
    if raw := starts.HTML_RAW.match(text, at):
        head.kind, head.detail = "html", raw["name"].lower()
    elif starts.HTML_SWALLOWED.match(text, at):
        head.kind, head.detail = "html", "<"
    elif starts.HTML_BLOCK.match(text, at):
        head.kind = "html"
    elif not may_continue:
        end = _line_end(reader, at)
        found = tag(text, at, end, final=True)
        if end == reader.size and (isinstance(found, Found) or tag(text, at, end, final=False) is not found):
            reader.need_more()
        if isinstance(found, Found) and found.kind == "tag" and not text[found.end : end].strip(" \t"):
            head.kind = "html"


def _read_brackets(reader: _Reader, head: Head, *, may_continue: bool) -> None:
    if reader.size - reader.at < 2:
        reader.need_more()
    if reader.text.startswith("^", reader.at + 1):
        if footnote := reader.match(starts.FOOTNOTE, starts.FOOTNOTE_OPEN):
            head.kind = "footnote"
            head.detail = footnote["label"]
            reader.advance(footnote.end())
    elif not may_continue and (definition := reader.match(starts.DEFINITION, starts.DEFINITION_OPEN)):
        head.kind = "definition"
        head.detail = definition["label"]
        reader.advance(definition.end())


def _is_delimiter_row(reader: _Reader) -> bool:
    row = reader.match(starts.DELIMITER_ROW, starts.DELIMITER_ROW_OPEN)
    if row is None or row.group().strip(" \t") == "-":  # that underlines a heading
        return False
    if row.end() == reader.size and reader.full:
        return True  # too long to wait for; nothing but a table looks like this
    return delimiter_cells(row.group()) == reader.context.header_cells


def delimiter_cells(row: str) -> int:
    """The number of columns a delimiter row declares, 0 if it is none."""
    row = row.strip(" \t").removeprefix("|").removesuffix("|")
    cells = row.split("|")
    return len(cells) if all(starts.DELIMITER_CELL.fullmatch(cell) for cell in cells) else 0
