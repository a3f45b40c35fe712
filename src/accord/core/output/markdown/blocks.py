"""The block structure as a stream: lines in, leaves told what is theirs.

Decides when a block begins, goes on and ends. How a line's beginning is read is `heads`, what a block's text
becomes is `leaves`; this file only moves between them. It must not know inline markdown.
"""

from typing import Final, Literal

from accord.core.output.markdown.heads import place_line, read_head
from accord.core.output.markdown.html import HtmlBlock
from accord.core.output.markdown.inline import Inline, fold_label
from accord.core.output.markdown.leaves import Code, Formula, Gap, Heading, Leaf, Nothing, Paragraph, Table, split_row
from accord.core.output.markdown.lines import QUOTE, STARTERS, Context, Head
from accord.core.output.markdown.lookahead import HOLD_LIMIT
from accord.core.output.markdown.outlet import Outlet
from accord.core.output.markdown.profiles import Messages, Notebook, NoteKind, Profile

Lane = Literal["", "prose", "held", "leaf", "code", "code_line"]
"""Where text that nothing can happen to may pass; none, while something may."""

NOT_MERE_TEXT: Final = STARTERS | {"", " ", "\t", "\n"}
NOTHING: Final = Nothing()
MAX_LABELS: Final = 4096


class Blocks:
    """Splits a stream of normalised text into lines and blocks."""

    def __init__(self, profile: Profile, messages: Messages, outlet: Outlet, notebook: Notebook) -> None:
        self._profile = profile
        self._messages = messages
        self._told = messages if profile is Profile.SPEECH else None
        self._outlet = outlet
        self._notebook = notebook
        self._labels: set[str] = set()
        self.inline = Inline(profile, messages, outlet, notebook, self._labels)
        self._context = Context()
        self._leaf: Leaf = NOTHING
        self._line: Leaf = NOTHING
        self._gap = Gap(outlet)
        self._paragraph = Paragraph(self.inline, outlet)
        self._code: Code
        self._text = ""
        self._origin = 0
        self.in_line = False

    def feed(self, text: str, *, final: bool = False) -> None:
        """More text; with `final`, the last of it."""
        if self._text:
            text = self._text + text
        elif self.in_line and "\n" not in text:
            if text:
                self._line.text(text, self._origin)
                self._origin += len(text)
            return
        self._text = text
        pos, size = 0, len(text)
        while pos < size:
            if not self.in_line and not self._begin_mere_text(pos):
                head = self._read_head(pos, final=final)
                if head is None:
                    break
                self._begin_line(head, self._origin + head.at)
                pos = head.at
                if pos >= size:
                    self.in_line = True
                    break
            self.in_line = True
            end = text.find("\n", pos)
            stop = size if end < 0 else end
            if stop > pos:
                self._line.text(text[pos:stop], self._origin + pos)
            pos = stop
            if end >= 0:
                self._line.end_line(self._origin + end)
                self.in_line = False
                if self._line.is_over:
                    self._close_leaf()
                pos = end + 1
        self._origin += pos
        self._text = text[pos:] if pos < size else ""

    def close(self) -> None:
        """Everything that is open ends here."""
        self.feed("", final=True)
        self._leaf.close()
        self._leaf = self._line = NOTHING

    @property
    def lane(self) -> Lane:
        """Where text may go on unread, as far as the block structure is concerned."""
        body = self._context.body
        if body == "paragraph":
            if not self.in_line:
                return ""
            return "prose" if self.inline.idle else "held"
        if body == "fence" or body == "indented":
            return "code"
        return "leaf" if self.in_line else ""

    @property
    def code_stops_at(self) -> str:
        """The character up to which code may be taken in bulk: its fence's, or a line end; or nothing."""
        context = self._context
        if not isinstance(self._leaf, Code) or self._leaf.in_info:
            return ""
        self._code = self._leaf
        if context.body == "fence" and not context.containers and not context.fence_indent:
            return context.fence[0] if self.in_line or not self._text.strip(" \t") else ""
        return "\n" if self.in_line and self._line is self._leaf else ""

    @property
    def knows_labels(self) -> bool:
        """A reference definition was seen, so what stands in brackets may be a link."""
        return bool(self._labels)

    @property
    def in_code(self) -> bool:
        """Inside a code block."""
        return self._context.body in ("fence", "indented")

    @property
    def in_indented_code(self) -> bool:
        """Inside code that is indented by four columns and nothing else."""
        return self._context.body == "indented" and not self._context.containers

    def turn_line(self, blank: bool, column: int, marker: str, padding: int) -> str | None:
        """Begin the next line of prose or the next list item; its ordinal, or `None` if it needs a closer look."""
        if self._paragraph.suffix:
            return None
        context = self._context
        if column == 0 and not (marker or context.containers):
            return ""
        head = place_line(context, column, marker, padding, in_paragraph=not blank)
        if head is None:
            return None
        if head.interrupts:
            context.containers[head.matched :] = head.opened
        return head.ordinal

    def prose_flowed(self, length: int, last: str) -> None:
        """So much prose went out past us; `last` is what it ended with."""
        self.inline.flowed(length, last)
        self._origin += length

    def code_flowed(self, length: int, lines: int) -> None:
        """So much code, with so many line ends, went out past us; it stopped in the middle of a line."""
        self._origin += length
        self._code.flowed(lines)

    def flow_leaf(self, text: str) -> None:
        """More of the line that is being read."""
        self._line.text(text, self._origin)
        self._origin += len(text)

    def flow_code(self, text: str) -> None:
        """Code without what it stops at: no line of it can be the last, so it needs no reading."""
        text = self._text + text
        start_of_last = text.rfind("\n") + 1
        last = text[start_of_last:]
        at_line_start = not self.in_line or start_of_last > 0
        if at_line_start and len(last) < HOLD_LIMIT and not last.strip(" \t"):
            self._text = last
            self.in_line = False
            text = text[:start_of_last]
        else:
            self._text = ""
            self.in_line = True
            self._line = self._leaf
        self._origin += len(text)
        if text:
            self._code.flow(text, mid_line=self.in_line)

    def _begin_mere_text(self, pos: int) -> bool:
        """The fast lane between lines: outside containers, a line that starts with no sign of anything."""
        context = self._context
        body = context.body
        if body != "paragraph" and body != "none":
            return False
        char = self._text[pos]
        if char == "\n" and not context.bare_item and self.inline.idle and QUOTE not in context.containers:
            self._close_leaf()
            self._line = self._gap
            return True
        if context.containers or char in NOT_MERE_TEXT:
            return False
        if body == "none":
            self._outlet.fresh_line()
            self._paragraph.start()
            self._leaf = self._paragraph
            context.body = "paragraph"
        elif self.inline.piped:
            self.inline.refuse_table()
        self._line = self._leaf
        return True

    def _read_head(self, pos: int, *, final: bool) -> Head | None:
        context = self._context
        context.header_cells = len(self._header_cells(self.inline.waiting_row)) if self.inline.piped else 0
        return read_head(self._text, pos, context, final=final)

    def _begin_line(self, head: Head, position: int) -> None:
        kind = head.kind
        if kind == "more" or kind == "fence_end":
            self._continue(head, position)
        elif head.opened:
            self._begin_block(head, position)
        elif kind == "text" and not head.interrupts:
            if self.inline.piped:
                self.inline.refuse_table()
            self._line = self._leaf
        elif kind == "table":
            self._begin_table(position)
        elif kind == "text" and self._context.body == "table" and self._is_inside(head):
            self._line = self._leaf
        elif kind == "indented" and self._context.body == "indented" and self._is_inside(head):
            self._line = self._leaf
            self._line.text(" " * head.indent, position)
        elif kind == "blank":
            self._blank_line(head)
        else:
            self._begin_block(head, position)

    def _is_inside(self, head: Head) -> bool:
        return head.matched == len(self._context.containers) and not head.opened

    def _continue(self, head: Head, position: int) -> None:
        self._line = self._leaf
        if head.kind == "more":
            if head.indent:
                self._line.text(" " * head.indent, position)
        elif isinstance(self._leaf, Formula):
            self._leaf.close_after_line()
        else:
            self._close_leaf()

    def _blank_line(self, head: Head) -> None:
        inside = self._is_inside(head)
        del self._context.containers[head.matched :]
        self._context.bare_item = False
        if inside and self._context.body == "indented":
            self._line = self._leaf
        else:
            self._close_leaf()
            self._line = self._gap

    def _begin_block(self, head: Head, position: int) -> None:
        context = self._context
        self._close_leaf()
        del context.containers[head.matched :]
        context.containers.extend(head.opened)
        context.bare_item = head.kind == "blank"
        if head.kind == "underline":
            return
        self._outlet.fresh_line()
        if head.ordinal:
            self._outlet.write(head.ordinal)
        self._leaf = self._line = self._make_leaf(head, position)
        context.body = self._leaf.body

    def _make_leaf(self, head: Head, position: int) -> Leaf:
        outlet, notebook = self._outlet, self._notebook
        if head.kind == "text":
            return self._start_paragraph(head)
        match head.kind:
            case "heading":
                return Heading(self.inline, outlet)
            case "fence":
                self._context.fence, self._context.fence_indent = head.detail, head.indent
                return Code("fence", outlet, notebook, self._told, position)
            case "indented":
                code = Code("indented", outlet, notebook, self._told, position)
                code.text(" " * head.indent, position)
                return code
            case "html":
                aloud = self._told is not None
                return HtmlBlock(head.detail, outlet, notebook, position, aloud=aloud)
            case "maths":
                self._context.fence, self._context.fence_indent = head.detail, 0
                return Formula(outlet, notebook, position)
            case "definition":
                notebook.add(NoteKind.REFERENCE_DEFINITION, position, head.detail)
                if len(self._labels) < MAX_LABELS:
                    self._labels.add(fold_label(head.detail))
                return NOTHING
            case "rule" | "underline" | "blank":
                return NOTHING
            case "footnote":
                outlet.write(self._messages["footnote"].format(label=head.detail) + " ")
            case _:
                pass
        return self._start_paragraph(head)

    def _start_paragraph(self, head: Head) -> Leaf:
        suffix = ""
        if head.task and self._told:
            suffix = self._told["task_open" if head.task == " " else "task_done"]
        self._paragraph.start(suffix)
        return self._paragraph

    def _header_cells(self, row: str) -> list[str]:
        # What stands before the first pipe went out already: it is a cell, but its name is gone.
        return ["", *split_row("-" + row)[1:]] if self._outlet.mid_line else split_row(row)

    def _begin_table(self, position: int) -> None:
        inline, outlet = self.inline, self._outlet
        was_started = outlet.mid_line
        row = inline.take_row()
        start = position - len(row) - 1
        cells = self._header_cells(row)
        inline.finish()
        columns: list[str] = []
        if self._told:
            self._notebook.add(NoteKind.TABLE, position)
            columns = [self._read_cell(cell, start) for cell in cells]
        if was_started or not self._told:
            for cell in filter(None, cells):
                outlet.lead_in(", " if outlet.mid_line else "")
                inline.start(line_break=" ")
                inline.feed(cell, start)
                inline.finish()
            outlet.fresh_line()
        self._leaf = self._line = Table(inline, outlet, self._told, columns)
        self._context.body = "table"

    def _read_cell(self, cell: str, position: int) -> str:
        if not cell:
            return ""
        outlet = Outlet(ssml=False)
        inline = Inline(self._profile, self._messages, outlet, self._notebook, self._labels)
        inline.start(line_break=" ")
        inline.feed(cell, position)
        inline.finish()
        return outlet.take()

    def _close_leaf(self) -> None:
        self._leaf.close()
        self._leaf = self._line = NOTHING
        self._context.body = "none"
