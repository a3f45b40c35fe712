"""The table of content rules: the fields that each type of block must have, and the format of its bytes.

The order is part of the rule: structure first, then the declaration, then base64 and media type, so that media that
the agent did not declare is never decoded. A rule returns a `Violation` or nothing; policies are applied by the
validator.
"""

import re
from binascii import Error as BinasciiError
from binascii import a2b_base64
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic_core import to_json

from accord.acp.content import ContentType
from accord.core.prompt.verdict import Declaration, Fault, Violation

MAX_TYPE_CHARS: Final = 64
"""How much of an unknown type an error quotes."""

SIGNATURE_CHARS: Final = 24  # base64 of the 18 bytes that the longest signature needs

WINDOW_CHARS: Final = 1024 * 1024  # a multiple of four

# Only formats whose first bytes are unmistakable; for any other format the declared media type is accepted.
SIGNATURES: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"OggS"), "audio/ogg"),
    (re.compile(rb"ID3"), "audio/mpeg"),
)

MEDIA_TYPE_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
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


def media_type_problem(media_type: str, data: str, family: str) -> str | None:
    """Return why this media type does not fit its block or its bytes, if it does not. `data` is valid base64."""
    essence = media_type.partition(";")[0].strip().lower()
    found = _TYPE.match(essence)
    if found is None or found[1] != family:
        return f"mimeType should be {family}*"
    start = a2b_base64(data[:SIGNATURE_CHARS])
    actual = next((known for signature, known in SIGNATURES if signature.match(start)), None)
    if actual is not None and actual != MEDIA_TYPE_ALIASES.get(essence, essence):
        return f"mimeType does not fit the data, which is {actual}"
    return None


@dataclass(frozen=True, slots=True)
class ContentLimits:
    """Size limits of a prompt; each is a setting."""

    max_block_bytes: int = 32 * 1024 * 1024
    max_prompt_bytes: int = 64 * 1024 * 1024
    max_blocks: int = 100_000


@dataclass(frozen=True, slots=True)
class ContentRule:
    """What a type of block must have: its text fields, which of them is the payload, and the media family if base64."""

    fields: tuple[str, ...]
    payload: str
    media_family: str | None = None


