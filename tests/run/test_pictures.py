"""Images in a turn: re-encoding them must not block other turns."""

import asyncio
import gc
from collections.abc import AsyncIterator
from threading import Lock, get_ident
from time import sleep
from uuid import UUID
from weakref import ref

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import EchoBackend
from accord.core.output import ImageLimits, ShrunkImage
from accord.run import Dispatcher, Engine, Sessions
from accord.stores.memory import MemoryStore
from accord.wire.packet import EventPacket, StreamPacket
from accord.wire.request import ServiceRequest
from tests.run.playing import collected

LOW = {"supported_events": ["media_carousel"], "image_resolution": "low"}
REQUEST = ServiceRequest.model_validate(
    {
        "request_id": str(UUID(int=7)),
        "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
        "payload": {"query": "hi", "capabilities": LOW},
    }
)


class ThreadNoting:
    """A port that remembers in which thread it was asked."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage:
        del data, mime_type, limits
        self.threads.append(get_ident())
        return ShrunkImage(b"s", "image/png")


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


class Slow:
    """A port that takes its time for every picture, and notes how many it works on at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = Lock()
        self._now = 0
        self.most = 0
        self.count = 0

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage:
        del data, mime_type, limits
        with self._lock:
            self._now, self.count = self._now + 1, self.count + 1
            self.most = max(self.most, self._now)
        sleep(self._seconds)  # what decoding takes
        with self._lock:
            self._now -= 1
        return ShrunkImage(b"s", "image/png")


def carousel(count: int) -> EventPacket:
    picture = {"url": "data:image/png;base64,AAAAAAAA", "mime_type": "image/png"}
    return EventPacket(p={"type": "media_carousel", "data": {"items": [picture] * count}})


async def draws_many(_: Turn) -> AsyncIterator[Yielded]:
    yield carousel(40)
    yield "After."


@pytest.mark.parametrize("at_once", [1, 3])
def test_only_so_many_pictures_are_worked_on_at_once_in_all_turns_together(at_once: int):
    async def draws(_: Turn) -> AsyncIterator[Yielded]:
        yield carousel(2)

    async def run() -> int:
        images = Slow(0.02)
        drawing = Engine(Agent(draws), Dispatcher([]), images=images, concurrent_images=at_once)
        await asyncio.wait_for(asyncio.gather(*(collected(drawing.begin(REQUEST)) for _ in range(8))), 20)
        assert images.count == 16
        return images.most

    assert asyncio.run(run()) == at_once


def test_a_picture_is_shown_while_the_agent_waits():
    async def run() -> None:
        is_shown = asyncio.Event()

        async def draws(_: Turn) -> AsyncIterator[Yielded]:
            yield "Before.\n\n"
            yield carousel(1)
            await is_shown.wait()

        store = MemoryStore()
        await store.open()
        sessions = Sessions(Engine(Agent(draws), Dispatcher([]), images=Slow(0.02)), store)
        ops: list[str] = []
        async for batch in sessions.read(await sessions.begin(REQUEST)):
            ops += [StreamPacket.parse(record.body).op for record in batch.packets]
            if "event" in ops:
                is_shown.set()
        assert ops == ["delta", "event", "close"]

    asyncio.run(asyncio.wait_for(run(), 10))


def test_a_turn_with_pictures_leaves_nothing_behind_that_refers_to_it():
    async def run() -> None:
        drawing = Engine(Agent(draws_many), Dispatcher([]), images=Slow(0))
        running = drawing.begin(REQUEST)
        await collected(running)
        gone = ref(running)
        gc.disable()
        try:
            del running
            # The thread that worked on the pictures lets go of its last task a moment after the turn has its result.
            async with asyncio.timeout(10):
                while gone() is not None:  # noqa: ASYNC110 - a weak reference has no event
                    await asyncio.sleep(0.001)
        finally:
            gc.enable()

    asyncio.run(run())
