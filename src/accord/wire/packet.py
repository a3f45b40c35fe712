"""What a stream is made of (CAP), told apart by `op`. In which order packets may come is not decided here."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from accord.errors import ErrorSeverity
from accord.wire.event import PresentationEvent
from accord.wire.message import Message, Tagged, seal


class StreamOpCode(StrEnum):
    """What a packet does."""

    DELTA = "delta"
    EVENT = "event"
    ERROR = "error"
    CLOSE = "close"


class StreamError(Message, frozen=True):
    """Why a stream broke (decision 9: the protocol failed, not a sub-task)."""

    code: str
    message: str
    severity: ErrorSeverity
    details: dict[str, Any] | None = None


class _OrEvent:
    """An object of any shape; in Python, a `PresentationEvent` may be given in its place."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        free = handler(source)
        event = core_schema.no_info_after_validator_function(
            PresentationEvent.dump, core_schema.is_instance_schema(PresentationEvent)
        )
        either = core_schema.union_schema([free, event], mode="left_to_right")
        return core_schema.json_or_python_schema(json_schema=free, python_schema=either)


class StreamPacket(Tagged, frozen=True):
    """One step of a stream. `StreamPacket(op=…, p=…)` builds the kind that `op` names."""

    op: StreamOpCode
    p: Any = None


class DeltaPacket(StreamPacket, frozen=True):
    """A piece of text."""

    op: Literal[StreamOpCode.DELTA] = StreamOpCode.DELTA
    p: str


class EventPacket(StreamPacket, frozen=True):
    """A structured event, kept key by key whatever it looks like (decision 2)."""

    op: Literal[StreamOpCode.EVENT] = StreamOpCode.EVENT
    p: Annotated[dict[str, Any], _OrEvent()]


class ErrorPacket(StreamPacket, frozen=True):
    """The stream is broken."""

    op: Literal[StreamOpCode.ERROR] = StreamOpCode.ERROR
    p: StreamError


class ClosePacket(StreamPacket, frozen=True):
    """The stream is over."""

    op: Literal[StreamOpCode.CLOSE] = StreamOpCode.CLOSE
    p: None = None


AnyPacket = DeltaPacket | EventPacket | ErrorPacket | ClosePacket
"""For a `match` that the type checker can prove complete."""

seal(
    StreamPacket,
    "op",
    {
        StreamOpCode.DELTA: DeltaPacket,
        StreamOpCode.EVENT: EventPacket,
        StreamOpCode.ERROR: ErrorPacket,
        StreamOpCode.CLOSE: ClosePacket,
    },
)
