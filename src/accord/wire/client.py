"""What a client can show (CAP, smart content negotiation). What is made of it is decided by the adapter."""

from enum import StrEnum
from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from accord.wire.message import Message


class TextProfile(StrEnum):
    """How text without markdown should read: for eyes or for ears."""

    PLAIN = "plain"
    SPEECH = "speech"


class ClientCapabilities(Message, frozen=True):
    """The rendering capabilities that a client declares with its request."""

    supported_events: list[str] = Field(
        default_factory=list[str],
        description="Event types the client can render, in any letter case. Absent: the standard set.",
    )
    prefers_markdown: bool = Field(default=True, description="False asks for plain text.")
    image_resolution: str | None = Field(default=None, description="low, high or auto; anything else counts as auto.")
    text_profile: TextProfile | None = Field(default=None, description="How text without markdown should read.")

    @property
    def declares_events(self) -> bool:
        """Whether `supported_events` was said at all: silence means the standard set, `[]` means none."""
        return "supported_events" in self.model_fields_set

    @model_serializer(mode="wrap")
    def _leave_silence_silent(self, handler: SerializerFunctionWrapHandler):  # noqa: ANN202 - pydantic keeps the schema only without one
        fields: dict[str, Any] = handler(self)
        if not self.declares_events:
            fields.pop("supported_events", None)
        return fields
