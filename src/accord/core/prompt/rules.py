"""The table of content rules: what each type of block must have, and what its bytes must be."""

import re
from binascii import Error as BinasciiError
from binascii import a2b_base64
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from accord.core.prompt.verdict import FLAGS, Declaration, Fault, Violation
from accord.wire.acp.content import ContentType

# Whether media is what it says it is: the family of its type, and the mark at the beginning of its bytes.
#
# Only formats whose first bytes are unmistakable are told apart; what is not recognised is taken at its word.

MARK_CHARS: Final = 24  # base64 of the 18 bytes that the longest mark needs

MARKS: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"OggS"), "audio/ogg"),
    (re.compile(rb"ID3"), "audio/mpeg"),
)

SAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "image/jpg": "image/jpeg",
        "image/pjpeg": "image/jpeg",
        "image/x-png": "image/png",
        "audio/x-wav": "audio/wav",
        "audio/wave": "audio/wav",
        "audio/vnd.wave": "audio/wav",
        "audio/mp3": "audio/mpeg",
        "audio/x-flac": "audio/flac",
        "audio/opus": "audio/ogg",
        "audio/vorbis": "audio/ogg",
    }
)
"""Other names for the types above."""

_TYPE = re.compile(r"([a-z]+/)[a-z0-9][a-z0-9.+-]*$")


def media_type_problem(said: str, data: str, family: str) -> str | None:
    """Why this type does not fit its block or its bytes, if it does not. `data` is valid base64."""
    essence = said.partition(";")[0].strip().lower()
    found = _TYPE.match(essence)
    if found is None or found[1] != family:
        return f"mimeType should be {family}*"
    carried = _carried(data)
    if carried is not None and carried != SAME.get(essence, essence):
        return f"mimeType does not fit the data, which is {carried}"
    return None


def _carried(data: str) -> str | None:
    start = a2b_base64(data[:MARK_CHARS])
    return next((media_type for mark, media_type in MARKS if mark.match(start)), None)


# The one table of content rules: what each type of block must have, and what its bytes must be.
#
# The order is part of the rule: structure first, then the declaration, then base64 and media type, so that media that
# the agent did not declare is never decoded. A rule returns a `Violation` or nothing; it never sees a policy.

MAX_WORD_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class ContentLimits:
    """How much may come in; every figure is a setting."""

    max_block_bytes: int = 32 * 1024 * 1024
    max_prompt_bytes: int = 64 * 1024 * 1024
    max_blocks: int = 100_000


@dataclass(frozen=True, slots=True)
class Rule:
    """What a type of block must have: fields that are text, the one that carries the payload, base64 or not."""

    fields: tuple[str, ...]
    payload: str
    media_family: str | None = None


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        ContentType.TEXT.value: Rule(("text",), "text"),
        ContentType.RESOURCE_LINK.value: Rule(("uri", "name"), "uri"),
        ContentType.IMAGE.value: Rule(("data", "mimeType"), "data", "image/"),
        ContentType.AUDIO.value: Rule(("data", "mimeType"), "data", "audio/"),
    }
)
"""Every type but `resource`, whose fields are one level down."""

REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        ContentType.IMAGE.value: "Invalid content type: agent does not support image content",
        ContentType.AUDIO.value: "Invalid content type: agent does not support audio content",
        ContentType.RESOURCE.value: "Invalid content type: agent does not support embedded resources",
    }
)


@dataclass(frozen=True, slots=True)
class Shaped:
    """A block whose structure is right: its payload, and what its bytes claim to be if they are base64."""

    kind: str
    payload: str
    is_base64: bool = False
    media_type: str | None = None
    media_family: str = ""


def check_block(index: int, block: Any, declaration: Declaration, limits: ContentLimits) -> Violation | int:
    """What is wrong with this block, or how many bytes it brings."""
    shaped = _shape(index, block, declaration)
    if isinstance(shaped, Violation):
        return shaped
    size = byte_size(shaped.payload)
    if size > limits.max_block_bytes:
        return size_fault(index, f"{shaped.kind} block", size, limits.max_block_bytes)
    if not declaration.accepts(shaped.kind):
        return _refused(index, shaped.kind, declaration)
    return _bytes_fault(index, shaped) or size


def structure_fault(index: int, details: str, kind: str | None = None) -> Violation:
    """The violation of a block that is not shaped as it should be."""
    told = {} if kind is None else {"contentType": kind}
    data = {"error": Fault.STRUCTURE.value, "details": details, **told, "index": index}
    return Violation(index, "Invalid content structure", data)


