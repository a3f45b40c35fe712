"""Manifests and requirements (ABP): support levels, minimum support, and the result of comparing the two."""

from collections.abc import ItemsView, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict, Field, RootModel

from accord.wire.capability import CapabilityName
from accord.wire.message import DeferredBuild, Message, Tagged, close_union

# How well a capability is supported, and how well it must be (ABP): the levels, the thresholds, the order.


class MinSupport(StrEnum):
    """The least that a requirement accepts."""

    NATIVE = "native"
    EMULATED = "emulated"


# A restricted capability works, with limits: good enough for "emulated", never for "native".
SATISFIED_BY: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        MinSupport.NATIVE: frozenset({"native"}),
        MinSupport.EMULATED: frozenset({"native", "emulated", "restricted"}),
    }
)
"""Which levels are good enough for which minimum."""


class Limits(Message, frozen=True):
    """Why a restricted capability is restricted."""

    reason: str


class Restricted(Message, frozen=True):
    """A capability that works, limited by policy or environment."""

    restricted: Limits


class SupportLevel(DeferredBuild, RootModel[Literal["native", "emulated", "unsupported"] | Restricted]):
    """How well a backend supports a capability: `"native"`, `{"restricted": {"reason": …}}` and so on."""

    model_config = ConfigDict(frozen=True)

    NATIVE: ClassVar["SupportLevel"]
    EMULATED: ClassVar["SupportLevel"]
    UNSUPPORTED: ClassVar["SupportLevel"]

    @classmethod
    def limited(cls, reason: str) -> "SupportLevel":
        """The level of a capability that works within limits."""
        return cls(Restricted(restricted=Limits(reason=reason)))

    @property
    def kind(self) -> str:
        """Which of the four levels this is."""
        level = self.root
        return level if isinstance(level, str) else "restricted"

    @property
    def reason(self) -> str | None:
        """Why the capability is restricted, if it is."""
        level = self.root
        return None if isinstance(level, str) else level.restricted.reason

    def satisfies(self, minimum: MinSupport | str) -> bool:
        """Whether this is good enough."""
        return self.kind in SATISFIED_BY[MinSupport(minimum)]


SupportLevel.NATIVE = SupportLevel("native")
SupportLevel.EMULATED = SupportLevel("emulated")
SupportLevel.UNSUPPORTED = SupportLevel("unsupported")


class ReportedSupport(Tagged, frozen=True):
    """A level as a report tells it: `{"level": "emulated", "strategy": …}`."""

    level: Literal["native", "emulated", "unsupported"]


class ReportedNative(ReportedSupport, frozen=True):
    """The backend does it itself."""

    level: Literal["native"] = "native"


class ReportedEmulated(ReportedSupport, frozen=True):
    """The backend can stand in for it, in the way that `strategy` says."""

    level: Literal["emulated"] = "emulated"
    strategy: str


class ReportedUnsupported(ReportedSupport, frozen=True):
    """The backend cannot do it."""

    level: Literal["unsupported"] = "unsupported"


close_union(
    ReportedSupport,
    "level",
    {"native": ReportedNative, "emulated": ReportedEmulated, "unsupported": ReportedUnsupported},
)


# What a backend says it can do (ABP): a level for each capability. Silence is not a level; `core` decides it.


class CapabilityManifest(DeferredBuild, RootModel[dict[CapabilityName, SupportLevel]]):
    """Capability names and how well each is supported; reads like a mapping."""

    model_config = ConfigDict(frozen=True)

    def __getitem__(self, name: str) -> SupportLevel:
        return self.root[name]

    def __contains__(self, name: object) -> bool:
        return name in self.root

    def __len__(self) -> int:
        return len(self.root)

    def __iter__(self) -> Iterator[str]:  # pyright: ignore[reportIncompatibleMethodOverride] - pydantic yields fields, a manifest yields names
        return iter(self.root)

    def get(self, name: str) -> SupportLevel | None:
        """The declared level, or None where the backend is silent."""
        return self.root.get(name)

    def items(self) -> ItemsView[str, SupportLevel]:
        """Every declared name with its level."""
        return self.root.items()


# What a piece of work needs (ABP), and what it would like.


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


# What came of comparing a manifest with requirements (ABP, decisions 10 and 11). The comparing is in `core`.


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
