"""The record of one request that is over, a turn or a call of a model API: all that is said of it is written from it.

Its receipt is written as the plain members of a `ReceiptBody`, not as a model: every request has one, and few are read.
Log lines, metrics and spans are made from the same members. Parts that stay the same from request to request are
encoded once. Sealing is in `core.receipt`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from accord.core.output.profile import profile_client
from accord.core.receipt import Sign, canonical, seal_members
from accord.core.work.backend_call import BackendCall
from accord.core.work.negotiate import IdentityCache
from accord.errors import (
    AccordError,
    BackendRetriedError,
    BackendSkippedError,
    ErrorCode,
    RefusedError,
    TurnCancelledError,
)
from accord.ports import EvidenceSource
from accord.run.admit import SentContent
from accord.run.costs import total_cost
from accord.run.dispatch import Dispatcher, WorkRecord
from accord.run.model_call import ModelCall
from accord.run.request_digest import request_digest
from accord.run.run import Run
from accord.run.states import MAKING
from accord.wire.keys import MICRO
from accord.wire.manifest import CapabilityManifest
from accord.wire.plan import Plan, Refusal
from accord.wire.receipt import (
    RECEIPT_VERSION,
    AgentParty,
    BackendParty,
    CandidateRecord,
    ClientParty,
    EvidenceRecord,
    Fallback,
    Outcome,
    OutcomeStatus,
    Parties,
    Work,
    to_int_if_whole,
)
from accord.wire.request import AgentRequest, ClientCapabilities
from accord.wire.session import ReceiptRecord, RunRecord, StoredState

MAX_ENDPOINT_CHARS: Final = 500
"""How much of an endpoint's own error message is stored."""

MAX_CODE_CHARS: Final = 100
"""How much of an agent's own error code is stored."""

STATE_BY_OUTCOME: Final[Mapping[OutcomeStatus, StoredState]] = {
    OutcomeStatus.DONE: StoredState.DONE,
    OutcomeStatus.CANCELLED: StoredState.CANCELLED,
    OutcomeStatus.REFUSED: StoredState.FAILED,
    OutcomeStatus.FAILED: StoredState.FAILED,
}
"""The state that the store keeps for each outcome."""

_DONE: Final = Outcome(status=OutcomeStatus.DONE)
_DONE_MEMBERS: Final = _DONE.dump()
_UNREAD: Final = Outcome(
    status=OutcomeStatus.CANCELLED, code=ErrorCode.CANCELLED, message="The reader went away before the end"
)
_NOT_COUNTED: Final[Mapping[str, Any]] = {"text_chars": 0, "blocks": {}, "files": 0, "requirements": 0}
"""The shape of a request whose parts are not counted."""
_NO_EVIDENCE: Final[Mapping[str, EvidenceSource]] = {}


class ReceiptContent(NamedTuple):
    """Members of a receipt that is not sealed yet, as plain JSON values.

    `encoded` has the same members, but those that many turns share are JSON text, which was encoded once.
    """

    members: dict[str, Any]
    encoded: dict[str, Any]


def record_request(request: AgentRequest, sent: SentContent | None = None) -> dict[str, Any]:
    """The request's digest and shape, without its words: the plain members of a `RequestShape`.

    `sent` is content that the request does not hold because it was refused.
    """
    needs = request.requirements
    kinds: dict[str, int] = Counter([str(block.type) for block in request.content]) if request.content else {}
    return {
        "digest": request_digest(request, sent),
        "text_chars": len(request.query),
        "blocks": dict(sorted(kinds.items())),
        "files": len(request.files),
        "requirements": len(needs.required) + len(needs.preferred) if needs else 0,
    }


