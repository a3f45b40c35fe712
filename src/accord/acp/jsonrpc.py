"""The messages of JSON-RPC 2.0 as models. Ids and parameters are kept exactly as received.

`core/rpc.py` reads lines and decides which message each is. A message without `jsonrpc` is read as 2.0; another version
is refused.
"""

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, StrictInt, StrictStr

from accord.wire.message import FreeValue, Message

RequestId = StrictInt | StrictStr | None
"""The id of a request; a number stays a number, and null is an id in protocol version 1."""


class Frame(Message, frozen=True):
    """One JSON-RPC message; unknown members are kept."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    written_when_null: ClassVar[tuple[str, ...]] = ()

    jsonrpc: Literal["2.0"] = "2.0"

    def to_json(self) -> str:
        """Serialise as JSON text without absent members; a null that JSON-RPC requires is kept."""
        nulls = "".join(f',"{name}":null' for name in self._nulls())
        text = super().to_json()
        return f"{text[:-1]}{nulls}}}" if nulls else text

    def dump(self) -> dict[str, Any]:
        """Convert to plain JSON values; a null that JSON-RPC requires is kept."""
        return super().dump() | dict.fromkeys(self._nulls())

    def _nulls(self) -> list[str]:
        return [name for name in self.written_when_null if getattr(self, name) is None]


class Request(Frame, frozen=True):
    """A call that expects a response."""

    written_when_null = ("id",)

    id: RequestId
    method: str
    params: FreeValue = None


class Notification(Frame, frozen=True):
    """A call that expects no response."""

    method: str
    params: FreeValue = None


class SuccessResponse(Frame, frozen=True):
    """A successful response."""

    written_when_null = ("id", "result")

    id: RequestId
    result: FreeValue


class RpcErrorObject(Message, frozen=True):
    """The error of an error response."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    code: StrictInt
    message: str
    data: FreeValue = None


class ErrorResponse(Frame, frozen=True):
    """An error response; the id is null if it could not be read."""

    written_when_null = ("id",)

    id: RequestId
    error: RpcErrorObject
