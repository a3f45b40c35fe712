"""The rules that every store keeps to: refused calls with their messages, and the quota of a user."""

from typing import Final

from accord.errors import ErrorCode, RefusedError

# The sentences of every store: what is told when a call contradicts what is stored, or comes too late.

CLOSED: Final = "The session store is not open"
NOT_YOURS: Final = "The session belongs to another owner"
NO_SESSION: Final = "The turn's session is gone"
NOT_ITS_SESSION: Final = "The turn is not of this session and its owner"
NOT_NEXT: Final = "The packets do not follow the last one of a running turn"
NOT_RUNNING: Final = "The turn is not running"
NOT_ITS_RECEIPT: Final = "The receipt is not of this turn and its session"
HAS_TOKENS: Final = "There are tokens; revoke them first"
NOT_NEW: Final = "There is already a token of this id or hash"
BEING_DELETED: Final = "This session is being deleted; use another session id, or ask again in a moment"


# What counts as stored of a user, and the refusal of a turn when that is too much. The same for every store.


def stored_size(*bodies: str) -> int:
    """How many bytes these texts take, in UTF-8."""
    return sum(len(body) if body.isascii() else len(body.encode()) for body in bodies)


def check_quota(stored: int, quota: int) -> None:
    """Raise our error if a user has stored as much as the quota allows."""
    if stored >= quota:
        raise RefusedError(
            f"The storage quota of this user is used up ({stored} of {quota} bytes): delete sessions of this user, or "
            "have the operator raise limits.max_user_bytes",
            ErrorCode.QUOTA_EXCEEDED,
            {"stored_bytes": stored, "quota_bytes": quota},
        )
