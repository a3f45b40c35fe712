"""The decision on a work order before anything is sent: a plan, or a refusal with its reasons.

Both are values: they can be printed, stored in a receipt and read by a program. `core/work/plan.py` makes them.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from accord.errors import ErrorCode
from accord.wire.capability import CapabilityName
from accord.wire.emulation import EmulationStrategy
from accord.wire.manifest import CapabilityRequirements, MinSupport, NegotiationResult
from accord.wire.message import Message, Value


class WorkPolicy(StrEnum):
    """How much of the requirements may be compromised."""

    STRICT = "strict"
    STANDARD = "standard"
    PERMISSIVE = "permissive"


class UnknownPolicy(StrEnum):
    """How to treat a capability that a manifest does not mention."""

    DENY = "deny"
    TRY = "try"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need(Value):
    """A capability that the work requires or prefers, and the origin of that."""

    capability: Annotated[CapabilityName, Field(description="The capability.")]
    min_support: Annotated[MinSupport, Field(description="The least that is accepted.")]
    required: Annotated[bool, Field(description="False if it is only preferred.")]
    because: Annotated[str, Field(description="Where it comes from: stated, or a part of the work.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue(Value):
    """A capability that the backend lacks and Accord emulates. It is never listed as the backend's own."""

    capability: Annotated[CapabilityName, Field(description="The capability.")]
    strategy: Annotated[EmulationStrategy, Field(description="How Accord emulates it.")]
    instead_of: Annotated[str, Field(description="Why the backend's own support is not enough.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall(Value):
    """A requirement that is not met, and why."""

    capability: Annotated[CapabilityName, Field(description="The capability.")]
    reason: Annotated[str, Field(description="Why it is not met.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(Value):
    """How well one backend can do the work.

    `missing` rules the backend out; `losses` and `unmet` do not: the policy accepts the former, and the latter were
    only preferred. `tried` are capabilities that the manifest does not mention and that the endpoint may decide.
    `unused` are those that Accord could emulate and the work states without using them: image input without an image.
    """

    backend: Annotated[str, Field(description="Its name.")]
    negotiation: Annotated[NegotiationResult, Field(description="How its manifest meets what is required.")]
    rescues: Annotated[list[Rescue], Field(description="What Accord would emulate.")] = field(
        default_factory=list[Rescue]
    )
    tried: Annotated[list[CapabilityName], Field(description="Not in its manifest; the endpoint may decide.")] = field(
        default_factory=list[CapabilityName]
    )
    unused: Annotated[list[CapabilityName] | None, Field(description="Stated, but the work does not use it.")] = None
    losses: Annotated[
        list[Shortfall], Field(description="Required and missing; accepted by the permissive policy.")
    ] = field(default_factory=list[Shortfall])
    unmet: Annotated[list[Shortfall], Field(description="Preferred and missing.")] = field(
        default_factory=list[Shortfall]
    )
    missing: Annotated[list[Shortfall], Field(description="Required and missing: this rules it out.")] = field(
        default_factory=list[Shortfall]
    )

    @property
    def is_acceptable(self) -> bool:
        """Whether this backend can do the work."""
        return not self.missing

    @property
    def compromises(self) -> int:
        """The number of requirements that the backend does not support natively."""
        return sum(map(len, (self.negotiation.emulatable, self.rescues, self.tried, self.losses, self.unmet)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedOffer(Value):
    """A backend that was not chosen, and why."""

    backend: Annotated[str, Field(description="Its name.")]
    why: Annotated[str, Field(description="Why it was not chosen, in a sentence.")]
    offer: Annotated[Offer, Field(description="What it could have done.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Value):
    """The chosen backend with its compromises, and the fallbacks in their order."""

    backend: Annotated[str, Field(description="The chosen backend.")]
    policy: Annotated[WorkPolicy, Field(description="The policy under which it was planned.")]
    needs: Annotated[list[Need], Field(description="What the work requires and prefers.")]
    offer: Annotated[Offer, Field(description="How the chosen backend does it.")]
    fallbacks: Annotated[list[Offer], Field(description="The other acceptable backends, the best first.")] = field(
        default_factory=list[Offer]
    )
    lost: Annotated[list[RejectedOffer], Field(description="Every backend that was not chosen, and why.")] = field(
        default_factory=list[RejectedOffer]
    )

    @property
    def rescues(self) -> list[Rescue]:
        """The capabilities that Accord emulates."""
        return self.offer.rescues


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy(Value):
    """One change that would help the work to be accepted."""

    capability: Annotated[
        CapabilityName | None, Field(description="The capability that it is about; absent: the whole.")
    ] = None
    change: Annotated[str, Field(description="What to change, with the key or the command.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Value):
    """A refusal: what was required, what each backend offers, which came nearest, and what would make it work."""

    code: Annotated[ErrorCode, Field(description="The error code.")]
    message: Annotated[str, Field(description="The refusal in a sentence.")]
    needs: Annotated[list[Need], Field(description="What the work requires and prefers.")] = field(
        default_factory=list[Need]
    )
    offers: Annotated[list[Offer], Field(description="What each backend offers.")] = field(default_factory=list[Offer])
    nearest: Annotated[str | None, Field(description="The backend that comes nearest.")] = None
    remedies: Annotated[list[Remedy], Field(description="Changes that would make it work.")] = field(
        default_factory=list[Remedy]
    )


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
