"""What both OpenAI APIs write alike: media as data URLs, arguments as text, schemas, parameters. Pure.

Which field of a request they go to is decided by each API's own module.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from accord.apis.codec import MalformedAnswerError, UnsupportedByApiError
from accord.apis.shapes import invalid_field
from accord.core.work.derive import PARAMETERS, PDF
from accord.core.work.reasoning import effort_for, requested_reasoning
from accord.wire.capability import Capability
from accord.wire.conversation import ImagePart, MessagePart, ResourcePart, ToolResultPart
from accord.wire.message import only_json
from accord.wire.work import NO_EFFORT, ToolSpec, WorkOrder

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

TEXT_MEMBER: Final = "input"
TEXT_INPUT: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "type": "object",
        "properties": {TEXT_MEMBER: {"type": "string"}},
        "required": [TEXT_MEMBER],
        "additionalProperties": False,
    }
)
"""The input schema of the function that stands for a custom tool."""

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NAMED_SCHEMAS: Final = ("properties", "$defs", "definitions")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def data_url(media_type: str, data: str) -> str:
    """Return base64 data as a data URL."""
    return f"data:{media_type};base64,{data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type and the base64 data of a data URL; None if it is none in base64."""
    head, comma, data = url.partition(",")
    head = head.lower()
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return head[5:].partition(";")[0].strip() or "text/plain", data


def read_data_url(url: str, field: str) -> tuple[str, str]:
    """Return the media type and the base64 data of a data URL that is this field of a request."""
    if (parts := split_data_url(url)) is None:
        raise invalid_field(field, "a data URL in base64, such as data:image/png;base64,…", url)
    return parts


def decoded_text(data: str) -> str | None:
    """Return the text of a document in base64; None if it is no text."""
    try:
        return b64decode("".join(data.split()), validate=True).decode()
    except ValueError:
        return None


def image_address(part: ImagePart) -> str:
    """Return the address of an image, or its data as a data URL."""
    return part.uri if part.uri and not part.data else data_url(part.media_type, part.data)


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
    """Parse the arguments of a call, which are an object; empty text and null mean none."""
    if text.strip() in ("", "null"):
        return {}
    try:
        arguments = only_json(_decode(text.encode()))
        if not isinstance(arguments, dict):
            raise MalformedAnswerError("the arguments of a call are not an object")
        return cast("dict[str, Any]", arguments)
    except (ValueError, RecursionError):
        pass
    raise MalformedAnswerError(
        "the token limit cut off a tool call" if is_cut else "the arguments of a call are not JSON"
    )


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


