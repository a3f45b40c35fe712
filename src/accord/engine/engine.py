"""Run one turn: check the content, run the agent, check the order of its packets, adapt them for the client.

One path for streaming and for whole answers: a whole answer is the collected stream. Everything is pulled: a slow
client slows down its own agent and backend, nothing is queued, and other turns are not affected. Backends and images
are known as Protocols only; storing is in `live.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from accord.agent import Agent, Turn, UserFacingError
from accord.core.output import ClientAdapter, ImageLimits, ImageShrinker, ShrinkRefusal, ShrunkImage
from accord.core.output.packets import OutputCollector, PacketOrder, StreamStage
from accord.core.prompt import ContentLimits, ContentValidator
from accord.core.prompt.verdict import read_declaration
from accord.core.sizes import SizeLimits, TurnSize, split_deltas
from accord.engine.agent_errors import AgentRaisedError, ContainBaseException, agent_failed, log_agent_error
from accord.engine.dispatch import Dispatcher, TurnQuestions, WorkRecord
from accord.engine.limits import NOTHING_MORE, TimeLimits, TurnTimer
from accord.engine.permissions import Permissions
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
from accord.wire.agent_work import PermissionRecord
from accord.wire.conversation import ChatMessage
from accord.wire.event import PresentationEvent
from accord.wire.message import Message
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamOpCode, StreamPacket
from accord.wire.problem import error_from_stream, stream_error
from accord.wire.receipt import AgentParty
from accord.wire.request import ServiceRequest, ServiceResponse

CLOSE: Final = ClosePacket()
PART_BYTES: Final = 32 * 1024
"""A longer text is adapted in parts, so that other turns run in between: 24 MB of short lines take a minute."""

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
        self.protocol_version: Final = 1
        self.party: Final = _agent_party(agent, self.protocol_version)
        self.validator: Final = ContentValidator(
            agent.accepts, protocol_version=self.protocol_version, limits=content_limits or ContentLimits()
        )

    def begin(
        self, request: ServiceRequest, history: Sequence[ChatMessage] = (), *, permits: PermissionChannel | None = None
    ) -> "RunningTurn":
        """A turn that runs while its packets are iterated over; without `permits` it cannot ask for permission."""
        return RunningTurn(self, request, history, permits)

    async def respond(self, request: ServiceRequest, history: Sequence[ChatMessage] = ()) -> ServiceResponse:
        """Run a turn and return its whole answer; raises the error that would have ended the stream."""
        turn, collected = self.begin(request, history), OutputCollector()
        async for packet in turn.packets():
            collected.feed(packet)
        if turn.failure is not None:
            raise turn.failure
        if collected.error is not None:
            raise error_from_stream(collected.error)
        metrics = {"duration_ms": turn.duration_ms, "adaptation": turn.adapter.report_json()["totals"]}
        return ServiceResponse(
            request_id=request.request_id, created_at=self.clock.now(), output=collected.output, metrics=metrics
        )

    def check_content(self, request: ServiceRequest) -> None:
        """Raise `RefusedError` for content that the agent does not accept, before any of it is processed."""
        if not request.payload.content:
            return
        verdict = self.validator.validate(request.payload.content)
        if verdict.error is not None and verdict.code is not None:
            raise RefusedError(verdict.error["message"], verdict.code, verdict.error["data"])


class RunningTurn:
    """One turn while it runs: its packets, its questions to backends, and how it ended."""

    def __init__(
        self,
        engine: Engine,
        request: ServiceRequest,
        history: Sequence[ChatMessage],
        permits: PermissionChannel | None = None,
    ) -> None:
        self.request: Final = request
        self.request_id: Final = str(request.request_id)
        self._began_at: Final = engine.clock.monotonic()
        self._timer: Final = TurnTimer()
        self._deadline: Final = _TurnDeadline(engine, self._timer, self._began_at)
        images = None if engine.images is None else _TimedImages(engine.images, self._deadline)
        self.adapter: Final = ClientAdapter(request.payload.capabilities, images=images)
        self.failure: AccordError | None = None
        self.first_packet_ms: float | None = None
        self.is_complete = False
        self._answer_parts: Final[list[str]] = []
        self._engine: Final = engine
        self._order: Final = PacketOrder()
        self._size: Final = TurnSize(engine.size_limits)
        self._questions: Final = TurnQuestions(engine.dispatcher, engine.agent.system, self._timer)
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
        return round((self._engine.clock.monotonic() - self._began_at) * 1_000, 3)

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._timer.is_cancelled

    @property
    def answer_text(self) -> str:
        """The text that the agent has yielded so far, before adaptation."""
        return "".join(self._answer_parts)

    def cancel(self) -> None:
        """Stop the agent and its backend at once; the stream is then closed properly."""
        self._timer.cancel()

    async def packets(self) -> AsyncGenerator[StreamPacket, None]:
        """The client's packets, ending with exactly one close; a failure becomes an error packet before it."""
        engine, last = self._engine, list[StreamPacket]()
        wait, limits = self._timer.wait("the agent", self._deadline.left_s), engine.limits
        adapt, seconds = self._adapt, limits.first_packet_s
        try:
            engine.check_content(self.request)
            async with _AgentRun(engine.agent, self._turn, self._log) as items:
                while True:
                    item = await wait.upto(seconds, anext(items, NOTHING_MORE))
                    if item is NOTHING_MORE or (packet := self._accept(item)).op is StreamOpCode.CLOSE:
                        break
                    seconds = limits.gap_s
                    parts = split_deltas((packet,), PART_BYTES)
                    is_slow = len(parts) > 1 or (
                        type(packet) is not DeltaPacket and self.adapter.may_reencode_images(packet)
                    )
                    for part in parts:
                        for adapted in await self._adapt_slowly(part) if is_slow else adapt(part):
                            yield adapted
        except Exception as error:  # noqa: BLE001 - whatever an agent raises ends its turn, never the server
            last = self._last_packets(error)
        finally:
            await self._permissions.close()
            await self._questions.close()
            self._timer.close()
        for packet in (*last, CLOSE):
            for adapted in adapt(packet):
                yield adapted
        self.is_complete = True

    def _last_packets(self, error: Exception) -> list[StreamPacket]:
        """The packets for an error that ends the turn; none if the agent has sent an error packet itself."""
        if isinstance(error, UserFacingError):
            event = self._turn.user_error(str(error), retryable=error.retryable, domain="tool")
            return [EventPacket(p=event.dump())]
        self.failure = failure = error if isinstance(error, TURN_ERRORS) else agent_failed(error)
        if isinstance(failure, AgentError):
            self._log("The agent failed", failure)
        return [ErrorPacket(p=stream_error(failure))] if self._order.stage is StreamStage.OPEN else []

    def _log(self, message: str, error: BaseException) -> None:
        raised = error.__cause__ or error if isinstance(error, AgentRaisedError) else error
        log_agent_error(message, raised, request_id=self.request_id, fields={"agent": self._engine.agent.name})

    async def _adapt_slowly(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        """Adapt a packet while other turns run: images are re-encoded in a thread."""
        if type(packet) is not DeltaPacket:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._engine.image_threads, self._adapt, packet)
        await asyncio.sleep(0)
        return self._adapt(packet)

    def _adapt(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        """The packets that are sent to the client for this one."""
        adapted = split_deltas(self.adapter.feed(packet), self._engine.size_limits.packet_bytes)
        self._permissions.packets_made += len(adapted)
        if self.first_packet_ms is None and adapted:
            self.first_packet_ms = self.duration_ms
        return adapted

    def _accept(self, item: Any) -> StreamPacket:
        """The packet for an item that the agent yielded; raises `AgentError` if it may not come now."""
        packet: Any
        if isinstance(item, str):
            packet = DeltaPacket(p=item)
        elif isinstance(item, PresentationEvent):
            packet = EventPacket(p=item.dump())
        elif isinstance(item, StreamPacket):
            packet = item
        else:
            raise AgentError(f"The agent yielded a {type(item).__name__}; expected text, an event or a packet")
        op = packet.op
        if op is not StreamOpCode.CLOSE:
            if problem := self._order.take(op):
                raise AgentError(f"The agent sent {problem}")
            self._size.add(packet)
            if op is StreamOpCode.DELTA:
                self._answer_parts.append(packet.p)
            elif isinstance(packet, ErrorPacket):
                self.failure = error_from_stream(packet.p)
        return packet


class _TurnDeadline:
    """How long a turn may still run. It does not refer to the turn, so that a turn that is over is freed at once."""

    def __init__(self, engine: Engine, timer: TurnTimer, began_at: float) -> None:
        self._engine: Final = engine
        self._timer: Final = timer
        self._began_at: Final = began_at

    def left_s(self) -> float:
        """The seconds that are left."""
        took_s = self._engine.clock.monotonic() - self._began_at
        return self._engine.limits.turn_s - took_s + self._timer.paused_s

    def is_over(self) -> bool:
        """Whether the time is up or the turn was cancelled."""
        return self._timer.is_cancelled or self.left_s() <= 0


class _TimedImages:
    """Shrink images until the turn's time is up; the images that are left then stay as they are.

    An event may hold many images, and no time limit can interrupt the thread that decodes them.
    """

    def __init__(self, images: ImageShrinker, deadline: _TurnDeadline) -> None:
        self._images: Final = images
        self._deadline: Final = deadline

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        """The image within the limits, or why it stays as it is."""
        if self._deadline.is_over():
            return ShrinkRefusal("the turn's time was up")
        return self._images.shrink(data, mime_type, limits)


class _AgentRun:
    """An agent's items. An error on closing them ends the turn, or is logged if another error ended it before."""

    def __init__(self, agent: Agent, turn: Turn, log: Callable[[str, BaseException], None]) -> None:
        self._log: Final = log
        with ContainBaseException(agent_failed):
            self._items: Final[Any] = agent.run(turn)

    async def __aenter__(self) -> Any:
        return self._items

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with ContainBaseException(agent_failed):
                await self._items.aclose()
        except Exception as error:
            if kind is None:
                raise
            self._log("The agent failed while it was stopped", error)


def _agent_party(agent: Agent, protocol_version: int) -> AgentParty:
    """The agent as every receipt names it."""
    accepts = agent.accepts
    declared = accepts.dump() if isinstance(accepts, Message) else dict(accepts) if accepts is not None else None
    return AgentParty(
        name=agent.name, declared=declared, accepts=list(read_declaration(accepts, protocol_version).accepted)
    )
