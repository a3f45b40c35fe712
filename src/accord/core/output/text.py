"""Carries the text: untouched for a client that reads markdown, through the stripper for one that does not.

Knows where the text stands (may something be put in here?) and keeps the margins between the agent's text and what is
put in. Reading is lazy: text that nobody asks about is only set aside and looked at in bulk, so that a client that
shows everything pays next to nothing. What is put in is not known here.
"""

from collections.abc import Iterable
from typing import Final

from accord.core.output.describe import Pen, counted
from accord.core.output.insertion import BlockTracker, Boundary
from accord.core.output.profile import TextForm

MAX_UNREAD: Final = 256
MAX_UNREAD_CHARS: Final = 4096
BLANK_LINE: Final = 2


class Margin:
    """How many line breaks stand at the end of what went out, and how many the next text still owes."""

    __slots__ = ("_breaks", "_started", "owed")

    def __init__(self) -> None:
        self._started = False
        self._breaks = 0
        self.owed = 0

    def wrote(self, text: str) -> None:
        """This went out as it is."""
        if not text:
            return
        self._started = True
        body = text.rstrip("\n")
        self._breaks = len(text) - len(body) + (0 if body else self._breaks)

    def text(self, text: str) -> str:
        """The agent's text, behind the breaks that are owed."""
        if not text:
            return ""
        if self.owed:
            given = len(text) - len(text.lstrip("\n"))
            missing = max(0, self.owed - given)
            if given == len(text):
                self.owed = missing
            else:
                text, self.owed = "\n" * missing + text, 0
        self.wrote(text)
        return text

    def own_line(self, text: str) -> str:
        """Text on a line of its own."""
        return self.text(text if self._breaks else "\n" + text)

    def block(self, text: str) -> str:
        """A block of our own: a blank line before it, and one owed by whatever follows."""
        lead = "\n" * max(0, BLANK_LINE - self._breaks) if self._started else ""
        self.wrote(lead + text)
        self.owed = BLANK_LINE
        return lead + text


class TextChannel:
    """The text of one stream, for one client."""

    __slots__ = ("_is_same", "_lag", "_notes", "_pen", "_read_deltas", "_stripper", "_tracker", "margin", "unread")

    def __init__(self, pen: Pen) -> None:
        self._pen: Final = pen
        self._tracker = BlockTracker()
        self._stripper = None if pen.form is TextForm.MARKDOWN else pen.stripper()
        self._notes: list[dict[str, int]] = []
        self._read_deltas = 0
        self._is_same = True
        self._lag = ""
        self.margin: Final = Margin()
        self.unread: list[str] = []

    @property
    def is_untouched(self) -> bool:
        """Whether text passes as it is."""
        return self._stripper is None

    @property
    def is_same(self) -> bool:
        """Whether the client got the text exactly as it was written, up to blanks at its end."""
        return self._is_same and not self._lag.strip()

    @property
    def deltas(self) -> int:
        """How many deltas came in."""
        return self._read_deltas + len(self.unread)

    @property
    def notes(self) -> dict[str, int]:
        """What the stripper did besides taking markup off, by kind."""
        if self._stripper is None:
            return {}
        now = [str(note.kind) for note in self._stripper.notes]
        before = [kind for notes in self._notes for kind, count in notes.items() for _ in range(count)]
        return counted([*before, *now])

    @property
    def boundary(self) -> Boundary:
        """What may be put in after what went out so far."""
        self.catch_up()
        if self._stripper is None:
            return self._tracker.boundary
        # Between two blocks nothing is held back. A line's end promises less: markup may still be open across it.
        between = self._tracker.boundary is Boundary.BLOCK and not self._stripper.in_code
        return Boundary.BLOCK if between else Boundary.NONE

    def catch_up(self) -> None:
        """Look at what was set aside."""
        if self.unread:
            self._tracker.read(self._skip_unread())

    def _skip_unread(self) -> str:
        """What was set aside, counted and not looked at."""
        self._read_deltas += len(self.unread)
        text = "".join(self.unread)
        self.unread.clear()
        if self._stripper is None:
            self.margin.wrote(text)
        return text

    def feed(self, text: str) -> str:
        """Take one delta; give what may go out now."""
        if self._stripper is not None:
            self._set_aside(text)
            return self._strip(text)
        if not self.margin.owed:
            self._set_aside(text)
            return text
        self.catch_up()
        self._read_deltas += 1
        self._tracker.read(text)
        return self.margin.text(text)

    def feed_lines(self, text: str) -> Iterable[str]:
        """Take one delta line by line; after each piece the boundary can be asked."""
        self._read_deltas += 1
        for line in _lines(text):
            self.catch_up()
            self._tracker.read(line)
            yield self.margin.text(line) if self._stripper is None else self._strip(line)

    def close(self, *, closing_code: bool = False) -> str:
        """Everything that was held back; the channel can then start again, as after an error.

        Code that the agent left open is closed if more is to be told: it must not be told inside.
        """
        if self._stripper is None:
            return self._close_untouched(closing_code=closing_code)
        self.catch_up()
        self._tracker = BlockTracker()
        text = self._compare("", self._stripper.close())
        self._notes = [self.notes]
        self._stripper = self._pen.stripper()
        return self.margin.text(text)

    def _close_untouched(self, *, closing_code: bool) -> str:
        tracker, self._tracker = self._tracker, BlockTracker()
        # Where the text stands matters only if something of ours follows.
        unread = self._skip_unread()
        if not closing_code:
            return ""
        tracker.read(unread + "\n")
        return self.margin.own_line(tracker.open_fence) if tracker.open_fence else ""

    def _set_aside(self, text: str) -> None:
        self.unread.append(text)
        if len(self.unread) >= MAX_UNREAD or len(text) > MAX_UNREAD_CHARS:
            self.catch_up()

    def _strip(self, text: str) -> str:
        if self._stripper is None:
            return text
        return self.margin.text(self._compare(text, self._stripper.feed(text)))

    def _compare(self, given: str, taken: str) -> str:
        """What was taken; remembers whether it is what was given, which may be a while ago."""
        if self._is_same:
            lag = self._lag + given
            self._is_same = lag.startswith(taken) and len(lag) - len(taken) <= MAX_UNREAD_CHARS
            self._lag = lag[len(taken) :] if self._is_same else ""
        return taken


def _lines(text: str) -> list[str]:
    """The text cut after each line feed, and only there."""
    *lines, last = text.split("\n")
    return [line + "\n" for line in lines] + ([last] if last else [])
