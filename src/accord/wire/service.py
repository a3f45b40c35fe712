"""What a service reports about itself: health and capabilities; and the findings of a probe."""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.disposition import ModelApis, RememberedRefusal
from accord.wire.manifest import CapabilityManifest
from accord.wire.message import Message
from accord.wire.receipt import AgentParty, BackendParty
from accord.wire.request import TextProfile


class HealthCheckStatus(StrEnum):
    """The status of a service (CAP)."""

    OK = "ok"
    DEGRADED = "degraded"
    MAINTENANCE = "maintenance"


class HealthCheckResponse(Message, frozen=True):
    """The response to a health check (CAP)."""

    status: HealthCheckStatus = Field(description="The status.")
    agent_id: UUID = Field(description="An id of the process, made when it starts.")
    version: str = Field(description="The version of Accord.")
    uptime_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(description="Since the process started.")


Emulates = Literal["system_prompt_injection", "post_processing"]


class ServiceCapabilities(Message, frozen=True):
    """The accepted content, the capabilities of each backend, the emulations, and the output formats."""

    agent: AgentParty = Field(description="The agent that answers if a request names none.")
    agents: dict[str, AgentParty] = Field(
        default_factory=dict[str, AgentParty],
        description="Every agent that `context.agent` may name, the one that answers otherwise included.",
    )
    backends: list[BackendParty] = Field(
        description="In the operator's order, with the source and date of each capability, and those that were refused."
    )
    emulations: dict[CapabilityName, Emulates] = Field(
        description="The capabilities that Accord emulates, and the kind of strategy."
    )
    text_profiles: list[TextProfile] = Field(
        description="The profiles of text without markdown that a client can ask for."
    )
    events: list[str] = Field(description="The standard events: those of a client that declares none.")
    remembered: list[RememberedRefusal] = Field(
        default_factory=list[RememberedRefusal], description="What endpoints refused recently, so that it is not sent."
    )
    model_apis: ModelApis | None = Field(
        default=None, description="What becomes of each field of the model APIs, if the service has them."
    )


class ProbeRecord(Message, frozen=True):
    """What `accord backends probe --write` found out about one model, with the date."""

    backend: str
    model: str | None = None
    date: str
    found: CapabilityManifest
