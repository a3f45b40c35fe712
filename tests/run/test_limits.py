"""Polling an awaitable, awaiting the rest of it, and the waits of a turn."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accord.errors import TimedOutError, TurnCancelledError
from accord.run.limits import Ready, RunTimer, Wait, poll
from accord.servers.http.exchange import within


def run(task: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(task(), 10)

    return asyncio.run(bounded())


async def at_once(result: int = 1) -> int:
    return result


async def after(steps: int) -> list[int]:
    found: list[int] = []
    for step in range(steps):
        await asyncio.sleep(0)
        found.append(step)
    return found


async def fails_after(steps: int) -> None:
    await after(steps)
    raise KeyError(steps)


async def stubborn() -> str:
    """Takes being cancelled once for a reason to say something, after one more wait."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(0)
        return "still here"
    return "never"


def test_an_awaitable_without_a_wait_is_ready_at_once():
    async def task() -> None:
        polled = poll(at_once(7))
        assert isinstance(polled, Ready)
        assert polled == (7,)

    run(task)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_pending_awaitable_gives_its_result_when_awaited(steps: int):
    async def task() -> None:
        polled = poll(after(steps))
        assert not isinstance(polled, Ready)
        assert await polled == list(range(steps))

    run(task)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_error_is_raised_from_any_step(steps: int):
    async def task() -> None:
        with pytest.raises(KeyError):
            await within(10, fails_after(steps))

    run(task)


def test_a_time_limit_applies_only_when_there_is_a_wait():
    async def task() -> None:
        assert await within(0, at_once()) == 1
        with pytest.raises(TimeoutError):
            await within(0.01, asyncio.sleep(60))

    run(task)


def test_cancellation_reaches_the_inner_awaitable_which_may_continue():
    async def task() -> None:
        waiting = asyncio.create_task(within(60, stubborn()))
        await asyncio.sleep(0)
        waiting.cancel()
        assert await waiting == "still here"

    run(task)


def test_an_inner_asyncio_timeout_still_works():
    async def timed() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            return "in time"
        return "never"

    assert run(lambda: within(60, timed())) == "in time"


async def upto(timer: RunTimer, seconds: float, awaitable: Awaitable[Any]) -> None:
    """Wait for this for so many seconds at most."""
    wait = Wait(timer, "the agent")
    polled = wait.poll(awaitable)
    assert not isinstance(polled, Ready)
    await wait.finish(seconds, polled)


def test_a_wait_ends_by_its_limit_by_the_time_left_and_by_cancellation():
    async def task() -> None:
        timer = RunTimer()
        with pytest.raises(TimedOutError, match=r"Nothing came from the agent for 0\.01 seconds"):
            await upto(timer, 0.01, asyncio.sleep(60))
        timer.start(0.01)
        with pytest.raises(TimedOutError, match=r"The turn took longer than 0\.01 seconds"):
            await upto(timer, 60, asyncio.sleep(60))
        with pytest.raises(TimedOutError):
            await upto(timer, 60, asyncio.get_running_loop().create_future())
        timer = RunTimer()
        waiting = asyncio.create_task(upto(timer, 60, asyncio.sleep(60)))
        await asyncio.sleep(0)
        timer.cancel()
        with pytest.raises(TurnCancelledError):
            await waiting
        with pytest.raises(TurnCancelledError):
            await upto(timer, 60, asyncio.get_running_loop().create_future())
        timer.close()

    run(task)
