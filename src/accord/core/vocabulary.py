"""Check names against the known ones: "did you mean", and which capability names are misspelled."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from accord.wire.capability import KNOWN_CAPABILITIES, Capability, snake_case

# Which known name a misspelled one was probably meant to be, for every "did you mean" in a message.

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


# Check capability names against the known ones.
#
# The vocabulary is open (decision 15): an unknown name is negotiated like any other, so it is only warned about. A
# name that is nearly a known one is a typing error and refused: `vison` would otherwise pass for a capability that no
# model has, or be declared where nothing reads it. This is the only place that decides which of the two a name is.

MISSPELLED: Final = 0.82
"""How alike (difflib's ratio) an unknown name must be to a known one to be refused as a typing error."""
SUGGESTED: Final = 0.75
"""How alike it must be for the known name to be suggested."""

PROBED: Final = (
    Capability.STREAMING,
    Capability.SYSTEM_MESSAGE,
    Capability.STOP_SEQUENCES,
    Capability.TOOL_USE,
    Capability.IMAGE_INPUT,
    Capability.PDF_INPUT,
    Capability.JSON_MODE,
    Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    Capability.EXTENDED_THINKING,
)
"""What `accord backends probe` finds out, in the order of its questions."""

_NOT_SNAKE: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A capability name that is not known, and the known one that was probably meant."""

    name: str
    meant: str | None
    is_misspelling: bool

    def __str__(self) -> str:
        """The name is unknown, and what to do about it."""
        cure = f"did you mean {self.meant}?" if self.meant else "`accord capabilities` lists the known ones"
        return f'unknown capability "{self.name}"; {cure}'


def check_name(name: str) -> UnknownName | None:
    """What is wrong with this name; None if it is known."""
    if name in KNOWN_CAPABILITIES:
        return None
    # `ToolUse` and `tool-use` are spelling mistakes of `tool_use`, however unlike they are letter by letter.
    spelled = _NOT_SNAKE.sub("_", snake_case(name.strip())).strip("_")
    near = get_close_matches(spelled, KNOWN_CAPABILITIES, n=1, cutoff=SUGGESTED)
    is_misspelling = bool(get_close_matches(spelled, near, cutoff=MISSPELLED))
    return UnknownName(name, near[0] if near else None, is_misspelling)


def unknown_names(names: Iterable[str]) -> list[UnknownName]:
    """What is wrong with these names, each once."""
    return [unknown for name in dict.fromkeys(names) if (unknown := check_name(name))]


def unknown_name_warnings(names: Iterable[str], declared: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each capability that is neither known nor declared by the backend in question."""
    accepted = frozenset(declared)
    return [str(unknown) for unknown in unknown_names(names) if unknown.name not in accepted]
