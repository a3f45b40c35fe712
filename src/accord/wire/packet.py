"""The packets of a stream (CAP), a union by `op`. Their order is not checked here."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from pydantic import Field, GetCoreSchemaHandler, StrictStr
from pydantic_core import CoreSchema, core_schema

from accord.errors import ErrorSeverity
from accord.wire.event import PresentationEvent
from accord.wire.message import FreeObject, Message, Tagged, WrittenAsText, close_union

_encode: Final = msgspec.json.Encoder().encode


class StreamOpCode(StrEnum):
    """The kind of a packet."""

    DELTA = "delta"
    EVENT = "event"
    ERROR = "error"
    CLOSE = "close"


class StreamError(Message, frozen=True):
    """Why a stream failed. The failure of a sub-task is a `user_error` event instead."""

    code: str = Field(description="An error code of Accord, or one of the agent's own.")
    message: str = Field(description="The error in a sentence.")
    severity: ErrorSeverity = Field(description="Whether a retry can help.")
    details: FreeObject | None = Field(default=None, description="What else is known, by code.")


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
    p: StrictStr = Field(description="The text, to be added to what came before.")

    def to_json(self) -> str:
        """Serialise the packet as JSON text: the same text as of every message, in 0.2 µs instead of 0.45."""
        try:
            return f'{{"op":"delta","p":{_encode(self.p).decode()}}}'
        except UnicodeEncodeError:
            return super().to_json()  # raises the error of every message


class EventPacket(StreamPacket, frozen=True):
    """A structured event. Unknown members are kept."""

    op: Annotated[Literal[StreamOpCode.EVENT], WrittenAsText()] = StreamOpCode.EVENT
    p: Annotated[FreeObject, _OrEvent()] = Field(description="The event; the standard ones are a PresentationEvent.")


class ErrorPacket(StreamPacket, frozen=True):
    """The stream has failed."""

    op: Annotated[Literal[StreamOpCode.ERROR], WrittenAsText()] = StreamOpCode.ERROR
    p: StreamError = Field(description="Why the stream failed.")


class ClosePacket(StreamPacket, frozen=True):
    """The stream has ended."""

    op: Annotated[Literal[StreamOpCode.CLOSE], WrittenAsText()] = StreamOpCode.CLOSE
    p: None = Field(default=None, description="Always absent.")

    def to_json(self) -> str:
        """Serialise the packet as JSON text, which is always the same."""
        return '{"op":"close"}'


make_delta: Final[Callable[[dict[str, str]], DeltaPacket]] = DeltaPacket.__pydantic_validator__.validate_python
"""Makes a packet of `{"p": text}`: the same as `DeltaPacket(p=text)`, in 0.48 µs instead of 0.74."""

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
