"""Write the receipt of a turn: what each party declared, what was decided, and the outcome.

A receipt is written as the plain members of a `ReceiptBody`, not as a model: every turn has one, and few are read.
Parts that stay the same from turn to turn are encoded once. Sealing is in `core.receipt`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from accord.core.output.profile import profile_client
from accord.core.receipt import canonical
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
    ReceiptBody,
    RequestShape,
    Timings,
    Work,
    to_int_if_whole,
)
from accord.wire.request import AgentRequest, ClientCapabilities
from accord.wire.session import RunRecord, SessionRecord, StoredState

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


def receipt_content(
    run: Run, adaptation: dict[str, Any], shape: dict[str, Any], now: datetime, previous: str | None
) -> ReceiptContent:
    """The receipt of a run that is over, with the report on its client's view; `previous` is a receipt's hash.

    `shape` comes from `record_request`.
    """
    request, engine, permissions = run.request, run.engine, run.permissions
    agent = _AGENTS.get_or_compute((engine.party,), (), lambda: _encode({"agent": engine.party.dump()}))
    client = {"assumed": adaptation["assumed"]}
    if "declared" in adaptation:
        client["declared"] = adaptation["declared"]
    work = [work_content(record, engine.dispatcher) for record in run.work]
    plan_ms = round(sum([record.plan_ms for record in run.work]), 3)
    timings = {"plan_ms": to_int_if_whole(plan_ms), "total_ms": to_int_if_whole(run.duration_ms)}
    if run.first_packet_ms is not None:
        timings["first_packet_ms"] = to_int_if_whole(run.first_packet_ms)
    outcome = outcome_of(run)
    members = {
        "version": RECEIPT_VERSION,
        "request_id": run.request_id,
        "session_id": request.context.session_id,
        "created_at": msgspec.to_builtins(now),  # the text of `isoformat`, with a Z, in a tenth of its time
        **({"previous": previous} if previous else {}),
        "request": shape,
        "parties": {**agent.members, "client": client},
        "work": [each.members for each in work],
        "adaptation": adaptation,
        **run.costs.members(),
        "timings": timings,
        "outcome": _DONE_MEMBERS if outcome is _DONE else outcome.dump(),
    }
    if permissions:
        records = [{**record.dump(), "waited_ms": to_int_if_whole(record.waited_ms)} for record in permissions]
        members["permissions"] = records
    parties = {**agent.encoded, "client": client}
    return ReceiptContent(members, {**members, "parties": parties, "work": [each.encoded for each in work]})


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What a receipt says of a model API call, besides the work of its backends."""

    call: dict[str, Any]
    work: Sequence[WorkRecord]
    digest: str
    outcome: Outcome
    total_ms: float
    first_byte_ms: float | None = None


def call_content(
    facts: CallFacts, dispatcher: Dispatcher, request_id: str, now: datetime, session_id: str
) -> ReceiptContent:
    """The receipt of a model API call that is over, without the hash of the receipt before it."""
    work = [work_content(record, dispatcher, is_call=True) for record in facts.work]
    plan_ms = round(sum([record.plan_ms for record in facts.work]), 3)
    timings = {"plan_ms": to_int_if_whole(plan_ms), "total_ms": to_int_if_whole(round(facts.total_ms, 3))}
    if facts.first_byte_ms is not None:
        timings["first_packet_ms"] = to_int_if_whole(round(facts.first_byte_ms, 3))
    members: dict[str, Any] = {
        "version": RECEIPT_VERSION,
        "request_id": request_id,
        "session_id": session_id,
        "created_at": msgspec.to_builtins(now),
        "request": {"digest": facts.digest, "text_chars": 0, "blocks": {}, "files": 0, "requirements": 0},
        "parties": _CALL_PARTIES.members,
        "work": [each.members for each in work],
        "call": facts.call,
        "timings": timings,
        "outcome": _DONE_MEMBERS if facts.outcome is _DONE else facts.outcome.dump(),
    }
    encoded = {**members, "parties": _CALL_PARTIES.encoded["parties"], "work": [each.encoded for each in work]}
    return ReceiptContent(members, encoded)


def call_outcome(failure: AccordError | None, *, is_complete: bool) -> Outcome:
    """How a model API call ended."""
    if failure is None:
        return _DONE if is_complete else _UNREAD
    return _failed_outcome(failure)


