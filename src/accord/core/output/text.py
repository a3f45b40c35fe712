"""The text of one stream: unchanged for a client that reads markdown, stripped for one that does not.

Keeps the insertion point and the blank lines around what is inserted. Text is read lazily: it is only appended to
`unread` and examined in bulk, so that a client that shows everything costs next to nothing. What is inserted is not
known here.
"""

from collections.abc import Iterable
from typing import Final

from accord.core.output.describe import TextFormatter, count_sorted
from accord.core.output.insertion import BlockTracker, InsertionPoint
from accord.core.output.profile import TextForm

MAX_UNREAD: Final = 256  # deltas; reading them at once costs less per delta than reading each
MAX_UNREAD_CHARS: Final = 4096  # a longer delta is read at once, so that memory stays small
BLANK_LINE: Final = 2  # line breaks


class LineSpacing:
    """Puts blank lines between the agent's text and inserted blocks, without doubling those that are there."""

    __slots__ = ("_breaks", "_started", "owed")

    def __init__(self) -> None:
        self._started = False
        self._breaks = 0
        """The line breaks at the end of what was sent."""
        self.owed = 0
        """The line breaks that must come before the next text."""

    def record(self, text: str) -> None:
        """Record text that is sent as it is."""
        if not text:
            return
        self._started = True
        body = text.rstrip("\n")
        self._breaks = len(text) - len(body) + (0 if body else self._breaks)

    def add_text(self, text: str) -> str:
        """Return the agent's text, with the line breaks that are owed before it."""
        if not text:
            return ""
        if self.owed:
            given = len(text) - len(text.lstrip("\n"))
            missing = max(0, self.owed - given)
            if given == len(text):
                self.owed = missing
            else:
                text, self.owed = "\n" * missing + text, 0
        self.record(text)
        return text

    def add_line(self, text: str) -> str:
        """Return text, on a line of its own."""
        return self.add_text(text if self._breaks else "\n" + text)

    def add_block(self, text: str) -> str:
        """Return an inserted block with a blank line before it; one is owed after it."""
        breaks = "\n" * max(0, BLANK_LINE - self._breaks) if self._started else ""
        self.record(breaks + text)
        self.owed = BLANK_LINE
        return breaks + text


class TextChannel:
    """The text of one stream, for one client."""

    __slots__ = (
        "_formatter",
        "_is_same",
        "_lag",
        "_notes",
        "_read_deltas",
        "_stripper",
        "_tracker",
        "spacing",
        "unread",
    )

    def __init__(self, formatter: TextFormatter) -> None:
        self._formatter: Final = formatter
        self._tracker = BlockTracker()
        self._stripper = None if formatter.form is TextForm.MARKDOWN else formatter.make_stripper()
        self._notes: list[dict[str, int]] = []
        self._read_deltas = 0
        self._is_same = True
        self._lag = ""
        """Text that was fed but not released yet, as long as everything was released unchanged."""
        self.spacing: Final = LineSpacing()
        self.unread: list[str] = []

    @property
    def is_unchanged(self) -> bool:
        """Whether the client got the text exactly as it was written, except for blanks at its end."""
        return self._is_same and not self._lag.strip()

    @property
    def deltas(self) -> int:
        """The number of deltas fed so far."""
        return self._read_deltas + len(self.unread)

    @property
    def notes(self) -> dict[str, int]:
        """How often the stripper removed or rewrote something, by kind."""
        if self._stripper is None:
            return {}
        now = [str(note.kind) for note in self._stripper.notes]
        before = [kind for notes in self._notes for kind, count in notes.items() for _ in range(count)]
        return count_sorted([*before, *now])

    @property
    def insertion_point(self) -> InsertionPoint:
        """What may be inserted after the text that was sent so far."""
        self.catch_up()
        if self._stripper is None:
            return self._tracker.insertion_point
        # At a line's end the stripper may keep text back: markup may be open across it. Between two blocks it does so
        # only for a possible reference.
        stripper = self._stripper
        is_between_blocks = self._tracker.insertion_point is InsertionPoint.BLOCK and not stripper.in_code
        return InsertionPoint.BLOCK if is_between_blocks and not stripper.keeps_back else InsertionPoint.NONE

    def catch_up(self) -> None:
        """Examine the text that was not read yet."""
        if self.unread:
            self._tracker.read(self._take_unread())

    def _take_unread(self) -> str:
        self._read_deltas += len(self.unread)
        text = "".join(self.unread)
        self.unread.clear()
        if self._stripper is None:
            self.spacing.record(text)
        return text

    def feed(self, text: str) -> str:
        """Take one delta; return the text to send."""
        if self._stripper is None and self.spacing.owed:
            self.catch_up()
            self._read_deltas += 1
            self._tracker.read(text)
            return self.spacing.add_text(text)
        self.unread.append(text)
        if len(self.unread) >= MAX_UNREAD or len(text) > MAX_UNREAD_CHARS:
            self.catch_up()
        return text if self._stripper is None else self._release(text, self._stripper.feed(text))

    def feed_lines(self, text: str) -> Iterable[str]:
        """Take one delta line by line; `insertion_point` is up to date after each line."""
        self._read_deltas += 1
        *lines, last = text.split("\n")
        for line in [line + "\n" for line in lines] + ([last] if last else []):
            self.catch_up()
            self._tracker.read(line)
            if self._stripper is None:
                yield self.spacing.add_text(line)
            else:
                yield self._release(line, self._stripper.feed(line))

    def close(self, *, closing_code: bool = False) -> str:
        """Return everything that was kept back; the channel can be fed again, as after an error.

        With `closing_code`, a code block that the agent left open is closed, because text is inserted after it.
        """
        tracker = self._tracker
        if self._stripper is not None:
            self.catch_up()
            self._tracker = BlockTracker()
            text = self._release("", self._stripper.close())
            self._notes = [self.notes]
            self._stripper = self._formatter.make_stripper()
            return text
        self._tracker = BlockTracker()
        unread = self._take_unread()
        # The unread text is examined only if something is inserted after it.
        if closing_code:
            tracker.read(unread + "\n")
            if tracker.open_fence:
                return self.spacing.add_line(tracker.open_fence)
        return ""

    def _release(self, fed: str, released: str) -> str:
        """Return the stripped text with its spacing; record whether it is the text that was fed."""
        if self._is_same:
            lag = self._lag + fed
            self._is_same = lag.startswith(released) and len(lag) - len(released) <= MAX_UNREAD_CHARS
            self._lag = lag[len(released) :] if self._is_same else ""
        return self.spacing.add_text(released)
