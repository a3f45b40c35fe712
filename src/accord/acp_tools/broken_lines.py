r"""Read lines that the JSON parser refuses for half of a surrogate pair, and the beginning of very long lines. Pure.

JavaScript writes a text that was cut in the middle of an emoji with half of a pair, as in `"\ud83d"`. That is JSON
(RFC 8259, 8.2), and many agents and editors read it, but the parsers that are used here refuse it.
"""

import json
import re
from typing import Any, Final

BEGINNING_BYTES: Final = 64 * 1024
CUT: Final = object()
"""The value of a member whose end is not in the beginning of the line."""

# An escaped backslash and a whole pair are matched to be kept; neither may be mistaken for half of a pair.
_ESCAPE: Final = re.compile(
    rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_OPENING: Final = re.compile(r"\s*\{\s*")
_COLON: Final = re.compile(r"\s*:\s*")
_COMMA: Final = re.compile(r"\s*,\s*")
_read_value: Final = json.JSONDecoder().raw_decode


def replace_half_pairs(line: bytes) -> bytes:
    """The line with the replacement character for each half of a surrogate pair; it keeps its length."""
    return _ESCAPE.sub(lambda found: found[1] or rb"\ufffd", line)


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
