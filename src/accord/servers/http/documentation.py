"""An OpenAPI document as one HTML page: no script, nothing to load, light or dark as the reader's system is set.

Pure: a document comes in, HTML goes out. All text of the document is escaped.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final, cast
from urllib.parse import quote

Json = Mapping[str, Any]

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
"""The members of a path item that are operations, in the specification's order."""

_CODE: Final = re.compile(r"`([^`]+)`")

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0; --paper: #fff; --box: #f6f8fa;
  --accent: #0758b5 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa4af; --line: #3a424c; --paper: #11161c;
  --box: #1a2129; --accent: #7ab7ff } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1rem 4rem; font: 16px/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper) }
a { color: var(--accent) }
h1 { margin: 0; font-size: 1.75rem } h2 { margin-top: 2.5rem; font-size: 1.25rem } h3 { font-size: 1rem }
code { font: .875em/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
details { margin: .5rem 0; border: 1px solid var(--line); border-radius: 6px; background: var(--box) }
summary { padding: .6rem .8rem; cursor: pointer }
summary:focus-visible, a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.inside { padding: 0 .8rem .8rem; overflow-x: auto }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700 }
.soft { color: var(--soft) }
table { width: 100%; border-collapse: collapse; background: var(--paper) }
th, td { padding: .35rem .6rem; border: 1px solid var(--line); text-align: left; vertical-align: top }
"""


def documentation_page(document: Json) -> str:
    """The HTML page of this document."""
    info, schemas = document["info"], document.get("components", {}).get("schemas", {})
    title = escape(info["title"])
    return "\n".join(
        [
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>',
            f"</head>\n<body>\n<header>\n<h1>{title}</h1>",
            f'<p class="soft">Version {escape(info["version"])}, <a href="openapi.json">as OpenAPI</a></p>',
            f"<p>{escape(info.get('description', ''))}</p>\n</header>\n<main>\n<h2>Operations</h2>",
            *(
                _operation(path, method, item[method], item.get("parameters", []))
                for path, item in document["paths"].items()
                for method in METHODS
                if method in item
            ),
            "<h2>Schemas</h2>",
            *(_schema(name, schema) for name, schema in schemas.items()),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _operation(path: str, method: str, operation: Json, shared: Iterable[Json]) -> str:
    parts = [_paragraph(operation.get("description"))]
    if operation.get("security") == []:
        parts.append(_paragraph("Needs no authentication."))
    if parameters := [*shared, *operation.get("parameters", [])]:
        parts += ["<h3>Parameters</h3>", _table(("name", "in", "type", "meaning"), map(_parameter, parameters))]
    if body := operation.get("requestBody"):
        parts += ["<h3>Body</h3>", _table(("format", "type"), _contents(body.get("content", {})))]
    responses = [row for status, response in operation["responses"].items() for row in _response(status, response)]
    parts += ["<h3>Responses</h3>", _table(("status", "meaning", "format", "type"), responses)]
    head = f'<code class="method">{method.upper()}</code> <code>{escape(path)}</code> '
    summary = f'<span class="soft">{escape(operation.get("summary", ""))}</span>'
    return _fold(f"operation-{operation.get('operationId', path)}", head + summary, "".join(parts))


def _parameter(parameter: Json) -> tuple[str, ...]:
    need = "" if parameter.get("required") else ' <span class="soft">optional</span>'
    name = f"<code>{escape(parameter['name'])}</code>{need}"
    return name, escape(parameter["in"]), _type(parameter["schema"]), _text(parameter.get("description", ""))


def _response(status: str, response: Json) -> Iterator[tuple[str, ...]]:
    headers = "".join(f"<br>with <code>{escape(name)}</code>" for name in response.get("headers", {}))
    meaning = _text(response.get("description", "")) + headers
    for kind, schema in _contents(response.get("content", {})) or [("", "")]:
        yield f"<code>{escape(status)}</code>", meaning, kind, schema


def _contents(content: Json) -> list[tuple[str, str]]:
    return [
        (f"<code>{escape(kind)}</code>", _type(media.get("x-event-data") or media.get("schema", {})))
        for kind, media in content.items()
    ]


def _schema(name: str, schema: Json) -> str:
    required = schema.get("required", ())
    rows: list[tuple[str, ...]] = []
    for field, described in schema.get("properties", {}).items():
        need = "" if field in required else ' <span class="soft">optional</span>'
        meaning = cast("Json", described).get("description", "") if isinstance(described, Mapping) else ""
        rows.append((f"<code>{escape(field)}</code>{need}", _type(described), _text(meaning)))
    content = _table(("field", "type", "meaning"), rows) if rows else f"<p>{_type(schema)}</p>"
    return _fold(f"schema-{name}", f"<code>{escape(name)}</code>", _paragraph(schema.get("description")) + content)


def _type(schema: Any) -> str:
    """A short description of a schema."""
    if not isinstance(schema, Mapping):  # JSON Schema has `true` for everything
        return "any value"
    node = cast("Json", schema)
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        return f'<a href="#{quote(f"schema-{name}")}">{escape(name)}</a>'
    for several, word in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if several in node:
            return word.join(_type(one) for one in node[several])
    if "const" in node:
        return _literals([node["const"]])
    if "enum" in node:
        return _literals(node["enum"])
    return _plain_type(node)


def _plain_type(node: Json) -> str:
    kind = node.get("type", "any value")
    if kind == "array":
        return f"list of {_type(node.get('items', True))}"
    if kind == "object":
        held = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
        if types := " or ".join(_type(one) for one in held if isinstance(one, Mapping)):
            return f"object of {types}"
    names = " or ".join(map(str, cast("list[Any]", kind))) if isinstance(kind, list) else str(kind)
    return escape(f"{names} ({node['format']})" if "format" in node else names)


def _literals(values: Iterable[Any]) -> str:
    return " or ".join(f"<code>{escape(json.dumps(value, ensure_ascii=False))}</code>" for value in values)


def _fold(name: str, summary: str, inside: str) -> str:
    return (
        f'<details id="{escape(name)}"><summary>{summary}</summary>\n<div class="inside">\n{inside}\n</div></details>'
    )


def _paragraph(text: str | None) -> str:
    return f"<p>{_text(text)}</p>" if text else ""


def _text(text: str) -> str:
    """Escaped text; of its markdown only code is rendered."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
