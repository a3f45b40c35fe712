"""Answer requests of the model APIs: plan, pass on or translate, fall back, record.

    request ──> candidates by model and table ──> plan ──> for each backend of the plan, until one answers:
        same API, nothing emulated:  the request as it came, bytes back         (`_relay`)
        otherwise:                   work order, emulations, pieces back        (`_translate`)

A failure before the first byte of the answer goes to the next backend, and what becomes of the fields is decided again
for that one. A tuning field that an endpoint refuses by name is left out, once, and for a while after that. This module
knows neither HTTP nor how an answer is written; `servers/http/model_calls.py` does.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from random import random
from typing import Any, Final

from accord.core.work.derive import PARAMETERS
from accord.core.work.dispositions import (
    LEARNED,
    FieldUse,
    dispose,
    field_limits,
    needs_rebuilding,
    required_capabilities,
    without_fields,
)
from accord.core.work.emulation.run import EmulationRun, add_usage
from accord.core.work.emulation.structured_output import output_check
from accord.core.work.fields import ModelRequest, row_of
from accord.core.work.groups import BackendGroup, UnresolvedModel, count_equal, draw_first
from accord.core.work.plan import Candidate, PlanConfig, shared_plan
from accord.core.work.signatures import has_marks, mark_signature, own_signatures, signed_fields
from accord.engine.decision_log import log_plan
from accord.engine.dispatch import Dispatcher, WorkRecord
from accord.engine.limits import TurnTimer
from accord.engine.model_call import LearnedFields, ModelAnswer, ModelCall, refused_fields
from accord.errors import BackendError, BackendRetriedError, ErrorCode, RefusedError, TimedOutError
from accord.ports import Backend, BackendPrice, Clock, DescribedBackend, OpenReply, RelayingBackend
from accord.wire.capability import Capability
from accord.wire.disposition import BackendApi, Disposition, FieldPolicy, FieldRecord
from accord.wire.emulation import Disabled, EmulationConfig
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import as_model
from accord.wire.plan import Offer, Plan, Refusal
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

NO_DESCRIBER: Final = "no backend may describe images; name one in emulation.describe_images_with"
FOREIGN_SIGNATURE: Final = "a model of another API signed it; it is sent without the signature, or not at all"
REQUIREMENTS_EXAMPLE: Final = '{"required": [{"capability": "vision", "min_support": "native"}]}'
MAX_LEARNED: Final = 8
"""How many times one request is sent again to a backend because its endpoint refused a field."""
NAME_DESCRIBER: Final = "name a backend that can see in describe_images_with under [emulation]"
FAILURES: Final = (BackendError, TimedOutError)


class FewerAnswersError(BackendError):
    """An endpoint ignored `n`."""

    def __init__(self, backend: str) -> None:
        super().__init__(f"{backend}: the endpoint gave fewer answers than were requested", is_outage=False)


@dataclass(frozen=True, slots=True)
class _BackendFacts:
    """What a backend is; asking it with `isinstance` costs 20 µs for each protocol."""

    backend: Backend
    kind: BackendApi
    relay: RelayingBackend | None
    described: DescribedBackend | None


class ModelCalls:
    """Answers requests of the model APIs with the backends of a dispatcher.

    `resolve` returns the backends that a model name means, and `names` every name that it knows; `draw` is a random
    number for groups with weights.
    """

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        dispatcher: Dispatcher,
        resolve: Callable[[str], BackendGroup | UnresolvedModel],
        clock: Clock,
        *,
        names: Callable[[], Sequence[str]] = tuple,
        learned: LearnedFields | None = None,
        draw: Callable[[], float] = random,
        prices: Mapping[str, BackendPrice] | None = None,
    ) -> None:
        self.dispatcher: Final = dispatcher
        self.prices: Final = prices or {}
        """The prices of the backends whose price is known, by name."""
        self.learned: Final = learned or LearnedFields(clock)
        self.resolve: Final = resolve
        self.names: Final = names
        self._clock: Final = clock
        self._draw: Final = draw
        self._known: Final[dict[str, _BackendFacts]] = {}
        self._gives_one: Final[set[str]] = set()
        """Backends whose endpoint gave fewer answers than `n`."""
        self._without_placeholders: tuple[PlanConfig, PlanConfig] | None = None

    async def answer(self, call: ModelCall) -> ModelAnswer:
        """Begin to answer; raises the error with which the last backend failed, or the refusal."""
        call.dispatcher = self.dispatcher
        began_at = self._clock.monotonic()
        group = self.resolve(call.request.model)
        if isinstance(group, UnresolvedModel):
            raise RefusedError(group.message, ErrorCode.NOT_FOUND, {"field": "model"})
        outcome = call.record.outcome = self.plan(call, group)
        call.record.plan_ms = (self._clock.monotonic() - began_at) * 1_000
        log_plan(outcome, call.request_id)
        if isinstance(outcome, Refusal):
            raise self._refusal(call, outcome, group)
        offers = {offer.backend: offer for offer in self._ordered([outcome.offer, *outcome.fallbacks], group)}
        async for attempt in self.dispatcher.attempts(tuple(offers), call.record.failures):
            call.may_resend = attempt.may_resend
            try:
                with attempt:
                    answer = await self._answer_or_learn(call, offers[attempt.backend])
                    if answer.blocks is not None or answer.pieces is not None:
                        answer.slot = attempt.leave_open()
                return answer
            except FAILURES as error:
                call.record.failures.append((attempt.backend, error))
                self.dispatcher.remember_refusal(attempt.backend, error)
                if attempt.is_final(error):
                    raise
        raise AssertionError("a plan has at least one offer")

    def backends_of(self, model: str) -> Sequence[str]:
        """The backends that may answer a request for this model; none if there is no such model."""
        group = self.resolve(model)
        return () if isinstance(group, UnresolvedModel) else group.backends

    def plan(self, call: ModelCall, group: BackendGroup) -> Plan | Refusal:
        """The plan for this request with these backends, or why none of them can answer it."""
        request = call.request
        order = _with_requirements(request, call.policy)
        candidates = [self._candidate(name, request, call.policy) for name in group.backends]
        return shared_plan(order, candidates, self.plan_config())

    def _refusal(self, call: ModelCall, refusal: Refusal, group: BackendGroup) -> RefusedError:
        """The refusal with the fields it is about, the other backends that could do it, and what would allow it."""
        others = BackendGroup(tuple(name for name in self.dispatcher.backends if name not in group.backends))
        could = self.plan(call, others) if others.backends else refusal
        able = [could.offer.backend, *(each.backend for each in could.fallbacks)] if isinstance(could, Plan) else []
        fields = refused_by_table(call, refusal)
        call.record.dispositions = [
            FieldRecord(field=name, disposition=Disposition.REFUSED, reason=NO_BACKEND_TAKES_IT) for name in fields
        ]
        message = f"{', '.join(fields)}: {refusal.message}" if fields else refusal.message
        if able:
            message = f"{message}; {' or '.join(able)} could: name it as the model"
        remedies = [
            remedy.model_copy(update={"change": f"{remedy.change}, and {NAME_DESCRIBER}"})
            if remedy.capability == Capability.IMAGE_INPUT and "emulation.preset" in remedy.change
            else remedy
            for remedy in refusal.remedies
        ]
        details = refusal.model_copy(update={"remedies": remedies}).dump()
        details |= {"field": fields[0] if fields else "model", "fields": fields, "able": able}
        return RefusedError(message, refusal.code, details)

    def _ordered(self, offers: list[Offer], group: BackendGroup) -> Sequence[Offer]:
        """The offers in the order in which they are tried: by weight among those that are equally good."""
        if len(offers) < 2 or not group.weights:
            return offers
        by_name = {offer.backend: offer for offer in offers}
        equal = count_equal(offers)
        names = [offer.backend for offer in offers[:equal]]
        is_down = {name: self.dispatcher.circuits.is_open(name) for name in names}
        # The share of a backend that is down goes to the others by their weights.
        first = draw_first([name for name in names if not is_down[name]], group.weights, self._draw)
        return [by_name[name] for name in (*first, *(name for name in names if is_down[name]))] + offers[equal:]

    def plan_config(self) -> PlanConfig:
        """The dispatcher's configuration. A placeholder for an image is no emulation here: it must be described."""
        dispatcher = self.dispatcher
        config = dispatcher.config
        if dispatcher.settings.describe_images_with is not None:
            return config
        if self._without_placeholders is None or self._without_placeholders[0] is not config:
            strategies = {**config.emulation.strategies, Capability.IMAGE_INPUT: Disabled(reason=NO_DESCRIBER)}
            emulation = EmulationConfig(strategies=strategies)
            self._without_placeholders = config, replace(config, emulation=emulation)
        return self._without_placeholders[1]

    def _candidate(self, name: str, request: ModelRequest, policy: FieldPolicy) -> Candidate:
        known = self.dispatcher.candidate(name)
        kind = self._facts(name).kind
        learned = self.learned.of(name, request)
        lacking, may_emulate = field_limits(request.api, request.fields, kind, policy, learned)
        return replace(known, lacking=lacking, may_emulate=may_emulate) if lacking or not may_emulate else known

    def _facts(self, name: str) -> _BackendFacts:
        backend = self.dispatcher.backends[name]
        known = self._known.get(name)
        if known is None or known.backend is not backend:
            relay = backend if isinstance(backend, RelayingBackend) else None
            described = backend if isinstance(backend, DescribedBackend) else None
            known = self._known[name] = _BackendFacts(backend, backend_api(backend), relay, described)
        return known

    async def _answer_or_learn(self, call: ModelCall, offer: Offer) -> ModelAnswer:
        """Answer from this backend; without a tuning field if that is what its endpoint refuses."""
        for _ in range(MAX_LEARNED):  # most endpoints name one field at a time
            try:
                return await self._answer_from(call, offer)
            except FAILURES as error:
                names = refused_fields(call, error)
                if not names and not isinstance(error, FewerAnswersError):
                    raise
                if getattr(error, "is_about_request", False):  # two of its fields exclude each other
                    call.left_out |= frozenset(names)
                else:
                    self.learned.add(offer.backend, call.request.api, names)
                call.record.failures.append((offer.backend, BackendRetriedError(error)))
        return await self._answer_from(call, offer)

    async def _answer_from(self, call: ModelCall, offer: Offer) -> ModelAnswer:
        request, facts = call.request, self._facts(offer.backend)
        kind = facts.kind
        check = output_check(request.order, self.dispatcher.settings.max_retries)
        # Each of several answers is checked, which is done one by one.
        splits = request.answers > 1 and (
            check is not None or kind.value != request.api.value or offer.backend in self._gives_one
        )
        signed = signed_fields(request)
        unchanged = (
            kind.value == request.api.value
            and not (offer.rescues or offer.losses or splits)
            and not needs_rebuilding(request.api, request.fields, kind)
            and not (signed and has_marks(request.order))
        )
        learned = self.learned.of(offer.backend, request) | call.left_out
        labels = dispose(FieldUse(request.api, request.fields, kind, unchanged, learned), offer)
        labels += tuple(
            FieldRecord(field=name, disposition=Disposition.DROPPED, reason=LEARNED, learned=True)
            for name in sorted(learned.difference(request.fields))
        )
        order, is_signature_lost = request.order, False
        if signed and not unchanged:
            order, is_signature_lost = own_signatures(order, request.api.value, kind)
        if is_signature_lost:
            known = {each.field for each in labels}
            labels += tuple(
                FieldRecord(field=name, disposition=Disposition.DROPPED, reason=FOREIGN_SIGNATURE)
                for name in signed
                if name not in known
            )
        if splits and kind.value == request.api.value:
            labels = (*labels, FieldRecord(field="n", disposition=Disposition.EMULATED, reason=ASKED_SEVERAL_TIMES))
        call.served_by, call.labels, call.response_id, call.finish_reasons = offer.backend, labels, None, ()
        call.model = facts.described.model if facts.described is not None else None
        call.record.backend, call.record.dispositions = offer.backend, list(labels)
        if unchanged and facts.relay is not None:
            body = request.body
            if dropped := [each.field for each in labels if each.disposition is Disposition.DROPPED]:
                body = without_fields(body, dropped)
            if check is None:
                return await self._relay(call, facts.relay, body)
            return await self._relay_checked(call, facts.relay, body, EmulationRun(request.order, (check,)))
        return await self._translate(call, offer, kind, _translated_order(call, order, kind, labels))

    async def _relay(self, call: ModelCall, backend: RelayingBackend, body: dict[str, Any]) -> ModelAnswer:
        reply = await backend.relay(body, call.headers, may_resend=call.may_resend)
        if reply.is_stream is not call.request.order.stream:
            await reply.close()
            message = f"{backend.name}: the endpoint answered in another form than was requested"
            raise BackendError(message, is_outage=False)
        if not reply.is_stream:
            try:
                data = await reply.whole()
            finally:
                await reply.close()
            self._note(call, reply, call.record.usage)
            if call.request.answers > 1 and backend.count_answers(data) < call.request.answers:
                self._gives_one.add(backend.name)
                raise FewerAnswersError(backend.name)
            return ModelAnswer(body=data)
        blocks = self._relayed_blocks(call, backend.name, reply)
        first = await anext(blocks, b"")
        while b"{" not in first and (more := await anext(blocks, b"")):  # comments may come before the first event
            first += more
        call.model = reply.summary.model or call.model
        return ModelAnswer(first=first, blocks=blocks)

    async def _relayed_blocks(self, call: ModelCall, backend: str, reply: OpenReply) -> AsyncGenerator[bytes, None]:
        has_begun, before, counts = False, call.record.usage, {}
        try:
            async with aclosing(reply.blocks()) as blocks:
                async for block in blocks:
                    # Before the last event is sent: a response that is stored is recorded then.
                    if reply.summary.counts != counts:
                        counts = dict(reply.summary.counts)
                        self._note(call, reply, before)
                    yield block
                    has_begun = True
            self.dispatcher.circuits.succeeded(backend)
            if reply.summary.answers < call.request.answers:
                self._gives_one.add(backend)
                raise FewerAnswersError(backend)
        except FAILURES as error:
            if has_begun:  # a failure before that is one of the attempt
                self.dispatcher.circuits.failed(backend, error)
            raise
        finally:
            self._note(call, reply, before)
            await reply.close()

    def _note(self, call: ModelCall, reply: OpenReply, before: dict[str, Any] | None) -> None:
        """Note what the reply says of itself; `before` is the usage of earlier replies."""
        summary = reply.summary
        call.model, call.response_id = summary.model or call.model, summary.id
        call.finish_reasons = summary.finish_reasons
        call.record.usage = add_usage(before, summary.usage)

    async def _relay_checked(
        self, call: ModelCall, backend: RelayingBackend, body: dict[str, Any], run: EmulationRun
    ) -> ModelAnswer:
        """Pass the request on and hold its answer until it is valid; an invalid one is requested again."""
        held, streamed = b"", call.request.order.stream
        length = len(call.request.order.conversation.messages)
        try:
            while to_send := run.next_order():
                added = to_send.conversation.messages[length:]
                sent = backend.with_messages(body, added) if added else body
                reply = await backend.relay(sent, call.headers, may_resend=call.may_resend)
                try:
                    held = await _read_all(reply)
                finally:
                    await reply.close()
                call.model, call.response_id = reply.summary.model or call.model, reply.summary.id
                call.finish_reasons = reply.summary.finish_reasons
                for piece in backend.read_pieces(held, streamed=reply.is_stream):
                    if isinstance(piece, EndPiece):  # the event with the usage may not be for the client
                        run.feed(piece.model_copy(update={"usage": reply.summary.usage}))
                    else:
                        run.feed(piece)
                run.finish()
        finally:
            call.record.emulation = run.record
            call.record.usage = add_usage(call.record.usage, run.usage)
            self.dispatcher.count_contradictions(backend.name, run)
        if (failure := run.failure) is not None:
            details = {"attempts": failure.attempts}
            raise BackendError(failure.message, retryable=not run.contradicted, details=details, is_outage=False)
        return ModelAnswer(first=held, blocks=_nothing()) if streamed else ModelAnswer(body=held)

    async def _translate(self, call: ModelCall, offer: Offer, kind: BackendApi, order: WorkOrder) -> ModelAnswer:
        request = call.request
        call.more_records = [WorkRecord(request_id=call.request_id) for _ in range(request.answers - 1)]
        timer = TurnTimer()
        streams: list[AsyncGenerator[AnyPiece, None]] = []
        for record in call.work:
            record.must_see = True
            record.outcome, record.backend = call.record.outcome, offer.backend
            streams.append(self.dispatcher.answer_from(offer, order, record, timer, may_resend=call.may_resend))
        is_limited = offer.backend in self.dispatcher.concurrent  # the call has one slot: one answer after the other
        try:
            if not request.order.stream:
                if is_limited:
                    answers = [await _collect(stream, kind) for stream in streams]
                else:
                    answers = await asyncio.gather(*(_collect(stream, kind) for stream in streams))
                timer.close()
                self._note_end(call, [answer[-1] for answer in answers])
                return ModelAnswer(answers=answers)
            at_once = streams[:1] if is_limited else streams
            firsts = await asyncio.gather(*(anext(stream) for stream in at_once))
        except BaseException:
            for stream in streams:
                await stream.aclose()
            timer.close()
            raise
        return ModelAnswer(pieces=_marked(self._merged(call, offer.backend, timer, firsts, streams), kind))

    async def _merged(
        self,
        call: ModelCall,
        backend: str,
        timer: TurnTimer,
        firsts: Sequence[AnyPiece],
        streams: Sequence[AsyncGenerator[AnyPiece, None]],
    ) -> AsyncGenerator[tuple[int, AnyPiece], None]:
        """The pieces of all answers, each with the number of its answer; of several, one answer after the other."""
        try:
            for number, stream in enumerate(streams):
                first = firsts[number] if number < len(firsts) else await anext(stream)
                yield number, first
                self._note_end(call, [first])
                async for piece in stream:
                    self._note_end(call, [piece])
                    yield number, piece
            self.dispatcher.circuits.succeeded(backend)
        except FAILURES as error:
            self.dispatcher.circuits.failed(backend, error)
            raise
        finally:
            for stream in streams:
                await stream.aclose()
            timer.close()

    def _note_end(self, call: ModelCall, pieces: Sequence[AnyPiece]) -> None:
        for piece in pieces:
            if isinstance(piece, EndPiece):
                call.model = piece.model or call.model
                call.finish_reasons += (piece.reason,)


