"""What a piece of work needs (ABP), and what it would like."""

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.message import Message
from accord.wire.support import MinSupport


class CapabilityRequirement(Message, frozen=True):
    """One capability and the least support that will do."""

    capability: CapabilityName
    min_support: MinSupport


class CapabilityRequirements(Message, frozen=True):
    """What must be there, and what would be welcome. `preferred` is Accord's addition."""

    required: list[CapabilityRequirement] = Field(default_factory=list[CapabilityRequirement])
    preferred: list[CapabilityRequirement] = Field(
        default_factory=list[CapabilityRequirement], exclude_if=lambda preferred: not preferred
    )
