"""Manifests and requirements (ABP): support levels, minimum support, and the result of comparing the two."""

from collections.abc import ItemsView, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, cast

from pydantic import ConfigDict, Field, RootModel, model_validator
from pydantic_core import PydanticCustomError

from accord.errors import UsageError
from accord.wire.capability import CapabilityName, snake_case
from accord.wire.message import DeferredBuild, Message, SparseMessage, Tagged, close_union


class MinSupport(StrEnum):
    """The minimum support that a requirement accepts."""

    NATIVE = "native"
    EMULATED = "emulated"


# A restricted capability works within limits: it satisfies "emulated", never "native".
SATISFIED_BY: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        MinSupport.NATIVE: frozenset({"native"}),
        MinSupport.EMULATED: frozenset({"native", "emulated", "restricted"}),
    }
)
"""The levels that satisfy each minimum."""


class Limits(Message, frozen=True):
    """Why a restricted capability is restricted."""

    reason: str = Field(description="Why, in a few words.")


class Restricted(Message, frozen=True):
    """A capability that works, limited by policy or environment."""

    restricted: Limits = Field(description="The limits.")


class SupportLevel(DeferredBuild, RootModel[Literal["native", "emulated", "unsupported"] | Restricted]):
    """How well a backend supports a capability: `"native"`, `{"restricted": {"reason": …}}` and so on."""

    model_config = ConfigDict(frozen=True)

    NATIVE: ClassVar["SupportLevel"]
    EMULATED: ClassVar["SupportLevel"]
    UNSUPPORTED: ClassVar["SupportLevel"]

    @classmethod
    def restricted(cls, reason: str) -> "SupportLevel":
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

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.root == other
        return self.root == other.root if isinstance(other, SupportLevel) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.root)

    def satisfies(self, minimum: MinSupport | str) -> bool:
        """Whether this level satisfies the minimum."""
        if minimum not in SATISFIED_BY:
            raise UsageError(f'minimum: unknown level "{minimum}"; use {" or ".join(MinSupport)}')
        return self.kind in SATISFIED_BY[minimum]


SupportLevel.NATIVE = SupportLevel("native")
SupportLevel.EMULATED = SupportLevel("emulated")
SupportLevel.UNSUPPORTED = SupportLevel("unsupported")


class ReportedSupport(Tagged, frozen=True):
    """A level as it appears in a report: `{"level": "emulated", "strategy": …}`."""

    level: Literal["native", "emulated", "unsupported"]


class ReportedNative(ReportedSupport, frozen=True):
    """The backend supports it natively."""

    level: Literal["native"] = "native"


class ReportedEmulated(ReportedSupport, frozen=True):
    """The backend emulates it, by `strategy`."""

    level: Literal["emulated"] = "emulated"
    strategy: str = Field(description="How: `adapter` for the backend's own emulation, or its restriction.")


class ReportedUnsupported(ReportedSupport, frozen=True):
    """The backend does not support it."""

    level: Literal["unsupported"] = "unsupported"


close_union(
    ReportedSupport,
    "level",
    {"native": ReportedNative, "emulated": ReportedEmulated, "unsupported": ReportedUnsupported},
)


class CapabilityManifest(DeferredBuild, RootModel[dict[CapabilityName, SupportLevel]]):
    """The support level of each capability that a backend declares. It can be used like a mapping."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_spellings(cls, given: Any) -> Any:
        """Refuse one capability in two spellings: one of the two levels would be lost."""
        if isinstance(given, Mapping):
            names = [snake_case(name) for name in cast("Mapping[Any, Any]", given) if isinstance(name, str)]
            if len(set(names)) < len(names):
                raise PydanticCustomError(
                    "capability_twice", "Each capability should be declared once, in one spelling"
                )
        return cast("Any", given)

    def __getitem__(self, name: str) -> SupportLevel:
        return self.root[snake_case(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and snake_case(name) in self.root

    def __len__(self) -> int:
        return len(self.root)

    def __iter__(self) -> Iterator[str]:  # pyright: ignore[reportIncompatibleMethodOverride] - pydantic yields fields, a manifest yields names
        return iter(self.root)

    def get(self, name: str) -> SupportLevel | None:
        """The declared level; None if the backend declares none."""
        return self.root.get(snake_case(name))

    def items(self) -> ItemsView[str, SupportLevel]:
        """Every declared name with its level."""
        return self.root.items()


class CapabilityRequirement(Message, frozen=True):
    """One capability and the minimum support that it needs."""

    capability: CapabilityName = Field(description="The capability.")
    min_support: MinSupport = Field(description="The least that is accepted; restricted support counts as emulated.")


class CapabilityRequirements(SparseMessage, frozen=True):
    """The required capabilities, and the preferred ones. `preferred` is Accord's addition."""

    sparse = ("required", "preferred")

    required: list[CapabilityRequirement] = Field(
        default_factory=list[CapabilityRequirement], description="Without these the work is refused."
    )
    preferred: list[CapabilityRequirement] = Field(
        default_factory=list[CapabilityRequirement], description="Backends that have these are preferred."
    )


class NegotiationResult(SparseMessage, frozen=True):
    """Every requirement in exactly one list, order and duplicates kept.

    `reasons` says why a name is in `unsupported`; `strategies` says how a name in `emulatable` is provided, where that
    is not the backend's own adapter. Both are Accord's additions to the three lists.
    """

    sparse = ("reasons", "strategies")

    native: list[CapabilityName] = Field(default_factory=list[CapabilityName], description="Supported natively.")
    emulatable: list[CapabilityName] = Field(
        default_factory=list[CapabilityName], description="Emulated by the backend, or supported within limits."
    )
    unsupported: list[CapabilityName] = Field(
        default_factory=list[CapabilityName], description="Not supported well enough."
    )
    reasons: dict[CapabilityName, str] = Field(
        default_factory=dict[CapabilityName, str],
        description="Why a capability is unsupported.",
    )
    strategies: dict[CapabilityName, str] = Field(
        default_factory=dict[CapabilityName, str],
        description="How a capability is provided, if not by the backend's own adapter.",
    )

    def is_compatible(self) -> bool:
        """Whether every requirement is met."""
        return not self.unsupported

    def total(self) -> int:
        """The number of requirements."""
        return len(self.native) + len(self.emulatable) + len(self.unsupported)


class CompatibilityReport(Message, frozen=True):
    """The result for people and dashboards: counts, one sentence, and each capability in PascalCase."""

    compatible: bool = Field(description="Whether every requirement is met.")
    native_count: int = Field(description="How many are native.")
    emulated_count: int = Field(description="How many are emulated.")
    unsupported_count: int = Field(description="How many are unsupported.")
    summary: str = Field(description="All of it in a sentence.")
    details: list[tuple[str, ReportedSupport]] = Field(
        description="Each capability in PascalCase, and how it is supported."
    )
