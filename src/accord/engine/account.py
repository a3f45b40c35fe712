"""Writes the receipt of a turn: what every party declared, what was decided, what became of it. Seals nothing."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from accord.core.profile import profile_client
from accord.core.recall import Recall
from accord.core.record import record_candidates
from accord.engine.dispatch import Account
from accord.engine.engine import Engine, RunningTurn
from accord.errors import ErrorCode, RefusedError, TurnCancelledError
from accord.wire.client import ClientCapabilities
from accord.wire.plan import Plan
from accord.wire.receipt import (
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
    Timings,
    Work,
)
from accord.wire.session import SessionRecord, TurnRecord, TurnState


def receipt_body(
    turn: RunningTurn, engine: Engine, shape: RequestShape, now: datetime, previous: str | None
) -> ReceiptBody:
    """Everything the receipt of this turn says."""
    request, report = turn.request, turn.adapter.report
    client = ClientParty.trusted(declared=report.declared, assumed=report.assumed)
    return ReceiptBody.trusted(
        request_id=str(request.request_id),
        session_id=request.context.session_id,
        created_at=now,
        previous=previous,
        request=shape,
        parties=Parties.trusted(agent=engine.party, client=client),
        work=[_work(account, engine) for account in turn.questions],
        adaptation=report,
        timings=Timings.trusted(
            plan_ms=round(sum(account.plan_ms for account in turn.questions), 3),
            first_packet_ms=turn.first_packet_ms,
            total_ms=turn.duration_ms,
        ),
        outcome=outcome_of(turn),
    )


def interrupted_body(
    turn: TurnRecord, session: SessionRecord, why: str, now: datetime, previous: str | None
) -> ReceiptBody:
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
    )


def negotiated_by(engine: Engine, declared: ClientCapabilities | None) -> dict[str, Any]:
    """What holds for a session: the content its agent takes, and what its client is taken to show."""
    client = profile_client(declared)
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


def _work(account: Account, engine: Engine) -> Work:
    outcome = account.outcome
    fallbacks = [Fallback(backend=name, code=error.code, message=error.message) for name, error in account.failures]
    if outcome is None:
        return Work(fallbacks=fallbacks)
    # The same needs give the very same plan, so what a receipt says of it is taken down once.
    candidates = _CANDIDATES.answer((outcome,), (), lambda: record_candidates(outcome))
    if not isinstance(outcome, Plan):
        return Work.trusted(needs=outcome.needs, candidates=candidates, fallbacks=fallbacks)
    return Work.trusted(
        needs=outcome.needs,
        candidates=candidates,
        fallbacks=fallbacks,
        policy=outcome.policy,
        backend=_backend(account.backend, engine),
        negotiation=outcome.offer.negotiation,
        emulations=account.emulation,
        usage=account.usage,
    )


def _backend(name: str | None, engine: Engine) -> BackendParty | None:
    backend = engine.dispatcher.backends.get(name or "")
    if backend is None:
        return None
    return BackendParty.trusted(
        name=backend.name, manifest=backend.manifest, refused=engine.dispatcher.refused_by(backend.name)
    )


_CANDIDATES: Final = Recall[list[Candidacy]]()
