"""One message of a conversation's history (CAP)."""

from datetime import UTC, datetime
from enum import StrEnum

from pydantic import Field

from accord.wire.message import Message


class Role(StrEnum):
    """Who is speaking."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ChatMessage(Message, frozen=True):
    """What one speaker said. The timestamp may be left out on the wire; then it is the time of reading."""

    role: Role
    content: str
    name: str | None = None
    tool_call_id: str | None = None
    timestamp: datetime = Field(default_factory=lambda: datetime.now(UTC))
