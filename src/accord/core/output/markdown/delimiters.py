"""Emphasis: CommonMark's flanking rules, and the delimiter stack of text that cannot be released yet."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from unicodedata import category

from accord.core.output.markdown.lookahead import HOLD_LIMIT

# May a run of delimiters open, may it close: CommonMark's flanking rules and where we bend them.
#
# Decides for one run from the characters on its two sides. It must not know the stack of open runs.
#
# Bent on purpose:
# - *digits-multiply*: a run between two word characters, one of them a digit, does not open (`2*3*4`, `x**2`),
#   and closes only a run just like it (`**3**rd`, but not `**5*3**`).
# - *strong-beside-punctuation*: `**Note:**text` closes and `は**「重要」**です` opens, though punctuation is on
#   the wrong side; a single `*` does so only beside scripts that write no blanks.

FIRST_SCRIPT_WITHOUT_BLANKS: Final = "\u0e00"
OPENING_CATEGORIES: Final = frozenset({"Ps", "Pi"})
QUOTES: Final = "\"'"


class Run(NamedTuple):
    """What a run of delimiters may do; `bent` ways hold only if the strict ones lead nowhere."""

    opens: bool
    closes: bool
    bent_opens: bool = False
    bent_closes: bool = False


INERT: Final = Run(opens=False, closes=False)


WORD, BLANK, PUNCTUATION = 0, 1, 2


def classify(char: str) -> int:
    """White space, punctuation (symbols included) or neither, as CommonMark counts them."""
    if char.isspace():
        return BLANK
    return PUNCTUATION if category(char)[0] in "PS" else WORD


ASCII_CLASSES: Final[Mapping[str, int]] = {chr(code): classify(chr(code)) for code in range(128)}


def flank(mark: str, width: int, before: str, after: str) -> Run:
    """What a run of `width` times `mark` between two characters may do; a line's edge counts as a blank."""
    class_before = ASCII_CLASSES[before] if before in ASCII_CLASSES else classify(before)
    class_after = ASCII_CLASSES[after] if after in ASCII_CLASSES else classify(after)
    punct_before, punct_after = class_before == PUNCTUATION, class_after == PUNCTUATION
    left = class_after == WORD or (punct_after and class_before != WORD)
    right = class_before == WORD or (punct_before and class_after != WORD)
    if mark == "_":
        return Run(left and (not right or punct_before), right and (not left or punct_after))
    if class_before == BLANK or class_after == BLANK:
        return Run(left, right)
    if class_before == WORD == class_after and (before.isdigit() or after.isdigit()):
        return Run(opens=False, closes=False, bent_closes=True)
    outside_needs_no_blank = width > 1
    bent_opens = (
        not left
        and (outside_needs_no_blank or before >= FIRST_SCRIPT_WITHOUT_BLANKS)
        and (category(after) in OPENING_CATEGORIES or after in QUOTES)
    )
    bent_closes = (
        not right
        and punct_before
        and (outside_needs_no_blank or after >= FIRST_SCRIPT_WITHOUT_BLANKS)
        and category(before) not in OPENING_CATEGORIES
    )
    return Run(left, right, bent_opens, bent_closes)


# The delimiter stack: text that cannot be released yet, because what opened before it is still undecided.
#
# Decides which opener a closer belongs to (CommonMark's rule, incrementally) and when an opener has waited long
# enough. It must not know how delimiters are recognised, nor what a line or a block is.

BRACKETS: Final = ("[", "![")
DROPPED_ALOUD: Final = ("*", "~")


class Opener:
    """A run of delimiters or a bracket that may still find its partner."""

    __slots__ = ("at", "both", "deadline", "is_spent", "left", "mark", "piece", "width")

    def __init__(self, mark: str, width: int, left: int, at: int, piece: int, *, both: bool) -> None:
        self.mark = mark
        self.width = width
        self.left = left
        self.at = at
        self.piece = piece
        self.both = both
        self.is_spent = False
        self.deadline = at + HOLD_LIMIT


