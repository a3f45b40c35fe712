"""Presentation events: each type has its own payload."""

from typing import Any

import pytest
from pydantic import ValidationError

from accord.wire.event import (
    CitationBlock,
    CitationEvent,
    MarkdownEvent,
    MediaEvent,
    PresentationEvent,
    PresentationEventType,
    ProgressEvent,
    ThoughtEvent,
    UserErrorEvent,
)

SOURCE = {"source_id": "s", "uri": "https://example.com", "title": "t"}


@pytest.mark.parametrize(
    ("type_", "data", "kind"),
    [
        ("citation_block", {"items": []}, CitationEvent),
        ("citation_block", CitationBlock(items=[]), CitationEvent),
        ("media_carousel", {"items": []}, MediaEvent),
        ("progress_indicator", {"label": "L", "status": "failed"}, ProgressEvent),
        ("markdown_block", {"content": ""}, MarkdownEvent),
        ("user_error", {"message": "m"}, UserErrorEvent),
        ("thought_trace", {}, ThoughtEvent),
    ],
)
def test_decision_4_the_type_decides_the_kind(type_: str, data: Any, kind: type[PresentationEvent]):
    event = PresentationEvent(type=type_, data=data)
    assert type(event) is kind
    assert event.type is PresentationEventType(type_)
    assert PresentationEvent.parse(event.to_json()) == event


REFUSED: list[tuple[str, Any]] = [
    ("citation_block", {}),
    ("citation_block", {"items": [{}]}),
    ("media_carousel", {}),
    ("progress_indicator", {"label": "L", "status": "done"}),
    ("progress_indicator", {"label": "L", "status": "running", "progress_percent": 1.01}),
    ("progress_indicator", {"label": "L", "status": "running", "progress_percent": float("nan")}),
    ("markdown_block", {}),
    ("user_error", {}),
    ("user_error", {"message": "m", "domain": "weather"}),
    ("user_error", {"message": "m", "code": True}),
    ("thought_trace", "text"),
    ("chart", {}),
    ("CITATION_BLOCK", {"items": []}),
]


@pytest.mark.parametrize(("type_", "data"), REFUSED)
def test_decision_4_a_payload_of_another_shape_is_refused(type_: str, data: Any):
    with pytest.raises(ValidationError):
        PresentationEvent(type=type_, data=data)


def test_decision_4_a_user_error_has_defaults_and_keeps_other_members():
    event = PresentationEvent.parse('{"type":"user_error","data":{"message":"m","code":"E7","hint":{"a":1}}}')
    assert isinstance(event, UserErrorEvent)
    assert (event.data.domain, event.data.retryable, event.data.code) == ("system", False, "E7")
    assert event.dump()["data"]["hint"] == {"a": 1}


@pytest.mark.parametrize("share", [0, 0.0, 0.5, 1, 1.0])
def test_decision_4_progress_is_a_share_of_one(share: float):
    event = PresentationEvent(
        type="progress_indicator", data={"label": "", "status": "running", "progress_percent": share}
    )
    assert isinstance(event, ProgressEvent)
    assert event.data.progress_percent == share


def test_an_event_without_an_id_gets_one():
    first, second = (PresentationEvent.parse('{"type":"thought_trace","data":{}}') for _ in range(2))
    assert first.id != second.id
    assert first.timestamp.tzinfo is not None


@pytest.mark.parametrize(
    ("url", "mime_type", "accepted"),
    [
        ("data:image/png;base64,iVBORw0KGgo=", "image/png", True),
        ("DATA:IMAGE/PNG;base64,iVBORw0KGgo=", "image/png", True),
        ("data:image/svg+xml,%3Csvg%3E", "image/svg+xml", False),
        ("data:audio/wav;base64,AAAA", "audio/wav", True),
        ("data:image/png;base64,iVBORw0KGgo=", "image/png; charset=binary", True),
        ("data:image/png;base64,iVBORw0KGgo=", "image/jpeg", False),
        ("data:text/html,<script>", "text/html", False),
        ("data:text/html,<script>", "image/png", False),
        ("data:,plain", "text/plain", False),
        ("data:image/png\n;base64,AA", "image/png", False),
        ("https://example.com/a.png", "image/png", True),
        ("javascript:alert(1)", "image/png", False),
    ],
)
def test_decision_5_inline_media_must_agree_with_its_type(url: str, mime_type: str, accepted: bool):
    raw = {"type": "media_carousel", "data": {"items": [{"url": url, "mime_type": mime_type}]}}
    if accepted:
        assert PresentationEvent.model_validate(raw).data.items[0].url == url
    else:
        with pytest.raises(ValidationError):
            PresentationEvent.model_validate(raw)


def test_decision_5_a_source_cannot_be_inline():
    with pytest.raises(ValidationError, match="safe to open"):
        CitationBlock.model_validate({"items": [SOURCE | {"uri": "data:image/png;base64,AAAA"}]})