def interrupted_content(
    turn: RunRecord, session: SessionRecord, why: str, now: datetime, previous: str | None
) -> ReceiptContent:
    """The receipt of a turn whose process died: what is known from its beginning, and that it did not end."""
    members = ReceiptBody(
        request_id=turn.request_id,
        session_id=turn.session_id,
        created_at=now,
        previous=previous,
        request=RequestShape(digest=turn.request_digest),
        parties=Parties(agent=AgentParty(name=session.agent), client=ClientParty(declared=turn.capabilities)),
        timings=Timings(plan_ms=0, total_ms=max(0.0, (now - turn.created_at).total_seconds() * 1_000)),
        outcome=Outcome(status=OutcomeStatus.FAILED, code=ErrorCode.UNAVAILABLE, message=why),
    ).hashed()
    return ReceiptContent(members, members)


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
    outcome = record.outcome
    fallbacks = [_fallback(name, error) for name, error in record.failures]
    if outcome is None:
        members = Work(fallbacks=fallbacks).dump()
        return ReceiptContent(members, members)
    # The same needs give the very same plan object, so its part of the receipt is encoded once.
    decision = _DECISIONS.get_or_compute((outcome,), (), lambda: _decision_content(outcome))
    if not isinstance(outcome, Plan):
        members = Work(fallbacks=fallbacks, dispositions=record.dispositions or None).dump()
        return ReceiptContent(members | decision.members, members | decision.encoded)
    # By hand: dumping a `Work` costs several times as much. What is missing here is in the decision.
    members: dict[str, Any] = {"fallbacks": [each.dump() for each in fallbacks]}
    if record.emulation is not None:
        members["emulations"] = record.emulation.dump()
    members |= _usage_members(record)
    if record.answer:
        members["answer"] = [each.dump() for each in record.answer]
    if record.dispositions:
        members["dispositions"] = [each.dump() for each in record.dispositions]
    only = frozenset(need.capability for need in outcome.needs) if is_call else None
    backend = _backend_content(record, dispatcher, only)
    return ReceiptContent(members | decision.members | backend.members, members | decision.encoded | backend.encoded)


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


def _decision_content(outcome: Plan | Refusal) -> ReceiptContent:
    work = Work(needs=outcome.needs, candidates=record_candidates(outcome))
    if isinstance(outcome, Plan):
        work = work.model_copy(update={"policy": outcome.policy, "negotiation": outcome.offer.negotiation})
    members = work.dump()
    names = ("policy", "needs", "candidates", "negotiation")
    return _encode({name: members[name] for name in names if name in members})


def _backend_content(record: WorkRecord, dispatcher: Dispatcher, only: frozenset[str] | None) -> ReceiptContent:
    backend = dispatcher.backends.get(record.backend or "")
    if backend is None:
        return ReceiptContent({}, {})
    candidate = dispatcher.candidate(backend.name, record.caller)
    manifest, refused, contradicted = backend.manifest, sorted(candidate.refused), sorted(candidate.contradicted)
    known = dispatcher.known.get(backend.name)
    model, evidence = (None, _NO_EVIDENCE) if known is None else (known.model, known.evidence)

    def describe() -> ReceiptContent:
        shown = {name: level for name, level in manifest.items() if only is None or name in only}
        party = BackendParty(
            name=backend.name,
            model=model,
            manifest=CapabilityManifest.model_construct(root=shown),
            evidence={
                name: EvidenceRecord(source=each.source, date=each.date)
                for name, each in evidence.items()
                if name in shown
            },
            refused=refused,
            contradicted=contradicted or None,
        )
        return _encode({"backend": party.dump()})

    # Evidence may change while the manifest stays the same object, so it is a part of the key.
    key = (backend.name, model, *refused, "", *contradicted, only)
    return _BACKENDS.get_or_compute((manifest, evidence), (), describe, key)


def _encode(members: dict[str, Any]) -> ReceiptContent:
    return ReceiptContent(members, {name: msgspec.Raw(canonical(value)) for name, value in members.items()})


MODEL_API: Final = "model-api"
"""The name under which calls of the model APIs are listed where turns have the name of an agent."""
_CALL_PARTIES: Final = _encode({"parties": Parties(agent=AgentParty(name=MODEL_API), client=ClientParty()).dump()})
_AGENTS: Final = IdentityCache[ReceiptContent]()
_BACKENDS: Final = IdentityCache[ReceiptContent]()
_DECISIONS: Final = IdentityCache[ReceiptContent]()
_NEGOTIATED: Final = IdentityCache[dict[str, Any]]()
