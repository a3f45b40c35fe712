"""The profile of a client from its declaration."""

import pytest

from accord.core.output.profile import STANDARD_EVENTS, Assumption, ImageResolution, TextForm, profile_client
from accord.wire.request import ClientCapabilities


def test_decision_7_no_declaration_at_all_is_the_standard_client():
    profile = profile_client(None)
    assert profile.events == STANDARD_EVENTS
    assert profile.text is TextForm.MARKDOWN
    assert profile.assumed == (Assumption.STANDARD_CLIENT,)


def test_decision_7_a_declaration_without_events_has_the_standard_events():
    profile = profile_client(ClientCapabilities(prefers_markdown=False))
    assert profile.events == STANDARD_EVENTS
    assert profile.assumed == (Assumption.STANDARD_EVENTS,)


def test_decision_7_an_empty_list_means_no_events():
    profile = profile_client(ClientCapabilities(supported_events=[]))
    assert profile.events == frozenset()
    assert profile.assumed == ()


@pytest.mark.parametrize("spelled", ["CITATION_BLOCK", "citation_block", "Citation_Block"])
def test_decision_6_event_names_match_in_any_letter_case(spelled: str):
    profile = profile_client(ClientCapabilities(supported_events=[spelled]))
    assert profile.shows("citation_block")
    assert profile.shows("CITATION_BLOCK")
    assert not profile.shows("media_carousel")


@pytest.mark.parametrize(
    ("declared", "form"),
    [
        ({}, TextForm.MARKDOWN),
        ({"prefers_markdown": False}, TextForm.PLAIN),
        ({"prefers_markdown": False, "supported_events": ["PROGRESS_INDICATOR"]}, TextForm.PLAIN),
        ({"prefers_markdown": False, "supported_events": []}, TextForm.SPEECH),
        ({"prefers_markdown": True, "supported_events": []}, TextForm.MARKDOWN),
        ({"prefers_markdown": False, "supported_events": [], "text_profile": "plain"}, TextForm.PLAIN),
        ({"prefers_markdown": True, "text_profile": "speech"}, TextForm.SPEECH),
    ],
)
def test_decision_8_a_client_without_markdown_gets_plain_text_or_speech(declared: dict[str, object], form: TextForm):
    assert profile_client(ClientCapabilities.model_validate(declared)).text is form


@pytest.mark.parametrize(
    ("sent", "resolution", "assumed"),
    [
        (None, None, ()),
        ("high", ImageResolution.HIGH, ()),
        ("LOW", ImageResolution.LOW, ()),
        ("8k", ImageResolution.AUTO, (Assumption.RESOLUTION_AUTO,)),
        ("", ImageResolution.AUTO, (Assumption.RESOLUTION_AUTO,)),
    ],
)
def test_decision_7_an_unknown_resolution_counts_as_auto(
    sent: str | None, resolution: ImageResolution | None, assumed: tuple[Assumption, ...]
):
    profile = profile_client(ClientCapabilities(supported_events=[], image_resolution=sent))
    assert (profile.resolution, profile.assumed) == (resolution, assumed)
