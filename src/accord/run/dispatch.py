"""Send work to backends: plan, emulate, send, and fall back while nothing has been sent to the client.

    plan ──> for each offer, until one begins to answer: ── begin ──> the first part, then the others ──> costs
                                   emulated: send ──> read ──> check ──> send again, or go on  (`EmulatedAnswer`)

There is one loop over the backends of a plan (`Dispatcher.first_answer`), for questions of agents and calls of the
model APIs alike, and one that validates and sends again (`EmulatedAnswer`). After a failure before the first part, the
next backend of the plan gets the work. After that the answer cannot be taken back, and the failure is raised. What an
endpoint refuses is kept for a while (`refusals.py`).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from typing import Any, Final, Protocol, Self, TypeVar, cast

from accord.agent import Agent, Question, Turn
from accord.backends.model import ModelBackend
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
    Backend,
    BackendDescription,
    BackendPrice,
    Clock,
    DescribedBackend,
    MayResend,
    SystemClock,
)
from accord.run.circuit import Circuits
from accord.run.costs import RunCosts
from accord.run.decision_log import log_plan
from accord.run.limits import Ready, RunTimer, TimeLimits, Wait
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
FAILURES: Final = (BackendError, TimedOutError)
"""After these, another backend may answer."""

PartT = TypeVar("PartT")
PartT_co = TypeVar("PartT_co", covariant=True)


class Parts(AsyncIterable[PartT_co], Protocol[PartT_co]):
    """What is left of an answer that has begun."""

    def aclose(self) -> Awaitable[None]:
        """Stop the backend if it is still answering."""
        ...


Begun = tuple[PartT, Parts[PartT] | None]
"""The first part of an answer, and what gives the others; None if it is the whole answer."""


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
        self.limits: Final = limits or TimeLimits()
        self.size_limits: Final = size_limits or SizeLimits()
        self._clock: Final = clock or SystemClock()
        self._markers: Final = markers
        self.circuits: Final = circuits or Circuits(self._clock)
        self.concurrent: Final = concurrent or {}
        """How many calls of a backend may run at once, by name; backends without a limit are not in it."""
        self.slots = slots or BackendSlots(MemorySlots())
        """Where these calls are counted: until a store is handed in, in this process only."""
        self._describe: Final = describe
        """Describes the backend of a name; without it, those are described that do it themselves."""
        self.models: Final = {name: each for name, each in self.backends.items() if isinstance(each, ModelBackend)}
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

    def answer(
        self,
        order: WorkOrder,
        record: WorkRecord,
        timer: RunTimer,
        costs: RunCosts,
        received: list[AnyPiece] | None = None,
    ) -> AsyncGenerator[AnyPiece, None]:
        """The answer to this work, from the first backend of the plan that gives one, also added to `received`."""

        async def plan() -> tuple[Mapping[str, Offer], int]:
            began_at = self._clock.monotonic()
            outcome = shared_plan(order, self.candidates(record.caller, costs.payer.backends), self.config)
            self.note_plan(record, outcome, began_at)
            if isinstance(outcome, Refusal):
                raise RefusedError(outcome.message, outcome.code, outcome.dump())
            offers = offers_of(outcome)
            return offers, await costs.reserve(tuple(offers), order)

        async def begin(offer: Offer, may_resend: MayResend) -> Begun[AnyPiece]:
            record.dispositions = [
                FieldRecord(field=ORDER_FIELDS.get(name, name), disposition=Disposition.ASSUMED, reason=reason)
                for name, reason in self.assumed(offer, order).items()
            ]
            answer = self.answer_from(offer, order, record, timer, may_resend=may_resend)
            answer.received = received
            try:
                return await anext(answer), answer
            except BaseException:
                await answer.aclose()
                raise

        return self.first_answer(record, costs, plan, begin)

    async def first_answer(
        self,
        record: WorkRecord,
        costs: RunCosts,
        plan: Callable[[], Awaitable[tuple[Mapping[str, Offer], int]]],
        begin: Callable[[Offer, MayResend], Awaitable[Begun[PartT]]],
    ) -> AsyncGenerator[PartT, None]:
        """The parts of the answer of the first backend that begins to give one.

        `plan` gives the offers by backend, in the order in which they are tried, and what is reserved for the answer;
        `begin` the first part of the answer to one offer and what gives the others.
        """
        offers, reserved = await plan()
        try:
            async for attempt in self.attempts(tuple(offers), record.failures):
                has_begun = False
                try:
                    with attempt:
                        first, others = await begin(offers[attempt.backend], attempt.may_resend)
                        has_begun = True
                        attempt.began()
                        if others is None:
                            yield first
                        else:
                            async with aclosing(others):
                                yield first
                                async for part in others:
                                    yield part
                    return
                except FAILURES as error:
                    self.remember_refusal(attempt.backend, error, record)
                    record.failures.append((attempt.backend, error))
                    if has_begun or attempt.is_final(error):
                        raise
        except (asyncio.CancelledError, GeneratorExit, TurnCancelledError):
            record.is_left = True
            raise
        finally:
            costs.question_ended(record, reserved)

    def note_plan(self, record: WorkRecord, outcome: Plan | Refusal, began_at: float) -> None:
        """Record and log what was planned from this time on."""
        record.outcome, record.plan_ms = outcome, (self._clock.monotonic() - began_at) * 1_000
        log_plan(outcome, record.request_id)

    def assumed(self, offer: Offer, order: WorkOrder) -> Mapping[str, str]:
        """What the backend of this offer chooses for the order because its API requires it, by capability, and why."""
        backend = self.models.get(offer.backend)
        if backend is None:
            return {}
        choices = backend.assumed(_without_losses(offer, order))
        emulated = {canonical_name(rescue.capability) for rescue in offer.rescues}
        return {name: reason for name, reason in choices.items() if name not in emulated}

    def answer_from(
        self, offer: Offer, order: WorkOrder, record: WorkRecord, timer: RunTimer, *, may_resend: MayResend | None
    ) -> "EmulatedAnswer":
        """The answer of the backend of this offer, emulated as the offer says; there is no fallback.

        After a failure that may pass, the backend sends the request again if `may_resend` allows it.
        """
        record.backend = name = offer.backend
        prepare = partial(self._prepare, offer, order, record, timer)
        send = partial(self._send, name, record, Wait(timer, name), may_resend)
        return EmulatedAnswer(self.refusals, name, record, prepare, send)

    def _send(  # noqa: PLR0913 - what is sent, and how it is waited for
        self,
        name: str,
        record: WorkRecord,
        wait: Wait,
        may_resend: MayResend | None,
        order: WorkOrder,
        *,
        describes: bool = False,
    ) -> "BackendReading":
        """Send this order to this backend; each request that this takes is recorded."""
        begin = partial(record.begin_call, name, order, describes=describes)
        model, call = self.models.get(name), None
        if model is not None:
            pieces = model.answer_recorded(order, begin, may_resend=may_resend)
        else:
            call = begin()
            pieces = cast("AsyncGenerator[AnyPiece, None]", self.backends[name].answer(order))
        # Without streaming the first piece comes when the answer is complete.
        first_s = self.limits.backend_first_s if order.stream or describes else self.limits.turn_s
        return BackendReading(
            pieces, wait, first_s, self.limits.backend_gap_s, AnswerSize(name, self.size_limits), call
        )

    async def _prepare(self, offer: Offer, order: WorkOrder, record: WorkRecord, timer: RunTimer) -> EmulationRun:
        """The emulations of this offer; raises `BackendError` for an image that must be described and is not."""
        order = _without_losses(offer, order)
        level = declared_level(self.backends[offer.backend].manifest, Capability.STREAMING)
        if not order.stream and level is not None and level.root == SupportLevel.NATIVE.root:
            # The time limits then notice a backend that hangs in its answer.
            order = order.model_copy(update={"stream": True})
        if not offer.rescues and order.response_schema is None and not order.json_mode:
            return EmulationRun(order, ())  # nothing is emulated, described or checked
        settings = replace(await self._settings_for(offer, order, record, timer), marker=self._markers())
        run = await off_loop(schema_size(order), self._emulate, offer, order, settings)
        if record.must_see and any(effect.kind is EffectKind.IMAGE_NOT_SEEN for effect in run.record.effects):
            record.emulation = run.record
            message = f"{offer.backend}: {NOT_DESCRIBED}"
            raise BackendError(message, details={"backend": offer.backend}, is_outage=False)
        return run

    def _emulate(self, offer: Offer, order: WorkOrder, settings: EmulationSettings) -> EmulationRun:
        rescued = [rescue.capability for rescue in offer.rescues]
        chosen = choose_emulations(self.config.emulation, rescued, settings)
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
        wait = Wait(timer, describer.by)
        while to_send := describer.next_order():
            try:
                with await anext(self.attempts((describer.by,), [])) as attempt:
                    reading = self._send(describer.by, record, wait, attempt.may_resend, to_send, describes=True)
                    async with aclosing(reading.pieces):
                        while (piece := await reading.next()) is not None:
                            describer.feed(piece)
            except FAILURES as error:
                self.remember_refusal(describer.by, error, record)
                describer.give_up(error.message)

    def remember_refusal(self, backend: str, error: AccordError, record: WorkRecord) -> None:
        """Keep which capability this backend's endpoint refused."""
        if isinstance(error, BackendError) and error.refused is not None:
            self.refusals.add_capability(backend, error.refused, record.origin)


