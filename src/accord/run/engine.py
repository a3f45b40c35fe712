"""Run one turn: run the agent and check the order, size and content of its packets.

The packets are as the agent made them; adapting them for a client is in `views.py`, storing them in `live.py`. One path
for streaming and for whole answers: a whole answer is the collected stream. Everything is pulled: a slow client slows
down its own agent and backend, nothing is queued, and other turns are not affected. Backends and images are known as
Protocols only.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import AsyncGeneratorType
from typing import Any, Final, cast

from accord.agent import Agent, Turn, UserFacingError
from accord.backends.upstream import CALLER
from accord.core.output import ImageShrinker
from accord.core.output.packets import OutputCollector, PacketOrder, StreamStage
from accord.core.prompt import ContentLimits
from accord.core.sizes import SizeLimits, TurnSize, split_deltas
from accord.core.summarise import response_metrics
from accord.errors import (
    AccordError,
    AgentError,
    BackendError,
    EmulationError,
    RefusedError,
    TimedOutError,
    TurnCancelledError,
)
from accord.ports import Clock, PermissionChannel, SystemClock
from accord.run.admit import Admission, Rejection, unknown_agent
from accord.run.agent_errors import AgentRaisedError, ContainBaseException, agent_failed, log_agent_error
from accord.run.costs import RunCosts
from accord.run.dispatch import Dispatcher, TurnQuestions, WorkRecord
from accord.run.limits import NOTHING_MORE, Ready, TimeLimits, TurnTimer
from accord.run.permissions import Permissions
from accord.run.views import View
from accord.wire.agent_work import PermissionRecord
from accord.wire.conversation import ChatMessage
from accord.wire.event import PresentationEvent
from accord.wire.keys import Payer
from accord.wire.message import Message
from accord.wire.packet import (
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    StreamError,
    StreamOpCode,
    StreamPacket,
    make_delta,
)
from accord.wire.problem import error_from_stream, stream_error
from accord.wire.receipt import AgentParty
from accord.wire.request import ClientCapabilities, ServiceRequest, ServiceResponse

CLOSE: Final = ClosePacket()
PART_BYTES: Final = 32 * 1024
"""A longer text becomes several packets, so that other turns run while it is adapted: 24 MB of it take a minute."""

TURN_ERRORS: Final = (AgentError, BackendError, EmulationError, RefusedError, TimedOutError, TurnCancelledError)
"""Errors that end a turn with their own code. Any other error that an agent raises is a defect of the agent, even one
of Accord's: a malformed tool that it passed to `ask` is not an invalid message of the client."""


class Engine:
    """An agent with its backends, limits and clock; begins turns."""

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        agent: Agent,
        dispatcher: Dispatcher,
        *,
        clock: Clock | None = None,
        limits: TimeLimits | None = None,
        size_limits: SizeLimits | None = None,
        content_limits: ContentLimits | None = None,
        images: ImageShrinker | None = None,
        concurrent_images: int = 1,
    ) -> None:
        self.agent: Final = agent
        self.dispatcher: Final = dispatcher
        self.clock: Final = clock or SystemClock()
        self.limits: Final = limits or TimeLimits()
        self.size_limits: Final = size_limits or SizeLimits()
        self.images: Final = images
        # Separate and few threads: a decoded image takes much memory, and other work must not queue behind it.
        self.image_threads: Final = ThreadPoolExecutor(concurrent_images, thread_name_prefix="accord-images")
        self._concurrent_images: Final = concurrent_images
        self.admission: Final = Admission(agent, dispatcher, content_limits or ContentLimits())
        self.party: Final = _agent_party(agent, self.admission)

    def begin(
        self,
        request: ServiceRequest,
        history: Sequence[ChatMessage] = (),
        *,
        permits: PermissionChannel | None = None,
        streams: bool = True,
    ) -> "RunningTurn":
        """A turn that runs while its packets are iterated over; one that is not admitted only says why.

        Without `permits` it cannot ask for permission. Without `streams`, backends need no streaming.
        """
        named = request.context.agent
        if named is None or self.agent.name in (named.id, named.name):
            rejection = self.admission.decide(request)
        else:
            rejection = unknown_agent(named, [self.agent.name])
        costs = RunCosts(None, Payer(user=request.context.user.id), self.dispatcher)
        return RunningTurn(self, request, history, permits, rejection, costs=costs, streams=streams)

    async def respond(self, request: ServiceRequest, history: Sequence[ChatMessage] = ()) -> ServiceResponse:
        """Run a turn and return its whole answer; raises the error that would have ended the stream."""
        turn = self.begin(request, history, streams=False)
        view, collected = self.new_view(request.payload.capabilities), OutputCollector()
        async for packet in turn.packets():
            for adapted in await view.feed_in_thread(packet) if view.is_slow(packet) else view.feed(packet):
                collected.feed(adapted)
        if turn.failure is not None:
            raise turn.failure
        if collected.error is not None:
            raise error_from_stream(collected.error)
        from accord.run.receipt import receipt_content  # noqa: PLC0415 - it is about turns, which are made here

        turn.costs.settle(turn.work)
        now = self.clock.now()
        receipt = receipt_content(turn, view.adapter.report_json(), {}, now, None).members
        metrics = response_metrics(receipt)
        return ServiceResponse(request_id=request.request_id, created_at=now, output=collected.output, metrics=metrics)

    def with_agent(self, agent: Agent) -> "Engine":
        """An engine for another agent, with the same backends and limits."""
        return self._copy(agent, self.dispatcher)

    def with_dispatcher(self, dispatcher: Dispatcher) -> "Engine":
        """An engine for the same agent with other backends. Turns that this one has begun keep theirs."""
        return self._copy(self.agent, dispatcher)

    def _copy(self, agent: Agent, dispatcher: Dispatcher) -> "Engine":
        return Engine(
            agent,
            dispatcher,
            clock=self.clock,
            limits=self.limits,
            size_limits=self.size_limits,
            content_limits=self.admission.validator.limits,
            images=self.images,
            concurrent_images=self._concurrent_images,
        )

    def new_view(self, declared: ClientCapabilities | None) -> View:
        """The view of a client that declared this, of a turn that is read from its first packet on."""
        limit = self.size_limits.packet_bytes
        return View(declared, packet_bytes=limit, images=self.images, image_threads=self.image_threads)


