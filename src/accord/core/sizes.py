"""How large may be what a turn makes: one packet, the answer of one backend, everything in one turn.

Sizes are of JSON in UTF-8, as it is stored and sent. Text that is too long for one packet is sent as several, which
means the same to every client; an event cannot be divided and fails its turn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from accord.core.sse import MAX_EVENT_BYTES
from accord.errors import AgentError, BackendError
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece
from accord.wire.packet import DeltaPacket, StreamPacket

MEBIBYTE: Final = 1024 * 1024
MAX_PACKET_BYTES: Final = MAX_EVENT_BYTES - MEBIBYTE
"""The largest limit of a packet: our own client refuses larger events, and adapting an event may add a little."""

_ENVELOPE_BYTES: Final = len('{"op":"delta","p":}')
_MAX_ESCAPED: Final = 6
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """How many bytes a packet, the answer of a backend and a whole turn may have."""

    packet_bytes: int = 8 * MEBIBYTE
    answer_bytes: int = 32 * MEBIBYTE
    turn_bytes: int = 64 * MEBIBYTE


class TurnSize:
    """How much the agent of one turn has sent so far."""

    def __init__(self, limits: SizeLimits) -> None:
        self._limits: Final = limits
        self._total = 0

    def add(self, packet: StreamPacket) -> None:
        """Count a packet of the agent; raises `AgentError` when it, or the turn, becomes too large."""
        size = _packet_size(packet)
        if size > self._limits.packet_bytes and not isinstance(packet, DeltaPacket):
            raise AgentError(
                f"The agent sent an event of {size} bytes; at most {self._limits.packet_bytes} are allowed "
                "(limits.max_packet_bytes)"
            )
        self._total += size
        if self._total > self._limits.turn_bytes:
            raise AgentError(
                f"The agent sent more than the {self._limits.turn_bytes} bytes that are allowed in one turn "
                "(limits.max_turn_bytes)"
            )


class AnswerSize:
    """How much one backend has sent of one answer."""

    def __init__(self, backend: str, limits: SizeLimits) -> None:
        self._backend: Final = backend
        self._limit: Final = limits.answer_bytes
        self._total = 0

    def add(self, piece: AnyPiece) -> None:
        """Count a piece; raises `BackendError` when the answer becomes too large."""
        self._total += _piece_size(piece)
        if self._total > self._limit:
            raise BackendError(
                f"{self._backend} sent more than the {self._limit} bytes that are allowed in one answer "
                "(limits.max_answer_bytes)",
                retryable=False,
            )


def divided(packets: Sequence[StreamPacket], max_bytes: int) -> Sequence[StreamPacket]:
    """The same packets, each delta that is too large as several."""
    if all(type(packet) is not DeltaPacket or len(packet.p) * _MAX_ESCAPED < max_bytes for packet in packets):
        return packets
    return [part for packet in packets for part in _parts(packet, max_bytes)]


def _parts(packet: StreamPacket, max_bytes: int) -> Iterable[StreamPacket]:
    if not isinstance(packet, DeltaPacket) or _packet_size(packet) <= max_bytes or len(packet.p) < 2:
        yield packet
        return
    middle = len(packet.p) // 2
    for half in (packet.p[:middle], packet.p[middle:]):
        yield from _parts(DeltaPacket(p=half), max_bytes)


def _packet_size(packet: StreamPacket) -> int:
    if type(packet) is DeltaPacket:
        return _ENVELOPE_BYTES + len(_encode(packet.p))
    return len(packet.to_json().encode())


def _piece_size(piece: AnyPiece) -> int:
    match piece:
        case TextPiece() | ThinkingPiece():
            return len(piece.text.encode())
        case ToolCallPiece():
            return len(_encode(piece.input))
        case WorkPiece():
            return len(_encode(piece.shown))
        case EndPiece():
            return len(_encode(piece.logprobs)) if piece.logprobs else 0
