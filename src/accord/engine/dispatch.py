"""Send work to backends: plan, emulate, send, and fall back while nothing has been sent to the client."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any, Final, cast

from accord.agent import Question, Turn
from accord.core.sizes import AnswerSize, SizeLimits
from accord.core.work.conversation import build_order
from accord.core.work.emulation.choose import EmulationSettings, choose_emulations
from accord.core.work.emulation.describe_images import ImageDescriber
from accord.core.work.emulation.run import EmulationFailure, EmulationRun, EmulationStage
from accord.core.work.emulation.structured_output import output_check
from accord.core.work.plan import Candidate, PlanConfig, plan, remove_unsupported
from accord.engine.limits import NOTHING_MORE, Patience, TimeLimits
from accord.errors import AccordError, BackendError, EmulationError, ErrorCode, RefusedError, TimedOutError
from accord.ports import Backend, Clock, DescribedBackend, SystemClock
from accord.wire.acp.content import ContentBlock
from accord.wire.capability import canonical_name
from accord.wire.emulation import EmulationRecord
from accord.wire.plan import Offer, Plan, Refusal
from accord.wire.work import AnyPiece, WorkOrder

# Puts work to backends: plan, emulate, send, and fall back while nothing has gone out yet.
#
# A failure before the first piece goes to the next backend that the plan accepts; after it, the answer cannot be
# taken back and the failure is the caller's. What an endpoint refuses is remembered, so that it is not planned with
# again.

CONTRADICTIONS: Final = 3
"""After so many answers in a row that contradict its manifest, a backend is not asked for the capability again."""


def new_marker() -> str:
    """A marker for one question that nobody can have known before."""
    return token_hex(6)


@dataclass(slots=True)
class WorkRecord:
    """What happened to one question: the plan or refusal, who failed before it succeeded, what was stood in for."""

    outcome: Plan | Refusal | None = None
    backend: str | None = None
    failures: list[tuple[str, AccordError]] = field(default_factory=list[tuple[str, AccordError]])
    emulation: EmulationRecord | None = None
    usage: dict[str, Any] | None = None
    plan_ms: float = 0.0
    described: EmulationSettings | None = None


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
    ) -> None:
        self.backends: Final = {backend.name: backend for backend in backends}
        self.known: Final = {backend.name: backend for backend in backends if isinstance(backend, DescribedBackend)}
        self._config: Final = config or PlanConfig()
        self._settings: Final = settings or EmulationSettings()
        self._limits: Final = limits or TimeLimits()
        self._size_limits: Final = size_limits or SizeLimits()
        self._clock: Final = clock or SystemClock()
        self._markers: Final = markers
        self._refused: Final[dict[str, set[str]]] = {}
        self._contradictions: Final[Counter[tuple[str, str]]] = Counter()

    def candidates(self) -> list[Candidate]:
        """Every backend with what it declares and what it was seen to refuse."""
        return [
            Candidate(
                name, backend.manifest, frozenset(self._refused.get(name, ())), frozenset(self.contradicted_by(name))
            )
            for name, backend in self.backends.items()
        ]

    def refused_by(self, name: str) -> list[str]:
        """What this backend was seen to refuse."""
        return sorted(self._refused.get(name, ()))

    def contradicted_by(self, name: str) -> list[str]:
        """What this backend declares and was seen not to do, often enough not to be planned with again."""
        return sorted(
            capability
            for (backend, capability), count in self._contradictions.items()
            if backend == name and count >= CONTRADICTIONS
        )

    async def answer(self, order: WorkOrder, record: WorkRecord, patience: Patience) -> AsyncGenerator[AnyPiece, None]:
        """The answer to this work, from the first backend of the plan that gives one."""
        began_at = self._clock.monotonic()
        record.outcome = plan(order, self.candidates(), self._config)
        record.plan_ms = (self._clock.monotonic() - began_at) * 1_000
        if isinstance(record.outcome, Refusal):
            raise RefusedError(record.outcome.message, record.outcome.code, record.outcome.dump())
        *fallbacks, last = record.outcome.offer, *record.outcome.fallbacks
        for offer in (*fallbacks, last):
            has_begun = False
            try:
                async with aclosing(self._from(offer, order, record, patience)) as pieces:
                    async for piece in pieces:
                        has_begun = True
                        yield piece
                return
            except (BackendError, TimedOutError) as error:
                self._remember(offer.backend, error)
                record.failures.append((offer.backend, error))
                if has_begun or offer is last:
                    raise

    async def _from(
        self, offer: Offer, order: WorkOrder, record: WorkRecord, patience: Patience
    ) -> AsyncGenerator[AnyPiece, None]:
        settings = replace(await self._described(offer, order, record, patience), marker=self._markers())
        turn = self._prepare(offer, order, settings)
        record.backend, backend = offer.backend, self.backends[offer.backend]
        waited = patience.wait(backend.name)
        try:
            while to_send := turn.next_order():
                seconds, size = self._limits.backend_first_s, AnswerSize(backend.name, self._size_limits)
                async with aclosing(cast("Any", backend.answer(to_send))) as pieces:
                    while True:
                        piece = await waited.upto(seconds, anext(pieces, NOTHING_MORE))
                        if piece is NOTHING_MORE:
                            break
                        seconds = self._limits.backend_gap_s
                        size.add(cast("AnyPiece", piece))
                        for passed in turn.feed(cast("AnyPiece", piece)):
                            yield passed
                for passed in turn.finish():
                    yield passed
        finally:
            record.emulation, record.usage = turn.record, turn.usage
            self._judge(offer.backend, turn)
        if turn.failure is not None:
            raise _raised(turn, turn.failure)

    def _prepare(self, offer: Offer, order: WorkOrder, settings: EmulationSettings) -> EmulationRun:
        rescued = [rescue.capability for rescue in offer.rescues]
        chosen = choose_emulations(self._config.emulation, rescued, settings)
        order = remove_unsupported(
            order, [loss.capability for loss in offer.losses], [short.capability for short in offer.unmet]
        )
        check = output_check(order, settings.max_retries)
        # Whoever stands in for a capability judges the answer itself.
        checks = () if check is None or check.capability in map(canonical_name, rescued) else (check,)
        return EmulationRun(order, (*chosen.emulations, *checks))

    async def _described(
        self, offer: Offer, order: WorkOrder, record: WorkRecord, patience: Patience
    ) -> EmulationSettings:
        """The settings, with words for images if the operator lets a backend see them; images are shown once only."""
        if self._settings.describe_images_with is None or not offer.rescues:
            return self._settings
        if record.described is None:
            showing = ImageDescriber(order, offer.rescues, self._settings, self.candidates())
            try:
                await self._show(showing, patience)
            finally:  # a turn that is cancelled meanwhile has shown images all the same
                record.emulation = EmulationRecord(effects=list(showing.settings().image_effects))
            record.described = showing.settings() if showing.settings().image_effects else None
        return record.described or self._settings

    async def _show(self, showing: ImageDescriber, patience: Patience) -> None:
        waited = patience.wait(showing.by)
        while to_send := showing.next_order():
            size = AnswerSize(showing.by, self._size_limits)
            try:
                async with aclosing(cast("Any", self.backends[showing.by].answer(to_send))) as pieces:
                    while True:
                        piece = await waited.upto(self._limits.backend_first_s, anext(pieces, NOTHING_MORE))
                        if piece is NOTHING_MORE:
                            break
                        size.add(cast("AnyPiece", piece))
                        showing.feed(cast("AnyPiece", piece))
            except (BackendError, TimedOutError) as error:
                self._remember(showing.by, error)
                showing.give_up(error.message)

    def _judge(self, backend: str, turn: EmulationRun) -> None:
        """Count answers that contradict the manifest; one that fits clears the count, until it was reached."""
        for check in turn.checks:
            self._contradictions[backend, check] += turn.contradicted[check]
            if turn.stage is EmulationStage.DONE and check not in self.contradicted_by(backend):
                self._contradictions[backend, check] = 0

    def _remember(self, backend: str, error: AccordError) -> None:
        if isinstance(error, BackendError) and error.refused is not None:
            self._refused.setdefault(backend, set()).add(error.refused)


def _raised(turn: EmulationRun, failure: EmulationFailure) -> AccordError:
    """The error for a turn that did not succeed."""
    details = {"attempts": failure.attempts}
    if failure.code is ErrorCode.BACKEND_FAILED:
        return BackendError(failure.message, retryable=not turn.contradicted, details=details)
    return EmulationError(failure.message, details=details)


# What one turn asks of backends: each question is put with what the user sent, counted, and closed with the turn.
#
# An agent's turn holds this object and this object holds no turn: a turn that is over is forgotten at once, without
# anybody having to look for circles.


class Questions:
    """The questions of one turn, and what became of them."""

    __slots__ = ("_answers", "_dispatcher", "_patience", "_system", "records")

    def __init__(self, dispatcher: Dispatcher, system: str | None, patience: Patience) -> None:
        self.records: Final[list[WorkRecord]] = []
        self._answers: Final[list[AsyncGenerator[AnyPiece, None]]] = []
        self._dispatcher: Final = dispatcher
        self._system: Final = system
        self._patience: Final = patience

    def __call__(self, turn: Turn, question: Question) -> AsyncGenerator[AnyPiece, None]:
        """The answer to this question of this turn, piece by piece."""
        record = WorkRecord()
        self.records.append(record)
        order = build_order(
            prompt=question.prompt if question.prompt is not None else turn.text,
            content=_content(turn, question),
            history=turn.history,
            system=question.system or self._system,
            tools=question.tools,
            response_schema=question.schema,
            stop_sequences=question.stop,
            thinking=question.thinking,
            stream=True,
            parameters=question.parameters,
            follow=question.follow,
            requirements=question.requirements or turn.request.payload.requirements,
        )
        answer = self._dispatcher.answer(order, record, self._patience)
        self._answers.append(answer)
        return answer

    async def close(self) -> None:
        """Close every question that the agent left open, and with it the backend's work."""
        for answer in self._answers:
            await answer.aclose()


def _content(turn: Turn, question: Question) -> Sequence[ContentBlock]:
    """What goes with the question: what the agent gave, else what the user sent if the words are the user's own."""
    if question.content is not None:
        return question.content
    return turn.content if question.prompt is None else ()
