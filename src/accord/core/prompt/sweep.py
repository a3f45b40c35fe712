"""The quick look at a whole prompt: is everything in order beyond doubt?

Compiled code (msgspec) reads the blocks into the shapes that the table of rules gives, only those types that the agent
declared, and whole columns of them are then looked at without a Python step for each block. The sweep only ever says
"yes, all of it"; whatever gives it pause is left to `rules`, which say what is wrong. A law in the tests holds the two
together.
"""

from collections.abc import Sequence
from functools import cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final, Union

import msgspec

from accord.core.prompt.rules import MARK_CHARS, RULES, ContentLimits, media_type_problem
from accord.core.prompt.verdict import Declaration
from accord.wire.acp.content import ContentType

_UTF8_WORST: Final = 4
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_mark: Final = itemgetter(slice(0, MARK_CHARS))


class _TextResource(msgspec.Struct, gc=False):
    """An embedded resource that is text; binary ones are rare enough to be left to the rules."""

    uri: str
    text: str


# Nothing in these shapes can form a cycle, and without the collector's book-keeping the cost of a block stays flat.
SHAPES: Final[dict[str, type[msgspec.Struct]]] = {
    kind: msgspec.defstruct(kind, [(name, str) for name in rule.fields], tag_field="type", tag=kind, gc=False)
    for kind, rule in RULES.items()
}
SHAPES[ContentType.RESOURCE.value] = msgspec.defstruct(
    "resource", [("resource", _TextResource)], tag_field="type", tag=ContentType.RESOURCE.value, gc=False
)


def json_in_order(raw: bytes | str, declaration: Declaration, limits: ContentLimits) -> int | None:
    """How many blocks there are in this JSON array, if every one passes beyond doubt."""
    # No payload is larger than the text that carries it, so a small message needs no measuring.
    if len(raw) * (_UTF8_WORST if isinstance(raw, str) else 1) > _room(limits):
        return None
    try:
        blocks = _decoder(declaration).decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return len(blocks) if len(blocks) <= limits.max_blocks and _media_in_order(blocks, declaration) else None


def all_in_order(blocks: Sequence[Any], declaration: Declaration, limits: ContentLimits) -> bool:
    """Whether every block passes beyond doubt."""
    if len(blocks) > limits.max_blocks:
        return False
    try:
        shaped = msgspec.convert(blocks, _array_of(declaration))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return _UTF8_WORST * sum(map(_length, shaped)) <= _room(limits) and _media_in_order(shaped, declaration)


def _room(limits: ContentLimits) -> int:
    """What is small enough as a whole is small enough in every part."""
    return min(limits.max_block_bytes, limits.max_prompt_bytes)


def _length(block: Any) -> int:
    kind = type(block).__name__
    return len(block.resource.text if kind == ContentType.RESOURCE else getattr(block, RULES[kind].payload))


@cache
def _array_of(declaration: Declaration) -> Any:
    return list[Union[tuple(SHAPES[kind] for kind in declaration.accepted)]]  # noqa: UP007 - known at run time only


@cache
def _decoder(declaration: Declaration) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(_array_of(declaration))


def _media_in_order(blocks: list[Any], declaration: Declaration) -> bool:
    for kind, rule in RULES.items():
        if rule.media_family is None or not declaration.accepts(kind):
            continue
        shape = SHAPES[kind]
        group = [block for block in blocks if block.__class__ is shape]
        payloads: list[str] = [*map(attrgetter(rule.payload), group)]
        if group and not (_base64_in_order(payloads) and _types_in_order(payloads, group, rule.media_family)):
            return False
    return True


def _base64_in_order(payloads: list[str]) -> bool:
    lengths = set(map(len, payloads))
    if 0 in lengths or any(length % 4 for length in lengths):
        return False
    text = "".join(payloads)
    padding = sum(map(str.endswith, payloads, repeat("="))) + sum(map(str.endswith, payloads, repeat("==")))
    return text.isascii() and text.count("=") == padding and not text.encode().translate(None, _BASE64)


def _types_in_order(payloads: list[str], group: list[Any], family: str) -> bool:
    seen = set(zip(map(attrgetter("mimeType"), group), map(_mark, payloads), strict=True))
    return not any(media_type_problem(said, mark, family) for said, mark in seen)
