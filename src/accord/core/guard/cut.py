"""Cuts a stream into blocks of whole lines, and loses no byte of it: what comes out, put together, is what went in.

Unlike `LineSplitter`, which reads messages, this serves who passes them on: line ends, blank lines and garbage stay.
A line beyond the limit comes in parts, so that nobody has to hold it. What a line says is not known here.
"""

from dataclasses import dataclass
from typing import Final

from accord.core.rpc.lines import MAX_LINE_BYTES


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines with their ends; or, if not `whole`, a part of a line that is too long to be held."""

    data: bytes
    whole: bool = True
    begins: bool = True
    ends: bool = True


class BlockCutter:
    """The blocks of one stream. Takes time linear in the bytes, whatever they are."""

    __slots__ = ("_held", "_is_long", "_max_bytes", "_size")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._held: list[bytes] = []
        self._size = 0
        self._is_long = False

    def feed(self, data: bytes) -> list[Block]:
        """What these bytes complete."""
        blocks: list[Block] = []
        if self._is_long:
            end = data.find(b"\n") + 1
            self._is_long = not end
            blocks.append(Block(data[:end] if end else data, whole=False, begins=False, ends=bool(end)))
            data = data[end:] if end else b""
        if cut := data.rfind(b"\n") + 1:
            blocks.append(Block(self._release(data[:cut])))
            data = data[cut:]
        if data:
            self._held.append(data)
            self._size += len(data)
        if self._size > self._max_bytes:
            blocks.append(Block(self._release(b""), whole=False, ends=False))
            self._is_long = True
        return blocks

    def close(self) -> list[Block]:
        """What was begun and never ended: a peer may leave its last line end out."""
        rest = self._release(b"")
        return [Block(rest)] if rest else []

    def _release(self, last: bytes) -> bytes:
        held, self._held, self._size = self._held, [], 0
        return b"".join((*held, last)) if held else last
