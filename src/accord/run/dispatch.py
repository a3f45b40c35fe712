"""Send work to backends: plan, emulate, send, and fall back while nothing has been sent to the client.

After a failure before the first piece, the next backend of the plan gets the work. After the first piece the answer
cannot be taken back, and the failure is raised. What an endpoint refuses is kept for a while (`refusals.py`).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from typing import Any, Final, cast

from accord.agent import Agent, Question, Turn
from accord.core.sizes import AnswerSize, SizeLimits
from accord.core.work.backend_call import BackendCall
from accord.core.work.conversation import build_order
from accord.core.work.emulation.choose import EmulationSettings, choose_emulations
from accord.core.work.emulation.describe_images import ImageDescriber
from accord.core.work.emulation.run import EmulationRun, EmulationStage, add_usage
from accord.core.work.emulation.structured_output import output_check
from accord.core.work.fields import ModelRequest
from accord.core.work.negotiate import declared_level
from accord.core.work.plan import Candidate, PlanConfig, remove_unsupported, shared_plan
from accord.errors import (
    AccordError,
    BackendError,
    EmulationError,
    ErrorCode,
    RefusedError,
    TimedOutError,
    TurnCancelledError,
)
from accord.off_loop import off_loop, schema_size
from accord.ports import (
    AssumingBackend,
    Backend,
    BackendDescription,
    BackendPrice,
    Clock,
    DescribedBackend,
    MayResend,
    RecordingBackend,
    SystemClock,
)
from accord.run.circuit import Circuits
from accord.run.costs import RunCosts
from accord.run.decision_log import log_plan
from accord.run.limits import NOTHING_MORE, RunTimer, TimeLimits
from accord.run.refusals import RefusalMemory, RequestOrigin
from accord.run.slots import BackendSlots, LimitedAttempts
from accord.stores.memory_slots import MemorySlots
from accord.wire.capability import Capability, canonical_name
from accord.wire.disposition import AnswerRecord, Disposition, FieldRecord
from accord.wire.emulation import EffectKind, EmulationRecord
from accord.wire.manifest import CapabilityRequirements, SupportLevel
from accord.wire.plan import Offer, Plan, Refusal
from accord.wire.request import ServiceRequest
from accord.wire.work import AnyPiece, WorkOrder

NOT_DESCRIBED: Final = "it cannot see images, and an image could not be described for it"


def new_marker() -> str:
    """A random marker for one question, which prompts cannot contain by accident or intent."""
    return token_hex(6)


@dataclass(slots=True)
class WorkRecord:
    """What happened to one question: the plan or refusal, the backends that failed, what was emulated."""

    outcome: Plan | Refusal | None = None
    backend: str | None = None
    failures: list[tuple[str, AccordError]] = field(default_factory=list[tuple[str, AccordError]])
    emulation: EmulationRecord | None = None
    calls: list[BackendCall] = field(default_factory=list[BackendCall])
    """Every request that was sent to a backend for this question."""
    plan_ms: float = 0.0
    described: EmulationSettings | None = None
    request_id: str | None = None
    caller: str = ""
    """Who sent the request; empty if that is not known."""
    dispositions: list[FieldRecord] | None = None
    answer: list[AnswerRecord] | None = None
    """What became of the parts of the answer in the client's API."""
    must_see: bool = False
    """Whether an image that could not be described is a failure, and not a loss."""
    is_left: bool = False
    """Whether the answer was given up, by the client or the agent, before it had ended."""

    @property
    def usage(self) -> dict[str, Any] | None:
        """What all attempts at the answer used."""
        usage: dict[str, Any] | None = None
        for call in self.calls:
            if not call.describes:
                usage = add_usage(usage, call.usage)
        return usage

    def begin_call(self, backend: str, work: WorkOrder | ModelRequest, *, describes: bool = False) -> BackendCall:
        """Begin the record of a request that is sent to this backend now."""
        call = BackendCall(backend, work, describes)
        self.calls.append(call)
        return call

    @property
    def origin(self) -> RequestOrigin:
        """Whose request met what an endpoint refuses."""
        return RequestOrigin(self.caller, self.request_id)


def stated_requirements(agent: Agent, request: ServiceRequest) -> CapabilityRequirements | None:
    """What the agent and the request state as required and preferred; None if neither states anything."""
    of_agent, of_request = agent.requires, request.payload.requirements
    if of_agent is None or of_request is None:
        return of_agent or of_request
    return CapabilityRequirements(
        required=[*of_agent.required, *of_request.required], preferred=[*of_agent.preferred, *of_request.preferred]
    )


