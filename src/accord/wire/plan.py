"""What was decided about one piece of work, before anything was sent: a plan, or a refusal that explains itself.

Both are values: they can be printed, stored in a receipt and read by a program. The deciding is in `core/work/plan.py`.
"""

from enum import StrEnum

from pydantic import Field

from accord.errors import ErrorCode
from accord.wire.capability import CapabilityName
from accord.wire.emulation import EmulationStrategy
from accord.wire.manifest import MinSupport, NegotiationResult
from accord.wire.message import Message


class WorkPolicy(StrEnum):
    """How far a piece of work may be compromised."""

    STRICT = "strict"
    STANDARD = "standard"
    PERMISSIVE = "permissive"


class UnknownPolicy(StrEnum):
    """What to make of a capability that a manifest says nothing about."""

    DENY = "deny"
    TRY = "try"


class Need(Message, frozen=True):
    """A capability that the work needs or would like, and where that comes from."""

    capability: CapabilityName
    min_support: MinSupport
    required: bool
    because: str


class Rescue(Message, frozen=True):
    """A capability that the backend lacks and Accord stands in for; never called the backend's own."""

    capability: CapabilityName
    strategy: EmulationStrategy
    instead_of: str


class Shortfall(Message, frozen=True):
    """A capability that is not there, and why."""

    capability: CapabilityName
    reason: str


class Offer(Message, frozen=True):
    """What one backend can make of the work.

    `missing` stands in the way; `losses` and `unmet` do not: the policy goes on without the first, and the second was
    only preferred. `tried` is what the manifest is silent about and the operator lets the endpoint decide.
    """

    backend: str
    negotiation: NegotiationResult
    rescues: list[Rescue] = Field(default_factory=list[Rescue])
    tried: list[CapabilityName] = Field(default_factory=list[CapabilityName])
    losses: list[Shortfall] = Field(default_factory=list[Shortfall])
    unmet: list[Shortfall] = Field(default_factory=list[Shortfall])
    missing: list[Shortfall] = Field(default_factory=list[Shortfall])

    @property
    def is_acceptable(self) -> bool:
        """Whether the work can be given to this backend."""
        return not self.missing

    @property
    def compromises(self) -> int:
        """How far this is from the backend doing all of it natively."""
        return sum(map(len, (self.negotiation.emulatable, self.rescues, self.tried, self.losses, self.unmet)))


class RejectedOffer(Message, frozen=True):
    """A backend that was not chosen, and why."""

    backend: str
    why: str
    offer: Offer


class Plan(Message, frozen=True):
    """Who does the work, with which compromises; and who would take over if that fails."""

    backend: str
    policy: WorkPolicy
    needs: list[Need]
    offer: Offer
    fallbacks: list[Offer] = Field(default_factory=list[Offer])
    lost: list[RejectedOffer] = Field(default_factory=list[RejectedOffer])

    @property
    def rescues(self) -> list[Rescue]:
        """What Accord stands in for."""
        return self.offer.rescues


class Remedy(Message, frozen=True):
    """One change that would bring the work nearer to being accepted."""

    capability: CapabilityName | None = None
    change: str


class Refusal(Message, frozen=True):
    """An ordinary no: what was asked, what is offered, who came nearest, and what would make it work."""

    code: ErrorCode
    message: str
    needs: list[Need] = Field(default_factory=list[Need])
    offers: list[Offer] = Field(default_factory=list[Offer])
    nearest: str | None = None
    remedies: list[Remedy] = Field(default_factory=list[Remedy])
