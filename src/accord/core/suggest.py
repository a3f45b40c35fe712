"""Which known name a misspelled one was probably meant to be, for every "did you mean" in a message."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

CUTOFF: Final = 0.7
"""How alike two names must be, from 0 to 1. Lower ones suggest names that have little to do with what was written."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one, whatever its letter case; None if none does."""
    by_folded = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=CUTOFF)
    return by_folded[found[0]] if found else None


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not known: the closest one that is, or else all of them."""
    names = list(known)
    near = closest(name, names)
    return f'unknown {what} "{name}"; ' + (f"did you mean {near}?" if near else f"known are {', '.join(names)}")
