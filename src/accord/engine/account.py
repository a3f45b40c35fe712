"""Writes the receipt of a turn: what every party declared, what was decided, what became of it. Seals nothing."""

from datetime import datetime

from accord.core.record import record_candidates, record_request
from accord.core.validate.declaration import read_declaration
from accord.engine.dispatch import Account
from accord.engine.engine import Engine, RunningTurn
from accord.errors import ErrorCode, RefusedError, TurnCancelledError
from accord.wire.message import Message
from accord.wire.plan import Plan
from accord.wire.receipt import (
    AgentParty,
    BackendParty,
    ClientParty,
    Fallback,
    Outcome,
    OutcomeStatus,
    Parties,
    ReceiptBody,
    Timings,
    Work,
)
from accord.wire.session import TurnState


def receipt_body(turn: RunningTurn, engine: Engine, *, previous: str | None, now: datetime) -> ReceiptBody:
    """Everything the receipt of this turn says."""
    request, report = turn.request, turn.adapter.report
    return ReceiptBody(
        request_id=str(request.request_id),
        session_id=request.context.session_id,
        created_at=now,
        previous=previous,
        request=record_request(request.payload),
        parties=Parties(
            agent=_agent(engine), client=ClientParty(declared=report.declared, assumed=list(report.assumed))
        ),
        work=[_work(account, engine) for account in turn.questions],
        adaptation=report.dump(),
        timings=Timings(
            plan_ms=sum(account.plan_ms for account in turn.questions),
            first_packet_ms=turn.first_packet_ms,
            total_ms=turn.duration_ms,
        ),
        outcome=_outcome(turn),
    )


def turn_state(turn: RunningTurn) -> TurnState:
    """How the turn ended, for the store."""
    match _outcome(turn).status:
        case OutcomeStatus.DONE:
            return TurnState.DONE
        case OutcomeStatus.CANCELLED:
            return TurnState.CANCELLED
        case OutcomeStatus.REFUSED | OutcomeStatus.FAILED:
            return TurnState.FAILED


def _agent(engine: Engine) -> AgentParty:
    declared = engine.agent.accepts
    told = declared.dump() if isinstance(declared, Message) else dict(declared) if declared is not None else None
    accepts = read_declaration(declared, engine.protocol_version).accepted
    return AgentParty(
        name=engine.agent.name,
        declared=told,
        accepts=list(accepts),
    )


def _work(account: Account, engine: Engine) -> Work:
    outcome = account.outcome
    fallbacks = [Fallback(backend=name, code=error.code, message=error.message) for name, error in account.failures]
    if outcome is None:
        return Work(fallbacks=fallbacks)
    candidates = record_candidates(outcome)
    if not isinstance(outcome, Plan):
        return Work(needs=outcome.needs, candidates=candidates, fallbacks=fallbacks)
    return Work(
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
    return BackendParty(
        name=backend.name, manifest=backend.manifest, refused=engine.dispatcher.refused_by(backend.name)
    )


def _outcome(turn: RunningTurn) -> Outcome:
    failure = turn.failure
    if failure is None:
        if turn.is_complete:
            return Outcome(status=OutcomeStatus.DONE)
        return Outcome(
            status=OutcomeStatus.CANCELLED, code=ErrorCode.CANCELLED, message="The reader went away before the end"
        )
    if isinstance(failure, RefusedError):
        status = OutcomeStatus.REFUSED
    elif isinstance(failure, TurnCancelledError):
        status = OutcomeStatus.CANCELLED
    else:
        status = OutcomeStatus.FAILED
    return Outcome(status=status, code=failure.code, message=failure.message)