class RunningTurn:
    """One turn while it runs: its packets, its questions to backends, and how it ended.

    One with a `rejection` was not admitted: its agent does not run.
    """

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        engine: Engine,
        request: ServiceRequest,
        history: Sequence[ChatMessage],
        permits: PermissionChannel | None = None,
        rejection: Rejection | None = None,
        *,
        costs: RunCosts,
        streams: bool = True,
    ) -> None:
        self.costs: Final = costs
        self.request: Final = request
        self.request_id: Final = str(request.request_id)
        self.rejection: Final = rejection
        self._began_at: Final = engine.clock.monotonic()
        self._timer: Final = TurnTimer()
        self.failure: AccordError | None = None
        self.agent_error: StreamError | None = None
        """The error packet that the agent itself sent, if it did."""
        self.first_packet_ms: float | None = None
        self.is_complete = False
        self.engine: Final = engine
        self._order: Final = PacketOrder()
        self._size: Final = TurnSize(engine.size_limits)
        self._questions: Final = TurnQuestions(engine.dispatcher, engine.agent, self._timer, costs, streams=streams)
        if rejection is not None and rejection.refusal is not None:
            self._questions.records.append(WorkRecord(outcome=rejection.refusal))
        self._permissions: Final = Permissions(permits, self._timer, engine.clock)
        self._turn: Final = Turn(
            request, history, ask_backend=self._questions, clock=engine.clock, permissions=self._permissions
        )

    @property
    def work(self) -> Sequence[WorkRecord]:
        """A record of each question to a backend."""
        return self._questions.records

    @property
    def permissions(self) -> Sequence[PermissionRecord]:
        """A record of each permission that the agent requested."""
        return self._permissions.records()

    @property
    def duration_ms(self) -> float:
        """How long it has been running."""
        return round((self.engine.clock.monotonic() - self._began_at) * 1_000, 3)

    @property
    def is_over(self) -> bool:
        """Whether a limit or a cancellation has ended it; nothing that the agent yields counts any more."""
        return self._timer.over is not None

    def cancel(self) -> None:
        """Stop the agent and its backend at once; the stream is then closed properly."""
        self._timer.cancel()

    async def packets(self, on_wait: Callable[[], None] = lambda: None) -> AsyncGenerator[StreamPacket, None]:
        """The agent's packets, ending with exactly one close; a failure becomes an error packet before it.

        `on_wait` is called before anything is waited for, which most turns do seldom and some never.
        """
        last, permissions = list[StreamPacket](), self._permissions
        wait, limits = self._timer.wait("the agent", is_agent=True, on_wait=on_wait), self.engine.limits
        seconds = limits.first_packet_s
        CALLER.set(self.request.context.user.id)
        self._timer.start(limits.turn_s)
        try:
            if self.rejection is not None:
                raise self.rejection.error
            async with _AgentRun(self.engine.agent, self._turn, self._log, on_wait) as items:
                while True:
                    self._timer.raise_if_over()
                    polled = wait.poll(anext(items, NOTHING_MORE))
                    item = polled.result if isinstance(polled, Ready) else await wait.finish(seconds, polled)
                    if item is NOTHING_MORE or (packet := self._accept(item)).op is StreamOpCode.CLOSE:
                        break
                    seconds = limits.gap_s
                    parts = split_deltas((packet,), PART_BYTES)
                    for part in parts:
                        permissions.packets_made += 1
                        yield part
                        if len(parts) > 1:
                            on_wait()
                            await asyncio.sleep(0)  # other turns run while a long text is adapted
                            self._timer.raise_if_over()
            self._timer.raise_if_over()
        except Exception as error:  # noqa: BLE001 - whatever an agent raises ends its turn, never the server
            last = self._last_packets(error)
        finally:
            await self.close(on_wait)
        for packet in last:
            yield packet
        yield CLOSE
        self.is_complete = True

    def cut_off(self) -> list[StreamPacket]:
        """The last packets of a turn that a limit or a cancellation has ended before its agent did; none otherwise."""
        return [] if self._timer.over is None else self._last_packets(self._timer.over)

    async def until_over(self, task: asyncio.Task[None]) -> None:
        """Wait until this task, which iterates over the packets, has ended, or the turn is over before."""
        await self._timer.until_over(task)

    async def close(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Close what the agent left open, which may take a while."""
        if self._questions.records or self._permissions.is_waiting:
            on_wait()
        await self._permissions.close()
        await self._questions.close()
        self._timer.close()

    def _last_packets(self, error: Exception) -> list[StreamPacket]:
        """The packets for an error that ends the turn; none if the agent has sent an error packet itself.

        A limit or a cancellation counts more than what the agent raises because of it.
        """
        if (over := self._timer.over) is not None and error is not over:
            self._log("The agent failed while it was stopped", error)
            error = over
        if isinstance(error, UserFacingError):
            event = self._turn.user_error(str(error), retryable=error.retryable, domain="tool")
            return [EventPacket(p=event.dump())]
        self.failure = failure = error if isinstance(error, TURN_ERRORS) else agent_failed(error)
        if isinstance(failure, AgentError):
            self._log("The agent failed", failure)
        return [ErrorPacket(p=stream_error(failure))] if self._order.stage is StreamStage.OPEN else []

    def _log(self, message: str, error: BaseException) -> None:
        raised = error.__cause__ or error if isinstance(error, AgentRaisedError) else error
        log_agent_error(message, raised, request_id=self.request_id, fields={"agent": self.engine.agent.name})

    def _accept(self, item: Any) -> StreamPacket:
        """The packet for an item that the agent yielded; raises `AgentError` if it may not come now."""
        packet: Any
        if isinstance(item, str):
            packet = make_delta({"p": item})
        elif isinstance(item, PresentationEvent):
            packet = EventPacket(p=item.dump())
        elif isinstance(item, DeltaPacket | ClosePacket):
            packet = item
        elif isinstance(item, StreamPacket):
            # As it is stored: JSON writes a UUID, a tuple or a date in another form, and every view has to be the same.
            packet = StreamPacket.parse(item.to_json())
        else:
            raise AgentError(f"The agent yielded a {type(item).__name__}; expected text, an event or a packet")
        if packet.op is not StreamOpCode.CLOSE:
            self._size.add(packet)  # before the order: an error that is too large is not sent, so that one about it is
            if problem := self._order.take(packet.op):
                raise AgentError(f"The agent sent {problem}")
            if self.first_packet_ms is None:
                self.first_packet_ms = self.duration_ms
            self._note(packet)
        return packet

    def _note(self, packet: DeltaPacket | EventPacket | ErrorPacket) -> None:
        """Note what a packet of the agent means for the turn; raises `AgentError` for content it did not declare."""
        if isinstance(packet, EventPacket):
            is_forwarded = self._turn.is_forwarded(packet.p)
            self.engine.admission.check_event(packet.p, self.request_id, is_forwarded=is_forwarded)
        elif isinstance(packet, ErrorPacket):
            self.agent_error = packet.p
            self.failure = error_from_stream(packet.p)


class _AgentRun:
    """An agent's items. An error on closing them ends the turn, or is logged if another error ended it before."""

    def __init__(
        self, agent: Agent, turn: Turn, log: Callable[[str, BaseException], None], on_wait: Callable[[], None]
    ) -> None:
        self._log: Final = log
        self._on_wait: Final = on_wait
        try:
            self._items: Final[Any] = agent.run(turn)
        except Exception:
            raise
        except BaseException as error:  # nothing is awaited here, so that it is no cancellation of this task
            raise agent_failed(error) from error

    async def __aenter__(self) -> Any:
        return self._items

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        items = self._items
        if type(items) is AsyncGeneratorType and cast("AsyncGeneratorType[Any, Any]", items).ag_frame is None:
            return  # it has ended, and closing it would do nothing
        self._on_wait()
        try:
            with ContainBaseException(agent_failed):
                await items.aclose()
        except Exception as error:
            if kind is None:
                raise
            self._log("The agent failed while it was stopped", error)


def _agent_party(agent: Agent, admission: Admission) -> AgentParty:
    """The agent as every receipt names it."""
    accepts = agent.accepts
    declared = accepts.dump() if isinstance(accepts, Message) else dict(accepts) if accepts is not None else None
    return AgentParty(name=agent.name, declared=declared, accepts=list(admission.validator.declaration.accepted))