class Dispatcher:
    """The operator's backends, in order of preference."""

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        backends: Sequence[Backend],
        *,
        config: PlanConfig | None = None,
        settings: EmulationSettings | None = None,
        limits: TimeLimits | None = None,
        size_limits: SizeLimits | None = None,
        clock: Clock | None = None,
        markers: Callable[[], str] = new_marker,
        circuits: Circuits | None = None,
        concurrent: Mapping[str, int] | None = None,
        slots: BackendSlots | None = None,
        refusals: RefusalMemory | None = None,
        describe: Callable[[str], BackendDescription] | None = None,
        prices: Mapping[str, BackendPrice] | None = None,
    ) -> None:
        self.backends: Final = {backend.name: backend for backend in backends}
        self.known: Final = {backend.name: backend for backend in backends if isinstance(backend, DescribedBackend)}
        self.prices: Final = prices or {}
        """The prices of the backends whose price is known, by name."""
        self.config: Final = config or PlanConfig()
        self.settings: Final = settings or EmulationSettings()
        self._limits: Final = limits or TimeLimits()
        self._size_limits: Final = size_limits or SizeLimits()
        self._clock: Final = clock or SystemClock()
        self._markers: Final = markers
        self.circuits: Final = circuits or Circuits(self._clock)
        self.concurrent: Final = concurrent or {}
        """How many calls of a backend may run at once, by name; backends without a limit are not in it."""
        self.slots = slots or BackendSlots(MemorySlots())
        """Where these calls are counted: until a store is handed in, in this process only."""
        self._describe: Final = describe
        """Describes the backend of a name; without it, those are described that do it themselves."""
        self._recording: Final = {
            name: each for name, each in self.backends.items() if isinstance(each, RecordingBackend)
        }
        self._assuming: Final = {
            name: each for name, each in self.backends.items() if isinstance(each, AssumingBackend)
        }
        self.refusals: Final = refusals or RefusalMemory(self._clock)
        self._plain: Final[dict[str, Candidate]] = {}
        """The candidates of backends that have refused nothing, by name."""

    def candidates(self, caller: str = "", names: Container[str] | None = None) -> list[Candidate]:
        """Every backend with its manifest and what it has refused or contradicted, or only those of these names."""
        return [self.candidate(name, caller) for name in self.backends if names is None or name in names]

    def candidate(self, name: str, caller: str = "") -> Candidate:
        """The backend of this name with its manifest, and what it has refused or contradicted for this caller."""
        if not self.refusals.has_any(name):
            known, manifest = self._plain.get(name), self.backends[name].manifest
            if known is None or known.manifest is not manifest:
                known = self._plain[name] = Candidate(name, manifest)
            return known
        refused = self.refusals.capabilities_of(name, caller)
        contradicted = self.refusals.capabilities_of(name, caller, contradicted=True)
        return Candidate(
            name,
            self.backends[name].manifest,
            frozenset(refused),
            frozenset(contradicted),
            history=(*refused.items(), *contradicted.items()),
        )

    def describe(self, name: str) -> BackendDescription:
        """The model of this backend and the evidence for its manifest, as they are known now."""
        if self._describe is not None:
            return self._describe(name)
        known = self.known.get(name)
        return BackendDescription() if known is None else BackendDescription(known.model, known.evidence)

    def attempts(self, backends: Sequence[str], failures: list[tuple[str, AccordError]]) -> LimitedAttempts:
        """The backends to try, one after the other, until one answers: the only place where calls are limited."""
        return LimitedAttempts(self.circuits, self.slots, self.concurrent, backends, failures)

    async def answer(
        self, order: WorkOrder, record: WorkRecord, timer: RunTimer, costs: RunCosts
    ) -> AsyncGenerator[AnyPiece, None]:
        """The answer to this work, from the first backend of the plan that gives one."""
        began_at = self._clock.monotonic()
        candidates = self.candidates(record.caller, costs.payer.backends)
        record.outcome = shared_plan(order, candidates, self.config)
        record.plan_ms = (self._clock.monotonic() - began_at) * 1_000
        log_plan(record.outcome, record.request_id)
        if isinstance(record.outcome, Refusal):
            raise RefusedError(record.outcome.message, record.outcome.code, record.outcome.dump())
        offers = {offer.backend: offer for offer in (record.outcome.offer, *record.outcome.fallbacks)}
        estimate = await costs.reserve(tuple(offers), order)
        try:
            async for attempt in self.attempts(tuple(offers), record.failures):
                has_begun, offer = False, offers[attempt.backend]
                record.dispositions = [
                    FieldRecord(field=ORDER_FIELDS.get(name, name), disposition=Disposition.ASSUMED, reason=reason)
                    for name, reason in self.assumed(offer, order).items()
                ]
                answer = self.answer_from(offer, order, record, timer, may_resend=attempt.may_resend)
                try:
                    with attempt:
                        async with aclosing(answer) as pieces:
                            async for piece in pieces:
                                if not has_begun:
                                    has_begun = True
                                    attempt.began()
                                yield piece
                    return
                except (BackendError, TimedOutError) as error:
                    self.remember_refusal(offer.backend, error, record)
                    record.failures.append((offer.backend, error))
                    if has_begun or attempt.is_final(error):
                        raise
        except (asyncio.CancelledError, GeneratorExit, TurnCancelledError):
            record.is_left = True
            raise
        finally:
            costs.question_ended(record, estimate)

    def assumed(self, offer: Offer, order: WorkOrder) -> Mapping[str, str]:
        """What the backend of this offer chooses for the order because its API requires it, by capability, and why."""
        backend = self._assuming.get(offer.backend)
        if backend is None:
            return {}
        choices = backend.assumed(_without_losses(offer, order))
        emulated = {canonical_name(rescue.capability) for rescue in offer.rescues}
        return {name: reason for name, reason in choices.items() if name not in emulated}

    async def answer_from(
        self,
        offer: Offer,
        order: WorkOrder,
        record: WorkRecord,
        timer: RunTimer,
        *,
        may_resend: MayResend | None = None,
    ) -> AsyncGenerator[AnyPiece, None]:
        """The answer of the backend of this offer, emulated as the offer says; there is no fallback.

        After a failure that may pass, the backend sends the request again if `may_resend` allows it.
        """
        record.backend, backend = offer.backend, self.backends[offer.backend]
        order = _stream_if_native(order, backend)
        settings = replace(await self._settings_for(offer, order, record, timer), marker=self._markers())
        turn = await off_loop(schema_size(order), self._prepare, offer, order, settings)
        _check_images(turn, backend.name, record)
        wait = timer.wait(backend.name)
        try:
            while to_send := turn.next_order():
                # Without streaming the first piece comes when the answer is complete.
                seconds = self._limits.backend_first_s if to_send.stream else self._limits.turn_s
                size = AnswerSize(backend.name, self._size_limits)
                async with aclosing(self._send(backend.name, to_send, record, may_resend=may_resend)) as pieces:
                    while True:
                        piece = await wait.upto(seconds, anext(pieces, NOTHING_MORE))
                        if piece is NOTHING_MORE:
                            break
                        seconds = self._limits.backend_gap_s
                        size.add(cast("AnyPiece", piece))
                        for passed in turn.feed(cast("AnyPiece", piece)):
                            yield passed
                for passed in turn.finish():
                    yield passed
        finally:
            record.emulation = turn.record
            self.count_contradictions(offer.backend, turn, record)
        if (failure := turn.failure) is not None:
            details = {"attempts": failure.attempts}
            if failure.code is ErrorCode.BACKEND_FAILED:
                can_retry = not turn.contradicted
                raise BackendError(failure.message, retryable=can_retry, details=details, is_outage=False)
            raise EmulationError(failure.message, details=details)

    def _send(
        self, name: str, order: WorkOrder, record: WorkRecord, *, may_resend: MayResend | None, describes: bool = False
    ) -> AsyncGenerator[AnyPiece, None]:
        """The answer of this backend to an order; each request that this takes is recorded."""
        begin = partial(record.begin_call, name, order, describes=describes)
        recording = self._recording.get(name)
        if recording is not None:
            return recording.answer_recorded(order, begin, may_resend=may_resend)
        return _recorded(self.backends[name], order, begin())

    def _prepare(self, offer: Offer, order: WorkOrder, settings: EmulationSettings) -> EmulationRun:
        rescued = [rescue.capability for rescue in offer.rescues]
        chosen = choose_emulations(self.config.emulation, rescued, settings)
        order = _without_losses(offer, order)
        check = output_check(order, settings.max_retries)
        # An emulation of the capability judges the answer itself.
        checks = () if check is None or check.capability in map(canonical_name, rescued) else (check,)
        return EmulationRun(order, (*chosen.emulations, *checks))

    async def _settings_for(
        self, offer: Offer, order: WorkOrder, record: WorkRecord, timer: RunTimer
    ) -> EmulationSettings:
        """The settings, with descriptions of images if a backend is configured to describe them; it sees them once."""
        if self.settings.describe_images_with is None or not offer.rescues:
            return self.settings
        if record.described is None:
            describer = ImageDescriber(order, offer.rescues, self.settings, self.candidates())
            try:
                await self._describe_images(describer, record, timer)
            finally:  # a turn that is cancelled meanwhile has sent images all the same
                record.emulation = EmulationRecord(effects=list(describer.settings().image_effects))
            record.described = describer.settings() if describer.settings().image_effects else None
        return record.described or self.settings

    async def _describe_images(self, describer: ImageDescriber, record: WorkRecord, timer: RunTimer) -> None:
        wait = timer.wait(describer.by)
        while to_send := describer.next_order():
            size = AnswerSize(describer.by, self._size_limits)
            try:
                with await anext(self.attempts((describer.by,), [])) as attempt:
                    async with aclosing(
                        self._send(describer.by, to_send, record, may_resend=attempt.may_resend, describes=True)
                    ) as pieces:
                        while True:
                            piece = await wait.upto(self._limits.backend_first_s, anext(pieces, NOTHING_MORE))
                            if piece is NOTHING_MORE:
                                break
                            size.add(cast("AnyPiece", piece))
                            describer.feed(cast("AnyPiece", piece))
            except (BackendError, TimedOutError) as error:
                self.remember_refusal(describer.by, error, record)
                describer.give_up(error.message)

    def count_contradictions(self, backend: str, turn: EmulationRun, record: WorkRecord) -> None:
        """Count answers that contradict the manifest."""
        for check in turn.checks:
            if turn.stage is EmulationStage.DONE:
                self.refusals.agree(backend, check, record.origin)
            elif turn.contradicted[check]:
                self.refusals.contradict(backend, check, record.origin, turn.contradicted[check])

    def remember_refusal(self, backend: str, error: AccordError, record: WorkRecord) -> None:
        """Keep which capability this backend's endpoint refused."""
        if isinstance(error, BackendError) and error.refused is not None:
            self.refusals.add_capability(backend, error.refused, record.origin)