def record_candidates(decided: Plan | Refusal) -> list[CandidateRecord]:
    """Every backend that was considered, the chosen one first, and why each was chosen or not."""
    if isinstance(decided, Refusal):
        return [
            CandidateRecord(
                backend=offer.backend,
                chosen=False,
                why=", ".join(f"{shortfall.capability} ({shortfall.reason})" for shortfall in offer.missing),
                offer=offer,
            )
            for offer in decided.offers
        ]
    best = decided.offer
    why = f"{len(best.losses)} losses, {best.compromises} compromises"
    return [
        CandidateRecord(backend=best.backend, chosen=True, why=why, offer=best),
        *(
            CandidateRecord(backend=defeat.backend, chosen=False, why=defeat.why, offer=defeat.offer)
            for defeat in decided.lost
        ),
    ]


@dataclass(slots=True)
class EndedRun:
    """One request that is over. `more` are members that not every receipt has."""

    request_id: str
    session_id: str
    ended_at: datetime
    request: Mapping[str, Any]
    """Its digest and shape, from `record_request`."""
    parties: ReceiptContent
    outcome: Outcome
    total_ms: float
    first_packet_ms: float | None = None
    work: Sequence[ReceiptContent] = ()
    plan_ms: float = 0.0
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def content(self) -> ReceiptContent:
        """Its receipt, without the hash of the one before it."""
        timings = {"plan_ms": _milliseconds(self.plan_ms), "total_ms": _milliseconds(self.total_ms)}
        if self.first_packet_ms is not None:
            timings["first_packet_ms"] = _milliseconds(self.first_packet_ms)
        members: dict[str, Any] = {
            "version": RECEIPT_VERSION,
            "request_id": self.request_id,
            "session_id": self.session_id,
            "created_at": msgspec.to_builtins(self.ended_at),  # as `isoformat`, with a Z, in a tenth of its time
            "request": self.request,
            "parties": self.parties.members,
            "work": [each.members for each in self.work],
            **self.more,
            "timings": timings,
            "outcome": _DONE_MEMBERS if self.outcome is _DONE else self.outcome.dump(),
        }
        work = [each.encoded for each in self.work]
        return ReceiptContent(members, {**members, "parties": self.parties.encoded, "work": work})


def ended_turn(run: Run, adaptation: dict[str, Any], request: Mapping[str, Any], now: datetime) -> EndedRun:
    """The record of a turn that is over, with the report on its client's view; `request` is from `record_request`."""
    party, permissions = run.engine.party, run.permissions
    agent = _AGENTS.get_or_compute((party,), (), lambda: _encode({"agent": party.dump()}))
    client = {name: adaptation[name] for name in ("assumed", "declared") if name in adaptation}
    more = {"adaptation": adaptation, **run.costs.members()}
    if permissions:
        more["permissions"] = [{**each.dump(), "waited_ms": to_int_if_whole(each.waited_ms)} for each in permissions]
    return EndedRun(
        run.request_id,
        run.request.context.session_id,
        now,
        request,
        ReceiptContent({**agent.members, "client": client}, {**agent.encoded, "client": client}),
        outcome_of(run),
        run.duration_ms,
        run.first_packet_ms,
        [work_content(each, run.engine.dispatcher) for each in run.work],
        sum([each.plan_ms for each in run.work]),
        more,
    )


def ended_call(call: ModelCall, outcome: Outcome, session_id: str, now: datetime, total_ms: float) -> EndedRun:
    """The record of a call of a model API that is over."""
    dispatcher, work = call.costs.dispatcher, call.work
    return EndedRun(
        call.request_id,
        session_id,
        now,
        {**_NOT_COUNTED, "digest": call.digest},
        _CALL_PARTIES,
        outcome,
        total_ms,
        call.first_byte_ms,
        [work_content(each, dispatcher, is_call=True) for each in work],
        sum([each.plan_ms for each in work]),
        {"call": call_members(call)},
    )


def interrupted_turn(turn: RunRecord, agent: str, why: str, now: datetime) -> EndedRun:
    """The record of a turn whose process died: what is known from its beginning, and that it did not end."""
    parties = Parties(agent=AgentParty(name=agent), client=ClientParty(declared=turn.capabilities)).dump()
    return EndedRun(
        turn.request_id,
        turn.session_id,
        now,
        {**_NOT_COUNTED, "digest": turn.request_digest},
        ReceiptContent(parties, parties),
        Outcome(status=OutcomeStatus.FAILED, code=ErrorCode.UNAVAILABLE, message=why),
        max(0.0, (now - turn.created_at).total_seconds() * 1_000),
    )


