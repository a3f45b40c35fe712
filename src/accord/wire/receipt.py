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
from accord.wire.disposition import AnswerRecord, Api, FieldPolicy, FieldRecord
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

    digest: Sha256 = Field(description="The SHA-256 of the whole request.")
    text_chars: int = Field(default=0, description="How many characters its text has.")
    blocks: dict[str, int] = Field(default_factory=dict[str, int], description="How many blocks of each type.")
    files: int = Field(default=0, description="How many files it names.")
    requirements: int = Field(default=0, description="How many requirements it states.")


class EvidenceRecord(Message, frozen=True):
    """The source of a support level, and its date."""

    source: str = Field(description="Where the level comes from, such as the facts, a probe or the configuration.")
    date: str | None = Field(default=None, description="The date of that source.")


class AgentParty(Message, frozen=True):
    """The agent: its prompt capabilities as received, and the types of content that it accepts."""

    name: str = Field(description="Its name.")
    declared: FreeObject | None = Field(default=None, description="Its declaration as it was received.")
    accepts: list[str] = Field(default_factory=list[str], description="The types of content that it accepts.")
    assumed: list[str] = Field(default_factory=list[str], description="What had to be assumed about it.")


class BackendParty(Message, frozen=True):
    """A backend: its manifest, the evidence for each entry, and what contradicts it.

    `refused` are capabilities that it refused before, `contradicted` those that its answers showed to be missing.
    """

    name: str = Field(description="Its name.")
    model: str | None = Field(default=None, description="The id of its model.")
    manifest: CapabilityManifest = Field(description="What it declares.")
    evidence: dict[CapabilityName, EvidenceRecord] = Field(
        default_factory=dict[CapabilityName, EvidenceRecord], description="The source of each level."
    )
    refused: list[CapabilityName] = Field(
        default_factory=list[CapabilityName], description="Capabilities that its endpoint refused before."
    )
    contradicted: list[CapabilityName] | None = Field(
        default=None, description="Capabilities that its answers showed to be missing."
    )


class ClientParty(Message, frozen=True):
    """The client: what it declared, and what had to be assumed."""

    declared: ClientCapabilities | None = Field(default=None, description="What it declared; absent if nothing.")
    assumed: list[str] = Field(default_factory=list[str], description="What had to be assumed about it.")


class Parties(Message, frozen=True):
    """The agent and the client of a turn; backends are listed with their work."""

    agent: AgentParty = Field(description="The agent.")
    client: ClientParty = Field(description="The client that sent the request.")


class CandidateRecord(Message, frozen=True):
    """A backend that was considered, and why it was chosen or not."""

    backend: str = Field(description="Its name.")
    chosen: bool = Field(description="Whether it was chosen.")
    why: str = Field(description="Why it was chosen or not, in a sentence.")
    offer: Offer = Field(description="What it could have done.")


class Fallback(Message, frozen=True):
    """A backend that failed. If it failed before its first packet, the next one was tried."""

    backend: str = Field(description="Its name.")
    code: ErrorCode = Field(description="The code of its error.")
    message: str | None = Field(default=None, description="The message of its error.")
    retried: bool | None = Field(default=None, description="It refused a field, and was asked again without it.")
    skipped: bool | None = Field(
        default=None, description="True if it was not tried: it was down a moment before, or at its limit of calls."
    )
    endpoint_message: str | None = Field(
        default=None, description="The message of the endpoint itself, shortened and without keys."
    )


class CallRecord(Message, frozen=True):
    """One request that was sent to a backend, for an answer or for the description of an image."""

    backend: str = Field(description="The backend that it was sent to.")
    model: str | None = Field(default=None, description="The model that answered, as the endpoint names it.")
    describes: bool | None = Field(default=None, description="True for the description of an image.")
    complete: bool = Field(description="Whether a whole answer arrived.")
    usage: FreeObject | None = Field(
        default=None, description="As in `work`; absent if it used nothing, or if that is not known."
    )
    cost_usd: float | None = Field(default=None, description="Absent if the price is not known.")


class Work(Message, frozen=True):
    """One question of the agent to a backend: its needs, the candidates, the chosen backend, the emulations."""

    policy: WorkPolicy = Field(default=WorkPolicy.STANDARD, description="The policy under which it was planned.")
    needs: list[Need] = Field(default_factory=list[Need], description="What the work required and preferred.")
    candidates: list[CandidateRecord] = Field(
        default_factory=list[CandidateRecord], description="Every backend that was considered."
    )
    backend: BackendParty | None = Field(
        default=None, description="The chosen backend; absent if the work was refused."
    )
    negotiation: NegotiationResult | None = Field(
        default=None, description="How the chosen backend meets the requirements."
    )
    emulations: EmulationRecord | None = Field(default=None, description="What Accord emulated, and with which effect.")
    fallbacks: list[Fallback] = Field(
        default_factory=list[Fallback], description="Backends that failed or were skipped before the chosen one."
    )
    usage: FreeObject | None = Field(
        default=None,
        description="What all attempts at the answer used: tokens, for example, as far as backends report it. With "
        "`estimated: true`, a part of it is estimated from what arrived.",
    )
    cost_usd: float | None = Field(
        default=None, description="What all its requests cost; absent if a price is not known."
    )
    calls: list[CallRecord] | None = Field(
        default=None, description="Every request that was sent to a backend, in order; absent if there was at most one."
    )
    dispositions: list[FieldRecord] | None = Field(
        default=None,
        description="Each field of a request of a model API that was not native, and what Accord had to choose.",
    )
    answer: list[AnswerRecord] | None = Field(
        default=None,
        description="For a request of a model API: each part of the answer that is lost, or has another form.",
    )


