"""What came of comparing a manifest with requirements (ABP, decisions 10 and 11). The comparing is in `core`."""

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.message import Message
from accord.wire.support import ReportedSupport


class NegotiationResult(Message, frozen=True):
    """Every requirement in exactly one list, order and duplicates kept.

    `reasons` tells why a name is in `unsupported`; `strategies` tells how a name in `emulatable` is provided
    where that is more than the backend's own adapter. Both are Accord's additions beside the three lists.
    """

    native: list[CapabilityName] = Field(default_factory=list[CapabilityName])
    emulatable: list[CapabilityName] = Field(default_factory=list[CapabilityName])
    unsupported: list[CapabilityName] = Field(default_factory=list[CapabilityName])
    reasons: dict[CapabilityName, str] = Field(
        default_factory=dict[CapabilityName, str], exclude_if=lambda reasons: not reasons
    )
    strategies: dict[CapabilityName, str] = Field(
        default_factory=dict[CapabilityName, str], exclude_if=lambda strategies: not strategies
    )

    def is_compatible(self) -> bool:
        """Whether nothing that was required is missing."""
        return not self.unsupported

    def total(self) -> int:
        """How many requirements were looked at."""
        return len(self.native) + len(self.emulatable) + len(self.unsupported)


class CompatibilityReport(Message, frozen=True):
    """The result for people and dashboards: counts, one sentence, and each capability in PascalCase."""

    compatible: bool
    native_count: int
    emulated_count: int
    unsupported_count: int
    summary: str
    details: list[tuple[str, ReportedSupport]]