def call_members(call: ModelCall) -> dict[str, Any]:
    """The `call` member of a receipt."""
    record, summary = call.record, call.summary
    members: dict[str, Any] = {
        "api": call.request.api.value,
        "requested": call.request.model,
        "policy": call.policy.value,
        "streamed": call.request.is_streamed,
    }
    if record.backend is not None:
        members["served_by"] = record.backend
    if (model := call.model) is not None:
        members["model"] = model
    if summary.id is not None:
        members["response_id"] = summary.id
    if summary.finish_reasons:
        members["finish_reasons"] = [*summary.finish_reasons]
    return members | call.costs.members()


def call_outcome(call: ModelCall, *, is_complete: bool) -> Outcome:
    """How a call of a model API ended."""
    if call.failure is not None:
        return _failed_outcome(call.failure)
    return _DONE if is_complete else _UNREAD


def sealed_record(content: ReceiptContent, previous: str | None, sign: Sign | None) -> ReceiptRecord:
    """The receipt to store, sealed: the next one of its session after that with the hash `previous`."""
    members = content.encoded
    sealed = seal_members({**members, "previous": previous} if previous else members, sign)
    return ReceiptRecord(
        request_id=members["request_id"],
        session_id=members["session_id"],
        body=sealed.json,
        hash=sealed.hash,
        previous_hash=previous,
    )


def _milliseconds(value: float) -> float:
    return to_int_if_whole(round(value, 3))


def describe_negotiation(agent: AgentParty, declared: ClientCapabilities | None) -> dict[str, Any]:
    """What holds for a session: the content its agent accepts, and what its client is assumed to display."""
    client = profile_client(declared)

    def describe() -> dict[str, Any]:
        return {
            "content": agent.accepts,
            "client": {
                "events": sorted(client.events),
                "text": client.text.value,
                "images": client.resolution and client.resolution.value,
                "assumed": [assumption.value for assumption in client.assumed],
            },
        }

    return _NEGOTIATED.get_or_compute((agent, client), (), describe)


def outcome_of(run: Run) -> Outcome:
    """How a run ended."""
    failure, sent = run.failure, run.agent_error
    if failure is None:
        return _UNREAD if run.state in MAKING else _DONE
    if sent is not None:  # with the agent's own code, whatever it is
        return Outcome(status=OutcomeStatus.FAILED, code=sent.code[:MAX_CODE_CHARS], message=sent.message)
    return _failed_outcome(failure)


def _failed_outcome(failure: AccordError) -> Outcome:
    if isinstance(failure, RefusedError):
        status = OutcomeStatus.REFUSED
    elif isinstance(failure, TurnCancelledError):
        status = OutcomeStatus.CANCELLED
    else:
        status = OutcomeStatus.FAILED
    return Outcome(status=status, code=failure.code, message=failure.message)


def work_content(record: WorkRecord, dispatcher: Dispatcher, *, is_call: bool = False) -> ReceiptContent:
    """What is recorded of one question to backends.

    Of the backend's manifest, a model API call has only what it needed: the rest is most of a receipt, and the same for
    thousands of them.
    """
    # By hand: dumping a `Work` costs several times as much. What is missing here is in the part that others share.
    members: dict[str, Any] = {"fallbacks": [_fallback(name, error).dump() for name, error in record.failures]}
    if record.emulation is not None:
        members["emulations"] = record.emulation.dump()
    members |= _usage_members(record)
    if record.answer:
        members["answer"] = [each.dump() for each in record.answer]
    if record.dispositions:
        members["dispositions"] = [each.dump() for each in record.dispositions]
    shared = _shared_content(record, dispatcher, is_call=is_call)
    return ReceiptContent(members | shared.members, members | shared.encoded)