ORDER_FIELDS: Final[Mapping[str, str]] = {Capability.EXTENDED_THINKING: "thinking"}
"""What agents call a capability in their questions, where it has another name."""


def _without_losses(offer: Offer, order: WorkOrder) -> WorkOrder:
    if not (offer.losses or offer.unmet):
        return order
    return remove_unsupported(
        order, [loss.capability for loss in offer.losses], [short.capability for short in offer.unmet]
    )


def offers_of(plan: Plan) -> dict[str, Offer]:
    """The offers of a plan by their backends, in the order in which they are tried."""
    return {offer.backend: offer for offer in (plan.offer, *plan.fallbacks)}


@dataclass(slots=True)
class BackendReading:
    """The pieces of a backend's answer to one order: waited for as the limits allow, counted and recorded."""

    pieces: AsyncGenerator[AnyPiece, None]
    wait: Wait
    seconds: float
    """How long is waited for the next piece."""
    gap_s: float
    size: AnswerSize
    call: BackendCall | None = None
    """The record of the request, unless the backend records its requests itself."""

    async def next(self) -> AnyPiece | None:
        """The next piece; None at the end."""
        try:
            polled = self.wait.poll(anext(self.pieces, None))
            piece = polled[0] if isinstance(polled, Ready) else await self.wait.finish(self.seconds, polled)
        except BackendError:
            if self.call is not None:
                self.call.has_failed = True
            raise
        if piece is not None:
            self.seconds = self.gap_s
            if self.call is not None:
                self.call.see(piece)
            self.size.add(piece)
        return piece


