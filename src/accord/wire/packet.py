"""What a stream is made of (CAP), told apart by `op`. In which order packets may come is not decided here."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler, StrictStr
from pydantic_core import CoreSchema, core_schema

from accord.errors import ErrorSeverity
from accord.wire.event import PresentationEvent
from accord.wire.message import FreeObject, Message, Tagged, WrittenAsText, close_union


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
    details: FreeObject | None = None


class _OrEvent:
    """Lets a `PresentationEvent` be given in Python where an object is expected."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        free = handler(source)
        either = core_schema.no_info_before_validator_function(_as_object, free)
        return core_schema.json_or_python_schema(json_schema=free, python_schema=either)


def _as_object(payload: Any) -> Any:
    return payload.dump() if isinstance(payload, PresentationEvent) else payload


class StreamPacket(Tagged, frozen=True):
    """One step of a stream. `StreamPacket(op=…, p=…)` builds the kind that `op` names."""

    op: StreamOpCode
    p: Any

    if TYPE_CHECKING:  # what the call takes, which is more than any one kind's fields say

        def __init__(self, *, op: StreamOpCode | str, p: Any = None) -> None: ...


class DeltaPacket(StreamPacket, frozen=True):
    """A piece of text."""

    op: Annotated[Literal[StreamOpCode.DELTA], WrittenAsText()] = StreamOpCode.DELTA
    p: StrictStr


class EventPacket(StreamPacket, frozen=True):
    """A structured event, kept key by key whatever it looks like (decision 2)."""

    op: Annotated[Literal[StreamOpCode.EVENT], WrittenAsText()] = StreamOpCode.EVENT
    p: Annotated[FreeObject, _OrEvent()]


class ErrorPacket(StreamPacket, frozen=True):
    """The stream is broken."""

    op: Annotated[Literal[StreamOpCode.ERROR], WrittenAsText()] = StreamOpCode.ERROR
    p: StreamError


class ClosePacket(StreamPacket, frozen=True):
    """The stream is over."""

    op: Annotated[Literal[StreamOpCode.CLOSE], WrittenAsText()] = StreamOpCode.CLOSE
    p: None = None


AnyPacket = DeltaPacket | EventPacket | ErrorPacket | ClosePacket
"""For a `match` that the type checker can prove complete."""

close_union(
    StreamPacket,
    "op",
    {
        StreamOpCode.DELTA: DeltaPacket,
        StreamOpCode.EVENT: EventPacket,
        StreamOpCode.ERROR: ErrorPacket,
        StreamOpCode.CLOSE: ClosePacket,
    },
)