class ModelCallRecord(Message, frozen=True):
    """A request of a model API: the API, the model it named, and the backend and model that answered."""

    api: Api = Field(description="The API of the request.")
    requested: str = Field(description="The `model` of the request.")
    served_by: str | None = Field(default=None, description="The backend that answered.")
    model: str | None = Field(default=None, description="The model that answered.")
    response_id: str | None = Field(
        default=None, description="The id that the endpoint gave its answer; absent if the answer was translated."
    )
    finish_reasons: list[str] | None = Field(
        default=None, description="Why each answer ended, in the words of the backend's API; absent if not known."
    )
    key: str | None = Field(default=None, description="The id of the virtual key.")
    policy: FieldPolicy = Field(default=FieldPolicy.LABELLED, description="Whether fields could be dropped.")
    streamed: bool = Field(default=False, description="Whether the answer was a stream.")
    cost_usd: float | None = Field(default=None, description="Absent if the price is not known.")
    estimated: bool | None = Field(
        default=None, description="True if a part of the usage, and so of the cost, is estimated from what arrived."
    )


class Timings(Message, frozen=True):
    """Durations, each from the start of the turn."""

    plan_ms: Milliseconds = Field(description="Until the work was planned.")
    total_ms: Milliseconds = Field(description="Until the end of the turn.")
    first_packet_ms: Milliseconds | None = Field(
        default=None, description="Until the first packet; absent if there was none."
    )


class OutcomeStatus(StrEnum):
    """The outcome of a turn."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(Message, frozen=True):
    """The outcome of a turn, with an error code unless it is done: one of Accord's, or the agent's own."""

    status: OutcomeStatus = Field(description="How the turn ended.")
    code: str | None = Field(default=None, description="The error code; absent if the turn is done.")
    message: str | None = Field(default=None, description="The error in a sentence.")

    @model_validator(mode="after")
    def _check_code(self) -> Self:
        if (self.status is OutcomeStatus.DONE) is (self.code is not None):
            raise PydanticCustomError("outcome", "A turn that is done has no error code, and any other has one")
        return self


class ReceiptBody(Message, frozen=True):
    """The content of a receipt; all of it is hashed."""

    version: Literal[1] = Field(default=RECEIPT_VERSION, description="The version of this format.")
    request_id: str = Field(description="The request of the turn.")
    session_id: str = Field(description="The session of the turn.")
    created_at: UtcTime = Field(description="When the turn began.")
    previous: Sha256 | None = Field(default=None, description="The hash of the session's receipt before this one.")
    request: RequestShape = Field(description="The request without its text.")
    parties: Parties = Field(description="The agent and the client.")
    work: list[Work] = Field(default_factory=list[Work], description="Every question of the agent to a backend.")
    permissions: list[PermissionRecord] | None = Field(
        default=None, description="Every permission that the agent requested; absent if none."
    )
    adaptation: AdaptationReport | None = Field(
        default=None, description="How the answer was adapted for the client that sent the request."
    )
    call: ModelCallRecord | None = Field(default=None, description="Only for a request of a model API.")
    key: str | None = Field(default=None, description="The id of the virtual key; of a model API, `call` has it.")
    cost_usd: float | None = Field(
        default=None, description="What the turn cost; absent if a price is not known, and for a model API."
    )
    estimated: bool | None = Field(
        default=None, description="True if a part of the turn's usage is estimated from what arrived."
    )
    timings: Timings = Field(description="How long the turn took.")
    outcome: Outcome = Field(description="How the turn ended.")

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

    hash: Sha256 = Field(description="The SHA-256 of all of the above in canonical JSON.")
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
    state: ReceiptState = Field(description="What is wrong.")
    reason: str = Field(description="The same in a sentence.")
    hash: str | None = Field(default=None, description="The hash of the receipt; absent for a missing one.")


class ReceiptVerification(Message, frozen=True):
    """Whether the receipts of a session are unaltered, complete and in order."""

    ok: bool = Field(description="Whether nothing is wrong.")
    count: int = Field(description="How many receipts were verified.")
    last: str | None = Field(default=None, description="The hash of the last one.")
    wrong: list[ReceiptProblem] = Field(default_factory=list[ReceiptProblem], description="The first problems.")
    signed: bool | None = Field(
        default=None,
        description="Whether the configured key has signed every receipt; absent if no key is configured.",
    )
