"""Turns a recorded request into what may be committed: its structure, short texts, nothing of the machine it ran on.

Pure. Every key stays, and every value keeps its kind: a text of JSON stays JSON, an id stays an id.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from scripts.record_clients.server import RecordedRequest
from scripts.record_clients.task import READERS

LONGEST: Final = 60
WHOLE: Final = re.compile(r"(?:data:image/png;base64,)?iVBORw0KGgo")
"""A picture is kept whole: a shortened one would be no picture."""
TRANSPORT: Final = frozenset(
    "accept-encoding accept-language connection content-length host proxy-connection sec-fetch-mode "
    "sec-websocket-extensions sec-websocket-key sec-websocket-version".split()
)
"""Headers that say nothing about the request to the model."""
VALUES: Final = ("accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "originator", "x-app")
"""Headers whose values are kept as well."""
SAME_IN_EVERY_REQUEST: Final = "tools"
SCHEMAS: Final = frozenset({"input_schema", "parameters", "schema"})

# Ids and times of the run, each replaced by another of its kind.
REPLACED: Final = (
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "00000000-0000-0000-0000-000000000000"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "0" * 64),
    (re.compile(r"\bses_\w{20,}"), "ses_00000000000000000000000000"),
    (re.compile(r"Chunk ID: \w+"), "Chunk ID: 000000"),
    (re.compile(r"(Wall time:?) [\d.]+"), r"\1 0.1"),
    (re.compile(r"(?<![\w-])20\d\d-\d\d-\d\d"), "2026-01-01"),
)
OF_THE_RUN: Final[Mapping[str, Any]] = {
    "chunk_id": "000000",
    "create_time": 0.0,
    "turn_started_at_unix_ms": 0,
    "wall_time_seconds": 0.1,
}
"""Members whose values differ in every run, and what replaces them."""

Json = dict[str, Any]


def redact(request: RecordedRequest, private: Mapping[str, str]) -> Json:
    """Return what is kept of a request; `private` maps texts of this machine to what replaces them."""
    headers = {name: value for name, value in request.headers.items() if name not in TRANSPORT}
    kept: Json = {
        "method": request.method,
        "path": request.path,
        "headers": sorted(headers),
        "values": {name: headers[name] for name in VALUES if name in headers},
    }
    if "user-agent" in headers:
        kept["values"]["user-agent"] = headers["user-agent"].partition(" ")[0]
    if request.body is not None:
        kept["body"] = _redact_value(request.body, private)
    return kept


def _redact_value(value: Any, private: Mapping[str, str], key: str = "") -> Any:
    if key in OF_THE_RUN:
        return OF_THE_RUN[key]
    if isinstance(value, str):
        return _redact_text(value, private)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        chosen = choose_tools(items) if key == SAME_IN_EVERY_REQUEST else items
        return [_redact_value(item, private) for item in chosen]
    if isinstance(value, dict):
        members = cast("Json", value)
        return {name: _redact_value(each, private, name) for name, each in members.items()}
    return value


def _redact_text(text: str, private: Mapping[str, str]) -> str:
    for found, replacement in private.items():
        text = text.replace(found, replacement)
    if text.startswith("{"):
        try:
            return json.dumps(_redact_value(json.loads(text), private), sort_keys=True)
        except ValueError:
            pass
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    return text if len(text) <= LONGEST or WHOLE.match(text) else text[:LONGEST] + "…"


def choose_tools(tools: Sequence[Any]) -> list[Any]:
    """Return one tool of each shape, with the ones that the script calls: the others add nothing but length."""
    shapes: set[str] = set()
    chosen: list[Any] = []
    for tool in sorted(tools, key=lambda tool: _name_of(tool) not in READERS):
        shape = json.dumps(sorted(_outline(tool)))
        if shape not in shapes:
            shapes.add(shape)
            chosen.append(tool)
    return chosen


def _name_of(tool: Json) -> str | None:
    return tool.get("name") or tool.get("function", {}).get("name")


def shape_of(kept: Json) -> str:
    """Return what two requests have in common that differ in their texts alone."""
    body: Json = kept.get("body") or {}
    scalars = {name: value for name, value in body.items() if not isinstance(value, (dict, list))}
    # A longer conversation has the same shape only if it has no new kind of message or block.
    return json.dumps([kept["method"], kept["path"], kept["values"], scalars, sorted(_outline(body))], sort_keys=True)


def _outline(value: Any, path: str = "") -> set[str]:
    """Return every path in a value with the kind of what is there, and with its type and role where it has one."""
    if isinstance(value, dict):
        members = cast("Json", value)
        return {entry for name, each in members.items() for entry in _outline_member(path, name, each)}
    if isinstance(value, list):
        return {entry for each in cast("list[Any]", value) for entry in _outline(each, path + "[]")} | {path + "[]"}
    return {f"{path} {type(value).__name__}"}


def _outline_member(path: str, name: str, value: Any) -> Iterator[str]:
    if name in SCHEMAS:
        yield f"{path}.{name}"
    elif name in ("type", "role") and isinstance(value, str):
        yield f"{path}.{name}={value}"
    else:
        yield from _outline(value, f"{path}.{name}")
