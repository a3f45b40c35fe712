"""The documentation page: it contains the whole document, and none of it is executed."""

from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest

from accord.servers.http.documentation import documentation_page
from accord.wire.contract import ServiceContract

PAGE = documentation_page(ServiceContract.document(title="Accord: demo", version="1.2.3"))
VOID = {"meta", "br"}
EVIL = "<script>alert('x')</script>\"'&`<b>"


class Reading(HTMLParser):
    """Parses a page, and checks that every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            assert name in {"id", "href", "class", "lang", "charset", "name", "content", "scope"}
            if name == "id":
                self.ids.append(value or "")
            elif name == "href":
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_operation_and_every_schema_has_its_place():
    document, page = ServiceContract.document(), Reading(PAGE)
    for path, item in document["paths"].items():
        assert path in page.text
        for operation in (value for name, value in item.items() if name != "parameters"):
            assert f"operation-{operation['operationId']}" in page.ids
            assert operation["summary"] in page.text
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= {*page.ids}
    assert len(page.ids) == len(set(page.ids))


def test_every_link_leads_somewhere():
    page = Reading(PAGE)
    assert {link.removeprefix("#") for link in page.links} - {"openapi.json"} <= {*page.ids}


def test_it_can_be_folded_without_a_script():
    page = Reading(PAGE)
    assert page.tags["details"] == page.tags["summary"] > 50
    assert page.tags["script"] == 0
    assert "prefers-color-scheme: dark" in PAGE


def hostile() -> dict[str, Any]:
    """A document in which every word is an attack."""
    schema = {"description": EVIL, "properties": {EVIL: {"type": EVIL, "format": EVIL}, "e": {"enum": [EVIL]}}}
    media = {EVIL: {"schema": {"$ref": f"#/components/schemas/{EVIL}"}}}
    operation: dict[str, Any] = {
        "operationId": EVIL,
        "summary": EVIL,
        "description": EVIL,
        "parameters": [{"name": EVIL, "in": EVIL, "description": EVIL, "schema": {"const": EVIL}}],
        "requestBody": {"content": media},
        "responses": {EVIL: {"description": EVIL, "headers": {EVIL: {}}, "content": media}},
    }
    return {
        "info": {"title": EVIL, "version": EVIL, "description": EVIL},
        "paths": {EVIL: {"get": operation}},
        "components": {"schemas": {EVIL: schema}},
    }


def test_no_text_of_a_document_becomes_markup():
    page = Reading(documentation_page(hostile()))
    assert page.tags["script"] == 0
    assert page.text.count(EVIL) > 10


@pytest.mark.parametrize(
    ("schema", "rendered"),
    [
        (True, "any value"),
        ({}, "any value"),
        ({"type": "string", "format": "uuid"}, "string (uuid)"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        ({"type": "array"}, "list of any value"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({"type": "object", "additionalProperties": True}, "object"),
        ({"type": "object", "patternProperties": {"^a": {"type": "null"}}}, "object of null"),
        ({"type": "string", "description": "as `code`"}, "stringas code"),
        ({"enum": ["a", 1]}, '"a" or 1'),
        ({"const": None}, "null"),
    ],
)
def test_a_type_is_rendered_in_a_few_words(schema: Any, rendered: str):
    document = {
        "info": {"title": "t", "version": "1"},
        "paths": {},
        "components": {"schemas": {"S": {"properties": {"field": schema}}}},
    }
    assert f"field optional{rendered}" in Reading(documentation_page(document)).text
