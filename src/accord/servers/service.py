"""What every transport shares: sessions, settings, authentication, observers, admission of a turn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol
from uuid import NAMESPACE_URL, UUID, uuid5

from accord.config import ServerConfig
from accord.engine import LiveTurn, Sessions, StoredTurn
from accord.errors import ErrorCode, RefusedError
from accord.servers.http.rates import caller_key
from accord.wire.request import ServiceRequest

# What every transport shares: sessions, settings, who is let in, who watches, and whether the service is leaving.

Headers = Mapping[bytes, bytes]
"""A request's headers: lower-case names, one value each; what came several times is joined by commas."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Without an id nobody was asked who they are: the service is open, as on loopback."""

    id: str | None = None


ANONYMOUS: Final = Caller()


class Authenticator(Protocol):
    """Someone who lets callers in."""

    async def authenticate(self, headers: Headers) -> Caller:
        """Who this is; raises `RefusedError` with `UNAUTHENTICATED` for nobody we know."""
        ...

    async def count_request(self, caller: Caller, address: str) -> None:
        """Count one more request of this caller, by address if nobody knows who it is.

        Raises `RefusedError` with `RATE_LIMIT_EXCEEDED`, `retry_after` in its details, when there were too many.
        """
        ...


class Observer(Protocol):
    """Someone who watches: metrics, logs, traces. It never fails the one it watches."""

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """A turn is over and its receipt is stored; `receipt` are its members as plain JSON values."""
        ...

    def request_done(self, method: str, route: str, status: int, seconds: float) -> None:
        """An HTTP request was answered; `route` is the pattern, never the path itself."""
        ...

    def stream_opened(self, transport: str) -> None:
        """A client reads a stream by this transport: `sse` or `websocket`."""
        ...

    def stream_closed(self, transport: str) -> None:
        """It does not any more."""
        ...


class NullObserver:
    """The observer of a service that nobody watches."""

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """Say nothing."""

    def request_done(self, method: str, route: str, status: int, seconds: float) -> None:
        """Say nothing."""

    def stream_opened(self, transport: str) -> None:
        """Say nothing."""

    def stream_closed(self, transport: str) -> None:
        """Say nothing."""


class AllowAll:
    """Lets everybody in, unnamed."""

    async def authenticate(self, headers: Headers) -> Caller:  # noqa: ARG002 - nobody is asked
        """Whoever it is."""
        return ANONYMOUS

    async def count_request(self, caller: Caller, address: str) -> None:
        """As often as they like."""


@dataclass(slots=True)
class Service:
    """One agent, served."""

    sessions: Sessions
    settings: ServerConfig
    authenticator: Authenticator
    observer: Observer
    version: str
    is_draining: bool = False
    running_turns: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The request ids of the turns that run in this process, by who began them."""

    @property
    def agent_id(self) -> UUID:
        """The agent's id, the same in every process: it follows from its name."""
        return uuid5(NAMESPACE_URL, f"accord:agent:{self.sessions.engine.agent.name}")

    def check_is_open(self) -> None:
        """Refuse new work while the service is leaving."""
        if self.is_draining:
            raise RefusedError(SHUTTING_DOWN, ErrorCode.UNAVAILABLE, {"retry_after": RETRY_AFTER_S})


SHUTTING_DOWN: Final = "The service is being stopped and takes no new work"
RETRY_AFTER_S: Final = 5


# Whether a request may begin a turn: who asks, whether the service still takes work, how many turns the caller runs.
#
# One rule for every endpoint that begins turns. Whether the request itself is acceptable is decided by the engine.

TURNS_RETRY_AFTER_S: Final = 1
"""How soon a caller with too many turns may try again; nobody knows when one of them ends."""


async def begin_turn(service: Service, caller: Caller, address: str, request: ServiceRequest) -> LiveTurn | StoredTurn:
    """The turn of this request, begun now unless it was before; raises `RefusedError` if it may not begin."""
    check_identity(caller, request)
    request_id = str(request.request_id)
    if service.sessions.is_running(request_id):
        return await service.sessions.begin(request)
    service.check_is_open()
    turns = service.running_turns.setdefault(caller_key(caller.id, address), set())
    most = service.settings.turns_per_caller
    if len(turns) >= most:
        message = f"{most} turns of yours are running, which is the limit; try again when one of them has ended"
        raise RefusedError(message, ErrorCode.RATE_LIMIT_EXCEEDED, {"retry_after": TURNS_RETRY_AFTER_S, "limit": most})
    turns.add(request_id)
    forget = partial(_forget, service, caller_key(caller.id, address), request_id)
    try:
        turn = await service.sessions.begin(request)
    except BaseException:
        forget()
        raise
    if isinstance(turn, LiveTurn) and not turn.is_over:
        turn.task.add_done_callback(forget)
    else:
        forget()
    return turn


def check_identity(caller: Caller, request: ServiceRequest) -> None:
    """Refuse a request that names another user than the caller."""
    if caller.id is not None and caller.id != request.context.user.id:
        message = "context.user is not who the token belongs to"
        raise RefusedError(message, ErrorCode.FORBIDDEN, {"field": "context.user.id"})


def _forget(service: Service, key: str, request_id: str, _: Any = None) -> None:
    turns = service.running_turns.get(key, set())
    turns.discard(request_id)
    if not turns:
        service.running_turns.pop(key, None)
