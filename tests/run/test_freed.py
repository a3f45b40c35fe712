"""A turn that is over is freed at once: it leaves no reference cycles for the garbage collector."""

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accord.errors import AccordError
from accord.ports import SessionStore
from accord.run import Sessions
from tests.run.playing import read_turn, respond, stream
from tests.run.test_sessions import request, sessions, store, within

__all__ = ["store"]


async def as_a_whole(kept: Sessions, number: int) -> None:
    await respond(kept, request(number))


async def as_a_stream(kept: Sessions, number: int) -> None:
    assert [packet async for packet in stream(kept, request(number))]


async def broken_off(kept: Sessions, number: int) -> None:
    turn = await kept.begin(request(number))
    async for _ in read_turn(turn):
        break
    await kept.drain(0)


WAYS: list[Callable[[Sessions, int], Awaitable[Any]]] = [as_a_whole, as_a_stream, broken_off]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_turn_leaves_no_reference_cycles(store: SessionStore, way: Callable[[Sessions, int], Awaitable[Any]]) -> None:
    kept, _ = sessions(store, "A", "B")

    assert within(store, lambda: left_behind(lambda number: way(kept, number))) == []


async def left_behind(way: Callable[[int], Awaitable[Any]]) -> list[str]:
    """The kinds of our objects that wait for the collector when this was done a few times."""
    await way(1)  # what is made only once is made now
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for number in range(2, 5):
            await way(number)
        gc.collect()
        return sorted({type(left).__qualname__ for left in gc.garbage if _is_ours(left)})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _is_ours(left: object) -> bool:
    return type(left).__module__.startswith("accord") and not isinstance(left, AccordError)
