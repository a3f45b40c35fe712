"""Shortcut references: `[RFC 9110]` is a link if a definition of that label follows, else text in brackets.

Definitions usually come last, and a live stream cannot wait for its end. So the output from the first undecided bracket
on is kept back until its definition has arrived, but for at most `HOLD_LIMIT` characters of input. The parser writes
marks for such brackets, which become brackets or nothing here. Where a definition can stand is not known here.
"""

import re
from collections import defaultdict, deque
from typing import Final

from accord.core.output.markdown.lookahead import HOLD_LIMIT
from accord.core.output.markdown.profiles import NoteKind, NoteLog

# Stand in the output for a bracket of a possible reference; normalised input contains no halves of surrogate pairs.
OPENING: Final = "\ud800"
CLOSING: Final = "\ud801"

# A label looks like a title. Single characters (`[x]`), numbers (`[1]`), lists, formulas and code are text.
TITLE: Final = r"[\w`*][\w\s.,:;/&'’()#+@`*!?–-]{1,98}"
LABEL: Final = re.compile(TITLE)
may_contain_reference: Final = re.compile(rf"\[{TITLE}\]").search


class Shortcut:
    """Text in brackets that may be a reference."""

    __slots__ = ("deadline", "is_link", "mark", "position")

    def __init__(self, mark: str, position: int) -> None:
        self.mark = mark
        self.position = position
        self.deadline = position + HOLD_LIMIT
        self.is_link = False


class ShortcutReferences:
    """The possible references whose definition may still follow, and the output that is kept back for them."""

    __slots__ = ("_by_label", "_held", "_note_log", "pending")

    def __init__(self, note_log: NoteLog) -> None:
        self._note_log = note_log
        self._by_label: defaultdict[str, list[Shortcut]] = defaultdict(list)
        self._held = ""
        self.pending: deque[Shortcut] = deque()
        """The undecided brackets, in the order of the text."""

    def add(self, label: str, mark: str, position: int) -> None:
        """Add text in brackets; its brackets must be written as `OPENING` and `CLOSING`."""
        shortcut = Shortcut(mark, position)
        self.pending.append(shortcut)
        self._by_label[label].append(shortcut)

    def define(self, label: str, position: int) -> None:
        """Make the references to a label links, if they are not too far from its definition."""
        for shortcut in self._by_label.pop(label, ()):
            if position <= shortcut.deadline:
                shortcut.is_link = True
                self._note_log.add(NoteKind.IMAGE if shortcut.mark == "![" else NoteKind.URL, shortcut.position)

    def release(self, text: str, position: int) -> str:
        """Take output, and the position up to which lines were parsed; return the output that is decided."""
        text = self._held + text
        parts: list[str] = []
        start, at = 0, text.find(OPENING)
        while at >= 0:
            shortcut = self.pending[0]
            if not shortcut.is_link and position <= shortcut.deadline:
                break
            self.pending.popleft()
            end = text.index(CLOSING, at)
            label = text[at + 1 : end]
            parts += text[start:at], label if shortcut.is_link else f"{shortcut.mark}{label}]"
            start = end + 1
            at = text.find(OPENING, start)
        stop = len(text) if at < 0 else at
        parts.append(text[start:stop])
        self._held = text[stop:]
        if not self.pending:
            self._by_label.clear()
        return "".join(parts)
