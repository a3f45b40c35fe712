"""Reads a client's declaration: what it can show, how its text should read, and what had to be assumed.

Decisions 6, 7 and 8. Silence is answered with the standard client, a rich web client, and every assumption is
told, so that a report can say what was declared and what was not. Adapting anything is not done here.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from accord.wire.event import PresentationEventType
from accord.wire.request import ClientCapabilities, TextProfile

STANDARD_EVENTS: Final = frozenset(str(kind) for kind in PresentationEventType)
"""What a rich web client shows: every event that the protocol names."""


class TextForm(StrEnum):
    """How text reaches the client."""

    MARKDOWN = "markdown"
    PLAIN = "plain"
    SPEECH = "speech"


class ImageResolution(StrEnum):
    """How large the client wants its pictures."""

    LOW = "low"
    HIGH = "high"
    AUTO = "auto"


class Assumption(StrEnum):
    """What was assumed because the client did not say it, or said it in an unknown word."""

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
        """Whether the client declared this event type; letter case does not matter (decision 6)."""
        return event_type.lower() in self.events


STANDARD_CLIENT: Final = ClientProfile(STANDARD_EVENTS, TextForm.MARKDOWN, None, (Assumption.STANDARD_CLIENT,))
"""Who said nothing is taken for this one."""


def profile_client(declared: ClientCapabilities | None) -> ClientProfile:
    """What this client can show."""
    if declared is None:
        return STANDARD_CLIENT
    assumed: list[Assumption] = []
    if declared.declares_events:
        events = frozenset(name.lower() for name in declared.supported_events)
    else:
        events = STANDARD_EVENTS
        assumed.append(Assumption.STANDARD_EVENTS)
    resolution = _resolution(declared.image_resolution, assumed)
    return ClientProfile(events, _text_form(declared, events), resolution, tuple(assumed))


def _text_form(declared: ClientCapabilities, events: frozenset[str]) -> TextForm:
    """Decision 8: a client without markdown reads plain text; one that shows nothing at all listens."""
    if declared.text_profile is not None:
        return TextForm.SPEECH if declared.text_profile is TextProfile.SPEECH else TextForm.PLAIN
    if declared.prefers_markdown:
        return TextForm.MARKDOWN
    return TextForm.PLAIN if events else TextForm.SPEECH


def _resolution(said: str | None, assumed: list[Assumption]) -> ImageResolution | None:
    if said is None:
        return None
    try:
        return ImageResolution(said.lower())
    except ValueError:
        assumed.append(Assumption.RESOLUTION_AUTO)
        return ImageResolution.AUTO
