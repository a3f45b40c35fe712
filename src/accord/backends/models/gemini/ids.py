"""Ids for calls of tools that a Gemini endpoint made without one: the same for the same answer, and known as ours."""

import hashlib
from typing import Any, Final

import msgspec

MADE: Final = "made-"
_DIGEST_CHARS: Final = 12
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def made_id(response_id: str | None, count: int, name: str, arguments: Any) -> str:
    """The id of an answer's call of this count: from the answer's own id, and from what is called."""
    told = _encode([response_id, count, name, arguments])
    return f"{MADE}{count}-{hashlib.sha256(told).hexdigest()[:_DIGEST_CHARS]}"


def is_made(call_id: str) -> bool:
    """Whether this id is one of ours."""
    return call_id.startswith(MADE)
