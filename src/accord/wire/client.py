"""What a client can show (CAP, smart content negotiation). What is made of it is decided by the adapter."""

from enum import StrEnum

from pydantic import Field

from accord.wire.message import Message


class TextProfile(StrEnum):
    """How text without markdown should read: for eyes or for ears."""

    PLAIN = "plain"
    SPEECH = "speech"


class SpeechFormat(StrEnum):
    """How text for a voice is written."""

    TEXT = "text"
    SSML = "ssml"


class MinFidelity(StrEnum):
    """The lowest rung of the ladder that a strict client takes."""

    NATIVE = "native"
    SIMPLIFIED = "simplified"
    SUBSTITUTED = "substituted"
    DESCRIBED = "described"


class Silence(list[str]):
    """The empty list that stands for an absent one; it is never written."""


def _is_silence(events: list[str]) -> bool:
    return type(events) is Silence


class ClientCapabilities(Message, frozen=True):
    """The rendering capabilities that a client declares with its request."""

    supported_events: list[str] = Field(
        default_factory=Silence,
        exclude_if=_is_silence,
        description="Event types the client can render, in any letter case. Absent: the standard set.",
    )
    prefers_markdown: bool = Field(default=True, description="False asks for plain text.")
    image_resolution: str | None = Field(default=None, description="low, high or auto; anything else counts as auto.")
    text_profile: TextProfile | None = Field(default=None, description="How text without markdown should read.")
    speech_format: SpeechFormat | None = Field(
        default=None, description="ssml: text for a voice is escaped, to stand between <speak> and </speak>."
    )
    min_fidelity: MinFidelity | None = Field(
        default=None, description="Ends the stream with an error rather than show an event below this rung."
    )

    @property
    def declares_events(self) -> bool:
        """Whether `supported_events` was said at all: silence means the standard set, `[]` means none."""
        return not _is_silence(self.supported_events)
