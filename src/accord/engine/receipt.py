"""Write the receipt of a turn: what each party declared, what was decided, the outcome. Sealed by `core.receipt`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from accord.core.output.profile import ClientProfile, profile_client
from accord.core.receipt import canonical, digest_object
from accord.core.work.negotiate import IdentityCache
from accord.engine.dispatch import WorkRecord
from accord.engine.engine import Engine, RunningTurn
from accord.errors import AccordError, ErrorCode, RefusedError, TurnCancelledError
from accord.ports import Testimony
from accord.wire.acp.content import ContentBlock
from accord.wire.agent_work import PermissionRecord
from accord.wire.plan import Plan, Refusal, Shortfall
from accord.wire.receipt import (
    RECEIPT_VERSION,
    AgentParty,
    BackendParty,
    Candidacy,
    ClientParty,
    Fallback,
    Outcome,
    OutcomeStatus,
    Parties,
    ReceiptBody,
    RequestShape,
    Said,
    Timings,
    Work,
    whole_if_it_is,
)
from accord.wire.request import AgentRequest, ClientCapabilities
from accord.wire.session import SessionRecord, TurnRecord, TurnState

# Takes down what a receipt says of a request and of a decision. Sealing is in `seal.py`.


def record_request(request: AgentRequest) -> dict[str, Any]:
    """The request's digest and shape, without its words: the plain members of a `RequestShape`."""
    needs = request.requirements
    return {
        "digest": digest_object(request.dump()),
        "text_chars": len(request.query),
        "blocks": _kinds(request.content) if request.content else {},
        "files": len(request.files),
        "requirements": len(needs.required) + len(needs.preferred) if needs else 0,
    }


def _kinds(content: Sequence[ContentBlock]) -> dict[str, int]:
    return dict(sorted(Counter(str(block.type) for block in content).items()))


def record_candidates(decided: Plan | Refusal) -> list[Candidacy]:
    """Every backend that was looked at, the chosen one first, and why each was chosen or not."""
    if isinstance(decided, Refusal):
        return [
            Candidacy(backend=offer.backend, chosen=False, why=_shortfall_text(offer.missing), offer=offer)
            for offer in decided.offers
        ]
    best = decided.offer
    why = f"{len(best.losses)} losses, {best.compromises} compromises"
    return [
        Candidacy(backend=best.backend, chosen=True, why=why, offer=best),
        *(
            Candidacy(backend=defeat.backend, chosen=False, why=defeat.why, offer=defeat.offer)
            for defeat in decided.lost
        ),
    ]


def _shortfall_text(shortfalls: list[Shortfall]) -> str:
    return ", ".join(f"{shortfall.capability} ({shortfall.reason})" for shortfall in shortfalls)


# Writes the receipt of a turn: what every party declared, what was decided, what became of it. Seals nothing.
#
# A receipt is written as the plain members of a `ReceiptBody`, not as one: it is hashed and kept for every turn, and
# hardly ever looked at. What stays the same from turn to turn is put in as text that was written once.

MAX_ENDPOINT_CHARS: Final = 500
"""How much of an endpoint's own error message is kept."""


def receipt_members(
    turn: RunningTurn, engine: Engine, shape: dict[str, Any], now: datetime, previous: str | None
) -> dict[str, Any]:
    """Everything the receipt of this turn says."""
    request, account = turn.request, turn.adapter.report_json()
    agent = _AGENTS.get_or_compute((engine.party,), (), lambda: _written(engine.party.dump()))
    client = {name: account[name] for name in ("declared", "assumed") if name in account}
    plan_ms = round(sum([question.plan_ms for question in turn.work]), 3)
    timings = {"plan_ms": plan_ms, "total_ms": turn.duration_ms, "first_packet_ms": turn.first_packet_ms}
    return {
        "version": RECEIPT_VERSION,
        "request_id": turn.request_id,
        "session_id": request.context.session_id,
        "created_at": now.isoformat().replace("+00:00", "Z"),
        **({"previous": previous} if previous else {}),
        "request": shape,
        "parties": {"agent": agent, "client": client},
        "work": [_work(question, engine) for question in turn.work],
        **({"permissions": [_permission(asked) for asked in asked_for]} if (asked_for := turn.permissions) else {}),
        "adaptation": account,
        "timings": {name: whole_if_it_is(took) for name, took in timings.items() if took is not None},
        "outcome": _outcome_members(outcome_of(turn)),
    }


def interrupted_members(
    turn: TurnRecord, session: SessionRecord, why: str, now: datetime, previous: str | None
) -> dict[str, Any]:
    """The receipt of a turn whose process died: what is known of it from its beginning, and that it was not ended."""
    return ReceiptBody(
        request_id=turn.request_id,
        session_id=turn.session_id,
        created_at=now,
        previous=previous,
        request=RequestShape(digest=turn.request_digest),
        parties=Parties(agent=AgentParty(name=session.agent), client=ClientParty(declared=session.capabilities)),
        timings=Timings(plan_ms=0, total_ms=max(0.0, (now - turn.created_at).total_seconds() * 1_000)),
        outcome=Outcome(status=OutcomeStatus.FAILED, code=ErrorCode.UNAVAILABLE, message=why),
    ).hashed()


