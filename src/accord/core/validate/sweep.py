"""The quick look at a whole prompt: is everything in order beyond doubt?

Compiled code (msgspec) reads the blocks into the shapes that the table of rules gives, only those types that the agent
declared, and whole columns of them are then looked at without a Python step for each block. The sweep only ever says
"yes, all of it"; whatever gives it pause is left to `rules`, which say what is wrong. A law in the tests holds the two
together.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final, Union

import msgspec

from accord.core.validate.declaration import Declaration
from accord.core.validate.media import MARK_CHARS, media_type_problem
from accord.core.validate.rules import RULES, Limits, Rule
from accord.wire.acp.content import ContentType

_UTF8_WORST: Final = 4
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_mark: Final = itemgetter(slice(0, MARK_CHARS))
_text: Final[Callable[[Any], str]] = attrgetter("resource.text")


class _TextResource(msgspec.Struct):
    """An embedded resource that is text; binary ones are rare enough to be left to the rules."""

    uri: str
    text: str


SHAPES: Final[dict[str, type[msgspec.Struct]]] = {
    kind: msgspec.defstruct(kind, [(name, str) for name in rule.fields], tag_field="type", tag=kind)
    for kind, rule in RULES.items()
}
SHAPES[ContentType.RESOURCE.value] = msgspec.defstruct(
    "resource", [("resource", _TextResource)], tag_field="type", tag=ContentType.RESOURCE.value
)


def json_in_order(raw: bytes | str, declaration: Declaration, limits: Limits) -> int | None:
    """How many blocks there are in this JSON array, if every one passes beyond doubt."""
    try:
        blocks = _decoder(declaration).decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return len(blocks) if _all_in_order(blocks, declaration, limits) else None


def all_in_order(blocks: Sequence[Any], declaration: Declaration, limits: Limits) -> bool:
    """Whether every block passes beyond doubt."""
    try:
        shaped = msgspec.convert(blocks, _array_of(declaration))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return _all_in_order(shaped, declaration, limits)


@cache
def _array_of(declaration: Declaration) -> Any:
    return list[Union[tuple(SHAPES[kind] for kind in declaration.accepted)]]  # noqa: UP007 - known at run time only


@cache
def _decoder(declaration: Declaration) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(_array_of(declaration))


def _all_in_order(blocks: list[Any], declaration: Declaration, limits: Limits) -> bool:
    if len(blocks) > limits.max_blocks:
        return False
    groups: dict[type, list[Any]] = {SHAPES[kind]: [] for kind in declaration.accepted}
    for block in blocks:
        groups[block.__class__].append(block)
    size = 0
    for kind in declaration.accepted:
        group = groups[SHAPES[kind]]
        if group:
            payloads = [*map(_text, group)] if kind == ContentType.RESOURCE else _payloads(group, RULES[kind])
            if payloads is None:
                return False
            size += sum(map(len, payloads))
    # What is small enough as a whole, at four bytes a character, is small enough in every part.
    return size * _UTF8_WORST <= min(limits.max_block_bytes, limits.max_prompt_bytes)


def _payloads(group: list[Any], rule: Rule) -> list[str] | None:
    payloads: list[str] = [*map(attrgetter(rule.payload), group)]
    if rule.media_family is None:
        return payloads
    in_order = _base64_in_order(payloads) and _media_in_order(payloads, map(attrgetter("mimeType"), group), rule)
    return payloads if in_order else None


def _base64_in_order(payloads: list[str]) -> bool:
    lengths = set(map(len, payloads))
    if 0 in lengths or any(length % 4 for length in lengths):
        return False
    text = "".join(payloads)
    padding = sum(map(str.endswith, payloads, repeat("="))) + sum(map(str.endswith, payloads, repeat("==")))
    return text.isascii() and text.count("=") == padding and not text.encode().translate(None, _BASE64)


def _media_in_order(payloads: list[str], media_types: Iterable[str], rule: Rule) -> bool:
    seen = set(zip(media_types, map(_mark, payloads), strict=True))
    return not any(media_type_problem(said, mark, rule.media_family or "") for said, mark in seen)
