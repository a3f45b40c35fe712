"""One request of a model API while it is answered, its answer, and the fields that endpoints turned out to refuse."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from accord.core.work.emulation.run import add_usage
from accord.core.work.fields import ModelRequest, row_of
from accord.engine.budgets import Reservation
from accord.engine.circuit import HeldSlot
from accord.engine.dispatch import Dispatcher, WorkRecord
from accord.errors import AccordError, BackendError
from accord.ports import Clock
from accord.wire.disposition import Api, Disposition, FieldClass, FieldPolicy, FieldRecord
from accord.wire.work import AnyPiece

LEARNED_FOR_S: Final = 600.0
"""How long a field that an endpoint refused is not sent to it again."""


@dataclass(slots=True)
class ModelCall:
    """One request of a model API while it is answered.

    `headers` are those of the client that are passed on with an unchanged request. `records` has one record for each
    answer that is wanted.
    """

    request: ModelRequest
    request_id: str
    owner: str
    digest: str
    received_at: datetime
    began_at: float
    policy: FieldPolicy = FieldPolicy.LABELLED
    key_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    record: WorkRecord = field(default_factory=WorkRecord)
    more_records: list[WorkRecord] = field(default_factory=list[WorkRecord])
    served_by: str | None = None
    model: str | None = None
    response_id: str | None = None
    """The id that the endpoint gave an answer that is passed on."""
    finish_reasons: tuple[str, ...] = ()
    """Why each answer ended, as far as that is known."""
    labels: tuple[FieldRecord, ...] = ()
    failure: AccordError | None = None
    first_byte_ms: float | None = None
    packets: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    """Fields that this backend cannot take together with others of this request."""
    may_resend: bool = False
    """Whether the backend that is tried may send the request again by itself, since no other one is left."""
    reservation: Reservation | None = None
    """What is reserved of the key's budget, until the call is settled."""
    cost_micro: int | None = None
    """What it cost in micro-dollars, once it is settled; None if that is not known."""
    dispatcher: Dispatcher | None = None
    """That which answers it, once it is planned: a new configuration may replace it meanwhile for later calls."""

    @property
    def work(self) -> Sequence[WorkRecord]:
        """A record of each question to a backend."""
        return [self.record, *self.more_records]

    @property
    def usage(self) -> dict[str, Any] | None:
        """The usage of all answers together, as far as it is known."""
        usage = self.record.usage
        for record in self.more_records:
            usage = add_usage(usage, record.usage)
        return usage


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
    slot: HeldSlot | None = None
    """What `blocks` or `pieces` hold of a backend with a limit."""

    async def close(self) -> None:
        """Stop the backend if it is still answering, and free its slot."""
        try:
            for stream in (self.blocks, self.pieces):
                if stream is not None:
                    await stream.aclose()
        finally:
            if self.slot is not None:
                self.slot.release()


class LearnedFields:
    """Fields that endpoints refused, each for a while."""

    def __init__(self, clock: Clock, keep_s: float = LEARNED_FOR_S) -> None:
        self._clock: Final = clock
        self._keep_s: Final = keep_s
        self._until: Final[dict[tuple[str, Api], dict[str, float]]] = {}

    def of(self, backend: str, request: ModelRequest) -> frozenset[str]:
        """The fields of this request that this backend's endpoint refused recently, neutral ones included."""
        known = self._until.get((backend, request.api))
        if not known:
            return frozenset()
        now = self._clock.monotonic()
        return frozenset(
            name for name, until in known.items() if until > now and (name in request.body or name in request.fields)
        )

    def add(self, backend: str, api: Api, names: Sequence[str]) -> None:
        """Remember that the endpoint refused these."""
        until = self._clock.monotonic() + self._keep_s
        self._until.setdefault((backend, api), {}).update(dict.fromkeys(names, until))

    def listed(self, backend: str) -> dict[str, list[str]]:
        """What is remembered of this backend now, by API."""
        now = self._clock.monotonic()
        found = {
            api.value: sorted(name for name, until in names.items() if until > now)
            for (name, api), names in self._until.items()
            if name == backend
        }
        return {api: names for api, names in found.items() if names}


def refused_fields(call: ModelCall, error: AccordError) -> list[str]:
    """The tuning fields of this call that an endpoint refused by name; none if the request has to stay as it is."""
    if call.policy is FieldPolicy.STRICT or not isinstance(error, BackendError):
        return []
    request, report = call.request, getattr(error, "report", None)
    fields, refused = getattr(report, "fields", ()), getattr(report, "capability", None) or error.refused
    known = {each.field for each in call.labels if each.disposition is Disposition.DROPPED}
    found: list[str] = []
    # An endpoint may also refuse a value that asks for nothing, such as `store: false`.
    for name in dict.fromkeys((*request.fields, *(name for name in fields if name in request.body))):
        row = row_of(request.api, name)
        is_named = not {name, name.partition(".")[0], name.rpartition(".")[2]}.isdisjoint(fields)
        is_refused = refused is not None and row.capability == refused
        if (is_named or is_refused) and row.kind is FieldClass.TUNING and name not in known:
            found.append(name)
    return found
