"""HTML blocks: tags and comments are removed, the text between them is written; markdown inside is not parsed."""

import re
from typing import Final

from accord.core.output.markdown.lines import BlockKind
from accord.core.output.markdown.lookahead import BLOCK_ELEMENTS, HOLD_LIMIT, Construct, find_angled, find_entity
from accord.core.output.markdown.output_buffer import MAX_BREAKS, OutputBuffer
from accord.core.output.markdown.profiles import NoteKind, NoteLog

SPECIAL: Final = re.compile("[<&]")
# The end of an element whose content is written without looking for tags.
RAW_END: Final = re.compile(r"</(?:pre|script|style|textarea)>", re.IGNORECASE)
COMMENT_END: Final = "-->"
CELLS: Final = frozenset({"td", "th"})
CELL_SEPARATOR: Final = ", "
NOT_SPOKEN: Final = frozenset({"script", "style"})
RAW_END_CHARS: Final = len("</textarea>")


class HtmlBlock:
    """One HTML block; `opening` is its raw element (such as "pre"), "<" for a comment or declaration, or ""."""

    def __init__(self, opening: str, buffer: OutputBuffer, note_log: NoteLog, position: int, *, speech: bool) -> None:
        self.kind: BlockKind = "html" if opening else "html_until_blank"
        self.is_over = False
        self._buffer = buffer
        self._speech = speech
        self._opening = opening
        self._text = ""
        self._raw = False
        self._in_comment = False
        self._ended_by_tag = False
        buffer.start_new_line()
        note_log.add(NoteKind.COMMENT if opening == "<" else NoteKind.HTML, position, opening)

    def feed(self, fragment: str, position: int) -> None:
        """Take part of a line of HTML."""
        if not (self._text or self._raw or self._in_comment) and SPECIAL.search(fragment) is None:
            self._buffer.write(fragment)
            return
        self._text = self._scan(self._text + fragment, final=False)

    def end_line(self, position: int) -> None:
        """End a line, unless it ends inside a tag or comment."""
        if not (self._text or self._raw or self._in_comment):
            self._end_line()
            return
        self._text = self._scan(self._text + "\n", final=False)

    def close(self) -> None:
        """Release what might have become a tag."""
        self._text = self._scan(self._text, final=True)
        self._buffer.start_new_line()

    def _scan(self, text: str, *, final: bool) -> str:
        """Write what is decided; return the rest."""
        pos, size = 0, len(text)
        while pos < size:
            if self._in_comment:
                end = text.find(COMMENT_END, pos)
                if end < 0:
                    pos = size if final else max(pos, size - 2)
                    break
                self._in_comment = False
                self.is_over = self.is_over or self._opening == "<"
                pos = end + len(COMMENT_END)
            elif self._raw:
                pos, needs_more = self._write_raw(text, pos, final=final)
                if needs_more:
                    break
            else:
                special = SPECIAL.search(text, pos)
                at = special.start() if special else size
                self._write(text[pos:at])
                pos = at
                if at < size:
                    pos = self._read_markup(text, at, final=final)
                    if pos == at:
                        break
        return text[pos:]

    def _write_raw(self, text: str, pos: int, *, final: bool) -> tuple[int, bool]:
        """Write the content of a raw element; return the position after it, and whether its end is still missing."""
        end = RAW_END.search(text, pos)
        stop = end.start() if end else len(text)
        if not end and not final:
            angle = text.rfind("<", max(pos, len(text) - RAW_END_CHARS))
            stop = angle if angle >= 0 else stop
        if not (self._speech and self._opening in NOT_SPOKEN):
            self._write(text[pos:stop])
        if end:
            self._raw = False
            self.is_over = True
            return end.end(), False
        return stop, True

    def _read_markup(self, text: str, at: int, *, final: bool) -> int:
        """Read the tag, comment or entity at `at`; return the position after it, `at` itself to wait for more."""
        stop = at + HOLD_LIMIT
        bounded = stop <= len(text)
        find = find_entity if text[at] == "&" else find_angled
        found = find(text, at, stop if bounded else len(text), final=final and not bounded)
        if found == "wait" and not bounded:
            return at
        if not isinstance(found, Construct):
            if text.startswith("<!--", at):  # a comment that is never closed is removed as well
                self._in_comment = True
                return at + len("<!--")
            self._write(text[at])
            return at + 1
        if found.kind in ("", "link"):
            self._write(found.text)
        elif found.kind in ("tag", "name"):
            self._raw = found.text == self._opening
            # Separate text that a browser would show in different cells or on different lines.
            name = found.text.removeprefix("/")
            if name in CELLS:
                self._buffer.set_lead_in(CELL_SEPARATOR if self._buffer.mid_line else "")
            elif name == "br" or name in BLOCK_ELEMENTS:
                self._ended_by_tag = self._ended_by_tag or self._buffer.mid_line
                self._buffer.start_new_line()
            self.is_over = self.is_over or found.text == f"/{self._opening}"
        elif self._opening == "<":
            self.is_over = True
        return found.end

    def _write(self, text: str) -> None:
        first, *others = text.split("\n")
        self._buffer.write(first)
        for line in others:
            self._end_line()
            self._buffer.write(line)

    def _end_line(self) -> None:
        if self._buffer.mid_line or not self._ended_by_tag:
            self._buffer.set_lead_in("")
            self._buffer.end_line(most=MAX_BREAKS)
        self._ended_by_tag = False  # a tag that ended the line counts as one line end
