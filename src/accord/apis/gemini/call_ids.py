"""Ids of calls that have none in the Gemini API: made from the call itself, and left out when it is sent back. Pure."""

import hashlib
from typing import Any, Final

import msgspec

GENERATED: Final = "made-"
_encode_sorted: Final = msgspec.json.Encoder(order="deterministic").encode


def generate_id(response_id: str | None, count: int, name: str, arguments: Any) -> str:
    """Return an id for a call that has none: the same for the same call of the same answer."""
    digest = hashlib.sha256(_encode_sorted([response_id, count, name, arguments])).hexdigest()
    return f"{GENERATED}{count}-{digest[:12]}"


def is_generated(call_id: str) -> bool:
    """Whether `generate_id` made this id."""
    return call_id.startswith(GENERATED)
