"""The decision on a work order before anything is sent: a plan, or a refusal with its reasons.

Both are values: they can be printed, stored in a receipt and read by a program. `core/work/plan.py` makes them.
"""

from enum import StrEnum

from pydantic import Field

from accord.errors import ErrorCode
from accord.wire.capability import CapabilityName
from accord.wire.emulation import EmulationStrategy
from accord.wire.manifest import CapabilityRequirements, MinSupport, NegotiationResult
from accord.wire.message import Message


class WorkPolicy(StrEnum):
    """How much of the requirements may be compromised."""

    STRICT = "strict"
    STANDARD = "standard"
    PERMISSIVE = "permissive"


class UnknownPolicy(StrEnum):
    """How to treat a capability that a manifest does not mention."""

    DENY = "deny"
    TRY = "try"


class Need(Message, frozen=True):
    """A capability that the work requires or prefers, and the origin of that."""

    capability: CapabilityName
    min_support: MinSupport
    required: bool
    because: str


class Rescue(Message, frozen=True):
    """A capability that the backend lacks and Accord emulates. It is never listed as the backend's own."""

    capability: CapabilityName
    strategy: EmulationStrategy
    instead_of: str


class Shortfall(Message, frozen=True):
    """A requirement that is not met, and why."""

    capability: CapabilityName
    reason: str


class Offer(Message, frozen=True):
    """How well one backend can do the work.

    `missing` rules the backend out; `losses` and `unmet` do not: the policy accepts the former, and the latter were
    only preferred. `tried` are capabilities that the manifest does not mention and that the endpoint may decide.
    `unused` are those that Accord could emulate and the work states without using them: image input without an image.
    """

    backend: str
    negotiation: NegotiationResult
    rescues: list[Rescue] = Field(default_factory=list[Rescue])
    tried: list[CapabilityName] = Field(default_factory=list[CapabilityName])
    unused: list[CapabilityName] | None = None
    losses: list[Shortfall] = Field(default_factory=list[Shortfall])
    unmet: list[Shortfall] = Field(default_factory=list[Shortfall])
    missing: list[Shortfall] = Field(default_factory=list[Shortfall])

    @property
    def is_acceptable(self) -> bool:
        """Whether this backend can do the work."""
        return not self.missing

    @property
    def compromises(self) -> int:
        """The number of requirements that the backend does not support natively."""
        return sum(map(len, (self.negotiation.emulatable, self.rescues, self.tried, self.losses, self.unmet)))


class RejectedOffer(Message, frozen=True):
    """A backend that was not chosen, and why."""

    backend: str
    why: str
    offer: Offer


class Plan(Message, frozen=True):
    """The chosen backend with its compromises, and the fallbacks in their order."""

    backend: str
    policy: WorkPolicy
    needs: list[Need]
    offer: Offer
    fallbacks: list[Offer] = Field(default_factory=list[Offer])
    lost: list[RejectedOffer] = Field(default_factory=list[RejectedOffer])

    @property
    def rescues(self) -> list[Rescue]:
        """The capabilities that Accord emulates."""
        return self.offer.rescues


class Remedy(Message, frozen=True):
    """One change that would help the work to be accepted."""

    capability: CapabilityName | None = None
    change: str


class Refusal(Message, frozen=True):
    """A refusal: what was required, what each backend offers, which came nearest, and what would make it work."""

    code: ErrorCode
    message: str
    needs: list[Need] = Field(default_factory=list[Need])
    offers: list[Offer] = Field(default_factory=list[Offer])
    nearest: str | None = None
    remedies: list[Remedy] = Field(default_factory=list[Remedy])


class PlanRequest(Message, frozen=True):
    """The question which backend would do work with these requirements."""

    requirements: CapabilityRequirements
    policy: WorkPolicy | None = Field(default=None, description="The operator's policy, if it is absent.")


class PlanResponse(Message, frozen=True):
    """The decision, made without running anything: a plan or a refusal, either with the offer of every backend."""

    plan: Plan | None = Field(default=None, description="Present if a backend can do the work.")
    refusal: Refusal | None = Field(default=None, description="Present if none can.")
    warnings: list[str] = Field(
        default_factory=list[str], description="Names that are neither known capabilities nor declared by a backend."
    )
