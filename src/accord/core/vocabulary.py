"""Check names against the known ones: "did you mean", and which capability names are misspelled."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from accord.wire.capability import KNOWN_CAPABILITIES, Capability, snake_case

CUTOFF: Final = 0.7
"""How similar a suggested name must be, from 0 to 1. Lower figures suggest unrelated names."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to this one in any letter case; None if none is."""
    by_folded = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=CUTOFF)
    return by_folded[found[0]] if found else None


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence for an unknown name: it suggests the closest known one, or else lists all."""
    names = list(known)
    near = closest(name, names)
    return f'unknown {what} "{name}"; ' + (f"did you mean {near}?" if near else f"known are {', '.join(names)}")


# The vocabulary of capabilities is open: an unknown name is negotiated like any other and only gives a
# warning. A name that is nearly a known one is a misspelling and is refused: `vison` would otherwise be taken for a
# capability that no model has, or be declared where nothing reads it. Only this module decides which of the two it is.

MISSPELLED: Final = 0.82
"""How similar (difflib's ratio) an unknown name must be to a known one to be refused as a misspelling."""
SUGGESTED: Final = 0.75
"""How similar it must be for the known name to be suggested."""

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
"""The capabilities that `accord backends probe` tests, in its order."""

_NOT_SNAKE: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class UnknownName:
    """An unknown capability name, and the known one that was probably meant."""

    name: str
    meant: str | None
    is_misspelling: bool

    def __str__(self) -> str:
        """The message: which name is unknown, and what to do."""
        remedy = f"did you mean {self.meant}?" if self.meant else "`accord capabilities` lists the known ones"
        return f'unknown capability "{self.name}"; {remedy}'


def check_name(name: str) -> UnknownName | None:
    """Check a capability name; None if it is known."""
    if snake_case(name) in KNOWN_CAPABILITIES:
        return None
    # `tool-use` is a misspelling of `tool_use`, however different the two are letter by letter.
    spelled = _NOT_SNAKE.sub("_", snake_case(name.strip())).strip("_")
    near = get_close_matches(spelled, KNOWN_CAPABILITIES, n=1, cutoff=SUGGESTED)
    is_misspelling = bool(get_close_matches(spelled, near, cutoff=MISSPELLED))
    return UnknownName(name, near[0] if near else None, is_misspelling)


def unknown_names(names: Iterable[str]) -> list[UnknownName]:
    """Return the unknown ones of these names, each once."""
    return [unknown for name in dict.fromkeys(names) if (unknown := check_name(name))]


def unknown_name_warnings(names: Iterable[str], declared: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each capability that is neither known nor declared by the backend in question."""
    accepted = frozenset(declared)
    return [str(unknown) for unknown in unknown_names(names) if snake_case(unknown.name) not in accepted]
