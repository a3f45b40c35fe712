"""Pictures in a turn: re-encoding them must not hold up the other turns."""

import asyncio
from collections.abc import AsyncIterator
from threading import get_ident
from uuid import UUID

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import EchoBackend
from accord.core.adapt import ImageLimits, Shrunk
from accord.engine import Dispatcher, Engine, RunningTurn
from accord.wire.packet import EventPacket, StreamPacket
from accord.wire.request import ServiceRequest

LOW = {"supported_events": ["media_carousel"], "image_resolution": "low"}
REQUEST = ServiceRequest.model_validate(
    {
        "request_id": str(UUID(int=7)),
        "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
        "payload": {"query": "hi", "capabilities": LOW},
    }
)


async def collected(turn: RunningTurn) -> list[StreamPacket]:
    return [packet async for packet in turn.packets()]


class ThreadNoting:
    """A port that remembers in which thread it was asked."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> Shrunk:
        del data, mime_type, limits
        self.threads.append(get_ident())
        return Shrunk(b"s", "image/png")


def test_pictures_are_made_smaller_in_a_thread_and_stay_in_their_place():
    picture = {"url": "data:image/png;base64,AAAAAAAA", "mime_type": "image/png"}

    async def draws(_: Turn) -> AsyncIterator[Yielded]:
        yield "Before.\n\n"
        yield EventPacket(p={"type": "media_carousel", "data": {"items": [picture]}})
        yield "After."

    images = ThreadNoting()
    drawing = Engine(Agent(draws), Dispatcher([EchoBackend()]), images=images)
    before, shown, after, close = asyncio.run(collected(drawing.begin(REQUEST)))
    assert isinstance(shown, EventPacket)
    assert shown.p["data"]["items"] == [{"url": "data:image/png;base64,cw==", "mime_type": "image/png"}]
    assert (before.p, after.p, close.op) == ("Before.\n\n", "After.", "close")
    assert len(images.threads) == 1
    assert images.threads != [get_ident()]
