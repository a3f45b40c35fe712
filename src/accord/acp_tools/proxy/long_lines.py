"""Read the members at the beginning of a line that is too long to be parsed. Pure."""

import json
import re
from typing import Any, Final

BEGINNING_BYTES: Final = 64 * 1024
CUT: Final = object()
"""The value of a member whose end is not in the beginning of the line."""

_OPENING: Final = re.compile(r"\s*\{\s*")
_COLON: Final = re.compile(r"\s*:\s*")
_COMMA: Final = re.compile(r"\s*,\s*")
_read_value: Final = json.JSONDecoder().raw_decode


def read_beginning(line: bytes) -> dict[str, Any]:
    """The members at the beginning of this JSON object; the last one may be `CUT`. Empty if it is no object."""
    text = line[:BEGINNING_BYTES].decode(errors="replace")
    members: dict[str, Any] = {}
    found = _OPENING.match(text)
    while found is not None:
        try:
            key, place = _read_value(text, found.end())
            colon = _COLON.match(text, place)
            if not isinstance(key, str) or colon is None:
                break
            members[key] = CUT
            value, place = _read_value(text, colon.end())
        except (ValueError, RecursionError):
            break
        # Only a comma shows that a number is whole.
        found = _COMMA.match(text, place)
        if found is not None:
            members[key] = value
    return members
