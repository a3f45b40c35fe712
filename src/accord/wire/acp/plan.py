"""The steps of an agent's plan: apart from the other updates of a session, since an answer may have one, too."""

from enum import StrEnum

from accord.wire.acp.base import AcpMessage, Open


class PlanEntryPriority(StrEnum):
    """The priority of a step."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanEntryStatus(StrEnum):
    """The status of a step; `cancelled` is the draft's."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class PlanEntry(AcpMessage, frozen=True):
    """One step of a plan."""

    content: str
    priority: Open[PlanEntryPriority]
    status: Open[PlanEntryStatus]
