"""What an agent declares of prompts: apart from the rest of `initialize`, which only ACP itself needs.

Omitted means unsupported, and so does everything malformed.
"""

from pydantic import Field

from accord.wire.acp.base import AcpMessage, Declared, Flag


class PromptCapabilities(AcpMessage, frozen=True):
    """The content that an agent accepts in prompts besides text and resource links."""

    image: Flag = Field(default=False, description="Image blocks.")
    audio: Flag = Field(default=False, description="Audio blocks.")
    embedded_context: Flag = Field(default=False, description="Resource blocks.")


class DraftPromptCapabilities(AcpMessage, frozen=True):
    """The content that an agent accepts in prompts besides text and resource links, in the draft."""

    image: Declared = None
    audio: Declared = None
    embedded_context: Declared = None
