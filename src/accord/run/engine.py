"""An agent with its backends, limits and clock: what the runs of one process share."""

from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Final

from accord.agent import Agent
from accord.core.output import ImageShrinker
from accord.core.output.packets import OutputCollector
from accord.core.prompt import ContentLimits
from accord.core.sizes import SizeLimits
from accord.core.summarise import response_metrics
from accord.ports import Clock, PermissionChannel, SystemClock
from accord.run.admit import Admission, unknown_agent
from accord.run.costs import RunCosts
from accord.run.dispatch import Dispatcher
from accord.run.limits import TimeLimits
from accord.run.record import ReceiptContent, ended_turn, record_request
from accord.run.run import Run
from accord.run.views import View
from accord.wire.conversation import ChatMessage
from accord.wire.keys import Payer
from accord.wire.message import Message
from accord.wire.packet import StreamPacket
from accord.wire.problem import error_from_stream
from accord.wire.receipt import AgentParty
from accord.wire.request import ClientCapabilities, ServiceRequest, ServiceResponse


class Engine:
    """Begins runs of one agent."""

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
    ) -> Run:
        """A run that goes on while its packets are iterated over; one that is not admitted only says why.

        Without `permits` it cannot ask for permission. Without `streams`, backends need no streaming.
        """
        named = request.context.agent
        if named is None or self.agent.name in (named.id, named.name):
            rejection = self.admission.decide(request)
        else:
            rejection = unknown_agent(named, [self.agent.name])
        costs = RunCosts(None, Payer(user=request.context.user.id), self.dispatcher)
        return Run(self, request, history, permits=permits, rejection=rejection, costs=costs, streams=streams)

    async def respond(self, request: ServiceRequest, history: Sequence[ChatMessage] = ()) -> ServiceResponse:
        """The whole answer to a request; raises the error that would have ended the stream."""
        run = self.begin(request, history, streams=False)
        view, collected = self.new_view(request.payload.capabilities), OutputCollector()
        async for packet in self.play(run, view):
            collected.feed(packet)
        if run.failure is not None:
            raise run.failure
        if collected.error is not None:
            raise error_from_stream(collected.error)
        metrics, now = response_metrics(self.receipt(run, view).members), self.clock.now()
        return ServiceResponse(request_id=request.request_id, created_at=now, output=collected.output, metrics=metrics)

    @staticmethod
    async def play(run: Run, view: View) -> AsyncGenerator[StreamPacket]:
        """The packets of a run that is not stored, as the client of this view gets them."""
        async with aclosing(run.packets()) as packets:
            async for packet in packets:
                for adapted in await view.feed_in_thread(packet) if view.is_slow(packet) else view.feed(packet):
                    yield adapted
        run.costs.settle(run.work)

    def receipt(self, run: Run, view: View) -> ReceiptContent:
        """The receipt of such a run when it is over."""
        shape = record_request(run.request.payload)
        return ended_turn(run, view.adapter.report_json(), shape, self.clock.now()).content()

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


def _agent_party(agent: Agent, admission: Admission) -> AgentParty:
    """The agent as every receipt names it."""
    accepts = agent.accepts
    declared = accepts.dump() if isinstance(accepts, Message) else dict(accepts) if accepts is not None else None
    return AgentParty(name=agent.name, declared=declared, accepts=list(admission.validator.declaration.accepted))
