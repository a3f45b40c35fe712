"""What a service reports about itself: health, capabilities, and what a probe saw an endpoint do."""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.manifest import CapabilityManifest
from accord.wire.message import Message
from accord.wire.receipt import AgentParty, BackendParty
from accord.wire.request import TextProfile

# How a service says that it is well (CAP).


class HealthCheckStatus(StrEnum):
    """What a probe may be told."""

    OK = "ok"
    DEGRADED = "degraded"
    MAINTENANCE = "maintenance"


class HealthCheckResponse(Message, frozen=True):
    """The answer to a health probe."""

    status: HealthCheckStatus
    agent_id: UUID
    version: str
    uptime_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


# What a service can do, as it tells whoever may ask: its agent, its backends, and what it can show. No decisions.

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


# What an endpoint was seen to do, kept in a file beside the configuration by `accord backends probe --write`.


class ProbeRecord(Message, frozen=True):
    """What was found of one model, and on which day."""

    backend: str
    model: str | None = None
    date: str
    found: CapabilityManifest
