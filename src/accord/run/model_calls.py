"""Answer requests of the model APIs: plan, pass on or translate, fall back, record.

    request ──> candidates by model and table ──> plan ──> `Dispatcher.first_answer`, for each backend of the plan:
        same API, nothing emulated:  the request as it came, bytes back         (`_relay`)
        otherwise:                   work order, emulations, pieces back        (`_translate`)

What is decided for a request is kept for others of its shape (`Decision`), as long as the backends and what is known of
them stay the same. Such a request skips the deciding, and nothing else.

A failure before the first byte of the answer goes to the next backend, and what becomes of the fields is decided again
for that one. A tuning field that an endpoint refuses by name is left out, once, and for a while after that. This module
knows neither HTTP nor how an answer is written; `servers/http/model_calls.py` does.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from random import random
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from accord.apis.answer_table import answer_records, part_of
from accord.apis.failure import EndpointError
from accord.apis.relayed import MAX_ID_CHARS, SEVERAL_ANSWERS, AnswerSummary
from accord.apis.request_readers import order_without
from accord.backends.model import ModelBackend
from accord.backends.relay import RelayedReply, RelayedRequest
from accord.core.sizes import AnswerSize
from accord.core.vocabulary import unknown_name
from accord.core.work.dispositions import (
    LEARNED,
    FieldUse,
    assumed,
    dispose,
    field_limits,
    required_capabilities,
    without_fields,
)
from accord.core.work.emulation.base import Emulation
from accord.core.work.emulation.run import EmulationRun
from accord.core.work.emulation.structured_output import output_check
from accord.core.work.fields import COLUMNS, FieldColumn, ModelRequest, place_of, row_of
from accord.core.work.groups import BackendGroup, UnresolvedModel, count_equal, draw_first
from accord.core.work.plan import Candidate, PlanConfig, shared_plan
from accord.core.work.signatures import has_marks, mark_signature, own_signatures, signed_fields
from accord.core.work.translated import put_field, translated_value
from accord.errors import BackendError, BackendRetriedError, ErrorCode, RefusedError
from accord.off_loop import off_loop, schema_size
from accord.ports import Backend, Clock, MayResend
from accord.run.dispatch import FAILURES, BackendReading, Begun, Dispatcher, EmulatedAnswer, WorkRecord, offers_of
from accord.run.limits import RunTimer, Wait
from accord.run.model_call import NOTHING_READ, Decision, ModelAnswer, ModelCall, PassedOn, refused_fields
from accord.wire.capability import Capability
from accord.wire.disposition import Api, Disposition, FieldPolicy, FieldRecord
from accord.wire.emulation import Disabled, EmulationConfig
from accord.wire.keys import KeyRules
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import as_model
from accord.wire.plan import Offer, Plan, Refusal
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder

ResultT = TypeVar("ResultT")

NO_DESCRIBER: Final = "no backend may describe images; name one in emulation.describe_images_with"
FOREIGN_SIGNATURE: Final = "a model of another API signed it; it is sent without the signature, or not at all"
_encode: Final = msgspec.json.Encoder().encode
MAX_DECISIONS: Final = 1_000
"""For how many shapes of requests is kept what was decided."""
MAX_LEARNED: Final = 8
"""How many times one request is sent again to a backend because its endpoint refused a field."""
NAME_DESCRIBER: Final = "name a backend that can see in describe_images_with under [emulation]"
AnswerPart = bytes | list[list[AnyPiece]] | tuple[int, AnyPiece] | None
"""A body or a block of events; every piece of every answer; a piece and the number of its answer; nothing yet."""


class ModelCalls:
    """Answers requests of the model APIs with the backends of a dispatcher.

    `resolve` returns the backends that a model name means, and `names` every name that it knows; `draw` is a random
    number for groups with weights.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        resolve: Callable[[str], BackendGroup | UnresolvedModel],
        clock: Clock,
        *,
        names: Callable[[], Sequence[str]] = tuple,
        draw: Callable[[], float] = random,
    ) -> None:
        self.dispatcher: Final = dispatcher
        self.resolve: Final = resolve
        self.names: Final = names
        self._clock: Final = clock
        self._draw: Final = draw
        self._without_placeholders: tuple[PlanConfig, PlanConfig] | None = None
        self._decisions: Final[dict[Hashable, Decision]] = {}

    def decided(self, shape: Hashable) -> Decision | None:
        """What was decided for an earlier request of this shape, if that still holds."""
        decision = self._decisions.get(shape)
        if decision is not None and not self._holds(decision):
            del self._decisions[shape]
            return None
        return decision

    def _holds(self, decision: Decision) -> bool:
        """Whether it would be decided again: the manifests are the same, and what endpoints refuse plays no part."""
        refusals = self.dispatcher.refusals
        return not any(
            backend.manifest is not manifest or refusals.has_any(backend.name)
            for backend, manifest in decision.manifests
        )

    def _keep(self, shape: Hashable, decision: Decision) -> None:
        """Keep what was decided for a request that is passed on; the oldest goes when there are too many."""
        if not self._holds(decision):
            return
        if shape not in self._decisions and len(self._decisions) >= MAX_DECISIONS:
            del self._decisions[next(iter(self._decisions))]
        self._decisions[shape] = decision

    async def answer(self, call: ModelCall) -> ModelAnswer:
        """Begin to answer; raises the error with which the last backend failed, or the refusal."""
        plan, begin = partial(self._plan, call), partial(self._begin, call)
        parts: Any = self.dispatcher.first_answer(call.record, call.costs, plan, begin)
        first = await anext(parts)
        if first is None:
            return ModelAnswer(pieces=parts)
        if call.request.is_streamed:
            return ModelAnswer(first=first, blocks=parts)
        await anext(parts, None)  # nothing follows: the attempt is over
        return ModelAnswer(body=first) if isinstance(first, bytes) else ModelAnswer(answers=first)

    async def _plan(self, call: ModelCall) -> tuple[Mapping[str, Offer], int]:
        """The offers in the order in which they are tried; what they cost was reserved with the request."""
        began_at = self._clock.monotonic()
        decision = call.decision = call.decision or self._decide(call, began_at)
        self.dispatcher.note_plan(call.record, decision.outcome, began_at)
        return self._ordered(decision), 0

    def _decide(self, call: ModelCall, began_at: float) -> Decision:
        """Plan this request; raises the refusal if no backend can answer it."""
        group = self.group_of(call.request.model, call.rules)
        outcome = self.plan(call, group)
        if isinstance(outcome, Refusal):
            self.dispatcher.note_plan(call.record, outcome, began_at)
            raise self._refusal(call, outcome, group)
        manifests = tuple((each, each.manifest) for each in map(self.dispatcher.backends.__getitem__, group.backends))
        return Decision(call.request.with_words(None), call.policy, outcome, group, offers_of(outcome), manifests)

    def group_of(self, model: str, rules: KeyRules) -> BackendGroup:
        """The backends of this model name; raises `RefusedError` if there are none, for a key with these rules."""
        group = self.resolve(model)
        if isinstance(group, UnresolvedModel):
            # Of the names that might be meant, only those that the caller may use are listed.
            names = [name for name in self.names() if rules.allows_model(name)]
            message = group.message if rules.models is None else unknown_name("model", model, names)
            raise RefusedError(message, ErrorCode.NOT_FOUND, {"field": "model"})
        return group

    def backends_of(self, model: str) -> Sequence[str]:
        """The backends that may answer a request for this model; none if there is no such model."""
        group = self.resolve(model)
        return () if isinstance(group, UnresolvedModel) else group.backends

    def plan(self, call: ModelCall, group: BackendGroup) -> Plan | Refusal:
        """The plan for this request with these backends, or why none of them can answer it."""
        request = call.request
        order = _with_requirements(request, call.policy)
        candidates = [self._candidate(name, call) for name in group.backends]
        return shared_plan(order, candidates, self.plan_config())

    def _refusal(self, call: ModelCall, refusal: Refusal, group: BackendGroup) -> RefusedError:
        """The refusal with the fields it is about, the other backends that could do it, and what would allow it."""
        names = filter(call.rules.allows_model, self.dispatcher.backends)
        others = BackendGroup(tuple(name for name in names if name not in group.backends))
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
            replace(remedy, change=f"{remedy.change}, and {NAME_DESCRIBER}")
            if remedy.capability == Capability.IMAGE_INPUT and "emulation.preset" in remedy.change
            else remedy
            for remedy in refusal.remedies
        ]
        details = replace(refusal, remedies=remedies).dump()
        details |= {"field": fields[0] if fields else "model", "fields": fields, "able": able}
        return RefusedError(message, refusal.code, details)

    def _ordered(self, decision: Decision) -> Mapping[str, Offer]:
        """The offers in the order in which they are tried: by weight among those that are equally good."""
        offers, weights = decision.offers, decision.group.weights
        if len(offers) < 2 or not weights:
            return offers
        equal = [*offers][: count_equal([*offers.values()])]
        is_down = {name: self.dispatcher.circuits.is_open(name) for name in equal}
        # The share of a backend that is down goes to the others by their weights.
        first = draw_first([name for name in equal if not is_down[name]], weights, self._draw)
        names = dict.fromkeys([*first, *(name for name in equal if is_down[name]), *offers])
        return {name: offers[name] for name in names}

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

    def _candidate(self, name: str, call: ModelCall) -> Candidate:
        request, caller = call.request, call.record.caller
        known, column = self.dispatcher.candidate(name, caller), self._column(name)
        refused = frozenset(self.dispatcher.refusals.fields_of(name, request, caller))
        lacking, may_emulate = field_limits(request.api, request.fields, column, call.policy, refused)
        return replace(known, lacking=lacking, may_emulate=may_emulate) if lacking or not may_emulate else known

    def _column(self, name: str) -> FieldColumn:
        return backend_column(self.dispatcher.backends[name])

    async def _begin(self, call: ModelCall, offer: Offer, may_resend: MayResend) -> Begun[AnswerPart]:
        """Begin the answer of this backend; without a tuning field if that is what its endpoint refuses."""
        refusals, caller, backend = self.dispatcher.refusals, call.record.caller, offer.backend
        call.left_out, call.may_resend = frozenset(), may_resend
        call.asks_one_by_one = call.request.answers > 1 and (
            "n" in self._column(backend).lacks or SEVERAL_ANSWERS in refusals.capabilities_of(backend, caller)
        )
        for _ in range(MAX_LEARNED):  # most endpoints name one field at a time
            try:
                return await self._begin_once(call, offer)
            except FAILURES as error:
                names, origin = refused_fields(call, error, self._column(backend).api), call.record.origin
                if isinstance(error, BackendError) and error.refused == SEVERAL_ANSWERS:
                    call.asks_one_by_one = True
                    self.dispatcher.remember_refusal(backend, error, call.record)
                elif not names:
                    raise
                call.left_out |= frozenset(names)
                if isinstance(error, EndpointError) and error.report.is_lasting:
                    refusals.add_fields(backend, call.request, names, origin, any_value=error.report.refuses_member)
                call.record.failures.append((backend, BackendRetriedError(error)))
        return await self._begin_once(call, offer)

    async def _begin_once(self, call: ModelCall, offer: Offer) -> Begun[AnswerPart]:
        request, relay = call.request, self.dispatcher.models.get(offer.backend)
        is_first = not (call.left_out or call.asks_one_by_one)  # what it refused in this request changes what is sent
        known = call.decision.passed_on.get(offer.backend) if call.decision is not None and is_first else None
        if known is not None and relay is not None and call.words is not None:
            self._begin_attempt(call, offer.backend, known.labels)
            return await _begun(call, await self._relay(call, relay, _with_words(known.request, call.words)))
        column = self._column(offer.backend)
        kind = column.api
        check = output_check(request.order, self.dispatcher.settings.max_retries)
        # Each of several answers is checked, which is done one by one.
        splits = request.answers > 1 and (check is not None or kind is not request.api or call.asks_one_by_one)
        is_unchanged = (
            kind is request.api
            and not (offer.rescues or offer.losses or splits)
            and not (signed_fields(request) and has_marks(request.order))
        )
        relay = relay if is_unchanged else None
        labels = self._dropped_and_emulated(call, offer, column, unchanged=is_unchanged)
        order = request.order
        if not is_unchanged:
            order, labels = _without_foreign_signatures(request, order_without(request, labels), kind, labels)
        if relay is None:
            labels += assumed(request.api, request.fields, self.dispatcher.assumed(offer, order))
        if splits and kind is request.api and "n" not in column.lacks:
            labels = (*labels, FieldRecord(field="n", disposition=Disposition.EMULATED, reason=ASKED_SEVERAL_TIMES))
        self._begin_attempt(call, offer.backend, labels)
        if relay is None:
            parts = self._translate(call, offer, kind, _with_translated(call, order, kind, labels))
            return await anext(parts), parts
        dropped = [each.field for each in labels if each.disposition is Disposition.DROPPED]
        body = without_fields(request.body, dropped) if dropped else request.body
        if check is None:
            return await _begun(call, await self._relay(call, relay, self._passed_on(call, relay, body, labels)))
        return await self._relay_checked(call, relay, body, check), None

    def _passed_on(
        self, call: ModelCall, backend: ModelBackend, body: dict[str, Any], labels: tuple[FieldRecord, ...]
    ) -> RelayedRequest:
        """The request with this body as the backend gets it; kept for others of the same shape."""
        to_send, words = backend.relayed_request(body, call.request), call.words
        members = to_send.members
        if words is None or call.decision is None or call.left_out:
            return to_send
        if not all(name in members and members[name] == body[name] for name in words):
            return to_send
        call.decision.passed_on[backend.name] = PassedOn(_without_words(to_send, words), labels)
        self._keep(call.shape, call.decision)
        return _with_words(to_send, words)

    def _begin_attempt(self, call: ModelCall, backend: str, labels: Sequence[FieldRecord]) -> None:
        """Note which backend is tried now, and forget what another one said."""
        described = self.dispatcher.known.get(backend)
        call.configured_model = None if described is None else described.model
        call.record.backend, call.record.dispositions = backend, list(labels)
        call.summary, call.record.answer, call.parts = NOTHING_READ, None, {}

    def _dropped_and_emulated(
        self, call: ModelCall, offer: Offer, column: FieldColumn, *, unchanged: bool
    ) -> tuple[FieldRecord, ...]:
        """What becomes of the fields by the table, the plan, and what the endpoint has refused."""
        request = call.request
        known = self.dispatcher.refusals.fields_of(offer.backend, request, call.record.caller)
        refused = dict.fromkeys(sorted(call.left_out), LEARNED) | known
        labels = dispose(FieldUse(request.api, request.fields, column, unchanged, frozenset(refused)), offer)
        if not refused:
            return labels
        return tuple(each for each in labels if each.field not in refused) + tuple(
            FieldRecord(field=name, disposition=Disposition.DROPPED, reason=reason, learned=True)
            for name, reason in refused.items()
        )

    async def _relay(
        self, call: ModelCall, backend: ModelBackend, request: RelayedRequest, order: WorkOrder | None = None
    ) -> RelayedReply:
        """Pass this request on; for the records, it is about this order, or about what the client sent."""
        begin = partial(call.record.begin_call, backend.name, order or call.request)
        reply = await backend.relay(request, call.size, call.headers, begin, may_resend=call.may_resend)
        call.summary = reply.summary
        return reply

    async def _relay_checked(
        self, call: ModelCall, backend: ModelBackend, body: dict[str, Any], check: Emulation
    ) -> bytes:
        """Pass the request on and hold its answer until it is valid; an invalid one is requested again."""
        dispatcher, order, streams, held = self.dispatcher, call.request.order, call.request.is_streamed, b""
        name, seconds = backend.name, dispatcher.limits.turn_s

        async def pieces(to_send: WorkOrder) -> AsyncGenerator[AnyPiece, None]:
            nonlocal held
            added = to_send.conversation.messages[len(order.conversation.messages) :]
            sent = backend.with_messages(body, added) if added else body
            reply = await self._relay(call, backend, backend.relayed_request(sent, call.request), to_send)
            held = b"".join([block async for block in reply.blocks()]) if streams else await reply.whole()
            for piece in backend.read_pieces(held, streamed=streams):
                # The event with the usage may not be for the client.
                is_end = isinstance(piece, EndPiece)
                yield msgspec.structs.replace(piece, usage=reply.summary.usage) if is_end else piece

        def send(to_send: WorkOrder) -> BackendReading:
            size = AnswerSize(name, dispatcher.size_limits)
            return BackendReading(pieces(to_send), Wait(RunTimer(), name), seconds, seconds, size)

        prepare = partial(off_loop, schema_size(order), EmulationRun, order, (check,))
        async with aclosing(EmulatedAnswer(dispatcher.refusals, name, call.record, prepare, send)) as answer:
            async for _ in answer:
                pass
        return held

    async def _translate(
        self, call: ModelCall, offer: Offer, kind: Api, order: WorkOrder
    ) -> AsyncGenerator[AnswerPart, None]:
        """All answers at once; streamed, nothing as soon as they have begun, then one answer after the other."""
        call.record.calls += [each for record in call.more_records for each in record.calls]
        call.more_records = [
            WorkRecord(request_id=call.request_id, caller=call.record.caller) for _ in range(call.request.answers - 1)
        ]
        call.summary, timer, answers = AnswerSummary(), RunTimer(), list[EmulatedAnswer]()
        for record in call.work:
            record.must_see, record.outcome = True, call.record.outcome
            answers.append(self.dispatcher.answer_from(offer, order, record, timer, may_resend=call.may_resend))
        is_limited = offer.backend in self.dispatcher.concurrent  # the call has one slot: one answer after the other
        try:
            if not call.request.is_streamed:
                whole = await _all((_collect(answer, kind) for answer in answers), at_once=not is_limited)
                for number, pieces in enumerate(whole):
                    for piece in pieces:
                        _note_piece(call, number, piece, kind)
                yield whole
                return
            firsts = await _all((anext(answer) for answer in answers[: 1 if is_limited else None]), at_once=True)
            named = next((each.model for each in reversed(call.record.calls) if each.model), None)
            call.summary.model = named[:MAX_ID_CHARS] if named else None
            yield None
            for number, answer in enumerate(answers):
                piece = firsts[number] if number < len(firsts) else await anext(answer)
                while piece is not None:
                    _note_piece(call, number, piece, kind)
                    yield number, mark_signature(piece, kind)
                    piece = await anext(answer, None)
        finally:
            for answer in answers:
                await answer.aclose()
            timer.close()


