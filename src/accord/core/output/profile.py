"""Read a client's declaration: what it can show, the form of its text, and what had to be assumed.

What a client does not declare is assumed from the standard client, a rich web client. Every
assumption is listed, so that a report can say what was declared and what was not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from accord.wire.event import PresentationEventType
from accord.wire.request import ClientCapabilities, TextProfile

STANDARD_EVENTS: Final = frozenset(str(kind) for kind in PresentationEventType)
"""The events of a rich web client: every type that the protocol names."""


class TextForm(StrEnum):
    """The form of the text for a client."""

    MARKDOWN = "markdown"
    PLAIN = "plain"
    SPEECH = "speech"


class ImageResolution(StrEnum):
    """How large the client wants its images."""

    LOW = "low"
    HIGH = "high"
    AUTO = "auto"


class Assumption(StrEnum):
    """What was assumed because the client did not declare it, or declared an unknown value."""

    STANDARD_CLIENT = "standard_client"
    STANDARD_EVENTS = "standard_events"
    RESOLUTION_AUTO = "resolution_auto"


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """What one client can show."""

    events: frozenset[str]
    text: TextForm
    resolution: ImageResolution | None
    assumed: tuple[Assumption, ...]

    def shows(self, event_type: str) -> bool:
        """Whether the client declared this event type; letter case does not matter."""
        return event_type.lower() in self.events


STANDARD_CLIENT: Final = ClientProfile(STANDARD_EVENTS, TextForm.MARKDOWN, None, (Assumption.STANDARD_CLIENT,))
"""The profile of a client that declared nothing."""


def profile_client(declared: ClientCapabilities | None) -> ClientProfile:
    """Return what a client with this declaration can show."""
    if declared is None:
        return STANDARD_CLIENT
    assumed: list[Assumption] = []
    resolution = None
    if declared.declares_events:
        events = frozenset(name.lower() for name in declared.supported_events)
    else:
        events = STANDARD_EVENTS
        assumed.append(Assumption.STANDARD_EVENTS)
    if declared.image_resolution is not None:
        try:
            resolution = ImageResolution(declared.image_resolution.lower())
        except ValueError:
            resolution = ImageResolution.AUTO
            assumed.append(Assumption.RESOLUTION_AUTO)
    return ClientProfile(events, _text_form(declared, events), resolution, tuple(assumed))


def _text_form(declared: ClientCapabilities, events: frozenset[str]) -> TextForm:
    """A client without markdown gets plain text; one that also shows no events is a voice."""
    if declared.text_profile is not None:
        return TextForm.SPEECH if declared.text_profile is TextProfile.SPEECH else TextForm.PLAIN
    if declared.prefers_markdown:
        return TextForm.MARKDOWN
    return TextForm.PLAIN if events else TextForm.SPEECH


NAMED_CLIENTS: Final[Mapping[str, ClientCapabilities | None]] = MappingProxyType(
    {
        "web": None,
        "cli": ClientCapabilities(
            supported_events=["PROGRESS_INDICATOR"], prefers_markdown=True, image_resolution="low"
        ),
        "voice": ClientCapabilities(supported_events=[], prefers_markdown=False),
    }
)
"""The clients of the examples of CAP, by a name that can be given instead of a declaration. `web` declares nothing."""
