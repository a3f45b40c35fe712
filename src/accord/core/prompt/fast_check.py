"""A fast path for prompts without violations: compiled code (msgspec) checks all blocks at once.

It answers only "every block is valid" or "not sure". Whenever it is not sure, `rules` decide and name the violation; a
property test holds the two together. The shapes are derived from `rules.RULES`, for the types that the agent declared.
"""

from collections.abc import Sequence
from functools import cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final, Union

import msgspec

from accord.acp.content import ContentType
from accord.core.prompt.rules import RULES, SIGNATURE_CHARS, ContentLimits, media_type_problem
from accord.core.prompt.verdict import Declaration

_UTF8_WORST: Final = 4
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_signature: Final = itemgetter(slice(0, SIGNATURE_CHARS))


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


def count_valid_json(raw: bytes | str, declaration: Declaration, limits: ContentLimits) -> int | None:
    """Return the number of blocks in this JSON array if all are certainly valid; None if not sure."""
    # No payload is larger than the text that carries it, so a small message needs no measuring.
    if len(raw) * (_UTF8_WORST if isinstance(raw, str) else 1) > _smallest(limits):
        return None
    try:
        blocks = _decoder(declaration).decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return len(blocks) if len(blocks) <= limits.max_blocks and _is_media_valid(blocks, declaration) else None


def are_all_valid(blocks: Sequence[Any], declaration: Declaration, limits: ContentLimits) -> bool:
    """Whether all blocks are certainly valid; False if not sure."""
    if len(blocks) > limits.max_blocks:
        return False
    try:
        shaped = msgspec.convert(blocks, _array_type(declaration))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return _UTF8_WORST * sum(map(_payload_chars, shaped)) <= _smallest(limits) and _is_media_valid(shaped, declaration)


def _smallest(limits: ContentLimits) -> int:
    """The size below which neither a block nor the prompt can be too large."""
    return min(limits.max_block_bytes, limits.max_prompt_bytes)


def _payload_chars(block: Any) -> int:
    kind = type(block).__name__
    return len(block.resource.text if kind == ContentType.RESOURCE else getattr(block, RULES[kind].payload))


@cache
def _array_type(declaration: Declaration) -> Any:
    return list[Union[tuple(SHAPES[kind] for kind in declaration.accepted)]]  # noqa: UP007 - known at run time only


@cache
def _decoder(declaration: Declaration) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(_array_type(declaration))


def _is_media_valid(blocks: list[Any], declaration: Declaration) -> bool:
    for kind, rule in RULES.items():
        if rule.media_family is None or not declaration.accepts(kind):
            continue
        shape = SHAPES[kind]
        group = [block for block in blocks if block.__class__ is shape]
        payloads: list[str] = [*map(attrgetter(rule.payload), group)]
        if not group:
            continue
        if not _is_base64_valid(payloads):
            return False
        # Thousands of images of a kind have few pairs of media type and signature.
        pairs = set(zip(map(attrgetter("mimeType"), group), map(_signature, payloads), strict=True))
        if any(media_type_problem(media_type, start, rule.media_family) for media_type, start in pairs):
            return False
    return True


def _is_base64_valid(payloads: list[str]) -> bool:
    lengths = set(map(len, payloads))
    if 0 in lengths or any(length % 4 for length in lengths):
        return False
    text = "".join(payloads)
    padding = sum(map(str.endswith, payloads, repeat("="))) + sum(map(str.endswith, payloads, repeat("==")))
    return text.isascii() and text.count("=") == padding and not text.encode().translate(None, _BASE64)
