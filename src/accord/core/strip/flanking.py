"""May a run of delimiters open, may it close: CommonMark's flanking rules and where we bend them.

Decides for one run from the characters on its two sides. It must not know the stack of open runs.

Bent on purpose:
- *digits-multiply*: a run between two word characters, one of them a digit, does not open (`2*3*4`, `x**2`),
  and closes only a run just like it (`**3**rd`, but not `**5*3**`).
- *strong-beside-punctuation*: `**Note:**text` closes and `は**「重要」**です` opens, though punctuation is on
  the wrong side; a single `*` does so only beside scripts that write no blanks.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from unicodedata import category

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
