"""What counts as stored of a user, and the refusal of a turn when that is too much. The same for every store."""

from accord.errors import ErrorCode, RefusedError


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