ORDER_FIELDS: Final[Mapping[str, str]] = {Capability.EXTENDED_THINKING: "thinking"}
"""What agents call a capability in their questions, where it has another name."""


def _without_losses(offer: Offer, order: WorkOrder) -> WorkOrder:
    return remove_unsupported(
        order, [loss.capability for loss in offer.losses], [short.capability for short in offer.unmet]
    )


async def _recorded(backend: Backend, order: WorkOrder, call: BackendCall) -> AsyncGenerator[AnyPiece, None]:
    """The answer of a backend that does not record its requests itself."""
    try:
        async with aclosing(cast("AsyncGenerator[AnyPiece, None]", backend.answer(order))) as pieces:
            async for piece in pieces:
                call.see(piece)
                yield piece
    except BackendError:
        call.has_failed = True
        raise


def _check_images(turn: EmulationRun, backend: str, record: WorkRecord) -> None:
    """Raise `BackendError` if the backend would get an image neither itself nor described, and that must not be."""
    if record.must_see and any(effect.kind is EffectKind.IMAGE_NOT_SEEN for effect in turn.record.effects):
        record.emulation = turn.record
        raise BackendError(f"{backend}: {NOT_DESCRIBED}", details={"backend": backend}, is_outage=False)


def _stream_if_native(order: WorkOrder, backend: Backend) -> WorkOrder:
    """The order, streamed where the backend can: the time limits then notice a backend that hangs in its answer."""
    level = declared_level(backend.manifest, Capability.STREAMING)
    if order.stream or level is None or level.root != SupportLevel.NATIVE.root:
        return order
    return order.model_copy(update={"stream": True})


