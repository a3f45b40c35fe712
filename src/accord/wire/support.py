"""How well a capability is supported, and how well it must be (ABP): the levels, the thresholds, the order."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict, RootModel

from accord.wire.message import DeferredBuild, Message, Tagged, seal


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


seal(
    ReportedSupport,
    "level",
    {"native": ReportedNative, "emulated": ReportedEmulated, "unsupported": ReportedUnsupported},
)