RULES: Final[Mapping[str, ContentRule]] = MappingProxyType(
    {
        ContentType.TEXT.value: ContentRule(("text",), "text"),
        ContentType.RESOURCE_LINK.value: ContentRule(("uri", "name"), "uri"),
        ContentType.IMAGE.value: ContentRule(("data", "mimeType"), "data", "image/"),
        ContentType.AUDIO.value: ContentRule(("data", "mimeType"), "data", "audio/"),
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
class ParsedBlock:
    """A block whose structure is right: its payload, and the declared media type if it has one."""

    kind: str
    payload: str
    is_base64: bool = False
    media_type: str | None = None
    media_family: str = ""


def check_block(
    index: int, block: Any, declaration: Declaration, limits: ContentLimits, *, extensions: bool = False
) -> Violation | int:
    """Check one block. Return the violation, or the number of payload bytes if there is none.

    `extensions` accepts types of an implementation's own, which begin with an underscore, without further checks.
    """
    if extensions and (kind := _extension_type(block)):
        parsed = _parse_extension(index, block, kind)
    else:
        parsed = _parse(index, block, declaration)
    if isinstance(parsed, Violation):
        return parsed
    size = byte_size(parsed.payload)
    if size > limits.max_block_bytes:
        return size_fault(index, f"{parsed.kind} block", size, limits.max_block_bytes)
    if parsed.kind in REFUSALS and not declaration.accepts(parsed.kind):
        data = {
            "contentType": parsed.kind,
            "declaredCapability": False,
            "required": declaration.capability(parsed.kind),
            "supportedTypes": list(declaration.accepted),
        }
        return Violation(index, REFUSALS[parsed.kind], data)
    return _payload_fault(index, parsed) or size


def structure_fault(index: int, details: str, kind: str | None = None) -> Violation:
    """The violation of a block with the wrong structure."""
    content_type = {} if kind is None else {"contentType": kind}
    data = {"error": Fault.STRUCTURE.value, "details": details, **content_type, "index": index}
    return Violation(index, "Invalid content structure", data)


def size_fault(index: int, what: str, size: int, limit: int) -> Violation:
    """The violation of a block, a prompt or a number of blocks that exceeds its limit."""
    message = f"Content size exceeded: {what} is larger than {limit}"
    return Violation(index, message, {"error": Fault.SIZE.value, "size": size, "limit": limit, "index": index})


def byte_size(text: str) -> int:
    """The size of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _parse(index: int, block: Any, declaration: Declaration) -> ParsedBlock | Violation:
    if not isinstance(block, Mapping):
        return structure_fault(index, "content block must be an object")
    fields = cast("Mapping[str, Any]", block)
    kind = fields.get("type")
    if not isinstance(kind, str):
        return _field_fault(index, fields, "type", None)
    if kind == ContentType.RESOURCE:
        return _parse_resource(index, fields)
    rule = RULES.get(kind)
    if rule is None:
        quoted = kind if len(kind) <= MAX_TYPE_CHARS else kind[:MAX_TYPE_CHARS] + "…"
        accepted = list(declaration.accepted)
        data = {"error": Fault.TYPE.value, "contentType": quoted, "supportedTypes": accepted, "index": index}
        return Violation(index, f"Unsupported content type: {quoted}", data)
    for name in rule.fields:
        if not isinstance(fields.get(name), str):
            return _field_fault(index, fields, name, kind)
    if rule.media_family is None:
        return ParsedBlock(kind, fields[rule.payload])
    return ParsedBlock(kind, fields[rule.payload], True, fields["mimeType"], rule.media_family)


def _extension_type(block: Any) -> str | None:
    kind = cast("Mapping[str, Any]", block).get("type") if isinstance(block, Mapping) else None
    return kind if isinstance(kind, str) and kind.startswith("_") else None


def _parse_extension(index: int, block: Any, kind: str) -> ParsedBlock | Violation:
    # Nothing is known about its fields, so all of them count as payload.
    try:
        return ParsedBlock(kind, to_json(block).decode())
    except ValueError:
        return structure_fault(index, "content block must be JSON", kind[:MAX_TYPE_CHARS])


def _parse_resource(index: int, fields: Mapping[str, Any]) -> ParsedBlock | Violation:
    kind = ContentType.RESOURCE.value
    resource = fields.get("resource")
    if not isinstance(resource, Mapping):
        return _field_fault(index, fields, "resource", kind, expected="an object")
    inner = cast("Mapping[str, Any]", resource)
    if not isinstance(inner.get("uri"), str):
        return _field_fault(index, inner, "uri", kind)
    text, blob = inner.get("text"), inner.get("blob")
    if isinstance(text, str):
        return ParsedBlock(kind, text)
    if isinstance(blob, str):
        # An empty file is a file: unlike an image, a resource may have no bytes at all.
        return ParsedBlock(kind, blob, is_base64=bool(blob))
    return structure_fault(index, "resource must have text or blob", kind)


def _field_fault(
    index: int, fields: Mapping[str, Any], name: str, kind: str | None, *, expected: str = "a string"
) -> Violation:
    if name in fields:
        return structure_fault(index, f"{name} must be {expected}", kind)
    content_type = {} if kind is None else {"contentType": kind}
    data = {"error": Fault.FIELD.value, "field": name, **content_type, "index": index}
    return Violation(index, f"Missing required field: {name}", data)


def _payload_fault(index: int, parsed: ParsedBlock) -> Violation | None:
    if not parsed.is_base64:
        return None
    if problem := _base64_problem(parsed.payload):
        data = {"error": Fault.BASE64.value, "details": problem, "contentType": parsed.kind, "index": index}
        return Violation(index, "Invalid base64 data", data)
    if parsed.media_type is None:
        return None
    if problem := media_type_problem(parsed.media_type, parsed.payload, parsed.media_family):
        data = {"error": Fault.MEDIA_TYPE.value, "contentType": parsed.kind, "details": problem, "index": index}
        return Violation(index, f"Media type mismatch: {problem}", data)
    return None


def _base64_problem(data: str) -> str | None:
    if not data:
        return "Empty base64 data"
    start, length = 0, len(data)
    while start < length:  # piece by piece: the bytes are not needed, and media may have megabytes
        end = start + WINDOW_CHARS if length - start > 2 * WINDOW_CHARS else length
        piece = data[start:end]
        try:
            a2b_base64(piece, strict_mode=True)
        except BinasciiError as error:
            return "Invalid padding" if "padding" in str(error).lower() else "Contains invalid characters"
        except ValueError:
            return "Contains invalid characters"
        if end < length and piece.endswith("="):
            return "Invalid padding"
        start = end
    return None
