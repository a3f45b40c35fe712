"""The way to a model's endpoint: one request, one reply that is read piece by piece. Knows no API and no backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from accord.backends.failure import Failure


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """One request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


class UpstreamError(Exception):
    """The way broke: `failure` says how, in a word of the one table; the text holds no address and no key."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure
        self.reason = reason


class UpstreamReply(Protocol):
    """One answer while it arrives."""

    @property
    def status(self) -> int:
        """Its HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, by names in lower case."""
        ...

    async def read(self) -> bytes:
        """What has come, at least a byte; nothing at the end. Raises `UpstreamError` if it breaks off or stalls."""
        ...

    async def close(self) -> None:
        """Let go of it: a connection whose answer was not read to its end is cut at once."""
        ...


class Upstream(Protocol):
    """A pool of connections."""

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The reply, as soon as its head is there; raises `UpstreamError` if it does not come."""
        ...

    async def aclose(self) -> None:
        """Close every connection; there will be no others."""
        ...


@dataclass(frozen=True, slots=True)
class UpstreamTimeouts:
    """How long may be waited, in seconds: for a connection, for the head of a reply, for the next bytes of it."""

    connect_s: float = 10.0
    first_byte_s: float = 60.0
    gap_s: float = 60.0
