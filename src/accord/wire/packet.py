"""The packets of a stream (CAP), a union by `op`. Their order is not checked here."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler, StrictStr
from pydantic_core import CoreSchema, core_schema

from accord.errors import ErrorSeverity
from accord.wire.event import PresentationEvent
from accord.wire.message import FreeObject, Message, Tagged, WrittenAsText, close_union


class StreamOpCode(StrEnum):
    """The kind of a packet."""

    DELTA = "delta"
    EVENT = "event"
    ERROR = "error"
    CLOSE = "close"


class StreamError(Message, frozen=True):
    """Why a stream failed. The failure of a sub-task is a `user_error` event instead."""

    code: str
    message: str
    severity: ErrorSeverity
    details: FreeObject | None = None


class _OrEvent:
    """Accepts a `PresentationEvent` in Python where an object is expected."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        free = handler(source)
        either = core_schema.no_info_before_validator_function(
            lambda payload: payload.dump() if isinstance(payload, PresentationEvent) else payload, free
        )
        return core_schema.json_or_python_schema(json_schema=free, python_schema=either)


class StreamPacket(Tagged, frozen=True):
    """One packet of a stream. `StreamPacket(op=…, p=…)` builds the kind that `op` names."""

    op: StreamOpCode
    p: Any

    if TYPE_CHECKING:  # the call accepts more than the fields of any one kind

        def __init__(self, *, op: StreamOpCode | str, p: Any = None) -> None: ...


class DeltaPacket(StreamPacket, frozen=True):
    """A piece of text."""

    op: Annotated[Literal[StreamOpCode.DELTA], WrittenAsText()] = StreamOpCode.DELTA
    p: StrictStr


class EventPacket(StreamPacket, frozen=True):
    """A structured event. Unknown members are kept."""

    op: Annotated[Literal[StreamOpCode.EVENT], WrittenAsText()] = StreamOpCode.EVENT
    p: Annotated[FreeObject, _OrEvent()]


class ErrorPacket(StreamPacket, frozen=True):
    """The stream has failed."""

    op: Annotated[Literal[StreamOpCode.ERROR], WrittenAsText()] = StreamOpCode.ERROR
    p: StreamError


class ClosePacket(StreamPacket, frozen=True):
    """The stream has ended."""

    op: Annotated[Literal[StreamOpCode.CLOSE], WrittenAsText()] = StreamOpCode.CLOSE
    p: None = None


AnyPacket = DeltaPacket | EventPacket | ErrorPacket | ClosePacket
"""The union of all kinds, for an exhaustive `match`."""

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
