"""When a permission request is sent, and its outcome: one connection in memory."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from accord.core.output.agent_work import ALLOW_OR_REJECT, build_permission_request
from accord.servers.acp.permissions import PromptPermissions
from accord.servers.acp.sessions import OpenSession
from accord.servers.acp.updates import DraftWriter, PromptUpdates
from accord.stdio import RpcConnection
from accord.wire.agent_work import Permission

QUESTION = build_permission_request("Go?", "1", (), {}, ALLOW_OR_REJECT)
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}\n'


class Pipe:
    """The written lines; once broken, it raises as a closed pipe does."""

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
    """A turn that requests permission after two packets."""

    def __init__(self) -> None:
        self.pipe, self.reader = Pipe(), asyncio.StreamReader()
        self.connection = RpcConnection(self.reader, self.pipe, grace_s=5)
        self.reading = asyncio.create_task(self.connection.run())
        self.session = OpenSession("s", "/")
        writer = DraftWriter("s")
        updates = PromptUpdates(writer, "turn")
        self.permissions = PromptPermissions(self.connection, self.session, writer, updates)
        self.requesting = asyncio.create_task(self.permissions(QUESTION, 2))

    @property
    def was_sent(self) -> bool:
        return any(b"request_permission" in line for line in self.pipe.lines)

    async def settle(self) -> None:
        """Let the other tasks run until they wait."""
        for _ in range(20):
            await asyncio.sleep(0)


async def answered(scene: Scene) -> None:
    scene.reader.feed_data(ANSWER)


async def updates_finished(scene: Scene) -> None:
    scene.permissions.finish()


async def client_disconnected(scene: Scene) -> None:
    scene.reader.feed_eof()


async def pipe_broken(scene: Scene) -> None:
    scene.pipe.is_broken = True
    scene.permissions.mark_sent(2)


def run_steps(*steps: Callable[[Scene], Awaitable[None]]) -> tuple[Permission, bool, int]:
    async def run() -> tuple[Permission, bool, int]:
        scene = Scene()
        try:
            for step in steps:
                await step(scene)
                await scene.settle()
            return await scene.requesting, scene.was_sent, scene.session.open_requests
        finally:
            scene.reading.cancel()

    return asyncio.run(asyncio.wait_for(run(), 20))


async def all_packets_sent(scene: Scene) -> None:
    for seq in (0, 1):
        scene.permissions.mark_sent(seq)
        await scene.settle()
        assert not scene.was_sent
    scene.permissions.mark_sent(2)
    await scene.settle()
    assert scene.was_sent
    assert scene.session.open_requests == 1


@pytest.mark.parametrize(
    ("steps", "status", "was_sent"),
    [
        ([all_packets_sent, answered], "allowed", True),
        ([all_packets_sent, client_disconnected], "nobody", True),
        ([updates_finished], "nobody", False),
        ([client_disconnected, updates_finished], "nobody", False),
        ([pipe_broken], "nobody", False),
    ],
)
def test_a_request_is_sent_after_the_packets_before_it_and_never_to_a_client_that_is_gone(
    steps: list[Callable[[Scene], Awaitable[None]]], status: str, was_sent: bool
):
    permission, sent, open_requests = run_steps(*steps)
    assert (permission.status, sent, open_requests) == (status, was_sent, 0)


def test_no_request_is_sent_before_the_updates_begin():
    async def run() -> None:
        scene = Scene()
        first = asyncio.create_task(scene.permissions(QUESTION, 0))
        await scene.settle()
        assert not scene.was_sent
        scene.permissions.mark_sent(0)
        await scene.settle()
        assert scene.was_sent
        scene.permissions.finish()
        for task in (first, scene.reading):
            task.cancel()
        await scene.requesting

    asyncio.run(asyncio.wait_for(run(), 20))