class RunQuestions:
    """The questions of one turn to backends, each with a record.

    The turn of the agent refers to this object, but not the reverse: a turn that is over is freed at once.
    """

    __slots__ = ("_agent", "_answers", "_costs", "_dispatcher", "_streams", "_timer", "records")

    def __init__(
        self, dispatcher: Dispatcher, agent: Agent, timer: RunTimer, costs: RunCosts, *, streams: bool
    ) -> None:
        self.records: Final[list[WorkRecord]] = []
        self._answers: Final[list[AsyncGenerator[AnyPiece, None]]] = []
        self._costs: Final = costs
        self._dispatcher: Final = dispatcher
        self._agent: Final = agent
        self._timer: Final = timer
        self._streams: Final = streams

    def __call__(self, turn: Turn, question: Question) -> AsyncGenerator[AnyPiece, None]:
        """Send a question of this turn to the backends; gives the answer piece by piece."""
        self._timer.raise_if_over()
        record = WorkRecord(request_id=str(turn.request.request_id), caller=turn.request.context.user.id)
        self.records.append(record)
        content = question.content
        if content is None:  # what the user sent goes only with the user's own text
            content = turn.content if question.prompt is None else ()
        order = build_order(
            prompt=question.prompt if question.prompt is not None else turn.text,
            content=content,
            history=turn.history,
            system=question.system or self._agent.system,
            tools=question.tools,
            response_schema=question.schema,
            stop_sequences=question.stop,
            thinking=question.thinking,
            stream=self._streams,
            parameters=question.parameters,
            follow=question.follow,
            requirements=question.requirements or stated_requirements(self._agent, turn.request),
        )
        answer = self._dispatcher.answer(order, record, self._timer, self._costs)
        self._answers.append(answer)
        return answer

    async def close(self) -> None:
        """Close the answers that the agent left open, which stops their backends."""
        for answer in self._answers:
            with suppress(RuntimeError):  # a task of the agent awaits it, which ends with the turn's time
                await answer.aclose()
