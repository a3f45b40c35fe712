"""The receipt of a turn: what each party declared, what was decided, and the outcome. A session chains its receipts.

It holds counts, names and findings, never text of a user or a model; of a permission it holds the title and the options
in the agent's words. `ReceiptBody` is the hashed part, with the link to the session's previous receipt; `Receipt` adds
the hash. Sealing and verifying are in `core/receipt.py`.

A receipt must be stored and passed on as `to_json()` writes it, in any order of keys: an explicit null is not the same
as an absent member, and gives another hash.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from accord.errors import ErrorCode
from accord.wire.adaptation import AdaptationReport
from accord.wire.agent_work import PermissionRecord
from accord.wire.capability import CapabilityName
from accord.wire.disposition import Api, FieldPolicy, FieldRecord
from accord.wire.emulation import EmulationRecord
from accord.wire.manifest import CapabilityManifest, NegotiationResult
from accord.wire.message import FreeObject, Message, UtcTime
from accord.wire.plan import Need, Offer, WorkPolicy
from accord.wire.request import ClientCapabilities

RECEIPT_VERSION: Final = 1

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal."""


Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(lambda value: round(value, 3))]
"""Rounded to the microsecond."""


class RequestShape(Message, frozen=True):
    """The request without its text: a digest of the whole, and counts of its parts.

    The digest of a short text can be found by guessing the text: it is a proof, not a secret.
    """

    digest: Sha256
    text_chars: int = 0
    blocks: dict[str, int] = Field(default_factory=dict[str, int], description="How many blocks of each type.")
    files: int = 0
    requirements: int = 0


class EvidenceRecord(Message, frozen=True):
    """The source of a support level, and its date."""

    source: str
    date: str | None = None


class AgentParty(Message, frozen=True):
    """The agent: its prompt capabilities as received, and the types of content that it accepts."""

    name: str
    declared: FreeObject | None = None
    accepts: list[str] = Field(default_factory=list[str])
    assumed: list[str] = Field(default_factory=list[str])


class BackendParty(Message, frozen=True):
    """A backend: its manifest, the evidence for each entry, and what contradicts it.

    `refused` are capabilities that it refused before, `contradicted` those that its answers showed to be missing.
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
    """The agent and the client of a turn; backends are listed with their work."""

    agent: AgentParty
    client: ClientParty


class CandidateRecord(Message, frozen=True):
    """A backend that was considered, and why it was chosen or not."""

    backend: str
    chosen: bool
    why: str
    offer: Offer


class Fallback(Message, frozen=True):
    """A backend that failed. If it failed before its first packet, the next one was tried."""

    backend: str
    code: ErrorCode
    message: str | None = None
    retried: bool | None = Field(default=None, description="It refused a field, and was asked again without it.")
    skipped: bool | None = Field(
        default=None, description="True if it was not tried: it was down a moment before, or at its limit of calls."
    )
    endpoint_message: str | None = Field(
        default=None, description="The message of the endpoint itself, shortened and without keys."
    )


class Work(Message, frozen=True):
    """One question of the agent to a backend: its needs, the candidates, the chosen backend, the emulations."""

    policy: WorkPolicy = WorkPolicy.STANDARD
    needs: list[Need] = Field(default_factory=list[Need])
    candidates: list[CandidateRecord] = Field(default_factory=list[CandidateRecord])
    backend: BackendParty | None = Field(
        default=None, description="The chosen backend; absent if the work was refused."
    )
    negotiation: NegotiationResult | None = None
    emulations: EmulationRecord | None = None
    fallbacks: list[Fallback] = Field(default_factory=list[Fallback])
    usage: FreeObject | None = None
    dispositions: list[FieldRecord] | None = Field(
        default=None, description="For a request of a model API: each field that was not native."
    )


class ModelCallRecord(Message, frozen=True):
    """A request of a model API: the API, the model it named, and the backend and model that answered."""

    api: Api
    requested: str
    served_by: str | None = None
    model: str | None = None
    response_id: str | None = Field(
        default=None, description="The id that the endpoint gave its answer; absent if the answer was translated."
    )
    finish_reasons: list[str] | None = Field(
        default=None, description="Why each answer ended, in the words of the backend's API; absent if not known."
    )
    key: str | None = Field(default=None, description="The id of the virtual key.")
    policy: FieldPolicy = FieldPolicy.LABELLED
    streamed: bool = False
    cost_usd: float | None = Field(default=None, description="Absent if the price is not known.")


class Timings(Message, frozen=True):
    """Durations, each from the start of the turn."""

    plan_ms: Milliseconds
    total_ms: Milliseconds
    first_packet_ms: Milliseconds | None = None


class OutcomeStatus(StrEnum):
    """The outcome of a turn."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(Message, frozen=True):
    """The outcome of a turn, with an error code unless it is done: one of Accord's, or the agent's own."""

    status: OutcomeStatus
    code: str | None = None
    message: str | None = None

    @model_validator(mode="after")
    def _check_code(self) -> Self:
        if (self.status is OutcomeStatus.DONE) is (self.code is not None):
            raise PydanticCustomError("outcome", "A turn that is done has no error code, and any other has one")
        return self


