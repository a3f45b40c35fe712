"""A piece of work for a backend (ABP's work order): what is asked, and with what. Who does it is decided in `core`."""

from typing import Any

from pydantic import Field

from accord.wire.acp.content import ContentBlock
from accord.wire.conversation import Conversation
from accord.wire.message import FreeObject, Message
from accord.wire.requirement import CapabilityRequirements


class ToolSpec(Message, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str = ""
    input_schema: FreeObject = Field(default_factory=dict[str, Any])


class WorkOrder(Message, frozen=True):
    """One question to a model, with everything that it needs.

    `prompt` is what the user just sent, checked against what the agent accepts; `conversation` is what the backend is
    given, the prompt included.
    """

    conversation: Conversation = Field(default_factory=Conversation)
    prompt: list[ContentBlock] = Field(default_factory=list[ContentBlock])
    requirements: CapabilityRequirements = Field(default_factory=CapabilityRequirements)
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec])
    response_schema: FreeObject | None = None
    json_mode: bool = False
    stop_sequences: list[str] = Field(default_factory=list[str])
    stream: bool = False
    thinking: bool = False
    parameters: FreeObject = Field(default_factory=dict[str, Any])
