"""What both OpenAI APIs write alike: media as data URLs, arguments as text, schemas, parameters. Pure.

Which field of a request they go to is decided by each API's own module.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec

from accord.backends.model_api import MalformedAnswerError, UnsupportedByApiError
from accord.core.work.derive import PARAMETERS, PDF
from accord.wire.conversation import MessagePart, ResourcePart, ToolResultPart
from accord.wire.message import MAX_DEPTH
from accord.wire.work import ToolSpec, WorkOrder

FAILED: Final = "The tool failed:\n"
"""Neither API has a field for a tool's failure: this line comes before the tool's output."""

AUDIO_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audio/wav": "wav",
        "audio/x-wav": "wav",
        "audio/wave": "wav",
        "audio/vnd.wave": "wav",
        "audio/mpeg": "mp3",
        "audio/mp3": "mp3",
    }
)
"""The API's names of audio formats, by media type."""

NOT_STRICT: Final = frozenset(
    "allOf not oneOf if then else dependentRequired dependentSchemas patternProperties propertyNames "
    "unevaluatedProperties unevaluatedItems contains minContains maxContains prefixItems additionalItems "
    "minProperties maxProperties uniqueItems".split()
)
"""Keywords that `strict` does not allow in a schema."""

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NAMED_SCHEMAS: Final = ("properties", "$defs", "definitions")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def data_url(media_type: str, data: str) -> str:
    """Return base64 data as a data URL."""
    return f"data:{media_type};base64,{data}"


def file_name(part: ResourcePart) -> str:
    """Return the last segment of a document's address."""
    path = part.uri.partition("?")[0].partition("#")[0].rstrip("/")
    return unquote(path.rpartition("/")[2]) or "document.pdf"


def pdf_url(part: ResourcePart) -> str:
    """Return a PDF as a data URL; the APIs take no other files."""
    if part.media_type != PDF:
        raise UnsupportedByApiError("file_input", "the API takes no files other than PDF")
    return data_url(PDF, part.data or "")


def arguments_text(value: Any) -> str:
    """Return the arguments of a call as JSON text."""
    return _encode(value).decode()


def parse_arguments(text: str, *, is_cut: bool = False) -> Any:
    """Parse the arguments of a call; empty text means none."""
    if not text.strip():
        return {}
    try:
        return _check_depth(_decode(text.encode()))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    raise MalformedAnswerError(
        "the token limit cut off a tool call" if is_cut else "the arguments of a call are not JSON"
    )


def _check_depth(value: Any, depth: int = 0) -> Any:
    """Return the value; raise `RecursionError` if it is nested more deeply than our messages allow."""
    inner: Any = cast("dict[str, Any]", value).values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        if depth > MAX_DEPTH:
            raise RecursionError
        for item in inner:
            _check_depth(item, depth + 1)
    return cast("Any", value)


def parameters_of(tool: ToolSpec) -> Mapping[str, Any]:
    """Return the schema of a tool's input; a tool without one takes no arguments."""
    return tool.input_schema or {"type": "object", "properties": {}}


def result_text(part: ToolResultPart, texts: list[str]) -> str:
    """Return the output of a tool as one text."""
    return (FAILED if part.is_error else "") + "\n".join(texts)


def schema_name(schema: Mapping[str, Any]) -> str:
    """Return a name for a schema, from its title: at most 64 letters, digits, `_` and `-`."""
    title = schema.get("title")
    letters = _NOT_IN_NAMES.sub("_", title) if isinstance(title, str) else ""
    return letters[:64].strip("_") or "answer"


def allows_strict(schema: Mapping[str, Any]) -> bool:
    """Whether an endpoint takes this schema with `strict`: every object closed, every field required."""
    return schema.get("type") == "object" and "anyOf" not in schema and _is_strict(schema)


def _is_strict(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    held = cast("dict[str, Any]", schema)
    if not NOT_STRICT.isdisjoint(held) or not _is_closed(held):
        return False
    inner = [each for name in _NAMED_SCHEMAS for each in _values(held.get(name, {}))]
    inner += [held["items"]] if "items" in held else []
    inner += list(held.get("anyOf", ()))
    return all(map(_is_strict, inner))


def _is_closed(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind) and "properties" not in schema:
        return True
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    names = cast("dict[str, Any]", properties).keys()
    return schema.get("additionalProperties") is False and set(names) == set(cast("list[str]", required))


def _values(schemas: Any) -> list[Any]:
    return list(cast("dict[str, Any]", schemas).values()) if isinstance(schemas, dict) else [schemas]


def with_parameters(
    body: dict[str, Any], order: WorkOrder, fields: Mapping[str, str], unsupported: Mapping[str, str]
) -> dict[str, Any]:
    """Add the order's parameters to the body: common ones under the API's name, all others as they are.

    A parameter never replaces a field that the work order itself sets.
    """
    for name, value in order.parameters.items():
        capability = PARAMETERS.get(name)
        if capability is not None and capability in unsupported:
            raise UnsupportedByApiError(capability, unsupported[capability])
        field = name if capability is None else fields[name]
        if field in body:
            shown = field if field.isidentifier() else "this field"  # only a plain name may be in a message
            raise UnsupportedByApiError(capability or name, f"the work order itself sets {shown}", always=False)
        body[field] = value
    return body


def misplaced(part: MessagePart, capability: str, role: str) -> UnsupportedByApiError:
    """Return the error for a part that messages of this role cannot hold."""
    return UnsupportedByApiError(capability, f"the API takes no {part.type} from {role}", always=False)