class ReceiptBody(Message, frozen=True):
    """The content of a receipt; all of it is hashed."""

    version: Literal[1] = RECEIPT_VERSION
    request_id: str
    session_id: str
    created_at: UtcTime
    previous: Sha256 | None = Field(default=None, description="The hash of the session's receipt before this one.")
    request: RequestShape
    parties: Parties
    work: list[Work] = Field(default_factory=list[Work], description="Every question of the agent to a backend.")
    permissions: list[PermissionRecord] | None = Field(
        default=None, description="Every permission that the agent requested; absent if none."
    )
    adaptation: AdaptationReport | None = None
    call: ModelCallRecord | None = Field(default=None, description="Only for a request of a model API.")
    timings: Timings
    outcome: Outcome

    def hashed(self) -> dict[str, Any]:
        """Return the part that the hash covers, as plain JSON values."""
        members = self.dump()
        for name in ("hash", "signature"):
            members.pop(name, None)
        # `0.0` and `0` are the same number and the same canonical text, which is found much faster for the latter.
        members["timings"] = {name: to_int_if_whole(value) for name, value in members["timings"].items()}
        return members


def to_int_if_whole(value: float) -> float:
    """Return the number as an `int` if it is whole."""
    return int(value) if value == int(value) else value


class Receipt(ReceiptBody, frozen=True):
    """The sealed receipt of one turn: made by `core.receipt.seal`, checked by `core.receipt.verify`."""

    hash: Sha256
    signature: str | None = Field(default=None, description="An Ed25519 signature of the hash, in base64.")


class ReceiptState(StrEnum):
    """The state of one receipt in its chain."""

    OK = "ok"
    ALTERED = "altered"
    BROKEN_LINK = "broken link"
    UNSIGNED = "unsigned"
    FORGED = "forged"
    MISSING = "missing"
    OUT_OF_ORDER = "out of order"


class ReceiptProblem(Message, frozen=True):
    """What is wrong with one receipt of a chain; a missing one is reported where the next one refers to it."""

    number: int = Field(description="The place in the chain, from 1.")
    state: ReceiptState
    reason: str
    hash: str | None = None


class ReceiptVerification(Message, frozen=True):
    """Whether the receipts of a session are unaltered, complete and in order."""

    ok: bool
    count: int = Field(description="How many receipts were verified.")
    last: str | None = Field(default=None, description="The hash of the last one.")
    wrong: list[ReceiptProblem] = Field(default_factory=list[ReceiptProblem], description="The first problems.")
    signed: bool | None = Field(
        default=None,
        description="Whether the configured key has signed every receipt; absent if no key is configured.",
    )
