"""Cuts a stream of bytes into lines, however it comes; a line that is too long is skipped, never kept.

A carriage return before the line end, blank lines and a byte order mark at the very beginning are nobody's message.
What a line says is not known here.
"""

from dataclasses import dataclass
from typing import Final

MAX_LINE_BYTES: Final = 96 * 1024 * 1024
BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was longer than allowed, and is gone."""

    max_bytes: int


class LineSplitter:
    """The lines of one stream. Takes time linear in the bytes, whatever they are."""

    __slots__ = ("_held", "_is_first", "_is_skipping", "_max_bytes", "_parts")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._parts: list[bytes] = []
        self._held = 0
        self._is_skipping = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that these bytes complete, without their ends."""
        *complete, rest = data.split(b"\n")
        found: list[bytes | TooLong] = []
        for piece in complete:
            line = self._complete(piece)
            if line is not None:
                found.append(line)
        self._hold(rest)
        return found

    def close(self) -> list[bytes | TooLong]:
        """What was begun and never ended, as a line: a peer may leave its last line end out."""
        line = self._complete(b"")
        return [] if line is None else [line]

    def _complete(self, piece: bytes) -> bytes | TooLong | None:
        self._hold(piece)
        parts, was_skipping = self._parts, self._is_skipping
        self._parts, self._held, self._is_skipping = [], 0, False
        if was_skipping:
            return TooLong(self._max_bytes)
        line = parts[0] if len(parts) == 1 else b"".join(parts)
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BOM)
        line = line.removesuffix(b"\r")
        return line if line.strip() else None

    def _hold(self, piece: bytes) -> None:
        if not piece or self._is_skipping:
            return
        self._held += len(piece)
        if self._held > self._max_bytes:
            self._parts, self._is_skipping = [], True
            return
        self._parts.append(piece)
