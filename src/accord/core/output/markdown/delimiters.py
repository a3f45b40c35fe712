"""Emphasis: CommonMark's flanking rules, and the stack of delimiters that may still find a partner.

How delimiters are recognised in the text, and what a line or a block is, is not known here.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from unicodedata import category

from accord.core.output.markdown.lookahead import HOLD_LIMIT

# Deviations from CommonMark's flanking rules, on purpose:
# - *digits-multiply*: a run between two word characters, one of them a digit, does not open (`2*3*4`, `x**2`),
#   and closes only an equal run (`**3**rd`, but not `**5*3**`).
# - *strong-beside-punctuation*: `**Note:**text` closes and `は**「重要」**です` opens, though punctuation is on
#   the wrong side; a single `*` does so only beside scripts that are written without blanks.

FIRST_SCRIPT_WITHOUT_BLANKS: Final = "\u0e00"  # Thai; Lao, Khmer, Japanese and Chinese come after it
OPENING_CATEGORIES: Final = frozenset({"Ps", "Pi"})
QUOTES: Final = "\"'"


class DelimiterRun(NamedTuple):
    """What a run of delimiters may do; the lenient rules apply only if the strict ones find no partner."""

    opens: bool
    closes: bool
    lenient_opens: bool = False
    lenient_closes: bool = False


INERT: Final = DelimiterRun(opens=False, closes=False)

WORD, BLANK, PUNCTUATION = 0, 1, 2


def classify_char(char: str) -> int:
    """Return CommonMark's class of a character: white space, punctuation (with symbols), or neither."""
    if char.isspace():
        return BLANK
    return PUNCTUATION if category(char)[0] in "PS" else WORD


ASCII_CLASSES: Final[Mapping[str, int]] = {chr(code): classify_char(chr(code)) for code in range(128)}


def classify_run(mark: str, width: int, before: str, after: str) -> DelimiterRun:
    """Return what a run of `width` times `mark` between two characters may do; a line's edge counts as a blank."""
    class_before = ASCII_CLASSES[before] if before in ASCII_CLASSES else classify_char(before)
    class_after = ASCII_CLASSES[after] if after in ASCII_CLASSES else classify_char(after)
    punct_before, punct_after = class_before == PUNCTUATION, class_after == PUNCTUATION
    left = class_after == WORD or (punct_after and class_before != WORD)
    right = class_before == WORD or (punct_before and class_after != WORD)
    if mark == "_":
        return DelimiterRun(left and (not right or punct_before), right and (not left or punct_after))
    if class_before == BLANK or class_after == BLANK:
        return DelimiterRun(left, right)
    if class_before == WORD == class_after and (before.isdigit() or after.isdigit()):
        return DelimiterRun(opens=False, closes=False, lenient_closes=True)
    outside_needs_no_blank = width > 1
    lenient_opens = (
        not left
        and (outside_needs_no_blank or before >= FIRST_SCRIPT_WITHOUT_BLANKS)
        and (category(after) in OPENING_CATEGORIES or after in QUOTES)
    )
    lenient_closes = (
        not right
        and punct_before
        and (outside_needs_no_blank or after >= FIRST_SCRIPT_WITHOUT_BLANKS)
        and category(before) not in OPENING_CATEGORIES
    )
    return DelimiterRun(left, right, lenient_opens, lenient_closes)


REMOVED: Final = "\0"
"""Stands in the output for something that was removed; normalised input contains no NUL."""

BLANK_OR_REMOVED: Final = " \t\n" + REMOVED
BRACKETS: Final = ("[", "![")
DROPPED_IN_SPEECH: Final = ("*", "~")


class Opener:
    """A run of delimiters or a bracket that may still find its partner."""

    __slots__ = ("at", "both", "deadline", "in_word", "is_spent", "left", "mark", "piece", "width")

    def __init__(self, mark: str, width: int, left: int, at: int, piece: int, *, both: bool, in_word: bool) -> None:
        self.mark = mark
        self.width = width
        self.left = left  # how many of its delimiters have no partner yet
        self.at = at
        self.piece = piece  # the number of its piece of output
        self.both = both  # whether it may also close
        self.in_word = in_word  # whether it follows a letter or digit: `a*b`, `array[0`
        self.is_spent = False  # a bracket around a link
        self.deadline = at + HOLD_LIMIT


