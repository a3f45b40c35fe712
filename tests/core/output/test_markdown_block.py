"""Decision 8: a client without markdown gets plain text in events too."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.wire.adaptation import AdaptationReason as Reason
from accord.wire.adaptation import Rung
from accord.wire.request import ClientCapabilities, TextProfile
from tests.core.output import PLAIN, VOICE, description_of, event, events_of, run, text_of

BLOCKS = ["markdown_block", "citation_block", "media_carousel", "user_error", "poll"]
RICH = ClientCapabilities(supported_events=BLOCKS)
SCREEN = ClientCapabilities(supported_events=BLOCKS, prefers_markdown=False)
SPEAKER = ClientCapabilities(supported_events=BLOCKS, text_profile=TextProfile.SPEECH)


@pytest.mark.parametrize(
    ("client", "content", "sent", "rung", "reason"),
    [
        (RICH, "## A\n**b**", "## A\n**b**", Rung.NATIVE, Reason.SUPPORTED),
        (SCREEN, "## A\n**b**", "A\nb", Rung.SIMPLIFIED, Reason.MARKUP_REMOVED),
        (SCREEN, "[a](https://a.example)", "a", Rung.SIMPLIFIED, Reason.MARKUP_REMOVED),
        (SCREEN, "No markup.", "No markup.", Rung.NATIVE, Reason.SUPPORTED),
        (SCREEN, "No markup.\n", "No markup.\n", Rung.NATIVE, Reason.SUPPORTED),
        (SCREEN, "", "", Rung.NATIVE, Reason.SUPPORTED),
        (SPEAKER, "```py\nx\n```", "(Python code, 1 line)", Rung.SIMPLIFIED, Reason.MARKUP_REMOVED),
        (SPEAKER, "Good morning.", "Good morning.", Rung.NATIVE, Reason.SUPPORTED),
    ],
)
def test_decision_8_a_markdown_block_has_the_clients_form_of_text(
    client: ClientCapabilities, content: str, sent: str, rung: Rung, reason: Reason
):
    packet = event("markdown_block", {"content": content, "extra": 1}, id="block-1")
    out, adapter = run(client, packet)
    assert events_of(out) == [{"type": "markdown_block", "data": {"content": sent, "extra": 1}, "id": "block-1"}]
    assert text_of(out) == ""
    (entry,) = adapter.report.entries
    assert (entry.rung, entry.reason) == (rung, reason)
    changed = rung is Rung.SIMPLIFIED
    assert (entry.kept, entry.lost) == ((["content"], ["markup"]) if changed else ([], []))


def test_what_was_removed_is_counted():
    _, adapter = run(SCREEN, event("markdown_block", {"content": "[a](https://a.example) and ![b](https://b.example)"}))
    assert sum(adapter.report.entries[0].notes.values()) == 2


def test_a_block_that_is_nothing_but_markup_is_dropped():
    out, adapter = run(SCREEN, event("markdown_block", {"content": "---"}))
    assert out == []
    assert (adapter.report.entries[0].rung, adapter.report.entries[0].reason) == (Rung.DROPPED, Reason.EMPTY)


def test_a_block_that_replaces_another_event_is_plain_too():
    block = {"type": "markdown_block", "data": {"content": "**b**"}}
    out, adapter = run(
        ClientCapabilities(supported_events=["markdown_block"], prefers_markdown=False),
        event("poll", {}, fallback=block),
    )
    assert [sent["data"] for sent in events_of(out)] == [{"content": "b"}]
    assert adapter.report.entries[0].rung is Rung.SUBSTITUTED


STARS = "2 * 3 * 4 and **not bold**"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("citation_block", {"items": [{"source_id": "a", "uri": "https://a.example", "title": STARS, "snippet": STARS}]}),
        ("media_carousel", {"items": [{"url": "https://a.example/i.png", "mime_type": "image/png", "alt_text": STARS}]}),
        ("user_error", {"message": STARS}),
        ("poll", {"question": STARS}),
    ],
)  # fmt: skip
def test_texts_that_are_not_markdown_are_unchanged(kind: str, data: dict[str, Any]):
    packet = event(kind, data)
    assert run(SCREEN, packet)[0] == [packet]


MARKDOWN = st.lists(
    st.sampled_from(["**b**", "a ", "# ", "\n", "\n\n", "- ", "[x](https://a.example)", "`c`", "```\n", "| a | b |\n", "<b>", "_", "\\*"]),
    max_size=8,
).map("".join)  # fmt: skip


@given(MARKDOWN, st.sampled_from([(SCREEN, PLAIN), (SPEAKER, VOICE)]))
def test_the_block_has_the_text_that_a_client_without_blocks_gets(
    content: str, clients: tuple[ClientCapabilities, ClientCapabilities]
):
    with_blocks, without = clients
    out, adapter = run(with_blocks, event("markdown_block", {"content": content}))
    described = description_of(without, "markdown_block", {"content": content})
    sent = [one["data"]["content"] for one in events_of(out)]
    if adapter.report.entries[0].rung is Rung.NATIVE:
        assert sent[0].strip() == described
    else:
        assert sent == ([described] if described else [])
