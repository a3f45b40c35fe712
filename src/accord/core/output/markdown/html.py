"""The text inside an HTML block: tags and comments are taken off, markdown inside is not read.

Decides what of an HTML block is text and when the block ends. It must not know anything outside the block.
"""

import re
from typing import Final

from accord.core.output.markdown.lines import Body
from accord.core.output.markdown.lookahead import BLOCK_ELEMENTS, HOLD_LIMIT, Found, angled, entity
from accord.core.output.markdown.outlet import MOST_BREAKS, Outlet
from accord.core.output.markdown.profiles import Notebook, NoteKind

SPECIAL: Final = re.compile("[<&]")
RAW_END: Final = re.compile(r"</(?:pre|script|style|textarea)>", re.IGNORECASE)
COMMENT_END: Final = "-->"
CELLS: Final = frozenset({"td", "th"})
CELL_SEPARATOR: Final = ", "
UNSPOKEN: Final = frozenset({"script", "style"})
LONGEST_RAW_END: Final = len("</textarea>")


class HtmlBlock:
    """One HTML block; `opening` is its raw element, "<" for a comment or declaration, or nothing."""

    def __init__(self, opening: str, outlet: Outlet, notebook: Notebook, position: int, *, aloud: bool) -> None:
        self.body: Body = "html" if opening else "html_until_blank"
        self.is_over = False
        self._outlet = outlet
        self._aloud = aloud
        self._opening = opening
        self._text = ""
        self._raw = False
        self._in_comment = False
        self._parted = False
        outlet.fresh_line()
        notebook.add(NoteKind.COMMENT if opening == "<" else NoteKind.HTML, position, opening)

    def text(self, fragment: str, position: int) -> None:
        """Part of a line of HTML."""
        if not (self._text or self._raw or self._in_comment) and SPECIAL.search(fragment) is None:
            self._outlet.write(fragment)
            return
        self._text = self._scan(self._text + fragment, final=False)

    def end_line(self, position: int) -> None:
        """A line break, unless a tag or comment goes on over it."""
        if not (self._text or self._raw or self._in_comment):
            self._end_line()
            return
        self._text = self._scan(self._text + "\n", final=False)

    def close(self) -> None:
        """Release what could have become a tag."""
        self._text = self._scan(self._text, final=True)
        self._outlet.fresh_line()

    def _scan(self, text: str, *, final: bool) -> str:
        """Say what can be said; what is returned has to wait."""
        pos, size = 0, len(text)
        while pos < size:
            if self._in_comment:
                pos, waits = self._skip_comment(text, pos, final=final)
            elif self._raw:
                pos, waits = self._skip_raw(text, pos, final=final)
            else:
                special = SPECIAL.search(text, pos)
                at = special.start() if special else size
                self._say(text[pos:at])
                pos, waits = (at, False) if at == size else self._markup(text, at, final=final)
            if waits:
                break
        return text[pos:]

    def _markup(self, text: str, at: int, *, final: bool) -> tuple[int, bool]:
        stop = at + HOLD_LIMIT
        bounded = stop <= len(text)
        find = entity if text[at] == "&" else angled
        outcome = find(text, at, stop if bounded else len(text), final=final and not bounded)
        if outcome == "wait" and not bounded:
            return at, True
        if isinstance(outcome, Found):
            self._found(outcome)
            return outcome.end, False
        if text.startswith("<!--", at):  # also one that nobody ever closes: it was not meant to be read
            self._in_comment = True
            return at + len("<!--"), False
        self._say(text[at])
        return at + 1, False

    def _found(self, outcome: Found) -> None:
        if outcome.kind in ("", "link"):
            self._say(outcome.text)
        elif outcome.kind in ("tag", "name"):
            self._raw = outcome.text == self._opening
            self._part(outcome.text)
            self.is_over = self.is_over or outcome.text == f"/{self._opening}"
        elif self._opening == "<":
            self.is_over = True

    def _skip_comment(self, text: str, pos: int, *, final: bool) -> tuple[int, bool]:
        end = text.find(COMMENT_END, pos)
        if end < 0:
            return (len(text) if final else max(pos, len(text) - 2)), True
        self._in_comment = False
        self.is_over = self.is_over or self._opening == "<"
        return end + len(COMMENT_END), False

    def _skip_raw(self, text: str, pos: int, *, final: bool) -> tuple[int, bool]:
        end = RAW_END.search(text, pos)
        stop = end.start() if end else len(text)
        if not end and not final:
            angle = text.rfind("<", max(pos, len(text) - LONGEST_RAW_END))
            stop = angle if angle >= 0 else stop
        if not (self._aloud and self._opening in UNSPOKEN):
            self._say(text[pos:stop])
        if end:
            self._raw = False
            self.is_over = True
            return end.end(), False
        return stop, True

    def _say(self, text: str) -> None:
        first, *others = text.split("\n")
        self._outlet.write(first)
        for line in others:
            self._end_line()
            self._outlet.write(line)

    def _part(self, tag: str) -> None:
        """Keep apart what stands on different lines, or in different cells, of the page."""
        name = tag.removeprefix("/")
        if name in CELLS:
            self._outlet.lead_in(CELL_SEPARATOR if self._outlet.mid_line else "")
        elif name == "br" or name in BLOCK_ELEMENTS:
            self._parted = self._parted or self._outlet.mid_line
            self._outlet.fresh_line()

    def _end_line(self) -> None:
        if self._outlet.mid_line or not self._parted:
            self._outlet.lead_in("")
            self._outlet.end_line(most=MOST_BREAKS)
        self._parted = False  # a tag that ended the line stands for one line end
