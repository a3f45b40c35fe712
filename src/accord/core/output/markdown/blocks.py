"""The block structure of streaming markdown: decides when a block begins, continues and ends.

`line_starts` reads the start of a line, the classes of `leaves` turn a block's text into output; this module connects
them. Inline markdown is not known here.
"""

from typing import Final, Literal

from accord.core.output.markdown.html import HtmlBlock
from accord.core.output.markdown.inline import InlineParser, fold_label
from accord.core.output.markdown.leaves import (
    BlankLine,
    CodeBlock,
    FormulaBlock,
    Heading,
    IgnoredLine,
    LeafBlock,
    Paragraph,
    TableBlock,
    split_row,
)
from accord.core.output.markdown.line_starts import read_line_start, start_text_line
from accord.core.output.markdown.lines import BLOCK_QUOTE, STARTERS, BlockState, LineStart
from accord.core.output.markdown.lookahead import HOLD_LIMIT
from accord.core.output.markdown.output_buffer import OutputBuffer
from accord.core.output.markdown.profiles import Messages, NoteKind, NoteLog, Profile
from accord.core.output.markdown.shortcuts import ShortcutReferences

FastPath = Literal["", "prose", "held", "leaf", "code", "code_line"]
"""The fast path that the next text may take as long as it contains nothing special; "" for none."""

NOT_TEXT_START: Final = STARTERS | {"", " ", "\t", "\n"}
IGNORED_LINE: Final = IgnoredLine()
MAX_LABELS: Final = 4096  # of reference definitions: memory is limited


