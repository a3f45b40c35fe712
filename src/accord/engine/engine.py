"""One turn, from a request to adapted packets: content check, agent, order, adaptation, account.

One path for streaming and one-shot: a one-shot answer is the stream, collected. Everything is pulled: a slow client
slows its own agent and backend, nothing is queued, and other turns do not notice. It knows only Protocols.
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
from accord.engine.agent_errors import Contained, log_agent_error
from accord.engine.dispatch import Dispatcher, Questions, WorkRecord
from accord.engine.limits import NOTHING_MORE, AgentRaisedError, Patience, TimeLimits, agent_failed
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
"""A longer text is adapted in parts, so that other turns go on between them: 24 MB of short lines take a minute."""

TURN_ERRORS: Final = (AgentError, BackendError, EmulationError, RefusedError, TimedOutError, TurnCancelledError)
"""Errors that end a turn under their own code. Any other one that comes out of an agent is a defect of the agent, also
one of ours: a malformed tool that it passed to `ask` is not the client's invalid message."""


class Engine:
    """An agent, the backends it may ask, and the clock."""

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
        # Threads of their own, and few: a decoded picture takes much memory, and other work must not wait behind it.
        self.image_threads: Final = ThreadPoolExecutor(concurrent_images, thread_name_prefix="accord-images")
        self.protocol_version: Final = 1
        self.party: Final = _party(agent, self.protocol_version)
        self.validator: Final = ContentValidator(
            agent.accepts, protocol_version=self.protocol_version, limits=content_limits or ContentLimits()
        )

    def begin(
        self, request: ServiceRequest, history: Sequence[ChatMessage] = (), *, permits: PermissionChannel | None = None
    ) -> "RunningTurn":
        """A turn, ready to be run by iterating over its packets; without `permits` its agent has nobody to ask."""
        return RunningTurn(self, request, history, permits)

    async def respond(self, request: ServiceRequest, history: Sequence[ChatMessage] = ()) -> ServiceResponse:
        """The whole answer at once; raises our error if the stream would have ended in one."""
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
        """Refuse what the agent did not declare, before anything of it is processed."""
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
        self._patience: Final = Patience()
        self._deadline: Final = _Deadline(engine, self._patience, self._began_at)
        images = None if engine.images is None else _ImagesInTime(engine.images, self._deadline)
        self.adapter: Final = ClientAdapter(request.payload.capabilities, images=images)
        self.failure: AccordError | None = None
        self.first_packet_ms: float | None = None
        self.is_complete = False
        self._answer_parts: Final[list[str]] = []
        self._engine: Final = engine
        self._order: Final = PacketOrder()
        self._size: Final = TurnSize(engine.size_limits)
        self._questions: Final = Questions(engine.dispatcher, engine.agent.system, self._patience)
        self._permissions: Final = Permissions(permits, self._patience, engine.clock)
        self._turn: Final = Turn(
            request, history, asks=self._questions, clock=engine.clock, permissions=self._permissions
        )

    @property
    def work(self) -> Sequence[WorkRecord]:
        """What became of each question to a backend."""
        return self._questions.records

    @property
    def permissions(self) -> Sequence[PermissionRecord]:
        """What became of each permission that the agent asked for."""
        return self._permissions.records()

    @property
    def duration_ms(self) -> float:
        """How long it has been running."""
        return round((self._engine.clock.monotonic() - self._began_at) * 1_000, 3)

    @property
    def is_cancelled(self) -> bool:
        """Whether it was told to stop."""
        return self._patience.is_cancelled

    @property
    def answer_text(self) -> str:
        """The text that the agent has yielded so far, before adaptation."""
        return "".join(self._answer_parts)

    def cancel(self) -> None:
        """Stop the agent and its backend at once; the stream is then closed properly."""
        self._patience.cancel()

    async def packets(self) -> AsyncGenerator[StreamPacket, None]:
        """What the client gets, ending with exactly one close; a failure becomes an error packet before it."""
        waited, limits = self._patience.wait("the agent", self._deadline.left_s), self._engine.limits
        adapt, seconds, last = self._adapted, limits.first_packet_s, list[StreamPacket]()
        try:
            self._engine.check_content(self.request)
            async with self._agent() as items:
                while True:
                    item = await waited.upto(seconds, anext(items, NOTHING_MORE))
                    if item is NOTHING_MORE or (packet := self._taken(item)).op is StreamOpCode.CLOSE:
                        break
                    seconds = limits.gap_s
                    parts = split_deltas((packet,), PART_BYTES)
                    is_slow = len(parts) > 1 or self._is_heavy(packet)
                    for part in parts:
                        for adapted in await self._adapt_slowly(part) if is_slow else adapt(part):
                            yield adapted
        except Exception as error:  # noqa: BLE001 - whatever an agent raises ends its turn, never the server
            last = self._ended_by(error)
        finally:
            await self._stop_asking()
        for packet in (*last, CLOSE):
            for adapted in adapt(packet):
                yield adapted
        self.is_complete = True

    def _ended_by(self, error: Exception) -> list[StreamPacket]:
        """The packets for an error that ends the turn; none if the agent has sent an error packet itself."""
        if isinstance(error, UserFacingError):
            told = self._turn.user_error(str(error), retryable=error.retryable, domain="tool")
            return [EventPacket(p=told.dump())]
        self.failure = failure = error if isinstance(error, TURN_ERRORS) else agent_failed(error)
        if isinstance(failure, AgentError):
            self._log("The agent failed", failure)
        return [ErrorPacket(p=stream_error(failure))] if self._order.stage is StreamStage.OPEN else []

    def _log(self, message: str, error: BaseException) -> None:
        raised = error.__cause__ or error if isinstance(error, AgentRaisedError) else error
        log_agent_error(message, raised, request_id=self.request_id, fields={"agent": self._engine.agent.name})

    def _is_heavy(self, packet: StreamPacket) -> bool:
        return type(packet) is not DeltaPacket and self.adapter.may_reencode_images(packet)

    async def _adapt_slowly(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        """What goes out for this packet, while other turns go on: pictures are re-encoded in a thread."""
        if type(packet) is not DeltaPacket:
            return await self._in_image_thread(packet)
        await asyncio.sleep(0)
        return self._adapted(packet)

    def _adapted(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        """What goes out for this packet."""
        adapted = split_deltas(self.adapter.feed(packet), self._engine.size_limits.packet_bytes)
        self._permissions.made += len(adapted)
        if self.first_packet_ms is None and adapted:
            self.first_packet_ms = self.duration_ms
        return adapted

    def _taken(self, item: Any) -> StreamPacket:
        """What the agent yielded, as a packet that may come now."""
        packet = _packet(item)
        op = packet.op
        if op is StreamOpCode.CLOSE:
            return packet
        if problem := self._order.take(op):
            raise AgentError(f"The agent sent {problem}")
        self._size.add(packet)
        if op is StreamOpCode.DELTA:
            self._answer_parts.append(packet.p)
        elif isinstance(packet, ErrorPacket):
            self.failure = error_from_stream(packet.p)
        return packet

    def _agent(self) -> "_Closing":
        with Contained(agent_failed):
            return _Closing(self._engine.agent.run(self._turn), self._log)

    async def _in_image_thread(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        return await asyncio.get_running_loop().run_in_executor(self._engine.image_threads, self._adapted, packet)

    async def _stop_asking(self) -> None:
        await self._permissions.close()
        await self._questions.close()
        self._patience.close()


class _Deadline:
    """How long a turn may still go on. It holds no turn, so that one that is over is freed at once."""

    def __init__(self, engine: Engine, patience: Patience, began_at: float) -> None:
        self._engine: Final = engine
        self._patience: Final = patience
        self._began_at: Final = began_at

    def left_s(self) -> float:
        """The seconds that are left."""
        took_s = self._engine.clock.monotonic() - self._began_at
        return self._engine.limits.turn_s - took_s + self._patience.stood_still_s

    def is_over(self) -> bool:
        """Whether the time is up, or the turn was cancelled."""
        return self._patience.is_cancelled or self.left_s() <= 0


class _ImagesInTime:
    """Makes pictures smaller as long as the turn may go on; those that are left then stay as they are.

    An event may hold many pictures, and no time limit can interrupt the thread that decodes them.
    """

    def __init__(self, images: ImageShrinker, deadline: _Deadline) -> None:
        self._images: Final = images
        self._deadline: Final = deadline

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        """The picture within the limits, or why it stays as it is."""
        if self._deadline.is_over():
            return ShrinkRefusal("the turn's time was up")
        return self._images.shrink(data, mime_type, limits)


class _Closing:
    """An agent's items; what closing them raises ends the turn, or is logged if another error has ended it before."""

    def __init__(self, items: Any, log: Callable[[str, BaseException], None]) -> None:
        self._items: Final = items
        self._log: Final = log

    async def __aenter__(self) -> Any:
        return self._items

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with Contained(agent_failed):
                await self._items.aclose()
        except Exception as error:
            if kind is None:
                raise
            self._log("The agent failed while it was stopped", error)


def _party(agent: Agent, protocol_version: int) -> AgentParty:
    """The agent as every receipt names it."""
    declared = agent.accepts
    told = declared.dump() if isinstance(declared, Message) else dict(declared) if declared is not None else None
    accepts = read_declaration(declared, protocol_version).accepted
    return AgentParty(name=agent.name, declared=told, accepts=list(accepts))


def _packet(item: Any) -> StreamPacket:
    if isinstance(item, str):
        return DeltaPacket(p=item)
    if isinstance(item, PresentationEvent):
        return EventPacket(p=item.dump())
    if isinstance(item, StreamPacket):
        return item
    raise AgentError(f"The agent yielded a {type(item).__name__}; expected text, an event or a packet")
