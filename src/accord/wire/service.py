"""What a service can do, as it tells whoever may ask: its agent, its backends, and what it can show. No decisions."""

from typing import Literal

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.client import TextProfile
from accord.wire.message import Message
from accord.wire.receipt import AgentParty, BackendParty

Emulates = Literal["system_prompt_injection", "post_processing"]


class ServiceCapabilities(Message, frozen=True):
    """What the agent takes, which backends can do what, what is stood in for, and how an answer can be shown."""

    agent: AgentParty
    backends: list[BackendParty] = Field(description="In the operator's order, with what each was seen to refuse.")
    emulations: dict[CapabilityName, Emulates] = Field(
        description="What Accord stands in for, and by which kind of strategy; its prompts are the operator's own."
    )
    text_profiles: list[TextProfile] = Field(description="How text without markdown can be asked for.")
    events: list[str] = Field(description="The standard events, which a client that declares none is taken to show.")