@dataclass(slots=True)
class EmulatedAnswer:
    """The answer of one backend, emulated and checked: an invalid one is requested again, as often as is allowed.

    An asynchronous iterator over the pieces that can go on, to be closed. Nothing is sent before the first is wanted.
    """

    refusals: RefusalMemory
    backend: str
    record: WorkRecord
    prepare: Callable[[], Awaitable[EmulationRun]]
    send: Callable[[WorkOrder], BackendReading]
    received: list[AnyPiece] | None = None
    """What each piece is added to before it goes on."""
    _run: EmulationRun | None = None
    _reading: BackendReading | None = None
    _ready: Iterator[AnyPiece] = field(default_factory=lambda: iter(()))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyPiece:
        """The next piece; raises `BackendError` or `EmulationError` if no answer was valid."""
        while (ready := next(self._ready, None)) is None:
            run = self._run = self._run or await self.prepare()
            reading = self._reading = self._reading or self._send_next(run)
            if (piece := await reading.next()) is None:
                run.finish()
                self._reading = None
            else:
                self._ready = iter(run.feed(piece))
        if self.received is not None:
            self.received.append(ready)
        return ready

    def _send_next(self, run: EmulationRun) -> BackendReading:
        """Send the order, or send it again; raises the failure, or the end, once the run is over."""
        if to_send := run.next_order():
            return self.send(to_send)
        if (failure := run.failure) is None:
            raise StopAsyncIteration
        details = {"attempts": failure.attempts}
        if failure.code is ErrorCode.BACKEND_FAILED:
            raise BackendError(failure.message, retryable=not run.contradicted, details=details, is_outage=False)
        raise EmulationError(failure.message, details=details)

    async def aclose(self) -> None:
        """Stop the backend if it is still answering, and record what was emulated."""
        reading, self._reading = self._reading, None
        run, self._run = self._run, None
        try:
            if reading is not None:
                await reading.pieces.aclose()
        finally:
            if run is not None:
                self.record.emulation, origin = run.record, self.record.origin
                for check in run.checks:  # answers that contradict the manifest are counted
                    if run.stage is EmulationStage.DONE:
                        self.refusals.agree(self.backend, check, origin)
                    elif run.contradicted[check]:
                        self.refusals.contradict(self.backend, check, origin, run.contradicted[check])


@dataclass(slots=True)
class RunQuestions:
    """The questions of one turn to backends, each with a record.

    The turn of the agent refers to this object, but not the reverse: a turn that is over is freed at once.
    """

    dispatcher: Dispatcher
    agent: Agent
    timer: RunTimer
    costs: RunCosts
    streams: bool
    records: list[WorkRecord] = field(default_factory=list[WorkRecord])
    _answers: list[AsyncGenerator[AnyPiece, None]] = field(default_factory=list[AsyncGenerator[AnyPiece, None]])

    def __call__(self, turn: Turn, question: Question, received: list[AnyPiece]) -> AsyncGenerator[AnyPiece, None]:
        """Send a question of this turn to the backends; gives the answer piece by piece, and adds it to `received`."""
        self.timer.raise_if_over()
        record = WorkRecord(request_id=str(turn.request.request_id), caller=turn.request.context.user.id)
        self.records.append(record)
        content = question.content
        if content is None:  # what the user sent goes only with the user's own text
            content = turn.content if question.prompt is None else ()
        order = build_order(
            prompt=question.prompt if question.prompt is not None else turn.text,
            content=content,
            history=turn.history,
            system=question.system or self.agent.system,
            tools=question.tools,
            response_schema=question.schema,
            stop_sequences=question.stop,
            thinking=question.thinking,
            stream=self.streams,
            parameters=question.parameters,
            follow=question.follow,
            requirements=question.requirements or stated_requirements(self.agent, turn.request),
        )
        answer = self.dispatcher.answer(order, record, self.timer, self.costs, received)
        self._answers.append(answer)
        return answer

    async def close(self) -> None:
        """Close the answers that the agent left open, which stops their backends."""
        for answer in self._answers:
            with suppress(RuntimeError):  # a task of the agent awaits it, which ends with the turn's time
                await answer.aclose()