class DelimiterStack:
    """The open delimiters in order, and the output from the first of them on, which cannot be released yet.

    Finds the opener of a closing run (CommonMark's rule, incrementally), and gives up on openers after `HOLD_LIMIT`.
    """

    __slots__ = (
        "_base",
        "_bottoms",
        "_brackets",
        "_drop_unmatched",
        "_dropped",
        "_pieces",
        "_sink",
        "openers",
    )

    def __init__(
        self, sink: Callable[[str], None], dropped: Callable[[str, int], None], *, drop_unmatched: bool
    ) -> None:
        self.openers: list[Opener] = []
        self._pieces: list[str] = []  # the output from the first opener on
        self._base = 0  # the number of the first piece
        self._brackets = 0  # how many openers are brackets
        # Where the last search for an opener of each kind failed: no search goes below it. This keeps the time linear
        # (the "openers bottom" of the CommonMark specification).
        self._bottoms: dict[tuple[str, int, bool], int] = {}
        self._sink = sink
        self._dropped = dropped
        self._drop_unmatched = drop_unmatched

    def write(self, text: str) -> None:
        """Release text, or keep it after the open delimiters."""
        if self.openers:
            self._pieces.append(text)
        else:
            self._sink(text)

    def open(self, mark: str, width: int, left: int, at: int, *, both: bool = False, in_word: bool = False) -> None:
        """Push an opener; its characters are kept as a piece that is emptied if it finds a partner."""
        piece = self._base + len(self._pieces)
        self.openers.append(Opener(mark, width, left, at, piece, both=both, in_word=in_word))
        self._pieces.append(mark if mark in BRACKETS else mark * left)
        self._brackets += mark in BRACKETS

    def close(self, mark: str, width: int, at: int, *, both: bool) -> int:
        """Pair a closing run with open ones; return how many of its delimiters found no partner."""
        left = width
        bottom_key = (mark, width % 3, both)
        while left:
            index = self._find_opener(mark, width, bottom_key, both=both)
            if index < 0:
                self._bottoms[bottom_key] = at
                break
            opener = self.openers[index]
            used = 2 if mark == "~" or (left > 1 and opener.left > 1) else 1
            # Runs inside are text. Brackets stay: emphasis may end inside a link's text, and it is still a link.
            if inner := self.openers[index + 1 :]:
                for run in inner:
                    if run.mark not in BRACKETS:
                        self._reject(run)
                self.openers[index + 1 :] = [bracket for bracket in inner if bracket.mark in BRACKETS]
            opener.left -= used
            left -= used
            self._pieces[opener.piece - self._base] = mark * opener.left
            if not opener.left:
                del self.openers[index]
        self._release()
        return left

    def has_equal_opener(self, mark: str, width: int) -> bool:
        """Whether a run of the same mark and width is open."""
        return any(opener.mark == mark and opener.left == width for opener in self.openers)

    @property
    def open_runs(self) -> list[str]:
        """The runs that have no partner yet."""
        return [opener.mark * opener.left for opener in self.openers if opener.mark not in BRACKETS]

    def write_unmatched(self, mark: str, count: int, at: int) -> None:
        """Write a closing run that has no partner."""
        self.write("" if self._drop(mark, count, at) else mark * count)

    def innermost_bracket(self) -> Opener | None:
        """Return the innermost open bracket."""
        if not self._brackets:
            return None
        return next(opener for opener in reversed(self.openers) if opener.mark in BRACKETS)

    def reject_bracket(self, opener: Opener, text: str = "") -> None:
        """Make a bracket text, itself or the one given; what opened inside it stays open."""
        if text:
            self._pieces[opener.piece - self._base] = text
        self.openers.remove(opener)
        self._brackets -= 1
        self._release()

    def accept_link(self, opener: Opener, tail_length: int) -> None:
        """Remove the bracket of a link or an image; what is still open inside it is text."""
        self._reject_from(self.openers.index(opener) + 1)
        start = opener.piece - self._base
        if "".join(self._pieces[start + 1 :]).strip(BLANK_OR_REMOVED):
            self._pieces[start] = ""
        else:
            self._pieces[start:] = [REMOVED]
        self.openers.pop()
        self._brackets -= 1
        if opener.mark == "[":
            # A link contains no links, so the brackets around it are text.
            for outer in self.openers:
                outer.is_spent = outer.is_spent or outer.mark == "["
        self.extend_deadlines(tail_length)
        self._release()

    def extend_deadlines(self, length: int) -> None:
        """Do not count characters that were removed from the output."""
        for opener in self.openers:
            opener.deadline += length

    def expire(self, at: int) -> None:
        """Make openers text whose deadline has passed."""
        expired = 0
        for opener in self.openers:
            if opener.deadline >= at:
                break
            self._reject(opener)
            expired += 1
        if expired:
            del self.openers[:expired]
            self._release()

    def expire_first(self) -> None:
        """Make the oldest opener text, because a construct after it needs more text than its deadline allows."""
        self._reject(self.openers.pop(0))
        self._release()

    def end(self, dropped: str = "") -> None:
        """Make every opener text, because the block has ended, except for `dropped` marks outside words."""
        for opener in self.openers:
            if opener.mark[0] in dropped and not opener.in_word:
                self._pieces[opener.piece - self._base] = ""
                self._dropped(opener.mark if opener.mark in BRACKETS else opener.mark * opener.left, opener.at)
            else:
                self._reject(opener)
        self.openers.clear()
        self._brackets = 0
        self._release()
        self._bottoms.clear()

    def _find_opener(self, mark: str, width: int, bottom_key: tuple[str, int, bool], *, both: bool) -> int:
        bottom = self._bottoms.get(bottom_key, -1)
        for index in range(len(self.openers) - 1, -1, -1):
            opener = self.openers[index]
            if opener.at < bottom:
                break
            if opener.mark != mark:
                continue
            # CommonMark's rule of three: a run that can both open and close pairs only with certain widths.
            mismatched = (both or opener.both) and (opener.width + width) % 3 == 0 and opener.width % 3 != 0
            if not mismatched:
                return index
        return -1

    def _reject_from(self, index: int) -> None:
        for opener in self.openers[index:]:
            self._reject(opener)
        del self.openers[index:]

    def _reject(self, opener: Opener) -> None:
        if opener.mark in BRACKETS:
            self._brackets -= 1
        elif self._drop(opener.mark, opener.left, opener.at):
            self._pieces[opener.piece - self._base] = ""

    def _drop(self, mark: str, count: int, at: int) -> bool:
        """Whether an unmatched run is left out, which is reported."""
        if not self._drop_unmatched or count < 2 or mark not in DROPPED_IN_SPEECH:
            return False
        self._dropped(mark * count, at)
        return True

    def _release(self) -> None:
        ready = self.openers[0].piece - self._base if self.openers else len(self._pieces)
        if ready:
            text = "".join(self._pieces[:ready])
            del self._pieces[:ready]
            self._base += ready
            if text:
                self._sink(text)