def schema_members(order: WorkOrder, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what both APIs say of the schema that this order's answer must match."""
    members = {"name": order.schema_name or schema_name(schema), "schema": schema, "strict": allows_strict(schema)}
    description = order.schema_description
    return members if description is None else {**members, "description": description}


def allows_strict(schema: Mapping[str, Any]) -> bool:
    """Whether an endpoint takes this schema with `strict`: every object closed, every field required."""
    return schema.get("type") == "object" and "anyOf" not in schema and _is_strict(schema)


def _is_strict(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    members = cast("dict[str, Any]", schema)
    if not NOT_STRICT.isdisjoint(members) or not _is_closed(members):
        return False
    inner = [each for name in _NAMED_SCHEMAS for each in _values(members.get(name, {}))]
    inner += [members["items"]] if "items" in members else []
    inner += list(members.get("anyOf", ()))
    return all(map(_is_strict, inner))


def _is_closed(schema: Mapping[str, Any]) -> bool:
    types = schema.get("type")
    if types != "object" and not (isinstance(types, list) and "object" in types) and "properties" not in schema:
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

    A parameter never replaces a field that the work order itself sets; tools are added to those of the order.
    """
    for name, value in order.parameters.items():
        capability = PARAMETERS.get(name)
        if capability is not None and capability in unsupported:
            raise UnsupportedByApiError(capability, unsupported[capability])
        field = name if capability is None else fields[name]
        if field == "tools" and field in body:
            body[field] = [*body[field], *value]
            continue
        if field in body:
            shown = field if field.isidentifier() else "this field"  # only a plain name may be in a message
            raise UnsupportedByApiError(capability or name, f"the work order itself sets {shown}")
        body[field] = value
    return body


def openai_effort(order: WorkOrder, default: str) -> str | None:
    """The word for the reasoning that this order asks for, the default if it names none; None if it asks for none."""
    wanted = requested_reasoning(order)
    if wanted.enabled is False:
        return NO_EFFORT
    if wanted.effort is None and wanted.max_tokens is not None:
        return effort_for(wanted.max_tokens)
    return wanted.effort or (default if wanted.enabled else None)


def assumed_effort(order: WorkOrder, default: str) -> dict[str, str]:
    """That the default is the effort, where reasoning is asked for and nothing else says how much."""
    wanted = requested_reasoning(order)
    if not wanted.enabled or wanted.effort or wanted.max_tokens is not None:
        return {}
    return {Capability.EXTENDED_THINKING: f"reasoning is asked for without an effort, which the API takes: {default}"}


def custom_tool(name: str, description: str, text_format: Mapping[str, Any] | None) -> ToolSpec:
    """Return a tool whose input is text, with the function that stands for it where an API has no such tools."""
    custom: dict[str, Any] = {"description": description} if description else {}
    match text_format:
        case {"type": "grammar", "syntax": str(syntax), "definition": str(definition)}:
            grammar = f"`{TEXT_MEMBER}` is text that matches this {syntax} grammar:\n{definition}"
            description = f"{description}\n\n{grammar}" if description else grammar
            custom["format"] = text_format
        case _:
            pass
    return ToolSpec(name=name, description=description, input_schema=dict(TEXT_INPUT), custom=custom)


def custom_input(value: Any) -> str:
    """Return the text of a call of a custom tool; arguments of a model that ignored the schema stay as they are."""
    match value:
        case {"input": str(text)} | str(text):
            return text
        case _:
            return arguments_text(value)


def breakpoint_of(part: MessagePart) -> dict[str, Any]:
    """Return the member that marks a point to cache up to; marks of other APIs are no such member."""
    mark = part.cache_control
    return {} if mark is None or "mode" not in mark else {"prompt_cache_breakpoint": mark}


def misplaced(part: MessagePart, capability: str, role: str) -> UnsupportedByApiError:
    """Return the error for a part that messages of this role cannot hold."""
    return UnsupportedByApiError(capability, f"the API takes no {part.type} from {role}")


def signature_member(signature: str | None) -> dict[str, Any]:
    """Return the member of a call with its signature, where Gemini's own compatible endpoint has and requires it."""
    return {} if signature is None else {"extra_content": {"google": {"thought_signature": signature}}}


def read_signature(extra_content: Any) -> str | None:
    """Return the signature in that member of a call."""
    match extra_content:
        case {"google": {"thought_signature": str(signature)}}:
            return signature
        case _:
            return None


class LikelyToken(Struct):
    """A token of an answer with its log probability."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: "list[LikelyToken] | None" = None


def read_logprob(token: LikelyToken) -> dict[str, Any]:
    """Return a token as pieces have it; its bytes only where they are not those of its text, as of half a character."""
    logprob: dict[str, Any] = {"token": token.token, "logprob": token.logprob}
    if token.bytes is not None and bytes(each & 255 for each in token.bytes) != token.token.encode(errors="replace"):
        logprob["bytes"] = token.bytes
    if token.top_logprobs:
        logprob["top"] = [read_logprob(each) for each in token.top_logprobs]
    return logprob


def write_logprob(token: Mapping[str, Any]) -> dict[str, Any]:
    """Return a token of a piece as the APIs have it."""
    return {**_token(token), "top_logprobs": [_token(each) for each in token.get("top", ())]}


def _token(token: Mapping[str, Any]) -> dict[str, Any]:
    text = token["token"]
    own_bytes = token.get("bytes") or list(text.encode(errors="replace"))
    return {"token": text, "logprob": token["logprob"], "bytes": own_bytes}