def size_fault(index: int, what: str, size: int, limit: int) -> Violation:
    """The violation of what is larger than its limit."""
    message = f"Content size exceeded: {what} is larger than {limit}"
    return Violation(index, message, {"error": Fault.SIZE.value, "size": size, "limit": limit, "index": index})


def byte_size(text: str) -> int:
    """The size of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _shape(index: int, block: Any, declaration: Declaration) -> Shaped | Violation:
    if not isinstance(block, Mapping):
        return structure_fault(index, "content block must be an object")
    fields = cast("Mapping[str, Any]", block)
    kind = fields.get("type")
    if not isinstance(kind, str):
        return _type_fault(index, fields)
    if kind == ContentType.RESOURCE:
        return _shape_resource(index, fields)
    rule = RULES.get(kind)
    if rule is None:
        return _unknown_type(index, kind, declaration)
    for name in rule.fields:
        if not isinstance(fields.get(name), str):
            return _field_fault(index, fields, name, kind)
    if rule.media_family is None:
        return Shaped(kind, fields[rule.payload])
    return Shaped(kind, fields[rule.payload], True, fields["mimeType"], rule.media_family)


def _shape_resource(index: int, fields: Mapping[str, Any]) -> Shaped | Violation:
    kind = ContentType.RESOURCE.value
    resource = fields.get("resource")
    if not isinstance(resource, Mapping):
        return _field_fault(index, fields, "resource", kind, expected="an object")
    inner = cast("Mapping[str, Any]", resource)
    if not isinstance(inner.get("uri"), str):
        return _field_fault(index, inner, "uri", kind)
    text, blob = inner.get("text"), inner.get("blob")
    if isinstance(text, str):
        return Shaped(kind, text)
    if isinstance(blob, str):
        # An empty file is a file: unlike a picture, a resource may have no bytes at all.
        return Shaped(kind, blob, is_base64=bool(blob))
    return structure_fault(index, "resource must have text or blob", kind)


def _bytes_fault(index: int, shaped: Shaped) -> Violation | None:
    if not shaped.is_base64:
        return None
    if problem := _base64_problem(shaped.payload):
        data = {"error": Fault.BASE64.value, "details": problem, "contentType": shaped.kind, "index": index}
        return Violation(index, "Invalid base64 data", data)
    if shaped.media_type is None:
        return None
    if problem := media_type_problem(shaped.media_type, shaped.payload, shaped.media_family):
        data = {"error": Fault.MEDIA_TYPE.value, "contentType": shaped.kind, "details": problem, "index": index}
        return Violation(index, f"Media type mismatch: {problem}", data)
    return None


def _base64_problem(data: str) -> str | None:
    if not data:
        return "Empty base64 data"
    try:
        a2b_base64(data, strict_mode=True)
    except BinasciiError as error:
        return "Invalid padding" if "padding" in str(error).lower() else "Contains invalid characters"
    except ValueError:
        return "Contains invalid characters"
    return None


def _refused(index: int, kind: str, declaration: Declaration) -> Violation:
    data = {
        "contentType": kind,
        "declaredCapability": False,
        "required": f"promptCapabilities.{FLAGS[ContentType(kind)]}",
        "supportedTypes": list(declaration.accepted),
    }
    return Violation(index, REFUSALS[kind], data)


def _type_fault(index: int, fields: Mapping[str, Any]) -> Violation:
    if "type" in fields:
        return structure_fault(index, "type must be a string")
    data = {"error": Fault.FIELD.value, "field": "type", "index": index}
    return Violation(index, "Missing required field: type", data)


def _unknown_type(index: int, kind: str, declaration: Declaration) -> Violation:
    told = kind if len(kind) <= MAX_WORD_CHARS else kind[:MAX_WORD_CHARS] + "…"
    data = {
        "error": Fault.TYPE.value,
        "contentType": told,
        "supportedTypes": list(declaration.accepted),
        "index": index,
    }
    return Violation(index, f"Unsupported content type: {told}", data)


def _field_fault(
    index: int, fields: Mapping[str, Any], name: str, kind: str, *, expected: str = "a string"
) -> Violation:
    if name in fields:
        return structure_fault(index, f"{name} must be {expected}", kind)
    data = {"error": Fault.FIELD.value, "field": name, "contentType": kind, "index": index}
    return Violation(index, f"Missing required field: {name}", data)