def _usage_members(record: WorkRecord) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if (usage := record.usage) is not None:
        members["usage"] = usage
    if (cost := total_cost(record.calls)) is not None:
        members["cost_usd"] = to_int_if_whole(cost / MICRO)
    if len(record.calls) > 1:
        members["calls"] = [_call_members(call) for call in record.calls]
    return members


def _call_members(call: BackendCall) -> dict[str, Any]:
    members: dict[str, Any] = {"backend": call.backend, "complete": call.is_complete}
    if call.model is not None:
        members["model"] = call.model
    if call.describes:
        members["describes"] = True
    if call.usage is not None:
        members["usage"] = call.usage
    if call.cost_micro is not None:
        members["cost_usd"] = to_int_if_whole(call.cost_micro / MICRO)
    return members


def _fallback(backend: str, error: AccordError) -> Fallback:
    # The endpoint's own message is a note on the error: see apis/failure.py.
    message = " ".join(getattr(error, "__notes__", ()))[:MAX_ENDPOINT_CHARS]
    return Fallback(
        backend=backend,
        code=error.code,
        message=error.message,
        skipped=True if isinstance(error, BackendSkippedError) else None,
        retried=True if isinstance(error, BackendRetriedError) else None,
        endpoint_message=message or None,
    )


def _shared_content(record: WorkRecord, dispatcher: Dispatcher, *, is_call: bool) -> ReceiptContent:
    """The decision and the chosen backend: the same needs give the very same plan object, so they are encoded once."""
    outcome, backend = record.outcome, dispatcher.backends.get(record.backend or "")
    if backend is None:
        return _SHARED.get_or_compute((outcome,), (), lambda: _encode(_decision_members(outcome)))
    candidate, known = dispatcher.candidate(backend.name, record.caller), dispatcher.known.get(backend.name)
    model, evidence = (None, _NO_EVIDENCE) if known is None else (known.model, known.evidence)

    def describe() -> ReceiptContent:
        only = {need.capability for need in outcome.needs} if is_call and outcome is not None else None
        shown = {name: level for name, level in backend.manifest.items() if only is None or name in only}
        party = BackendParty(
            name=backend.name,
            model=model,
            manifest=CapabilityManifest.model_construct(root=shown),
            evidence={
                name: EvidenceRecord(source=each.source, date=each.date)
                for name, each in evidence.items()
                if name in shown
            },
            refused=sorted(candidate.refused),
            contradicted=sorted(candidate.contradicted) or None,
        )
        return _encode({**_decision_members(outcome), "backend": party.dump()})

    # Evidence may change while the manifest stays the same object, so it is a part of the key.
    key = backend.name, model, candidate.refused, candidate.contradicted, is_call
    return _SHARED.get_or_compute((outcome, backend.manifest, evidence), (), describe, key)


def _decision_members(outcome: Plan | Refusal | None) -> dict[str, Any]:
    if outcome is None:
        work = Work()
    elif isinstance(outcome, Refusal):
        work = Work(needs=outcome.needs, candidates=record_candidates(outcome))
    else:
        work = Work(
            policy=outcome.policy,
            needs=outcome.needs,
            candidates=record_candidates(outcome),
            negotiation=outcome.offer.negotiation,
        )
    members = work.dump()
    del members["fallbacks"]
    return members


def _encode(members: dict[str, Any]) -> ReceiptContent:
    return ReceiptContent(members, {name: msgspec.Raw(canonical(value)) for name, value in members.items()})


MODEL_API: Final = "model-api"
"""The name under which calls of the model APIs are listed where turns have the name of an agent."""
_CALL_PARTIES: Final = _encode(Parties(agent=AgentParty(name=MODEL_API), client=ClientParty()).dump())
_AGENTS: Final = IdentityCache[ReceiptContent]()
_SHARED: Final = IdentityCache[ReceiptContent]()
_NEGOTIATED: Final = IdentityCache[dict[str, Any]]()