class BlockParser:
    """Splits a stream of normalised text into lines and feeds each line to its block."""

    def __init__(
        self,
        profile: Profile,
        messages: Messages,
        buffer: OutputBuffer,
        note_log: NoteLog,
        shortcuts: ShortcutReferences,
    ) -> None:
        self._profile = profile
        self._messages = messages
        self._speech_messages = messages if profile is Profile.SPEECH else None
        self._buffer = buffer
        self._note_log = note_log
        self._labels: set[str] = set()
        self._shortcuts = shortcuts
        self.inline = InlineParser(profile, messages, buffer, note_log, self._labels, shortcuts=shortcuts)
        self._state = BlockState()
        self._leaf: LeafBlock = IGNORED_LINE
        """The open block."""
        self._line: LeafBlock = IGNORED_LINE
        """Where the text of the current line goes."""
        self._blank_line = BlankLine(buffer)
        self._paragraph = Paragraph(self.inline, buffer)
        self._code: CodeBlock
        self._text = ""
        self._origin = 0
        """The position in the input of the first character of `_text`."""
        self.in_line = False

    def feed(self, text: str, *, final: bool = False) -> None:
        """Parse more text; with `final`, the last of it."""
        if self._text:
            text = self._text + text
        elif self.in_line and "\n" not in text:
            if text:
                self._line.feed(text, self._origin)
                self._origin += len(text)
            return
        self._text = text
        pos, size = 0, len(text)
        while pos < size:
            if not self.in_line and not self._begin_plain_line(pos):
                inline = self.inline
                self._state.header_cells = len(self._header_cells(inline.waiting_row)) if inline.has_waiting_row else 0
                start = read_line_start(text, pos, self._state, final=final)
                if start is None:
                    break
                self._begin_line(start, self._origin + start.at)
                pos = start.at
                if pos >= size:
                    self.in_line = True
                    break
            self.in_line = True
            end = text.find("\n", pos)
            stop = size if end < 0 else end
            if stop > pos:
                self._line.feed(text[pos:stop], self._origin + pos)
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
        """Parse what is left and end the open block."""
        self.inline.is_cut_off = self._speech_messages is not None
        self.feed("", final=True)
        self._leaf.close()
        self._leaf = self._line = IGNORED_LINE

    @property
    def fast_path(self) -> FastPath:
        """The fast path that the block structure allows for the next text."""
        block = self._state.block
        if block == "paragraph":
            if not self.in_line:
                return ""
            return "prose" if self.inline.is_idle else "held"
        if block == "fence" or block == "indented":
            return "code"
        return "leaf" if self.in_line else ""

    @property
    def position(self) -> int:
        """The position in the input up to which no line is undecided, except for blanks."""
        return self._origin + (len(self._text) if self._text.isspace() else 0)

    @property
    def code_stops_at(self) -> str:
        """The character up to which code may be taken in bulk: that of its fence, or a line end; "" if none."""
        state = self._state
        if not isinstance(self._leaf, CodeBlock) or self._leaf.in_info:
            return ""
        self._code = self._leaf
        if state.block == "fence" and not state.containers and not state.fence_indent:
            return state.fence[0] if self.in_line or not self._text.strip(" \t") else ""
        return "\n" if self.in_line and self._line is self._leaf else ""

    @property
    def has_labels(self) -> bool:
        """Whether a reference was defined, so that text in brackets may be a link."""
        return bool(self._labels)

    @property
    def in_code(self) -> bool:
        """Whether the text is inside a code block."""
        return self._state.block in ("fence", "indented")

    @property
    def in_indented_code(self) -> bool:
        """Whether the text is inside an indented code block that is in no container."""
        return self._state.block == "indented" and not self._state.containers

    @property
    def in_plain_paragraph(self) -> bool:
        """Whether a paragraph is open that is in no container, and nothing is written at its end."""
        return not self._state.containers and not self._paragraph.suffix

    def begin_prose_line(self, blank: bool, column: int, marker: str, padding: int) -> str | None:
        """Begin the next line of prose or the next list item; return its ordinal, `None` if the fast path must end."""
        if self._paragraph.suffix:
            return None
        state = self._state
        if column == 0 and not (marker or state.containers):
            return ""
        start = start_text_line(state, column, marker, padding, in_paragraph=not blank)
        if start is None:
            return None
        if start.interrupts:
            state.containers[start.matched :] = start.opened
        return start.ordinal

    def skip_prose(self, length: int, last: str) -> None:
        """Count prose that took the fast path; `last` is its last character."""
        self.inline.skip(length, last)
        self._origin += length

    def skip_code(self, length: int, lines: int) -> None:
        """Count code that took the fast path and ended in the middle of a line."""
        self._origin += length
        self._code.skip_lines(lines)

    def feed_leaf(self, text: str) -> None:
        """Parse more of the current line; the text has no line end."""
        self._line.feed(text, self._origin)
        self._origin += len(text)

    def feed_code(self, text: str) -> None:
        """Take code that does not contain `code_stops_at`: no line of it can end the block."""
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
            self._code.feed_lines(text, mid_line=self.in_line)

    def _begin_plain_line(self, pos: int) -> bool:
        """Begin a blank line, or a line of text outside containers; False if `read_line_start` must decide."""
        state = self._state
        block = state.block
        if block != "paragraph" and block != "none":
            return False
        char = self._text[pos]
        if char == "\n" and not state.bare_item and self.inline.is_idle and BLOCK_QUOTE not in state.containers:
            self._close_leaf()
            self._line = self._blank_line
            return True
        if state.containers or char in NOT_TEXT_START:
            return False
        if block == "none":
            self._buffer.start_new_line()
            self._paragraph.start()
            self._leaf = self._paragraph
            state.block = "paragraph"
        elif self.inline.has_waiting_row:
            self.inline.reject_table()
        self._line = self._leaf
        return True

    def _begin_line(self, start: LineStart, position: int) -> None:
        """Continue the open block or begin another one, as the start of the line says."""
        kind, state = start.kind, self._state
        is_inside = start.matched == len(state.containers) and not start.opened
        if kind == "more":
            self._line = self._leaf
            if start.indent:
                self._line.feed(" " * start.indent, position)
        elif kind == "fence_end":
            self._line = self._leaf
            if isinstance(self._leaf, FormulaBlock):
                self._leaf.close_after_line()
            else:
                self._close_leaf()
        elif start.opened:
            self._begin_block(start, position)
        elif kind == "text" and not start.interrupts:
            if self.inline.has_waiting_row:
                self.inline.reject_table()
            self._line = self._leaf
        elif kind == "table":
            self._begin_table(position)
        elif kind == "text" and state.block == "table" and is_inside:
            self._line = self._leaf
        elif kind == "indented" and state.block == "indented" and is_inside:
            self._line = self._leaf
            self._line.feed(" " * start.indent, position)
        elif kind == "blank":
            del state.containers[start.matched :]
            state.bare_item = False
            if is_inside and state.block == "indented":
                self._line = self._leaf
            else:
                self._close_leaf()
                self._line = self._blank_line
        else:
            self._begin_block(start, position)

    def _begin_block(self, start: LineStart, position: int) -> None:
        state = self._state
        self._close_leaf()
        del state.containers[start.matched :]
        state.containers.extend(start.opened)
        state.bare_item = start.kind == "blank"
        if start.kind == "underline":
            return
        self._buffer.start_new_line()
        if start.ordinal:
            self._buffer.write(start.ordinal)
        self._leaf = self._line = self._make_leaf(start, position)
        state.block = self._leaf.kind

    def _make_leaf(self, start: LineStart, position: int) -> LeafBlock:
        buffer, note_log, speech_messages = self._buffer, self._note_log, self._speech_messages
        match start.kind:
            case "text":  # first, because most blocks are paragraphs
                pass
            case "heading":
                return Heading(self.inline, buffer)
            case "fence":
                self._state.fence, self._state.fence_indent = start.detail, start.indent
                return CodeBlock("fence", buffer, note_log, speech_messages, position)
            case "indented":
                code = CodeBlock("indented", buffer, note_log, speech_messages, position)
                code.feed(" " * start.indent, position)
                return code
            case "html":
                return HtmlBlock(start.detail, buffer, note_log, position, speech=speech_messages is not None)
            case "maths":
                self._state.fence, self._state.fence_indent = start.detail, 0
                return FormulaBlock(buffer, note_log, position)
            case "definition":
                note_log.add(NoteKind.REFERENCE_DEFINITION, position, start.detail)
                label = fold_label(start.detail)
                self._shortcuts.define(label, position)
                if len(self._labels) < MAX_LABELS:
                    self._labels.add(label)
                return IGNORED_LINE
            case "rule" | "underline" | "blank":
                return IGNORED_LINE
            case "footnote":
                buffer.write(self._messages["footnote"].format(label=start.detail) + " ")
            case _:
                pass
        suffix = ""
        if start.task and speech_messages:
            suffix = speech_messages["task_open" if start.task == " " else "task_done"]
        self._paragraph.start(suffix)
        return self._paragraph

    def _header_cells(self, row: str) -> list[str]:
        # Text before the first pipe has been sent already: it is a cell, but its name is not available any more.
        return ["", *split_row("-" + row)[1:]] if self._buffer.mid_line else split_row(row)

    def _begin_table(self, position: int) -> None:
        inline, buffer = self.inline, self._buffer
        was_started = buffer.mid_line
        row = inline.take_row()
        row_start = position - len(row) - 1
        cells = self._header_cells(row)
        inline.finish()
        columns: list[str] = []
        if self._speech_messages:
            self._note_log.add(NoteKind.TABLE, position)
            columns = [self._read_cell(cell, row_start) for cell in cells]
        if was_started or not self._speech_messages:
            for cell in filter(None, cells):
                buffer.set_lead_in(", " if buffer.mid_line else "")
                inline.start(line_break=" ")
                inline.feed(cell, row_start)
                inline.finish()
            buffer.start_new_line()
        self._leaf = self._line = TableBlock(inline, buffer, self._speech_messages, columns)
        self._state.block = "table"

    def _read_cell(self, cell: str, position: int) -> str:
        """Return the text of a header cell, which is spoken before each cell of its column."""
        if not cell:
            return ""
        buffer = OutputBuffer(ssml=False)
        # No shortcuts: this text is spoken several times, and a bracket can be decided only once.
        inline = InlineParser(self._profile, self._messages, buffer, self._note_log, self._labels)
        inline.start(line_break=" ")
        inline.feed(cell, position)
        inline.finish()
        return buffer.take()

    def _close_leaf(self) -> None:
        self._leaf.close()
        self._leaf = self._line = IGNORED_LINE
        self._state.block = "none"
