"""The description of each event, on a screen and by voice (the table of the design)."""

from typing import Any

import pytest

from accord.wire.request import ClientCapabilities
from tests.core.output import CLI, NOTHING, PICTURE, PLAIN, SOURCES, VOICE, description_of, event, run, text_of


def sources(*titles: str) -> dict[str, Any]:
    items = [{"source_id": title, "uri": f"https://{n}.example/p", "title": title} for n, title in enumerate(titles)]
    return {"items": items}


def media(*alts: str | None, mime_type: str = "image/png") -> dict[str, Any]:
    return {
        "items": [
            {"url": f"https://{n}.example/i", "mime_type": mime_type, **({"alt_text": alt} if alt else {})}
            for n, alt in enumerate(alts)
        ]
    }


INLINE = {"items": [{"url": "data:image/png;base64,AAAA", "mime_type": "image/png", "alt_text": "A dot"}]}


@pytest.mark.parametrize(
    ("client", "kind", "data", "text"),
    [
        (
            CLI,
            "citation_block",
            sources("A", "B"),
            "Sources:\n1. A: <https://0.example/p>\n2. B: <https://1.example/p>",
        ),
        (PLAIN, "citation_block", sources("A", "B"), "Sources:\n1. A: https://0.example/p\n2. B: https://1.example/p"),
        (VOICE, "citation_block", sources("A"), "Source: A."),
        (VOICE, "citation_block", sources("A", "B"), "Sources: A and B."),
        (VOICE, "citation_block", sources("A", "B", "C", "D", "E"), "Sources: A, B and 3 more."),
        (VOICE, "citation_block", sources("https://x.example/long"), "Source: the link to x.example."),
        (PLAIN, "citation_block", sources(""), "Sources:\n1. untitled: https://0.example/p"),
        (PLAIN, "media_carousel", PICTURE, "Image: A chart (PNG) https://a.example/i.png"),
        (CLI, "media_carousel", PICTURE, "Image: A chart (PNG) <https://a.example/i.png>"),
        (
            PLAIN,
            "media_carousel",
            media("x", None),
            "Image 1/2: x (PNG) https://0.example/i\nImage 2/2 (PNG) https://1.example/i",
        ),
        (PLAIN, "media_carousel", INLINE, "Image: A dot (PNG)"),
        (PLAIN, "media_carousel", media("x", mime_type="image/svg+xml"), "Image: x (SVG) https://0.example/i"),
        (PLAIN, "media_carousel", media(None, mime_type="text/csv"), "File (CSV) https://0.example/i"),
        (VOICE, "media_carousel", media("A chart"), "Image: A chart."),
        (VOICE, "media_carousel", media("A", None, "C"), "3 images: A and C."),
        (VOICE, "media_carousel", media(None), "Image without a description."),
        (VOICE, "media_carousel", media(None, None, mime_type="video/mp4"), "2 videos without descriptions."),
        (NOTHING, "progress_indicator", {"label": "Search", "status": "failed"}, "Failed: Search"),
        (VOICE, "progress_indicator", {"label": "Search", "status": "failed"}, "Failed: Search."),
        (VOICE, "progress_indicator", {"label": "Search", "status": "running"}, ""),
        (VOICE, "progress_indicator", {"label": "Search", "status": "complete"}, ""),
        (NOTHING, "markdown_block", {"content": "## A\n**b**"}, "## A\n**b**"),
        (PLAIN, "markdown_block", {"content": "## A\n**b**"}, "A\nb"),
        (VOICE, "markdown_block", {"content": "```py\nx\n```"}, "(Python code, 1 line)"),
        (NOTHING, "user_error", {"message": "No *luck*", "code": 503}, r"Error 503: No \*luck\*"),
        (PLAIN, "user_error", {"message": "No luck", "retryable": True}, "Error: No luck. Trying again may help."),
        (VOICE, "user_error", {"message": "No luck", "code": 503}, "Error: No luck."),
        (VOICE, "user_error", {"message": "Why?"}, "Error: Why?"),
        (VOICE, "thought_trace", {"step": "secret"}, ""),
        (NOTHING, "thought_trace", {"fallback_text": "secret"}, ""),
    ],
)
def test_each_event_has_the_description_of_the_table(client: ClientCapabilities, kind: str, data: Any, text: str):
    assert description_of(client, kind, data) == text


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("citation_block", {"items": [{"uri": "javascript:x", "title": "Evil"}, 7]}, "Sources:\n1. Evil"),
        (
            "citation_block",
            {"items": [*SOURCES["items"], {"uri": "javascript:x", "title": "Evil"}]},
            "Sources:\n1. A paper: https://a.example/x",
        ),
        ("media_carousel", {"items": [{"url": "javascript:x", "alt_text": "A chart"}]}, "File: A chart"),
        ("progress_indicator", {"label": "Search", "status": "failed", "progress_percent": 7}, "Failed: Search"),
        ("user_error", {}, "Error: something went wrong."),
        ("user_error", None, "Error: something went wrong."),
        ("user_error", {"message": "No luck", "domain": "moon"}, "Error: No luck"),
        ("user_error", {"message": ""}, "Error: something went wrong."),
    ],
)
def test_of_an_invalid_payload_only_safe_parts_are_described(kind: str, data: Any, text: str):
    client = ClientCapabilities(supported_events=["hologram"], prefers_markdown=False)
    assert description_of(client, kind, data) == text


def test_a_url_is_never_spoken():
    for kind, data in (("citation_block", SOURCES), ("media_carousel", PICTURE), ("citation_block", sources("A"))):
        assert "://" not in description_of(VOICE, kind, data)


def test_a_long_list_is_cut_and_ends_with_the_number_of_the_others():
    text = description_of(PLAIN, "citation_block", sources(*map(str, range(60))))
    assert text.endswith("(10 more)")
    assert len(text.splitlines()) == 52


def test_messages_in_another_language_can_be_passed():
    messages = {"sources_spoken": "Quellen: {list}.", "list_and": "{first} und {last}"}
    assert description_of(VOICE, "citation_block", sources("A", "B")) == "Sources: A and B."
    out, _ = run(VOICE, event("citation_block", sources("A", "B")), messages=messages)
    assert text_of(out) == "Quellen: A und B."


def test_descriptions_are_escaped_for_ssml():
    client = ClientCapabilities(supported_events=[], prefers_markdown=False, speech_format="ssml")  # pyright: ignore[reportArgumentType]
    assert description_of(client, "user_error", {"message": "a < b & c"}) == "Error: a &lt; b &amp; c."
    assert description_of(client, "markdown_block", {"content": "**a** < b"}) == "a &lt; b"
