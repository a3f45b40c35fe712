"""When a question goes out, and what becomes of it: one connection in memory, and whoever tells of the turn."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from accord.core.output.agent_work import ALLOW_OR_REJECT, build_permission_question
from accord.servers.acp.permits import TurnPermits
from accord.servers.acp.sessions import OpenSession
from accord.servers.acp.updates import TurnUpdates
from accord.stdio import RpcConnection
from accord.wire.agent_work import Permission

QUESTION = build_permission_question("Go?", "1", (), {}, ALLOW_OR_REJECT)
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}\n'


class Pipe:
    """Where lines go; broken, it takes no more."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.is_broken = False

    def write(self, data: bytes) -> None:
        if self.is_broken:
            raise BrokenPipeError
        self.lines.append(data)

    async def drain(self) -> None:
        await asyncio.sleep(0)


class Scene:
    """A turn of a client that is asked after two packets."""

    def __init__(self) -> None:
        self.pipe, self.reader = Pipe(), asyncio.StreamReader()
        self.connection = RpcConnection(self.reader, self.pipe, grace_s=5)
        self.reading = asyncio.create_task(self.connection.run())
        self.session = OpenSession("s", "/")
        updates = TurnUpdates("s", "own", is_draft=True)
        self.permits = TurnPermits(self.connection, self.session, updates, is_draft=True)
        self.asking = asyncio.create_task(self.permits(QUESTION, 2))

    @property
    def is_asked(self) -> bool:
        return any(b"request_permission" in line for line in self.pipe.lines)

    async def settle(self) -> None:
        """Let everything happen that can."""
        for _ in range(20):
            await asyncio.sleep(0)


async def answered(scene: Scene) -> None:
    scene.reader.feed_data(ANSWER)


async def told_no_more(scene: Scene) -> None:
    scene.permits.over()


async def hung_up(scene: Scene) -> None:
    scene.reader.feed_eof()


async def broken(scene: Scene) -> None:
    scene.pipe.is_broken = True
    scene.permits.told(2)


def played(*steps: Callable[[Scene], Awaitable[None]]) -> tuple[Permission, bool, int]:
    async def play() -> tuple[Permission, bool, int]:
        scene = Scene()
        try:
            for step in steps:
                await step(scene)
                await scene.settle()
            return await scene.asking, scene.is_asked, scene.session.asks
        finally:
            scene.reading.cancel()

    return asyncio.run(asyncio.wait_for(play(), 20))


async def told_all(scene: Scene) -> None:
    for seq in (0, 1):
        scene.permits.told(seq)
        await scene.settle()
        assert not scene.is_asked
    scene.permits.told(2)
    await scene.settle()
    assert scene.is_asked
    assert scene.session.asks == 1


@pytest.mark.parametrize(
    ("steps", "status", "is_asked"),
    [
        ([told_all, answered], "allowed", True),
        ([told_all, hung_up], "nobody", True),
        ([told_no_more], "nobody", False),
        ([hung_up, told_no_more], "nobody", False),
        ([broken], "nobody", False),
    ],
)
def test_a_client_is_asked_when_it_has_what_came_before_and_never_after_it_is_gone(
    steps: list[Callable[[Scene], Awaitable[None]]], status: str, is_asked: bool
):
    permission, was_asked, left = played(*steps)
    assert (permission.status, was_asked, left) == (status, is_asked, 0)


def test_nothing_is_asked_before_anything_is_told():
    async def play() -> None:
        scene = Scene()
        first = asyncio.create_task(scene.permits(QUESTION, 0))
        await scene.settle()
        assert not scene.is_asked
        scene.permits.told(0)
        await scene.settle()
        assert scene.is_asked
        scene.permits.over()
        for task in (first, scene.reading):
            task.cancel()
        await scene.asking

    asyncio.run(asyncio.wait_for(play(), 20))
