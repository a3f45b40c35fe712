"""Rules of every store: the messages of refused calls, the quota of a user, and the chain of receipts."""

from collections.abc import Sequence
from typing import Final

import msgspec

from accord.errors import ErrorCode, RefusedError, StoreConflictError
from accord.ports import BudgetClaim, WholeRun
from accord.wire.session import SessionRecord

CLOSED: Final = "The session store is not open"
NOT_YOURS: Final = "The session belongs to another owner, or holds something else"
NO_SESSION: Final = "The turn's session is gone; it was deleted"
NOT_ITS_SESSION: Final = "The turn is not of this session and its owner"
NOT_NEXT: Final = "The packets do not follow the last one of a running turn"
NOT_RUNNING: Final = "The turn is not running"
NOT_ITS_EPOCH: Final = "The turn was given to another process"
NOT_ITS_RECEIPT: Final = "The receipt is not of this turn and its session"
NOT_ITS_CHAIN: Final = "The receipts do not follow the session's last one"
KNOWN_REQUEST: Final = "A turn of this request id is stored already"
HAS_TOKENS: Final = "There are tokens; revoke them first"
NOT_NEW: Final = "There is already a token of this id or hash; create another one"
_encode: Final = msgspec.json.Encoder().encode

BEING_DELETED: Final = "This session is being deleted; use another session_id, or try again in a moment"


def stored_size(*bodies: str) -> int:
    """The size of these texts in bytes of UTF-8."""
    return sum([len(body) if body.isascii() else len(body.encode()) for body in bodies])


SIZED_CHARS: Final = 64 * 1024


def json_size(text: str) -> int:
    """The size of a text in JSON in bytes of UTF-8, without its quotes; measured piece by piece."""
    starts = range(0, len(text), SIZED_CHARS)
    return sum(len(_encode(text[start : start + SIZED_CHARS])) - len('""') for start in starts)


def check_quota(stored: int, quota: int) -> None:
    """Raise `RefusedError` if a user has stored as much as the quota allows."""
    if stored >= quota:
        raise RefusedError(
            f"The storage quota of this user is used up ({stored} of {quota} bytes): delete sessions of this user, or "
            "have the operator raise limits.max_user_bytes",
            ErrorCode.QUOTA_EXCEEDED,
            {"stored_bytes": stored, "quota_bytes": quota},
        )


def granted_amounts(claim: BudgetClaim, used: int) -> list[bool]:
    """Which of the wanted amounts fit into the budget beside what is used, the first that came first."""
    granted: list[bool] = []
    for amount in claim.wanted:
        granted.append(used + amount <= claim.budget)
        used += amount if granted[-1] else 0
    return granted


def check_running(running: int, limit: int) -> None:
    """Raise `RefusedError` if a user has as many turns that run or wait as the limit allows."""
    if running >= limit:
        raise RefusedError(
            f"You have {limit} running turns, which is the limit; try again when one of them has ended",
            ErrorCode.RATE_LIMIT_EXCEEDED,
            {"retry_after": 1, "limit": limit},
        )


def check_chain(session: SessionRecord, turns: Sequence[WholeRun], last_hash: str | None) -> None:
    """Raise `StoreConflictError` unless these turns are the session's and their receipts continue its chain."""
    for each in turns:
        turn, receipt = each.turn, each.receipt
        if (turn.session_id, turn.owner) != (session.session_id, session.owner):
            raise StoreConflictError(NOT_ITS_SESSION)
        if receipt is None:
            continue
        if (receipt.request_id, receipt.session_id) != (turn.request_id, turn.session_id):
            raise StoreConflictError(NOT_ITS_RECEIPT)
        if receipt.previous_hash != last_hash:
            raise StoreConflictError(NOT_ITS_CHAIN)
        last_hash = receipt.hash
