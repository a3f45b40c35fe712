"""Rules of every store: the messages of refused calls, and the quota of a user."""

from typing import Final

from accord.errors import ErrorCode, RefusedError

CLOSED: Final = "The session store is not open"
NOT_YOURS: Final = "The session belongs to another owner"
NO_SESSION: Final = "The turn's session is gone; it was deleted"
NOT_ITS_SESSION: Final = "The turn is not of this session and its owner"
NOT_NEXT: Final = "The packets do not follow the last one of a running turn"
NOT_RUNNING: Final = "The turn is not running"
NOT_ITS_RECEIPT: Final = "The receipt is not of this turn and its session"
HAS_TOKENS: Final = "There are tokens; revoke them first"
NOT_NEW: Final = "There is already a token of this id or hash; create another one"
BEING_DELETED: Final = "This session is being deleted; use another session_id, or try again in a moment"


def stored_size(*bodies: str) -> int:
    """The size of these texts in bytes of UTF-8."""
    return sum([len(body) if body.isascii() else len(body.encode()) for body in bodies])


def check_quota(stored: int, quota: int) -> None:
    """Raise `RefusedError` if a user has stored as much as the quota allows."""
    if stored >= quota:
        raise RefusedError(
            f"The storage quota of this user is used up ({stored} of {quota} bytes): delete sessions of this user, or "
            "have the operator raise limits.max_user_bytes",
            ErrorCode.QUOTA_EXCEEDED,
            {"stored_bytes": stored, "quota_bytes": quota},
        )
