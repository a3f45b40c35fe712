"""The rules of stored turns: their limits, their ids, and what connects a process to others of the same service."""

from dataclasses import dataclass, field
from datetime import datetime

from accord.errors import ErrorCode, InvalidMessageError, Problem, RefusedError
from accord.ports import HISTORY_BYTES, Channel, LinkCounts, PacketLog, WorkQueue
from accord.run.request_digest import DIGEST_VERSION
from accord.wire.request import ServiceRequest
from accord.wire.session import MAX_ID_CHARS, RunRecord, is_id


@dataclass(frozen=True, slots=True)
class SessionRules:
    """Limits of stored turns.

    A turn gets the last `history` messages that fit into `history_bytes`. A user who has stored `quota_bytes` cannot
    begin more turns. A turn without readers is stopped after `stop_unread_after_s`, if given. A process that sent no
    heartbeat for `lease_s` is assumed to be dead, and its turns are ended or restarted. With a queue, a user has at
    most `turns_per_user` turns that run or wait.
    """

    history: int = 200
    history_bytes: int = HISTORY_BYTES
    quota_bytes: int | None = None
    concurrent_turns: int | None = None
    stop_unread_after_s: float | None = None
    lease_s: float = 15.0
    turns_per_user: int | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """What connects this process to others of the same service; without any, it runs all turns itself.

    With a `queue`, workers run the turns. Without a `log`, packets are written to the session store and announced over
    the `channel`.
    """

    channel: Channel | None = None
    log: PacketLog | None = None
    queue: WorkQueue | None = None
    counts: LinkCounts = field(default_factory=LinkCounts)


def new_turn(request: ServiceRequest, digest: str, runner: str, now: datetime) -> RunRecord:
    """The record of a turn that begins; raises `InvalidMessageError` if an id of its context is not usable."""
    session_id, owner, conversation_id = (
        request.context.session_id,
        request.context.user.id,
        request.payload.conversation_id,
    )
    if not (is_id(session_id) and is_id(owner) and (conversation_id is None or is_id(conversation_id))):
        ids = {"context.session_id": session_id, "context.user.id": owner}
        if conversation_id is not None:
            ids["payload.conversation_id"] = conversation_id
        expected = f"1 to {MAX_ID_CHARS} characters, none of them U+0000"
        wrong = [Problem(field, expected) for field, value in ids.items() if not is_id(value)]
        raise InvalidMessageError("ServiceRequest", wrong)
    return RunRecord(
        request_id=str(request.request_id),
        session_id=session_id,
        owner=owner,
        runner=runner,
        request_digest=digest,
        digest_version=DIGEST_VERSION,
        created_at=now,
        capabilities=request.payload.capabilities,
        conversation_id=conversation_id,
    )


def foreign_session_error() -> RefusedError:
    """The error of a request that names another user's session."""
    return RefusedError("This session belongs to another user; use another session_id", ErrorCode.FORBIDDEN, {})