def _note_piece(call: ModelCall, number: int, piece: AnyPiece, kind: Api) -> None:
    """Note what the end of an answer says of it, and what of the answer its client does not get as it was."""
    if isinstance(piece, EndPiece):
        call.summary.model = piece.model[:MAX_ID_CHARS] if piece.model else call.summary.model
        call.summary.end(piece.reason, number)
        call.parts |= dict.fromkeys(piece.parts)
        call.record.answer = answer_records(kind, call.parts, call.request.api) or None
    elif not isinstance(piece, TextPiece) and (part := part_of(piece, kind)) is not None:
        call.parts[part] = None


@dataclass(slots=True)
class ModelCallsRef:
    """What answers the next request; a new configuration replaces it. A request keeps the one that it began with."""

    current: ModelCalls


NO_BACKEND_TAKES_IT: Final = "no backend of the requested model can do it"
ASKED_SEVERAL_TIMES: Final = "the question is asked so many times"


def backend_column(backend: Backend) -> FieldColumn:
    """The column of the field table for this backend."""
    if isinstance(column := getattr(backend, "column", None), FieldColumn):
        return column
    name = getattr(backend, "api_name", Api.OTHER)
    return COLUMNS[Api(name) if name in tuple(Api) else Api.OTHER]


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


def _with_translated(call: ModelCall, order: WorkOrder, kind: Api, labels: Sequence[FieldRecord]) -> WorkOrder:
    """The order with the fields that no order has a place for, as a backend of this kind has them."""
    request = call.request
    dropped = {each.field for each in labels if each.disposition is Disposition.DROPPED}
    parameters = dict(order.parameters)
    for name in request.fields:
        if name not in dropped and (place := place_of(request.api, name, kind)) is not None:
            put_field(parameters, place, translated_value(request, name, kind))
    return order if parameters == order.parameters else order.model_copy(update={"parameters": parameters})


