"""The text of one stream: unchanged for a client that reads markdown, stripped for one that does not.

Keeps the insertion point and the blank lines around what is inserted. Text is read lazily: it is only appended to
`unread` and examined in bulk, so that a client that shows everything costs next to nothing. What is inserted is not
known here.
"""

from collections.abc import Callable, Iterable
from typing import Final

from accord.core.output.describe import TextFormatter, count_sorted
from accord.core.output.insertion import BlockTracker, InsertionPoint
from accord.core.output.markdown import TextStripper
from accord.core.output.profile import TextForm

MAX_UNREAD: Final = 256  # deltas; joining them at once costs less per delta than joining each
MAX_UNREAD_CHARS: Final = 4096  # a longer delta is joined at once, so that memory stays small
MAX_BACKLOG_CHARS: Final = 32 * 1024  # few answers are longer, and only what is inserted makes examining necessary
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
        "_backlog",
        "_backlog_chars",
        "_formatter",
        "_is_same",
        "_lag",
        "_notes",
        "_read_deltas",
        "_stripper",
        "_strips",
        "_tracker",
        "released",
        "spacing",
        "unread",
    )

    def __init__(self, formatter: TextFormatter) -> None:
        self._formatter: Final = formatter
        self._tracker = BlockTracker()
        self._strips: Final = formatter.form is not TextForm.MARKDOWN
        self._stripper: TextStripper | None = None  # made when text comes: making one costs as much as ten deltas
        self._notes: list[dict[str, int]] = []
        self._read_deltas = 0
        self._backlog: list[str] = []
        self._backlog_chars = 0
        self._is_same = True
        self._lag = ""
        """Text that was fed but not released yet, as long as everything was released unchanged."""
        self.spacing: Final = LineSpacing()
        self.unread: list[str] = []
        """Deltas that were fed but not examined yet."""
        self.released: list[str] = []
        """What the stripper returned for each of them."""

    @property
    def strip(self) -> Callable[[str], str]:
        """The function that strips the next delta, for a caller that adds to `unread` and `released` itself."""
        if self._stripper is None:
            self._stripper = self._formatter.make_stripper()
        return self._stripper.feed

    @property
    def is_unchanged(self) -> bool:
        """Whether the client got the text exactly as it was written, except for blanks at its end."""
        self.catch_up()
        return self._is_same and not self._lag.strip()

    @property
    def deltas(self) -> int:
        """The number of deltas fed so far."""
        return self._read_deltas + len(self.unread)

    @property
    def notes(self) -> dict[str, int]:
        """How often the stripper removed or rewrote something, by kind."""
        if self._stripper is None and not self._notes:
            return {}
        now = [str(note.kind) for note in self._stripper.notes] if self._stripper else []
        before = [kind for notes in self._notes for kind, count in notes.items() for _ in range(count)]
        return count_sorted([*before, *now])

    @property
    def insertion_point(self) -> InsertionPoint:
        """What may be inserted after the text that was sent so far."""
        self.catch_up()
        if not self._strips:
            return self._tracker.insertion_point
        # At a line's end the stripper may keep text back: markup may be open across it. Between two blocks it does so
        # only for a possible reference.
        stripper = self._stripper
        is_between_blocks = self._tracker.insertion_point is InsertionPoint.BLOCK
        keeps_back = stripper is not None and (stripper.in_code or stripper.keeps_back)
        return InsertionPoint.BLOCK if is_between_blocks and not keeps_back else InsertionPoint.NONE

    def catch_up(self) -> None:
        """Examine the text that was not read yet."""
        if self.unread or self._backlog:
            self._tracker.read(self._take_backlog())

    def join_unread(self) -> None:
        """Join the unread deltas, and examine them if there is much text; call it when a limit is reached."""
        text = self._take_unread()
        self._backlog.append(text)
        self._backlog_chars += len(text)
        if self._backlog_chars > MAX_BACKLOG_CHARS:
            self._tracker.read(self._take_backlog())

    def _take_backlog(self) -> str:
        text = "".join(self._backlog) + self._take_unread()
        self._backlog.clear()
        self._backlog_chars = 0
        return text

    def _take_unread(self) -> str:
        self._read_deltas += len(self.unread)
        text = "".join(self.unread)
        self.unread.clear()
        if not self._strips:
            self.spacing.record(text)
        else:
            released = "".join(self.released)
            self.released.clear()
            self._compare(text, released)
            self.spacing.record(released)
        return text

    def feed(self, text: str) -> str:
        """Take one delta; return the text to send."""
        if self.spacing.owed:
            self.catch_up()
            self._read_deltas += 1
            return self._feed_now(text)
        released = self.strip(text) if self._strips else text
        self.unread.append(text)
        if self._strips:
            self.released.append(released)
        if len(self.unread) >= MAX_UNREAD or len(text) > MAX_UNREAD_CHARS:
            self.join_unread()
        return released

    def feed_lines(self, text: str) -> Iterable[str]:
        """Take one delta line by line; `insertion_point` is up to date after each line."""
        self._read_deltas += 1
        *lines, last = text.split("\n")
        for line in [line + "\n" for line in lines] + ([last] if last else []):
            self.catch_up()
            yield self._feed_now(line)

    def close(self, *, closing_code: bool = False) -> str:
        """Return everything that was kept back; the channel can be fed again, as after an error.

        With `closing_code`, a code block that the agent left open is closed, because text is inserted after it.
        """
        tracker = self._tracker
        self._tracker = BlockTracker()
        unread = self._take_backlog()
        if self._strips:
            text = self._stripper.close() if self._stripper else ""
            self._compare("", text)
            self._notes = [self.notes]
            self._stripper = None
            return self.spacing.add_text(text)
        # The unread text is examined only if something is inserted after it.
        if closing_code:
            tracker.read(unread + "\n")
            if tracker.open_fence:
                return self.spacing.add_line(tracker.open_fence)
        return ""

    def _feed_now(self, text: str) -> str:
        """Examine text at once; return the text to send, with its spacing."""
        self._tracker.read(text)
        if not self._strips:
            return self.spacing.add_text(text)
        released = self.strip(text)
        self._compare(text, released)
        return self.spacing.add_text(released)

    def _compare(self, fed: str, released: str) -> None:
        """Record whether the text that was released is the text that was fed."""
        if self._is_same:
            lag = self._lag + fed
            # Blanks do not count: the stripper keeps back any number of them, and when this is called must not matter.
            rest = len(lag.rstrip(" \t")) - len(released)
            self._is_same = lag.startswith(released) and rest <= MAX_UNREAD_CHARS
            self._lag = lag[len(released) :] if self._is_same else ""
