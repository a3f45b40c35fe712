"""Size limits: values and depth of JSON text before it is parsed, and the bytes of a packet, an answer and a turn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

import msgspec

from accord.core.sse import MAX_EVENT_BYTES
from accord.errors import AgentError, BackendError
from accord.wire.packet import DeltaPacket, StreamPacket
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkPiece,
)

# Values are counted before JSON text is parsed, since a parser makes an object of every value: 64 MB of `[]` became
# 3.4 GB. Long strings (base64 media) cost no more than their own length, so only what is outside of strings is counted.

MAX_VALUES: Final = 200_000
"""How many values one line of a peer process may have; the HTTP service has a setting of its own."""

WINDOW_BYTES: Final = 1024 * 1024

# The first value of a container follows its bracket and every other one a comma, so there is one more than of these.
# An empty container counts as two.
_NOT_BEFORE_VALUES: Final = bytes(set(range(256)) - set(b",[{"))
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


@dataclass(frozen=True, slots=True)
class Excess:
    """The limit that was exceeded, and its figure."""

    of: Literal["values", "depth"]
    limit: int


def find_excess(text: bytes, *, max_values: int, max_depth: int | None = None) -> Excess | None:
    """Return the limit that this JSON text exceeds, if any. Takes linear time, and stops where a limit is exceeded.

    It is not a parser: text that passes may still not be JSON.
    """
    # Counting marks inside strings as well is several times as fast, and all that most messages need.
    enough = max_values - 1 if max_depth is None else min(max_values - 1, max_depth)
    marks = 0
    for window in _windows(text):
        marks += len(window.translate(None, _NOT_BEFORE_VALUES))
        if marks > enough:
            return _count(text, max_values, max_depth)
    return None


def _count(text: bytes, max_values: int, max_depth: int | None) -> Excess | None:
    values, depth = 1, 0
    for outside in _outside_strings(text):
        values += len(outside.translate(None, _NOT_BEFORE_VALUES))
        if max_depth is not None and (steps := outside.translate(_STEPS, _NOT_BRACKETS)):
            depths = [*accumulate(memoryview(steps).cast("b"), initial=depth)]
            depth = depths[-1]
            if max(depths) > max_depth:
                return Excess("depth", max_depth)
        if values > max_values:
            return Excess("values", max_values)
    return None


def _outside_strings(text: bytes) -> Iterator[bytes]:
    """Yield the text window by window, without its strings."""
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


# Sizes of packets, answers and turns are those of JSON in UTF-8, as it is stored and sent. Text that is too long for
# one packet is sent as several, which is the same to every client; an event cannot be split and fails its turn.

MEBIBYTE: Final = 1024 * 1024
MAX_PACKET_BYTES: Final = MAX_EVENT_BYTES - MEBIBYTE
"""The largest limit of a packet: Accord's client rejects larger events, and adapting an event may add a little."""

# Here and not beside the code that shrinks pictures: the configuration reads it, and every command loads that.
MAX_PIXELS_IN: Final = 8_300_000
"""A picture of 3840 by 2160; decoding takes up to 18 bytes a pixel (WebP with transparency), so 150 MB."""

_ENVELOPE_BYTES: Final = len('{"op":"delta","p":}')
_MAX_ESCAPED: Final = 6
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """How many bytes a packet, the answer of a backend and a whole turn may have."""

    packet_bytes: int = 8 * MEBIBYTE
    answer_bytes: int = 32 * MEBIBYTE
    turn_bytes: int = 64 * MEBIBYTE


class RunSize:
    """Counts what the agent of one turn has sent."""

    def __init__(self, limits: SizeLimits) -> None:
        self._limits: Final = limits
        self._total = 0

    def add(self, packet: StreamPacket) -> None:
        """Count a packet of the agent; raises `AgentError` when it, or the turn, becomes too large."""
        if type(packet) is DeltaPacket:
            self._total += _ENVELOPE_BYTES + len(_encode(packet.p))
        else:
            self._total += (size := len(packet.to_json().encode()))
            if size > self._limits.packet_bytes:
                raise AgentError(
                    f"The agent sent an event of {size} bytes; at most {self._limits.packet_bytes} are allowed "
                    "(limits.max_packet_bytes)"
                )
        if self._total > self._limits.turn_bytes:
            raise AgentError(
                f"The agent sent more than the {self._limits.turn_bytes} bytes that are allowed in one turn "
                "(limits.max_turn_bytes)"
            )


class AnswerSize:
    """Counts what one backend has sent of one answer."""

    def __init__(self, backend: str, limits: SizeLimits) -> None:
        self._backend: Final = backend
        self._limit: Final = limits.answer_bytes
        self._total = 0

    def add(self, piece: AnyPiece) -> None:
        """Count a piece; raises `BackendError` when the answer becomes too large."""
        self._total += len(piece.text.encode()) if type(piece) is TextPiece else _piece_size(piece)
        if self._total > self._limit:
            raise BackendError(
                f"{self._backend} sent more than the {self._limit} bytes that are allowed in one answer "
                "(limits.max_answer_bytes)",
                retryable=False,
            )


def split_deltas(packets: Sequence[StreamPacket], max_bytes: int) -> Sequence[StreamPacket]:
    """Split each delta that is too large into several."""
    for packet in packets:
        if type(packet) is DeltaPacket and len(packet.p) * _MAX_ESCAPED >= max_bytes:
            break
    else:
        return packets
    return [part for packet in packets for part in _parts(packet, max_bytes)]


def _parts(packet: StreamPacket, max_bytes: int) -> Iterable[StreamPacket]:
    if isinstance(packet, DeltaPacket) and len(packet.p) > 1 and _ENVELOPE_BYTES + len(_encode(packet.p)) > max_bytes:
        middle = len(packet.p) // 2
        for half in (packet.p[:middle], packet.p[middle:]):
            yield from _parts(DeltaPacket(p=half), max_bytes)
    else:
        yield packet


def _piece_size(piece: AnyPiece) -> int:
    match piece:
        case TextPiece() | ThinkingPiece():
            return len(piece.text.encode())
        case ToolCallPiece():
            return len(_encode(piece.input))
        case MediaPiece():
            return len(piece.data or "")
        case CitationPiece():
            return len(_encode(piece.source))
        case ToolCallDelta():  # the complete call counts
            return 0
        case WorkPiece():
            return len(_encode(piece.event))
        case EndPiece():
            return len(_encode(piece.logprobs)) if piece.logprobs else 0
