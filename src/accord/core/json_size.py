"""Counts the values of JSON text and how deep they are nested, before anybody builds them.

A parser makes an object of every value: 64 MB of `[]` became 3.4 GB. Long texts (base64 media) cost no more than their
own length, so only what stands outside of texts is counted. It is no parser: what it passes may still be no JSON.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

MAX_VALUES: Final = 200_000
"""How many values one line of a peer process may have; a service has a setting of its own."""

WINDOW_BYTES: Final = 1024 * 1024

# The first value of a container follows its bracket and every other one a comma, so there is one more than of these.
# An empty container counts as two.
_NOT_BEFORE_VALUES: Final = bytes(set(range(256)) - set(b",[{"))
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


@dataclass(frozen=True, slots=True)
class Excess:
    """What there is too much of, and the limit."""

    of: Literal["values", "depth"]
    limit: int


def find_excess(text: bytes, *, max_values: int, max_depth: int | None = None) -> Excess | None:
    """The limit that this JSON text exceeds, if any; linear in its size, and over at once when one is exceeded.

    Counting marks inside texts as well is several times as fast, and all that most messages need.
    """
    enough = max_values - 1 if max_depth is None else min(max_values - 1, max_depth)
    marks = 0
    for window in _windows(text):
        marks += len(window.translate(None, _NOT_BEFORE_VALUES))
        if marks > enough:
            return _count(text, max_values, max_depth)
    return None


def _count(text: bytes, max_values: int, max_depth: int | None) -> Excess | None:
    values, depth = 1, 0
    for outside in _outside_texts(text):
        values += len(outside.translate(None, _NOT_BEFORE_VALUES))
        if max_depth is not None and (steps := outside.translate(_STEPS, _NOT_BRACKETS)):
            depths = [*accumulate(memoryview(steps).cast("b"), initial=depth)]
            depth = depths[-1]
            if max(depths) > max_depth:
                return Excess("depth", max_depth)
        if values > max_values:
            return Excess("values", max_values)
    return None


def _outside_texts(text: bytes) -> Iterator[bytes]:
    """The text window by window, without what stands in quotes."""
    is_inside, held = 0, b""
    for window in _windows(text):
        piece = held + window
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        held = b"\\" * (backslashes % 2)  # what it escapes is in the next window
        piece = piece[: len(piece) - len(held)].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        yield b"".join(parts[is_inside::2])
        is_inside ^= (len(parts) - 1) % 2


def _windows(text: bytes) -> Iterator[bytes]:
    if len(text) <= WINDOW_BYTES:
        yield text
        return
    for start in range(0, len(text), WINDOW_BYTES):
        yield text[start : start + WINDOW_BYTES]
