"""How a service says that it is well (CAP)."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from accord.wire.message import Message


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
