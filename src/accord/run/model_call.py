"""One request of a model API while it is answered, its answer, and the fields that an endpoint refuses."""

import re
from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec import Raw

from accord.apis.failure import EndpointError
from accord.apis.named_fields import path_of
from accord.apis.relayed import AnswerSummary
from accord.backends.relay import RelayedRequest
from accord.core.work.fields import ModelRequest, place_of, protects_caller, row_of, values_at
from accord.core.work.groups import BackendGroup
from accord.errors import AccordError, BackendError
from accord.ports import Backend, MayResend
from accord.run.costs import RunCosts
from accord.run.dispatch import WorkRecord
from accord.wire.disposition import Api, Disposition, FieldClass, FieldPolicy, FieldRecord
from accord.wire.keys import NO_RULES, KeyRules
from accord.wire.manifest import CapabilityManifest
from accord.wire.plan import Offer, Plan
from accord.wire.work import AnyPiece

NOTHING_READ: Final = AnswerSummary()
"""What an answer says of itself before any of it was read; nothing is added to it."""


@dataclass(frozen=True, slots=True)
class PassedOn:
    """What one backend gets of requests of one shape that it gets as they are, but for their words."""

    request: RelayedRequest
    labels: tuple[FieldRecord, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for a request, which holds for every other one of its shape while the backends are the same.

    `request` is the first one without its words, `manifests` are those of the backends that were considered.
    """

    request: ModelRequest
    policy: FieldPolicy
    outcome: Plan
    group: BackendGroup
    offers: Mapping[str, Offer]
    manifests: tuple[tuple[Backend, CapabilityManifest], ...]
    passed_on: dict[str, PassedOn] = field(default_factory=dict[str, PassedOn])
    """By the names of the backends."""


@dataclass(slots=True)
class ModelCall:
    """One request of a model API while it is answered.

    `headers` are those of the client that are passed on with an unchanged request. `words` are the members of its body
    that are not in its shape, if it has one. `records` has one record for each answer that is wanted.
    """

    request: ModelRequest
    request_id: str
    owner: str
    digest: str
    received_at: datetime
    began_at: float
    costs: RunCosts
    policy: FieldPolicy = FieldPolicy.LABELLED
    rules: KeyRules = NO_RULES
    """The rules of its key."""
    size: int = 0
    """The bytes of the request, with those of the responses that it continues."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    shape: Hashable = None
    words: Mapping[str, Raw] | None = None
    decision: Decision | None = None
    """What was decided for it, or for an earlier one of its shape."""
    record: WorkRecord = field(default_factory=WorkRecord)
    more_records: list[WorkRecord] = field(default_factory=list[WorkRecord])
    configured_model: str | None = None
    """The configured model of the backend that is tried, if it is known."""
    summary: AnswerSummary = field(default_factory=lambda: NOTHING_READ)
    """What the answer says of itself, as far as it was read."""
    parts: dict[str, None] = field(default_factory=dict[str, None])
    """What the answers had that not every API has, as the backend's table of answers names it."""
    failure: AccordError | None = None
    first_byte_ms: float | None = None
    packets: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    """Fields that the endpoint which is tried has refused in this request."""
    asks_one_by_one: bool = False
    """Whether the endpoint which is tried ignores `n`."""
    may_resend: MayResend | None = None
    """Says whether the backend that is tried may send the request again by itself."""

    @property
    def served_by(self) -> str | None:
        """The backend that is tried, or has answered."""
        return self.record.backend

    @property
    def labels(self) -> Sequence[FieldRecord]:
        """What became of the fields of the request."""
        return self.record.dispositions or ()

    @property
    def model(self) -> str | None:
        """The model that answers, as the endpoint names it if it does."""
        return self.summary.model or self.configured_model

    @property
    def has_ended(self) -> bool:
        """Whether every answer has ended."""
        return len(self.summary.reasons) >= self.request.answers

    @property
    def work(self) -> Sequence[WorkRecord]:
        """A record of each question to a backend."""
        return [self.record, *self.more_records]


@dataclass(slots=True)
class ModelAnswer:
    """An answer that has begun: bytes of the same API, or pieces to be written in the client's API.

    Exactly one of `body`, `blocks`, `answers` and `pieces` is set. A whole body is complete; `blocks` and `pieces` have
    to be read to their end or closed. `first` comes before `blocks`.
    """

    body: bytes | None = None
    first: bytes = b""
    blocks: AsyncGenerator[bytes, None] | None = None
    answers: list[list[AnyPiece]] | None = None
    pieces: AsyncGenerator[tuple[int, AnyPiece], None] | None = None

    async def close(self) -> None:
        """Stop the backend if it is still answering."""
        for stream in (self.blocks, self.pieces):
            if stream is not None:
                await stream.aclose()


def refused_fields(call: ModelCall, error: AccordError, kind: Api) -> list[str]:
    """The tuning fields of this call that an endpoint of this kind refused by name; none if the request has to stay."""
    if call.policy is FieldPolicy.STRICT or not isinstance(error, BackendError):
        return []
    request, report = call.request, error.report if isinstance(error, EndpointError) else None
    named = () if report is None else report.fields
    about = error.refused if report is None else report.capability or report.refused
    rows = {name: row_of(request.api, name) for name in request.fields}
    if any(row.capability == about and row.kind is FieldClass.CONTRACT for row in rows.values()):
        about = None  # the endpoint refuses the contract, not its settings
    names = [
        name
        for name, row in rows.items()
        if (about is not None and row.capability == about)
        or not _spellings(place_of(request.api, name, kind) or name).isdisjoint(named)
    ]
    # An endpoint may also refuse a value that asks for nothing, such as `store: false`, and a member of a field.
    names += [
        name
        for name in named
        if name in request.body or (report and report.refuses_member and values_at(request.body, name))
    ]
    dropped = {each.field for each in call.labels if each.disposition is Disposition.DROPPED}
    return [
        name
        for name in dict.fromkeys(names)
        if name not in dropped
        and not protects_caller(request.api, name)
        and (rows.get(name) or row_of(request.api, re.split(r"[.\[]", name)[0])).kind is FieldClass.TUNING
    ]


def _spellings(name: str) -> set[str]:
    """How an error may name a field: by its path, the member of the request that it is in, or its last word."""
    path = path_of(name)
    return {path, path.partition(".")[0], path.rpartition(".")[2]}
