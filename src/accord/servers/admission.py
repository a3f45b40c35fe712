"""Whether a request may begin a turn: who asks, whether the service still takes work, how many turns the caller runs.

One rule for every endpoint that begins turns. Whether the request itself is acceptable is decided by the engine.
"""

from functools import partial
from typing import Any, Final

from accord.engine import KeptTurn, LiveTurn
from accord.errors import ErrorCode, RefusedError
from accord.servers.rates import caller_key
from accord.servers.service import Caller, Service
from accord.wire.request import ServiceRequest

RETRY_AFTER_S: Final = 1
"""How soon a caller with too many turns may try again; nobody knows when one of them ends."""


async def begin_turn(service: Service, caller: Caller, address: str, request: ServiceRequest) -> LiveTurn | KeptTurn:
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
        raise RefusedError(message, ErrorCode.RATE_LIMIT_EXCEEDED, {"retry_after": RETRY_AFTER_S, "limit": most})
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
