"""What every transport shares: sessions, settings, authentication, observers, and admission of a turn."""

import gc
from collections.abc import Callable, Container, Generator, Hashable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, Protocol
from uuid import UUID, uuid4

from msgspec.structs import replace

from accord.apis.account_references import find_account_reference
from accord.config import ServerConfig
from accord.core.receipt import VerifySignature
from accord.errors import ErrorCode, RefusedError
from accord.ports import Store
from accord.run import Run, SentContent, Sessions, StoredRun
from accord.run.budgets import Budgets
from accord.run.call_log import CallLog
from accord.run.model_calls import ModelCallsRef
from accord.wire.keys import NO_RULES, Payer
from accord.wire.request import ServiceRequest
from accord.wire.session import TokenRecord

RETRY_AFTER_S: Final = 5
TURNS_RETRY_AFTER_S: Final = 1
"""Retry-After for a caller with too many turns. When one of them ends cannot be known."""
NO_BACKEND_LEFT: Final = "None of the backends here is a model that this key may use; it allows {}"
ACCOUNT_REFERENCE: Final = (
    "it names something in the provider's account, which all keys share, and this key may not; send the content "
    "itself, or ask the operator to allow it (`accord keys set ID --account-references`)"
)
GC_THRESHOLD: Final = 50_000
"""How many new objects may accumulate before Python searches them for reference cycles."""
SHUTTING_DOWN: Final = "The service is stopping and accepts no new requests; try again later"

Headers = Mapping[bytes, bytes]
"""A request's headers: lower-case names, one value each; values of a repeated header are joined by commas."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request. `id` is None if the service does not authenticate; `key` is the token that it sent."""

    id: str | None = None
    key: TokenRecord | None = None


ANONYMOUS: Final = Caller()


class Authenticator(Protocol):
    """Identifies callers and limits how often they send requests."""

    async def authenticate(self, headers: Headers) -> Caller:
        """Identify the caller; raises `RefusedError` with `UNAUTHENTICATED` if that fails."""
        ...

    async def count_request(self, caller: Caller, address: str) -> None:
        """Count a request of this caller, or of this address if the caller is anonymous.

        Raises `RefusedError` with `RATE_LIMIT_EXCEEDED`, and `retry_after` in its details, above the rate limit.
        """
        ...

    async def count_key_request(self, caller: Caller) -> None:
        """Count a request by the rates of the caller's key alone; raises as `count_request` does."""
        ...


class AllowAll:
    """Accept every request without authentication or rate limit."""

    async def authenticate(self, headers: Headers) -> Caller:  # noqa: ARG002
        """Return the anonymous caller."""
        return ANONYMOUS

    async def count_request(self, caller: Caller, address: str) -> None:
        """Count nothing."""

    async def count_key_request(self, caller: Caller) -> None:
        """Count nothing."""


class Observer(Protocol):
    """Metrics, logs or traces. An observer must not raise: it would fail what it observes."""

    def turn_started(self, request_id: str) -> None:
        """An HTTP request has started a turn. `request_done` will be called for the request, with this id."""
        ...

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """A turn has ended and its receipt is stored; `receipt` has its members as plain JSON values."""
        ...

    def request_done(
        self, method: str, route: str, status: int, seconds: float, *, started_turn: str | None = None
    ) -> None:
        """An HTTP request was answered; `route` is the pattern of its path.

        `started_turn` is the id of the turn that the request has started; that turn may still be running.
        """
        ...

    def stream_opened(self, transport: str) -> None:
        """A client has begun to read a stream over `sse` or `websocket`."""
        ...

    def stream_closed(self, transport: str) -> None:
        """A client has stopped reading a stream."""
        ...


class NullObserver:
    """Record nothing. Also the base of observers that record only a part."""

    def turn_started(self, request_id: str) -> None:
        """Record nothing."""

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """Record nothing."""

    def request_done(
        self, method: str, route: str, status: int, seconds: float, *, started_turn: str | None = None
    ) -> None:
        """Record nothing."""

    def stream_opened(self, transport: str) -> None:
        """Record nothing."""

    def stream_closed(self, transport: str) -> None:
        """Record nothing."""


