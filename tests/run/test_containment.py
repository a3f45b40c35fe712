"""Whatever an agent raises: its turn ends with an error, a close and a receipt, and other turns go on."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn
from uuid import UUID

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import ScriptedBackend
from accord.run import Dispatcher, Engine, Run, Sessions
from accord.stores.memory import MemoryStore
from accord.wire.packet import StreamPacket
from accord.wire.session import StoredState
from tests.run.playing import read_turn, respond
from tests.run.test_sessions import STREAMS, read, request, within


def cancelled() -> NoReturn:
    raise asyncio.CancelledError


def exit_group() -> NoReturn:
    raise BaseExceptionGroup("several", [SystemExit(1), ValueError("secret")])


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def generator_exit() -> NoReturn:
    raise GeneratorExit


RAISING = [sys.exit, cancelled, exit_group, interrupt, generator_exit]


async def at_once(raising: Callable[[], Any]) -> AsyncIterator[Yielded]:
    raising()
    yield "never"


async def after_a_packet(raising: Callable[[], Any]) -> AsyncIterator[Yielded]:
    yield "so far"
    raising()


async def after_waiting(raising: Callable[[], Any]) -> AsyncIterator[Yielded]:
    yield "so far"
    await asyncio.sleep(0.001)
    raising()


async def while_closed(raising: Callable[[], Any]) -> AsyncIterator[Yielded]:
    try:
        yield "so far"
        yield StreamPacket(op="close")
        yield "never"
    finally:
        raising()


async def of_its_own_task(raising: Callable[[], Any]) -> AsyncIterator[Yielded]:
    async def working() -> None:
        if raising is not cancelled:
            raise asyncio.CancelledError  # the other kinds would leave through the loop; see tests/cli/test_loop.py
        await asyncio.sleep(60)

    task = asyncio.create_task(working())
    await asyncio.sleep(0)
    task.cancel()
    yield "so far"
    await task


def without_a_generator(raising: Callable[[], Any]) -> AsyncIterator[Yielded]:
    raising()
    return at_once(raising)


AGENTS = [at_once, after_a_packet, after_waiting, while_closed, of_its_own_task, without_a_generator]


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("raising", RAISING)
def test_what_an_agent_raises_ends_its_turn_properly_and_no_other(
    agent: Callable[[Any], AsyncIterator[Yielded]], raising: Callable[[], Any]
):
    if agent is while_closed and raising is generator_exit:
        return  # how a generator that is closed should end
    store = MemoryStore()

    def run_agent(turn: Turn) -> AsyncIterator[Yielded]:
        return innocent() if turn.text == "innocent" else agent(raising)

    async def innocent() -> AsyncIterator[Yielded]:
        for _ in range(5):
            yield "word "
            await asyncio.sleep(0.001)

    made = Sessions(Engine(Agent(run_agent), Dispatcher([])), store)

    async def run() -> None:
        other = asyncio.create_task(read(made, request(2, "innocent")))
        packets = [StreamPacket.parse(kept.body) for kept in await read(made, request())]
        assert [packet.op for packet in packets][-2:] == ["error", "close"]
        assert packets[-2].p.code == "agent_failed"
        assert "secret" not in packets[-2].p.message
        kept = await store.turn(str(UUID(int=1)))
        assert kept is not None
        assert kept.state is StoredState.FAILED
        assert (await made.receipt(kept.request_id)).outcome.code == "agent_failed"
        assert [StreamPacket.parse(kept.body).op for kept in await other] == ["delta"] * 5 + ["close"]

    within(store, run)


def test_an_agent_that_cancels_the_task_it_runs_in_ends_its_turn_too():
    store = MemoryStore()

    async def cancelling(turn: Turn) -> AsyncIterator[Yielded]:
        yield f"{turn.text} so far"
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    made = Sessions(Engine(Agent(cancelling), Dispatcher([])), store)

    async def run() -> None:
        kept = await read(made, request())
        assert [StreamPacket.parse(record.body).op for record in kept] == ["delta", "error", "close"]
        assert (await made.receipt(str(UUID(int=1)))).outcome.code == "agent_failed"

    within(store, run)


def test_what_a_backend_raises_is_a_backends_failure_and_the_next_one_answers():
    class Exiting(ScriptedBackend):
        def answer(self, order: Any) -> Any:
            async def pieces() -> AsyncIterator[Any]:
                sys.exit(f"because of {order}")
                yield

            return pieces()

    async def relay(turn: Turn) -> AsyncIterator[Yielded]:
        async for text in turn.ask():
            yield text

    store = MemoryStore()
    backends = [Exiting("a", [], STREAMS), ScriptedBackend("b", [["from b"]], STREAMS)]
    made = Sessions(Engine(Agent(relay), Dispatcher(backends)), store)

    async def run() -> None:
        assert (await respond(made, request())).output == {"text": "from b"}
        (fallback,) = (await made.receipt(str(UUID(int=1)))).work[0].fallbacks
        assert (fallback.backend, fallback.message) == ("a", "a failed (SystemExit)")

    within(store, run)


def test_a_caller_that_is_cancelled_cancels_the_turn_that_it_pulls():
    async def waiting(turn: Turn) -> AsyncIterator[Yielded]:
        yield turn.text
        await asyncio.sleep(60)

    async def run() -> None:
        task = asyncio.create_task(Engine(Agent(waiting), Dispatcher([])).respond(request()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)

    asyncio.run(run())


def test_a_turn_whose_task_the_loop_cancels_at_its_end_is_still_ended():
    store = MemoryStore()

    async def waiting(turn: Turn) -> AsyncIterator[Yielded]:
        yield turn.text
        await asyncio.sleep(60)

    made = Sessions(Engine(Agent(waiting), Dispatcher([])), store)

    async def run() -> None:
        turn = await made.begin(request())
        assert isinstance(turn, Run)
        await anext(read_turn(turn))
        turn.task.cancel()
        await turn.task
        kept = await store.turn(turn.request_id)
        assert kept is not None
        assert kept.state is StoredState.CANCELLED

    within(store, run)
