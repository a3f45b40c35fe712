"""Lines of JSON-RPC that a strict parser refuses: replace halves of surrogate pairs, and find the id of what is left.

JavaScript's strings may hold half of a surrogate pair, and `JSON.stringify` writes it as an escape. That is JSON (RFC
8259, 8.2), but no Unicode text. A client waits for the answer to its own id, so an error without that id leaves it
waiting. Pure.
"""

import json
import re
from typing import Any, Final, NamedTuple, cast

REPLACEMENT_ESCAPE: Final = rb"\ufffd"
REPLACEMENT_BYTES: Final = "\ufffd".encode()
MAX_TOKENS: Final = 100_000
"""How many strings and brackets of a broken line are looked at: about 50 ms."""

_HALF_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_LOW_ESCAPE: Final = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF_BYTES: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")

# Escaped backslashes and quotes are blanked before these match: an engine that had to count backslashes would keep a
# place to return to for each of them, and a string may have megabytes. A string that is cut off is the last token.
_TOKEN: Final = re.compile(rb'"[^"]*+"?|[{}\[\]]')
_COLON: Final = re.compile(rb"\s*:\s*")
_ID: Final = re.compile(rb'("[^"]*+"|-?[0-9]{1,100}+)\s*(?:[,}]|$)')


def has_half_bytes(line: bytes) -> bool:
    """Whether a line has half of a surrogate pair as bytes, which a parser of the envelope does not notice."""
    return not line.isascii() and _HALF_BYTES.search(line) is not None


def replace_half_pairs(line: bytes) -> bytes:
    """Replace each half of a surrogate pair, as an escape or as bytes, by U+FFFD; the very line if there is none."""
    if b"\\ud" not in line and b"\\uD" not in line and b"\xed" not in line:
        return line  # as nearly every line; looking for it takes a tenth of the time
    mended: bytearray | None = None
    after = 0
    # An escaped backslash is blanked: what follows it only looks like an escape.
    for found in _HALF_ESCAPE.finditer(line.replace(rb"\\", b"__")):
        start, end = found.span()
        if start < after:
            continue  # the second half of a pair
        if line[start + 3] in b"89abAB" and (low := _LOW_ESCAPE.match(line, end)):
            after = low.end()
            continue
        mended = bytearray(line) if mended is None else mended
        mended[start:end] = REPLACEMENT_ESCAPE
    for found in _HALF_BYTES.finditer(line):
        mended = bytearray(line) if mended is None else mended
        mended[slice(*found.span())] = REPLACEMENT_BYTES
    return line if mended is None else bytes(mended)


def read_sent_ids(line: bytes) -> list[Any]:
    """The ids of the messages on a line as they were sent, with halves of surrogate pairs; None where there is none."""
    try:
        sent = json.loads(line)
    except (ValueError, RecursionError):
        return []
    messages = cast("list[Any]", sent if isinstance(sent, list) else [sent])
    return [cast("dict[str, Any]", each).get("id") if isinstance(each, dict) else None for each in messages]


class BrokenMessage(NamedTuple):
    """What can be read of a message that is not JSON: the id of a request, or the id that a response answers."""

    id: int | str | None = None
    response_id: int | str | None = None


def read_broken_line(line: bytes, *, is_batch: bool = False) -> list[BrokenMessage]:
    """Find the ids of the messages on a line that cannot be parsed, whether it was cut off or is malformed somewhere.

    There is at least one. In a batch, only requests with an id count.
    """
    depth, members, found = 0, dict[bytes, int | str | None](), list[BrokenMessage]()
    text = line.replace(rb"\\", b"__").replace(rb"\"", b"__")
    for count, token in enumerate(_TOKEN.finditer(text)):
        first = token[0][:1]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
            if is_batch and depth == 1:
                found.append(_describe(members))
                members = {}
        elif depth == 1 + is_batch and (colon := _COLON.match(text, token.end())):
            value = _ID.match(text, colon.end()) if token[0] == b'"id"' else None
            members.setdefault(token[0], None if value is None else _parse_id(line[slice(*value.span(1))]))
        if count >= MAX_TOKENS or (depth < 1 and count):
            break
    found.append(_describe(members))
    return [each for each in found if each.id is not None] or [found[-1]] if is_batch else found


def _describe(members: dict[bytes, int | str | None]) -> BrokenMessage:
    sent_id = members.get(b'"id"')
    if b'"method"' in members:
        return BrokenMessage(id=sent_id)
    return BrokenMessage(response_id=sent_id if b'"result"' in members or b'"error"' in members else None)


def _parse_id(text: bytes) -> int | str | None:
    try:
        return cast("int | str", json.loads(text))
    except ValueError:
        return None
