"""The shape of a request of a model API: all of it that decides what becomes of it, without the words. Pure.

A conversation of plain texts counts by the order of its roles, a text that only the model reads by being there, and
every other member by its value. What is decided for a request holds for every other one of the same shape, so that it
is decided once (`run/model_calls.py`). A request with any other conversation has no shape.
"""

import re
from hashlib import blake2b
from typing import Final, Literal, NamedTuple

import msgspec

TEXTS: Final = frozenset({"input", "instructions", "prompt_cache_key", "safety_identifier", "system", "user"})
"""Members whose value decides nothing if it is a text."""
CONVERSATIONS: Final = frozenset({"input", "messages"})
STATEFUL: Final = frozenset({"conversation", "previous_response_id", "prompt"})
"""Members with which a request depends on what is stored elsewhere."""
MAX_KEY_BYTES: Final = 64
"""A longer value is in the key by its digest."""

_INTEGER: Final = re.compile(rb"-?[1-9][0-9]{0,15}")
_PAIRS: Final = re.compile("(?:ua)+")


class PlainMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message that is one text."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str


class CallShape(NamedTuple):
    """The shape, and the members that are not in it, as they were sent."""

    key: tuple[tuple[str, bytes | str], ...]
    words: dict[str, msgspec.Raw]


_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_messages: Final = msgspec.json.Decoder(list[PlainMessage]).decode


def read_shape(raw: bytes) -> CallShape | None:
    """Return the shape of a request that was sent as this JSON text; None if it has none, or is not valid."""
    try:
        members = _decode_members(raw)
        key: list[tuple[str, bytes | str]] = []
        words: dict[str, msgspec.Raw] = {}
        for name, raw_value in members.items():
            value = bytes(raw_value)
            mark = _mark(name, value)
            if mark is not None:
                words[name] = raw_value
            elif name in CONVERSATIONS or name in STATEFUL:
                return None
            key.append((name, mark or (value if len(value) <= MAX_KEY_BYTES else blake2b(value).digest())))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return CallShape(tuple(key), words)


def _mark(name: str, value: bytes) -> str | None:
    """What stands in the key for words; None for any other value."""
    if name in TEXTS and value[:1] == b'"':
        return "text" if _decode_text(value) else None
    if name in CONVERSATIONS:
        return _roles(value)
    return "integer" if name == "seed" and _INTEGER.fullmatch(value) else None


def _roles(value: bytes) -> str | None:
    """The order of the roles of plain messages, of which none is empty; None if these are others."""
    messages = _decode_messages(value)
    # A member that is there twice would be read as its last value here, and perhaps as its first one elsewhere.
    if not messages or value.count(b'"role"') != len(messages) or value.count(b'"content"') != len(messages):
        return None
    if "" in [each.content for each in messages]:
        return None
    # Of alternating messages, the number decides nothing.
    return _PAIRS.sub("ua", "".join([each.role[0] for each in messages]))