@dataclass(slots=True)
class ModelCallsRef:
    """What answers the next request; a new configuration replaces it. A request keeps the one that it began with."""

    current: ModelCalls


NO_BACKEND_TAKES_IT: Final = "no backend of the requested model can do it"
ASKED_SEVERAL_TIMES: Final = "the question is asked so many times"


def backend_api(backend: Backend) -> BackendApi:
    """The column of the field table for this backend."""
    name = getattr(backend, "api_name", BackendApi.OTHER)
    return BackendApi(name) if name in tuple(BackendApi) else BackendApi.OTHER


def refused_by_table(call: ModelCall, refusal: Refusal) -> list[str]:
    """The fields of this call that the nearest backend lacks, in the order of the request."""
    nearest = next((offer for offer in refusal.offers if offer.backend == refusal.nearest), None)
    missing = nearest.missing if nearest else []
    names = {short.capability for short in missing}
    return [
        name
        for name in call.request.fields
        if row_of(call.request.api, name).capability in names
        or any(short.reason.startswith(f"{name}: ") for short in missing)
    ]


def _with_requirements(request: ModelRequest, policy: FieldPolicy) -> WorkOrder:
    """The order with what its fields require and what the request states."""
    required = required_capabilities(request.api, request.fields, policy)
    stated: Any = request.accord.get("requirements")
    if not required and stated is None:
        return request.order
    own = CapabilityRequirements()
    if stated is not None:
        own = as_model(
            CapabilityRequirements, stated, "accord.requirements", '{"required": [{"capability": "vision"}]}'
        )
    requirements = CapabilityRequirements(required=[*own.required, *required], preferred=own.preferred)
    return request.order.model_copy(update={"requirements": requirements})


