"""A token of Accord's own, as it is kept: whose it is, how long it is good for, and the hash that it is found by.

The secret itself is in no record. It is random and long, so one round of SHA-256 hides it: there is nothing to guess.
Who makes tokens, and who lets their bearers in, is not known here.
"""

import hashlib
import re
from datetime import datetime
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from accord.wire.message import Message
from accord.wire.session import Id

PREFIX: Final = "accord_"
"""What every token begins with, so that people and secret scanners know one when they see it."""
SECRET_BYTES: Final = 32

_SHAPE: Final = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}")


class TokenRecord(Message, frozen=True):
    """One token. Whoever shows it is `user`."""

    token_id: Id = Field(description="How it is called when it is listed or revoked.")
    user: Id
    label: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(description="SHA-256 of the token.")
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = Field(default=None, description="Absent: good until it is revoked.")

    def is_expired(self, now: datetime) -> bool:
        """Whether it is no longer good."""
        return self.expires_at is not None and now >= self.expires_at


def looks_like_token(text: str) -> bool:
    """Whether this could be one of ours; what could not need not be looked for."""
    return _SHAPE.fullmatch(text) is not None


def digest_of(token: str) -> str:
    """The hash that a token is kept and found by."""
    return hashlib.sha256(token.encode()).hexdigest()
