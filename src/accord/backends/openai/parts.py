"""What both OpenAI APIs write alike: media as data URLs, arguments as text, schemas, the operator's own words.

Pure. Which field of a request they go to is each API's own to know.
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
"""Neither API has a place for a tool's failure: it is told in front of what the tool said."""

SOUNDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audio/wav": "wav",
        "audio/x-wav": "wav",
        "audio/wave": "wav",
        "audio/vnd.wave": "wav",
        "audio/mpeg": "mp3",
        "audio/mp3": "mp3",
    }
)
"""The kinds of sound that there is a word for."""

NOT_STRICT: Final = frozenset(
    "allOf not oneOf if then else dependentRequired dependentSchemas patternProperties propertyNames "
    "unevaluatedProperties unevaluatedItems contains minContains maxContains prefixItems additionalItems "
    "minProperties maxProperties uniqueItems".split()
)
"""Keywords that a schema with `strict` may not have."""

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NAMED_SCHEMAS: Final = ("properties", "$defs", "definitions")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def data_url(media_type: str, data: str) -> str:
    """Contents in base64 as an address."""
    return f"data:{media_type};base64,{data}"


def file_name(part: ResourcePart) -> str:
    """What a document is called: the last word of its address."""
    path = part.uri.partition("?")[0].partition("#")[0].rstrip("/")
    return unquote(path.rpartition("/")[2]) or "document.pdf"


def pdf_url(part: ResourcePart) -> str:
    """The contents of a PDF; files of other kinds have no place."""
    if part.media_type != PDF:
        raise UnsupportedByApiError("file_input", "it takes no files other than PDF")
    return data_url(PDF, part.data or "")


def arguments_text(value: Any) -> str:
    """What a tool is called with, as JSON text."""
    return _encode(value).decode()


def arguments_of(text: str, *, is_cut: bool = False) -> Any:
    """What a tool is called with; no text at all is no arguments."""
    if not text.strip():
        return {}
    try:
        return _checked(_decode(text.encode()))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    told = "its length was limited in the middle of a call" if is_cut else "the arguments of a call are not JSON"
    raise MalformedAnswerError(told)


def _checked(value: Any, depth: int = 0) -> Any:
    """The value, if it is not nested so deeply that our own messages would refuse it."""
    inner: Any = cast("dict[str, Any]", value).values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        if depth > MAX_DEPTH:
            raise RecursionError
        for item in inner:
            _checked(item, depth + 1)
    return cast("Any", value)


def parameters_of(tool: ToolSpec) -> Mapping[str, Any]:
    """The schema of a tool's input; a tool without one takes nothing."""
    return tool.input_schema or {"type": "object", "properties": {}}


def result_text(part: ToolResultPart, texts: list[str]) -> str:
    """What a tool gave, as one text."""
    return (FAILED if part.is_error else "") + "\n".join(texts)


def schema_name(schema: Mapping[str, Any]) -> str:
    """A name for a schema, from its title if that gives one: letters, digits, `_` and `-`, 64 at most."""
    title = schema.get("title")
    letters = _NO_NAME.sub("_", title) if isinstance(title, str) else ""
    return letters[:64].strip("_") or "answer"


def allows_strict(schema: Mapping[str, Any]) -> bool:
    """Whether an endpoint that is strict would take this schema as it is: every object closed, every field required."""
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
    body: dict[str, Any], order: WorkOrder, fields: Mapping[str, str], lacks: Mapping[str, str]
) -> dict[str, Any]:
    """The body with the order's parameters: those with one meaning under the API's own name, all others as they are.

    What the work itself says is no parameter, so a parameter never takes its place.
    """
    for name, value in order.parameters.items():
        capability = PARAMETERS.get(name)
        if capability is not None and capability in lacks:
            raise UnsupportedByApiError(capability, lacks[capability])
        field = name if capability is None else fields[name]
        if field in body:
            raise UnsupportedByApiError(capability or name, f"the work itself sets {_shown(field)}", always=False)
        body[field] = value
    return body


def _shown(field: str) -> str:
    return field if field.isidentifier() else "this field"


def misplaced(part: MessagePart, capability: str, role: str) -> UnsupportedByApiError:
    """What is to be said of a part that this role has no place for."""
    return UnsupportedByApiError(capability, f"it takes no {part.type} from {role}", always=False)