def _translated_order(call: ModelCall, order: WorkOrder, kind: BackendApi, labels: Sequence[FieldRecord]) -> WorkOrder:
    """The order for this backend: without what is dropped, and with the members that only its own API has."""
    request = call.request
    dropped = {each.field for each in labels if each.disposition is Disposition.DROPPED}
    parameters = dict(order.parameters)
    for name in dropped:
        if (capability := row_of(request.api, name).capability) is not None:
            parameters = {given: value for given, value in parameters.items() if PARAMETERS.get(given) != capability}
    if kind.value == request.api.value:
        rows = ((name, row_of(request.api, name)) for name in request.fields if name not in dropped)
        parameters |= {
            name: request.body[name] for name, row in rows if kind in row.only_unchanged and name in request.body
        }
    return order if parameters == order.parameters else order.model_copy(update={"parameters": parameters})


async def _collect(pieces: AsyncGenerator[AnyPiece, None], kind: BackendApi) -> list[AnyPiece]:
    async with aclosing(pieces):
        return [mark_signature(piece, kind) async for piece in pieces]


async def _marked(
    pieces: AsyncGenerator[tuple[int, AnyPiece], None], kind: BackendApi
) -> AsyncGenerator[tuple[int, AnyPiece], None]:
    async with aclosing(pieces):
        async for number, piece in pieces:
            yield number, mark_signature(piece, kind)


async def _read_all(reply: OpenReply) -> bytes:
    return b"".join([block async for block in reply.blocks()]) if reply.is_stream else await reply.whole()


async def _nothing() -> AsyncGenerator[bytes, None]:
    return
    yield b""
