"""Helpers for tests of whole turns: a request, an engine on scripted backends, and the packets of a turn."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any
from uuid import UUID

from accord.agent import Agent, Turn, Yielded
from accord.core.work.plan import PlanConfig
from accord.ports import Backend, SystemClock
from accord.run import Dispatcher, Engine, Run, Sessions, StoredRun
from accord.wire.packet import DeltaPacket, StreamPacket
from accord.wire.request import ServiceRequest, ServiceResponse
from accord.wire.session import PacketRecord

SEES = {"streaming": "native", "image_input": "native"}
STREAMS = {"streaming": "native"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def asking(query: str = "hi", **payload: Any) -> ServiceRequest:
    return ServiceRequest.model_validate(
        {
            "request_id": str(UUID(int=7)),
            "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
            "payload": {"query": query, **payload},
        }
    )


def engine(run: Callable[[Turn], AsyncIterator[Yielded]], *backends: Backend, **options: Any) -> Engine:
    agent = Agent(run, accepts=options.pop("accepts", None))
    limits = options.pop("limits", None)
    dispatcher = Dispatcher(backends, config=PlanConfig(**options), limits=limits)
    return Engine(agent, dispatcher, clock=SystemClock(), limits=limits)


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


async def read_turn(turn: Run | StoredRun, after: int = 0) -> AsyncGenerator[PacketRecord, None]:
    """The packets of a turn in the view of its client, one by one."""
    async with aclosing(turn.read(after)) as batches:
        async for batch in batches:
            for packet in batch.packets:
                yield packet


async def stream(sessions: Sessions, request: ServiceRequest) -> AsyncGenerator[PacketRecord, None]:
    """Begin the turn of a request and read its packets to the end."""
    async with aclosing(read_turn(await sessions.begin(request))) as packets:
        async for stored in packets:
            yield stored


async def respond(sessions: Sessions, request: ServiceRequest) -> ServiceResponse:
    """Begin the turn of a request and wait for its whole answer."""
    return await sessions.collect(await sessions.begin(request))


async def collected(turn: Run) -> list[StreamPacket]:
    """The packets of a turn in the view of its client."""
    view, packets = turn.engine.new_view(turn.request.payload.capabilities), list[StreamPacket]()
    async for packet in turn.packets():
        packets += await view.feed_in_thread(packet) if view.is_slow(packet) else view.feed(packet)
    return packets


def played(running: Run) -> list[StreamPacket]:
    return asyncio.run(asyncio.wait_for(collected(running), 20))


def within(task: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(task(), 20)

    return asyncio.run(bounded())


def said(packets: list[StreamPacket]) -> str:
    return "".join(packet.p for packet in packets if isinstance(packet, DeltaPacket))
