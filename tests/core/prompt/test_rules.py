"""The table of content rules, row by row."""

from typing import Any

import pytest

from accord.acp.content import ContentType
from accord.core.prompt.rules import RULES, ContentLimits, check_block
from accord.core.prompt.verdict import Violation, read_declaration

ALL = read_declaration({"image": True, "audio": True, "embeddedContext": True}, 1)
NONE = read_declaration({}, 1)
PNG = "iVBORw0KGgoAAAANSUhEUg=="


def test_every_type_of_content_has_its_rule():
    assert {*RULES, "resource"} == {str(kind) for kind in ContentType}


@pytest.mark.parametrize(
    ("block", "message", "error", "detail"),
    [
        (None, "Invalid content structure", "invalid_content_structure", "content block must be an object"),
        ([], "Invalid content structure", "invalid_content_structure", "content block must be an object"),
        ({}, "Missing required field: type", "missing_required_field", "type"),
        ({"type": None}, "Invalid content structure", "invalid_content_structure", "type must be a string"),
        ({"type": "video"}, "Unsupported content type: video", "unsupported_content_type", None),
        ({"type": "Text", "text": ""}, "Unsupported content type: Text", "unsupported_content_type", None),
        ({"type": "text"}, "Missing required field: text", "missing_required_field", "text"),
        ({"type": "text", "text": None}, "Invalid content structure", "invalid_content_structure", "text must be a string"),
        ({"type": "resource_link", "uri": "u"}, "Missing required field: name", "missing_required_field", "name"),
        ({"type": "resource_link", "name": "n"}, "Missing required field: uri", "missing_required_field", "uri"),
        ({"type": "image", "data": PNG}, "Missing required field: mimeType", "missing_required_field", "mimeType"),
        ({"type": "audio", "mimeType": "audio/wav"}, "Missing required field: data", "missing_required_field", "data"),
        ({"type": "resource"}, "Missing required field: resource", "missing_required_field", "resource"),
        ({"type": "resource", "resource": "r"}, "Invalid content structure", "invalid_content_structure", "resource must be an object"),
        ({"type": "resource", "resource": {}}, "Missing required field: uri", "missing_required_field", "uri"),
        ({"type": "resource", "resource": {"uri": "u"}}, "Invalid content structure", "invalid_content_structure", "resource must have text or blob"),
        ({"type": "resource", "resource": {"uri": "u", "blob": "***"}}, "Invalid base64 data", "invalid_base64_format", "Contains invalid characters"),
        ({"type": "image", "mimeType": "image/png", "data": ""}, "Invalid base64 data", "invalid_base64_format", "Empty base64 data"),
        ({"type": "image", "mimeType": "image/png", "data": "AAA"}, "Invalid base64 data", "invalid_base64_format", "Invalid padding"),
        ({"type": "image", "mimeType": "image/png", "data": "AA A"}, "Invalid base64 data", "invalid_base64_format", "Contains invalid characters"),
        ({"type": "image", "mimeType": "image/png", "data": "AÄÄA"}, "Invalid base64 data", "invalid_base64_format", "Contains invalid characters"),
        ({"type": "image", "mimeType": "image/png", "data": "-_-_"}, "Invalid base64 data", "invalid_base64_format", "Contains invalid characters"),
        ({"type": "image", "mimeType": "audio/wav", "data": PNG}, "Media type mismatch: mimeType should be image/*", "mime_type_mismatch", "mimeType should be image/*"),
        ({"type": "image", "mimeType": "png", "data": PNG}, "Media type mismatch: mimeType should be image/*", "mime_type_mismatch", "mimeType should be image/*"),
        ({"type": "image", "mimeType": "image/jpeg", "data": PNG}, "Media type mismatch: mimeType does not fit the data, which is image/png", "mime_type_mismatch", "mimeType does not fit the data, which is image/png"),
    ],
)  # fmt: skip
def test_each_fault_has_its_error(block: Any, message: str, error: str, detail: str | None):
    found = check_block(3, block, ALL, ContentLimits())
    assert isinstance(found, Violation)
    assert (found.message, found.data["error"], found.data["index"]) == (message, error, 3)
    assert detail is None or detail in (found.data.get("details"), found.data.get("field"))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "mimeType": "image/png", "data": PNG},
        {"type": "image", "mimeType": "IMAGE/PNG; charset=binary", "data": PNG},
        {"type": "image", "mimeType": "image/jpg", "data": "/9j/4AAQSkZJRgABAQ=="},
        {"type": "image", "mimeType": "image/x-unheard-of", "data": "AAAA"},
        {"type": "image", "mimeType": "image/png", "data": PNG, "uri": 5, "annotations": []},
        {"type": "audio", "mimeType": "audio/x-wav", "data": "UklGRiQAAABXQVZFZm10IA=="},
        {"type": "resource", "resource": {"uri": "u", "blob": ""}},
        {"type": "resource", "resource": {"uri": "u", "text": "", "blob": "***"}},
        {"type": "text", "text": "", "foo": 1},
    ],
)
def test_a_valid_block_gives_its_size(block: Any):
    assert isinstance(check_block(0, block, ALL, ContentLimits()), int)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "mimeType": "text/plain", "data": "!!!"},
        {"type": "audio", "mimeType": "", "data": ""},
        {"type": "resource", "resource": {"uri": "u", "blob": "***"}},
    ],
)
def test_media_that_was_not_declared_is_never_decoded(block: dict[str, Any]):
    found = check_block(0, block, NONE, ContentLimits())
    assert isinstance(found, Violation)
    assert found.data["declaredCapability"] is False


@pytest.mark.parametrize("block", [{"type": "image"}, {"type": "audio", "data": 1}, {"type": "resource"}])
def test_structure_is_checked_before_the_declaration(block: dict[str, Any]):
    found = check_block(0, block, NONE, ContentLimits())
    assert isinstance(found, Violation)
    assert found.is_malformed


@pytest.mark.parametrize(
    "end", ["", "AAAAAA==", "AA==AAAA", "AAA=AAAA", "A", "AAAA=AAA", "AAAAAA A", "AAAA====", "AAÄA"]
)
@pytest.mark.parametrize("place", [0, 8, 12])
def test_base64_is_judged_the_same_in_pieces(end: str, place: int, monkeypatch: pytest.MonkeyPatch):
    data = "A" * place + end + "A" * (12 - place)
    block = {"type": "resource", "resource": {"uri": "u", "blob": data}}
    whole = check_block(0, block, ALL, ContentLimits())
    monkeypatch.setattr("accord.core.prompt.rules.WINDOW_CHARS", 4)
    assert check_block(0, block, ALL, ContentLimits()) == whole