class Hold:
    """Openers in order, and the pieces of output from the first of them on."""

    __slots__ = (
        "_base",
        "_bottoms",
        "_brackets",
        "_drop_unmatched",
        "_dropped",
        "_pieces",
        "_write",
        "openers",
    )

    def __init__(
        self, write: Callable[[str], None], dropped: Callable[[str, int], None], *, drop_unmatched: bool
    ) -> None:
        self.openers: list[Opener] = []
        self._pieces: list[str] = []
        self._base = 0
        self._brackets = 0
        self._bottoms: dict[tuple[str, int, bool], int] = {}
        self._write = write
        self._dropped = dropped
        self._drop_unmatched = drop_unmatched

    def say(self, text: str) -> None:
        """Put text out, or behind what is being held."""
        if self.openers:
            self._pieces.append(text)
        else:
            self._write(text)

    def open(self, mark: str, width: int, left: int, at: int, *, both: bool = False) -> None:
        """Something opens here; its own characters wait as a piece that may become empty."""
        self.openers.append(Opener(mark, width, left, at, self._base + len(self._pieces), both=both))
        self._pieces.append(mark if mark in BRACKETS else mark * left)
        self._brackets += mark in BRACKETS

    def close(self, mark: str, width: int, at: int, *, both: bool) -> int:
        """Pair a closing run with what is open; the number of its delimiters that found no partner."""
        left = width
        bottom_key = (mark, width % 3, both)
        while left:
            index = self._partner(mark, width, bottom_key, both=both)
            if index < 0:
                self._bottoms[bottom_key] = at
                break
            opener = self.openers[index]
            used = 2 if mark == "~" or (left > 1 and opener.left > 1) else 1
            self._settle_runs_from(index + 1)
            opener.left -= used
            left -= used
            self._pieces[opener.piece - self._base] = mark * opener.left
            if not opener.left:
                del self.openers[index]
        self._release()
        return left

    def opens_alike(self, mark: str, width: int) -> bool:
        """A run of just this kind and width is open."""
        return any(opener.mark == mark and opener.left == width for opener in self.openers)

    def stray(self, mark: str, count: int, at: int) -> None:
        """A closing run without a partner."""
        self.say("" if self._falls_silent(mark, count, at) else mark * count)

    def bracket(self) -> Opener | None:
        """The innermost bracket that is still open."""
        if not self._brackets:
            return None
        return next(opener for opener in reversed(self.openers) if opener.mark in BRACKETS)

    def refuse(self, opener: Opener) -> None:
        """A bracket turned out to be only a bracket; what opened inside it stays open."""
        self.openers.remove(opener)
        self._brackets -= 1
        self._release()

    def link(self, opener: Opener, tail_length: int) -> None:
        """A bracket turned out to be a link or an image: its characters vanish, what it left open is text."""
        self._settle_from(self.openers.index(opener) + 1)
        self._pieces[opener.piece - self._base] = ""
        self.openers.pop()
        self._brackets -= 1
        if opener.mark == "[":
            self._refuse_outer_links()
        self.postpone(tail_length)
        self._release()

    def postpone(self, length: int) -> None:
        """Characters that are swallowed are not held, so nobody's time runs out over them."""
        for opener in self.openers:
            opener.deadline += length

    def expire(self, at: int) -> None:
        """Decide what has been open for longer than the limit: it is text."""
        expired = 0
        for opener in self.openers:
            if opener.deadline >= at:
                break
            self._settle(opener)
            expired += 1
        if expired:
            del self.openers[:expired]
            self._release()

    def expire_first(self) -> None:
        """Decide the oldest opener: something behind it needs a longer look than it may wait."""
        self._settle(self.openers.pop(0))
        self._release()

    def end(self) -> None:
        """The block is over: whatever is open is text."""
        self._settle_from(0)
        self._release()
        self._bottoms.clear()

    def _partner(self, mark: str, width: int, bottom_key: tuple[str, int, bool], *, both: bool) -> int:
        bottom = self._bottoms.get(bottom_key, -1)
        for index in range(len(self.openers) - 1, -1, -1):
            opener = self.openers[index]
            if opener.at < bottom:
                break
            if opener.mark != mark:
                continue
            mismatched = (both or opener.both) and (opener.width + width) % 3 == 0 and opener.width % 3 != 0
            if not mismatched:
                return index
        return -1

    def _settle_runs_from(self, index: int) -> None:
        # Brackets stay: emphasis may reach into a link's text, and the link is still one.
        inner = self.openers[index:]
        if not inner:
            return
        for opener in inner:
            if opener.mark not in BRACKETS:
                self._settle(opener)
        self.openers[index:] = [opener for opener in inner if opener.mark in BRACKETS]

    def _settle_from(self, index: int) -> None:
        for opener in self.openers[index:]:
            self._settle(opener)
        del self.openers[index:]

    def _settle(self, opener: Opener) -> None:
        if opener.mark in BRACKETS:
            self._brackets -= 1
        elif self._falls_silent(opener.mark, opener.left, opener.at):
            self._pieces[opener.piece - self._base] = ""

    def _falls_silent(self, mark: str, count: int, at: int) -> bool:
        if not self._drop_unmatched or count < 2 or mark not in DROPPED_ALOUD:
            return False
        self._dropped(mark * count, at)
        return True

    def _refuse_outer_links(self) -> None:
        # A link holds no links, so the brackets around one are only brackets.
        for opener in self.openers:
            opener.is_spent = opener.is_spent or opener.mark == "["

    def _release(self) -> None:
        ready = self.openers[0].piece - self._base if self.openers else len(self._pieces)
        if ready:
            text = "".join(self._pieces[:ready])
            del self._pieces[:ready]
            self._base += ready
            if text:
                self._write(text)