def negotiated_by(engine: Engine, declared: ClientCapabilities | None) -> dict[str, Any]:
    """What holds for a session: the content its agent takes, and what its client is taken to show."""
    client = profile_client(declared)
    return _NEGOTIATED.get_or_compute((engine.party, client), (), lambda: _negotiated(engine, client))


def _negotiated(engine: Engine, client: ClientProfile) -> dict[str, Any]:
    return {
        "content": engine.party.accepts,
        "client": {
            "events": sorted(client.events),
            "text": client.text.value,
            "images": client.resolution and client.resolution.value,
            "assumed": [assumption.value for assumption in client.assumed],
        },
    }


STATES: Final[Mapping[OutcomeStatus, TurnState]] = {
    OutcomeStatus.DONE: TurnState.DONE,
    OutcomeStatus.CANCELLED: TurnState.CANCELLED,
    OutcomeStatus.REFUSED: TurnState.FAILED,
    OutcomeStatus.FAILED: TurnState.FAILED,
}
"""What the store keeps of an outcome."""

_DONE: Final = Outcome(status=OutcomeStatus.DONE)
_TOLD_DONE: Final = _DONE.dump()
_LEFT: Final = Outcome(
    status=OutcomeStatus.CANCELLED, code=ErrorCode.CANCELLED, message="The reader went away before the end"
)


def outcome_of(turn: RunningTurn) -> Outcome:
    """How the turn ended."""
    failure = turn.failure
    if failure is None:
        return _DONE if turn.is_complete else _LEFT
    if isinstance(failure, RefusedError):
        status = OutcomeStatus.REFUSED
    elif isinstance(failure, TurnCancelledError):
        status = OutcomeStatus.CANCELLED
    else:
        status = OutcomeStatus.FAILED
    return Outcome(status=status, code=failure.code, message=failure.message)


def _permission(asked: PermissionRecord) -> dict[str, Any]:
    return {**asked.dump(), "waited_ms": whole_if_it_is(asked.waited_ms)}


def _outcome_members(outcome: Outcome) -> dict[str, Any]:
    return _TOLD_DONE if outcome is _DONE else outcome.dump()


def _work(account: WorkRecord, engine: Engine) -> dict[str, Any]:
    outcome = account.outcome
    fallbacks = [_fallback(name, error) for name, error in account.failures]
    if outcome is None:
        return Work(fallbacks=fallbacks).dump()
    # The same needs give the very same plan, so what a receipt says of it is taken down once.
    decided = _DECIDED.get_or_compute((outcome,), (), lambda: _decided(outcome))
    if not isinstance(outcome, Plan):
        return Work.trusted(fallbacks=fallbacks).dump() | decided
    happened = Work.trusted(fallbacks=fallbacks, emulations=account.emulation, usage=account.usage).dump()
    return happened | decided | _backend(account.backend, engine)


def _fallback(backend: str, error: AccordError) -> Fallback:
    # What an endpoint itself said is a note on the error: see backends/failure.py.
    said = " ".join(getattr(error, "__notes__", ()))[:MAX_ENDPOINT_CHARS]
    return Fallback(backend=backend, code=error.code, message=error.message, endpoint_message=said or None)


def _decided(outcome: Plan | Refusal) -> dict[str, msgspec.Raw]:
    found = Work.trusted(needs=outcome.needs, candidates=record_candidates(outcome))
    if isinstance(outcome, Plan):
        found = found.model_copy(update={"policy": outcome.policy, "negotiation": outcome.offer.negotiation})
    told = found.dump()
    return {name: _written(told[name]) for name in ("policy", "needs", "candidates", "negotiation") if name in told}


def _backend(name: str | None, engine: Engine) -> dict[str, msgspec.Raw]:
    backend = engine.dispatcher.backends.get(name or "")
    if backend is None:
        return {}
    manifest, refused = backend.manifest, engine.dispatcher.refused_by(backend.name)
    contradicted = engine.dispatcher.contradicted_by(backend.name)
    known = engine.dispatcher.known.get(backend.name)
    model, evidence = (None, _NOBODY) if known is None else (known.model, known.evidence)

    def written() -> msgspec.Raw:
        said = {name: Said(source=each.source, date=each.date) for name, each in evidence.items() if name in manifest}
        party = BackendParty.trusted(
            name=backend.name,
            model=model,
            manifest=manifest,
            evidence=said,
            refused=refused,
            contradicted=contradicted or None,
        )
        return _written(party.dump())

    # Evidence may change while the manifest stays the very same: it is a part of the question.
    return {
        "backend": _BACKENDS.get_or_compute(
            (manifest, evidence), (), written, (backend.name, model, *refused, "", *contradicted)
        )
    }


def _written(value: Any) -> msgspec.Raw:
    return msgspec.Raw(canonical(value))


_NOBODY: Final[Mapping[str, Testimony]] = {}
_AGENTS: Final = IdentityCache[msgspec.Raw]()
_BACKENDS: Final = IdentityCache[msgspec.Raw]()
_DECIDED: Final = IdentityCache[dict[str, msgspec.Raw]]()
_NEGOTIATED: Final = IdentityCache[dict[str, Any]]()