def _without_foreign_signatures(
    request: ModelRequest, order: WorkOrder, kind: Api, labels: tuple[FieldRecord, ...]
) -> tuple[WorkOrder, tuple[FieldRecord, ...]]:
    """The order with the signatures that a model of this API accepts; a label says where others were."""
    signed = signed_fields(request)
    if not signed:
        return order, labels
    order, is_signature_lost = own_signatures(order, request.api.value, kind)
    if not is_signature_lost:
        return order, labels
    known = {each.field for each in labels}
    lost = [name for name in signed if name not in known]
    return order, labels + tuple(
        FieldRecord(field=name, disposition=Disposition.DROPPED, reason=FOREIGN_SIGNATURE) for name in lost
    )


def _with_words(request: RelayedRequest, words: Mapping[str, Raw]) -> RelayedRequest:
    """The request with these members as a client sent them."""
    members = {**request.members, **words}
    return RelayedRequest(members, request.is_streamed, request.answers, request.hides_usage)


def _without_words(request: RelayedRequest, names: Container[str]) -> RelayedRequest:
    """The request without these members, of which only the place is kept; the others as JSON text."""
    members = {name: None if name in names else Raw(_encode(value)) for name, value in request.members.items()}
    return replace(request, members=members)


async def _all(awaitables: Iterable[Awaitable[ResultT]], *, at_once: bool) -> list[ResultT]:
    """The results of all; if one fails, the others have ended when it is raised, or were never begun."""
    if not at_once:
        return [await each for each in awaitables]
    waiting = [asyncio.ensure_future(each) for each in awaitables]
    try:
        return await asyncio.gather(*waiting)
    except BaseException:
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        raise


async def _collect(pieces: EmulatedAnswer, kind: Api) -> list[AnyPiece]:
    async with aclosing(pieces):
        return [mark_signature(piece, kind) async for piece in pieces]


async def _begun(call: ModelCall, reply: RelayedReply) -> Begun[AnswerPart]:
    """The whole answer of an endpoint, or the first block of it and what gives the others."""
    if not call.request.is_streamed:
        return await reply.whole(), None
    blocks = reply.blocks()
    return await anext(blocks, b""), blocks
