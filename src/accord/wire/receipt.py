"""The account of one turn: who declared what, what was decided, what became of it. One a turn, chained in a session.

It holds counts, names and findings, never what a user or a model said; of a permission it holds the title and the
options, in the agent's words. `ReceiptBody` is the hashed part, the link to
the session's previous receipt included; `Receipt` adds the hash. Sealing and verifying are in `core/receipt.py`.

A receipt is kept and passed on as `to_json()` writes it (any order of keys will do): an explicit null is another text
than an absent member, and has another hash.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from accord.errors import ErrorCode
from accord.wire.adaptation import AdaptationReport
from accord.wire.agent_work import PermissionRecord
from accord.wire.capability import CapabilityName
from accord.wire.emulation import EmulationRecord
from accord.wire.manifest import CapabilityManifest, NegotiationResult
from accord.wire.message import FreeObject, Message
from accord.wire.plan import Need, Offer, WorkPolicy
from accord.wire.request import ClientCapabilities

RECEIPT_VERSION: Final = 1

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal."""


def _to_the_microsecond(milliseconds: float) -> float:
    return round(milliseconds, 3)


Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(_to_the_microsecond)]


class RequestShape(Message, frozen=True):
    """What was asked, without its words: a digest of the whole, and how much of what it held.

    The digest of a short text can be found again by whoever guesses the text; it proves, it does not hide.
    """

    digest: Sha256
    text_chars: int = 0
    blocks: dict[str, int] = Field(default_factory=dict[str, int], description="How many blocks of each type.")
    files: int = 0
    requirements: int = 0


class EvidenceRecord(Message, frozen=True):
    """Who says so, and when it was said."""

    source: str
    date: str | None = None


class AgentParty(Message, frozen=True):
    """The agent: its prompt capabilities as received, and the types of content that they come to."""

    name: str
    declared: FreeObject | None = None
    accepts: list[str] = Field(default_factory=list[str])
    assumed: list[str] = Field(default_factory=list[str])


class BackendParty(Message, frozen=True):
    """The backend that was given the work: its manifest, whose word each entry is, and what speaks against it.

    `refused` is what it refused before, `contradicted` what it declares and its answers showed it not to do.
    """

    name: str
    model: str | None = None
    manifest: CapabilityManifest
    evidence: dict[CapabilityName, EvidenceRecord] = Field(default_factory=dict[CapabilityName, EvidenceRecord])
    refused: list[CapabilityName] = Field(default_factory=list[CapabilityName])
    contradicted: list[CapabilityName] | None = None


class ClientParty(Message, frozen=True):
    """The client: what it declared, and what had to be assumed."""

    declared: ClientCapabilities | None = None
    assumed: list[str] = Field(default_factory=list[str])


class Parties(Message, frozen=True):
    """Those who had to agree before any work was given out; each backend stands with its work."""

    agent: AgentParty
    client: ClientParty


class CandidateRecord(Message, frozen=True):
    """A backend that was looked at, and why it was chosen or not."""

    backend: str
    chosen: bool
    why: str
    offer: Offer


class Fallback(Message, frozen=True):
    """A backend that was given the work and failed: before its first packet another one was asked, later none."""

    backend: str
    code: ErrorCode
    message: str | None = None
    endpoint_message: str | None = Field(
        default=None, description="What the endpoint itself said, shortened and without keys."
    )


class Work(Message, frozen=True):
    """One question that the agent put to a backend: what was needed, who could do it, what was stood in for."""

    policy: WorkPolicy = WorkPolicy.STANDARD
    needs: list[Need] = Field(default_factory=list[Need])
    candidates: list[CandidateRecord] = Field(default_factory=list[CandidateRecord])
    backend: BackendParty | None = Field(default=None, description="Who was given the work; absent if it was refused.")
    negotiation: NegotiationResult | None = None
    emulations: EmulationRecord | None = None
    fallbacks: list[Fallback] = Field(default_factory=list[Fallback])
    usage: FreeObject | None = None


class Timings(Message, frozen=True):
    """How long it took, each from the start of the turn."""

    plan_ms: Milliseconds
    total_ms: Milliseconds
    first_packet_ms: Milliseconds | None = None


class OutcomeStatus(StrEnum):
    """How a turn can end."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(Message, frozen=True):
    """How the turn ended; whatever is not done says why."""

    status: OutcomeStatus
    code: ErrorCode | None = None
    message: str | None = None

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if (self.status is OutcomeStatus.DONE) is (self.code is not None):
            raise PydanticCustomError("outcome", "A turn that is done has no error code, and every other has one")
        return self


class ReceiptBody(Message, frozen=True):
    """Everything a receipt says; all of it is hashed."""

    version: Literal[1] = RECEIPT_VERSION
    request_id: str
    session_id: str
    created_at: AwareDatetime
    previous: Sha256 | None = Field(default=None, description="The hash of the session's receipt before this one.")
    request: RequestShape
    parties: Parties
    work: list[Work] = Field(default_factory=list[Work], description="Every question that the agent put to a backend.")
    permissions: list[PermissionRecord] | None = Field(
        default=None, description="Every permission that the agent asked for; absent if it asked for none."
    )
    adaptation: AdaptationReport | None = None
    timings: Timings
    outcome: Outcome

    def hashed(self) -> dict[str, Any]:
        """The part that the hash is made of, as plain JSON values."""
        members = self.dump()
        for name in ("hash", "signature"):
            members.pop(name, None)
        # `0.0` and `0` are the same number and the same canonical text, which is much quicker found for the latter.
        members["timings"] = {name: to_int_if_whole(value) for name, value in members["timings"].items()}
        return members


def to_int_if_whole(value: float) -> float:
    """The same number, as an `int` if it is one."""
    return int(value) if value == int(value) else value


class Receipt(ReceiptBody, frozen=True):
    """The account of one turn, sealed: made by `core.receipt.seal`, checked by `core.receipt.verify`."""

    hash: Sha256
    signature: str | None = Field(default=None, description="An Ed25519 signature of the hash, in base64.")
