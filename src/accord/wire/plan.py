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

    capability: CapabilityName = Field(description="The capability.")
    min_support: MinSupport = Field(description="The least that is accepted.")
    required: bool = Field(description="False if it is only preferred.")
    because: str = Field(description="Where it comes from: stated, or a part of the work.")


class Rescue(Message, frozen=True):
    """A capability that the backend lacks and Accord emulates. It is never listed as the backend's own."""

    capability: CapabilityName = Field(description="The capability.")
    strategy: EmulationStrategy = Field(description="How Accord emulates it.")
    instead_of: str = Field(description="Why the backend's own support is not enough.")


class Shortfall(Message, frozen=True):
    """A requirement that is not met, and why."""

    capability: CapabilityName = Field(description="The capability.")
    reason: str = Field(description="Why it is not met.")


class Offer(Message, frozen=True):
    """How well one backend can do the work.

    `missing` rules the backend out; `losses` and `unmet` do not: the policy accepts the former, and the latter were
    only preferred. `tried` are capabilities that the manifest does not mention and that the endpoint may decide.
    `unused` are those that Accord could emulate and the work states without using them: image input without an image.
    """

    backend: str = Field(description="Its name.")
    negotiation: NegotiationResult = Field(description="How its manifest meets what is required.")
    rescues: list[Rescue] = Field(default_factory=list[Rescue], description="What Accord would emulate.")
    tried: list[CapabilityName] = Field(
        default_factory=list[CapabilityName], description="Not in its manifest; the endpoint may decide."
    )
    unused: list[CapabilityName] | None = Field(default=None, description="Stated, but the work does not use it.")
    losses: list[Shortfall] = Field(
        default_factory=list[Shortfall], description="Required and missing; accepted by the permissive policy."
    )
    unmet: list[Shortfall] = Field(default_factory=list[Shortfall], description="Preferred and missing.")
    missing: list[Shortfall] = Field(
        default_factory=list[Shortfall], description="Required and missing: this rules it out."
    )

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

    backend: str = Field(description="Its name.")
    why: str = Field(description="Why it was not chosen, in a sentence.")
    offer: Offer = Field(description="What it could have done.")


class Plan(Message, frozen=True):
    """The chosen backend with its compromises, and the fallbacks in their order."""

    backend: str = Field(description="The chosen backend.")
    policy: WorkPolicy = Field(description="The policy under which it was planned.")
    needs: list[Need] = Field(description="What the work requires and prefers.")
    offer: Offer = Field(description="How the chosen backend does it.")
    fallbacks: list[Offer] = Field(
        default_factory=list[Offer], description="The other acceptable backends, the best first."
    )
    lost: list[RejectedOffer] = Field(
        default_factory=list[RejectedOffer], description="Every backend that was not chosen, and why."
    )

    @property
    def rescues(self) -> list[Rescue]:
        """The capabilities that Accord emulates."""
        return self.offer.rescues


class Remedy(Message, frozen=True):
    """One change that would help the work to be accepted."""

    capability: CapabilityName | None = Field(
        default=None, description="The capability that it is about; absent: the whole."
    )
    change: str = Field(description="What to change, with the key or the command.")


class Refusal(Message, frozen=True):
    """A refusal: what was required, what each backend offers, which came nearest, and what would make it work."""

    code: ErrorCode = Field(description="The error code.")
    message: str = Field(description="The refusal in a sentence.")
    needs: list[Need] = Field(default_factory=list[Need], description="What the work requires and prefers.")
    offers: list[Offer] = Field(default_factory=list[Offer], description="What each backend offers.")
    nearest: str | None = Field(default=None, description="The backend that comes nearest.")
    remedies: list[Remedy] = Field(default_factory=list[Remedy], description="Changes that would make it work.")


class PlanRequest(Message, frozen=True):
    """The question which backend would do work with these requirements."""

    requirements: CapabilityRequirements = Field(description="What the work requires and prefers.")
    policy: WorkPolicy | None = Field(default=None, description="The operator's policy, if it is absent.")


class PlanResponse(Message, frozen=True):
    """The decision, made without running anything: a plan or a refusal, either with the offer of every backend."""

    plan: Plan | None = Field(default=None, description="Present if a backend can do the work.")
    refusal: Refusal | None = Field(default=None, description="Present if none can.")
    warnings: list[str] = Field(
        default_factory=list[str], description="Names that are neither known capabilities nor declared by a backend."
    )