@dataclass(slots=True)
class Service:
    """One served agent."""

    sessions: Sessions
    settings: ServerConfig
    authenticator: Authenticator
    observer: Observer
    version: str
    keys: Store | None = None
    """The store of keys and usage, for the admin API; None if there is none."""
    budgets: Budgets | None = None
    """Counts usage and budgets while the application runs; None if nothing is counted."""
    verify_signature: VerifySignature | None = None
    """Checks signatures of receipts against the configured key; None if there is no key."""
    is_draining: bool = False
    runs: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The request ids of the turns and calls that run in this process, by the key of their caller."""
    models: ModelCallsRef | None = None
    """What answers requests of the model APIs, if the service has them."""
    call_log: CallLog | None = None
    """The receipts of model API calls that are not stored yet, if the service has these APIs."""
    agent_id: UUID = field(default_factory=uuid4)
    """The id of this serving instance, another one after every start."""

    def check_is_open(self) -> None:
        """Refuse new work while the service is stopping."""
        if self.is_draining:
            raise RefusedError(SHUTTING_DOWN, ErrorCode.UNAVAILABLE, {"retry_after": RETRY_AFTER_S})


async def begin_turn(  # noqa: PLR0913 - the caller, the request, and how it is answered
    service: Service,
    caller: Caller,
    address: str,
    request: ServiceRequest,
    *,
    sent: SentContent | None = None,
    streams: bool = True,
    on_start: Callable[[], None] | None = None,
    trace: str | None = None,
) -> Run | StoredRun:
    """Start the turn of this request, or return the one that was started before; raises `RefusedError`.

    Checks what concerns the caller. Whether the request itself is acceptable is decided by the engine. For the last
    four parameters see `Sessions.begin`.
    """
    if caller.id is not None and caller.id != request.context.user.id:
        message = "context.user.id is not the user of the token; send the user that the token was issued for"
        raise RefusedError(message, ErrorCode.FORBIDDEN, {"field": "context.user.id"})
    request_id = str(request.request_id)
    if service.sessions.is_running(request_id):
        return await service.sessions.begin(request, sent=sent)
    service.check_is_open()
    payer = _turn_payer(service, caller)
    with ExitStack() as running:
        running.enter_context(counted_run(service, caller_key(caller.id, address), request_id))
        turn = await service.sessions.begin(
            request, sent=sent, streams=streams, on_start=on_start, trace=trace, payer=payer
        )
        if isinstance(turn, Run) and not turn.is_over:
            end = running.pop_all().close
            turn.task.add_done_callback(lambda _: end())
    return turn


def payer_of(caller: Caller) -> Payer:
    """Who pays for what this caller requests."""
    if caller.key is None:
        return Payer(user=caller.id or "")
    limits = caller.key.limits
    return Payer(caller.key.token_id, caller.key.user, limits.budget_micro, limits.budget_period)


def _turn_payer(service: Service, caller: Caller) -> Payer:
    """Who pays for a turn of this caller, and which backends it may use; raises `RefusedError` if there are none."""
    payer, allowed = payer_of(caller), None if caller.key is None else caller.key.limits.models
    if allowed is None or is_operator(caller):
        return payer
    visible = visible_backends(service, caller)
    names = tuple(name for name in service.sessions.engine.dispatcher.backends if name in visible)
    if not names:
        message = NO_BACKEND_LEFT.format(", ".join(allowed) or "none")
        raise RefusedError(message, ErrorCode.FORBIDDEN, {"allowed": allowed})
    return replace(payer, backends=names)


@contextmanager
def counted_run(service: Service, key: str, request_id: str) -> Generator[None]:
    """Count one more turn or call of this caller in this process; raises `RefusedError` above the limit."""
    runs = service.runs.setdefault(key, set())
    limit = service.settings.turns_per_caller
    if len(runs) >= limit:
        message = f"You have {limit} running turns, which is the limit; try again when one of them has ended"
        raise RefusedError(message, ErrorCode.RATE_LIMIT_EXCEEDED, {"retry_after": TURNS_RETRY_AFTER_S, "limit": limit})
    runs.add(request_id)
    try:
        yield
    finally:
        # Looked up again: two requests with one id may share an entry, and the first to end may have removed the set.
        runs = service.runs.get(key, set())
        runs.discard(request_id)
        if not runs:
            service.runs.pop(key, None)


def is_operator(caller: Caller) -> bool:
    """Whether the caller may see what concerns others: a key of the admin API, or anybody without authentication."""
    return caller.id is None or (caller.key is not None and caller.key.limits.is_admin)


def visible_backends(service: Service, caller: Caller) -> Container[str]:
    """The names of the backends that the caller may use, and thus may see."""
    backends, rules = service.sessions.engine.dispatcher.backends, None if caller.key is None else caller.key.rules
    if rules is None or rules.models is None or is_operator(caller):
        return backends
    if service.models is None:
        return ()
    calls = service.models.current
    return {backend for name in filter(rules.allows_model, calls.names()) for backend in calls.backends_of(name)}


def may_reference_account(caller: Caller) -> bool:
    """Whether this caller may name what is in the provider's account: the operator, and keys with that rule.

    On a service without authentication, everybody is the operator.
    """
    return caller.id is None or (caller.key is not None and caller.key.limits.may_reference_account)


def rights_of(caller: Caller) -> tuple[Hashable, ...]:
    """All of this caller's rights that decide what becomes of a request of a model API."""
    rules = NO_RULES if caller.key is None else caller.key.limits
    models = None if rules.models is None else tuple(rules.models)
    return may_reference_account(caller), rules.policy, models


def check_account_references(body: Mapping[str, Any]) -> None:
    """Raise `RefusedError` if a request of a model API names something in the provider's account."""
    if (path := find_account_reference(body)) is not None:
        raise RefusedError(f"{path}: {ACCOUNT_REFERENCE}", ErrorCode.FORBIDDEN, {"field": path})


def check_model_allowed(caller: Caller, model: str) -> None:
    """Raise `RefusedError` if the caller's key may not request a model by this name."""
    rules = None if caller.key is None else caller.key.rules
    if rules is None or rules.models is None or rules.allows_model(model):
        return
    allowed = rules.models
    message = f"This key may not use this model; it allows {', '.join(allowed) or 'none'}"
    raise RefusedError(message, ErrorCode.FORBIDDEN, {"field": "model", "allowed": allowed})


def caller_key(user: str | None, address: str) -> str:
    """The key under which a caller's requests and turns are counted: the user, or the network address."""
    return f"user:{user}" if user is not None else _address_key(address)


@lru_cache(maxsize=1024)
def _address_key(address: str) -> str:
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return f"address:{address}"  # the path of a socket, or nothing
    if isinstance(known, IPv6Address):
        # One customer usually has all the addresses of a /64.
        return f"address:{known.ipv4_mapped or IPv6Address(int(known) >> 64 << 64)}"
    return f"address:{address}"


def tune_garbage_collector() -> None:
    """Search for reference cycles less often: a turn leaves none, and what was loaded so far stays in memory anyway.

    With Python's default threshold a third of a turn's time goes into that search.
    """
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
