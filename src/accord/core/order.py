"""Keeps packets in order: nothing after the close, an error ends a stream, exactly one close.

The table is the rule. Whoever produces packets runs them through a `PacketOrder`; what the table does not allow is told
as a value, and the one who pumps decides what to do about it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from accord.wire.packet import StreamOpCode


class Stage(StrEnum):
    """How far a stream has come."""

    OPEN = "open"
    FAILED = "failed"
    CLOSED = "closed"


NEXT: Final[Mapping[tuple[Stage, StreamOpCode], Stage]] = MappingProxyType(
    {
        (Stage.OPEN, StreamOpCode.DELTA): Stage.OPEN,
        (Stage.OPEN, StreamOpCode.EVENT): Stage.OPEN,
        (Stage.OPEN, StreamOpCode.ERROR): Stage.FAILED,
        (Stage.OPEN, StreamOpCode.CLOSE): Stage.CLOSED,
        (Stage.FAILED, StreamOpCode.CLOSE): Stage.CLOSED,
    }
)
"""What may follow; everything else is out of order."""


class PacketOrder:
    """Where one stream stands."""

    __slots__ = ("stage",)

    def __init__(self) -> None:
        self.stage = Stage.OPEN

    def take(self, op: StreamOpCode) -> str | None:
        """Why a packet of this kind may not come now; None if it may, and then it has."""
        after = NEXT.get((self.stage, op))
        if after is None:
            return f"{op} after the stream has {'closed' if self.stage is Stage.CLOSED else 'failed'}"
        self.stage = after
        return None
