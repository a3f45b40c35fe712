"""The interface of an HTTP client for model endpoints: one request, one reply that is read as it arrives."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol

from accord.apis.failure import Failure

CALLER: Final[ContextVar[str]] = ContextVar("accord_caller", default="")
"""For whom requests are sent: connections are not passed from one caller to another at once."""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """One HTTP request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


class UpstreamError(Exception):
    """The request or its reply failed. The text holds no address and no key."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure
        self.reason = reason


class UpstreamReply(Protocol):
    """One reply while its body arrives."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by names in lower case."""
        ...

    async def read(self) -> bytes:
        """Return what has arrived, at least one byte; nothing at the end. Raises `UpstreamError` if it breaks off."""
        ...

    async def close(self) -> None:
        """Release the reply; a connection whose reply was not read to its end is closed at once."""
        ...


class Upstream(Protocol):
    """A pool of connections to one endpoint."""

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Return the reply as soon as its headers have arrived; raise `UpstreamError` if they do not."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


@dataclass(frozen=True, slots=True)
class UpstreamTimeouts:
    """Timeouts in seconds: for a connection, for the headers of a reply, and between two reads of its body."""

    connect_s: float = 10.0
    first_byte_s: float = 60.0
    gap_s: float = 60.0
