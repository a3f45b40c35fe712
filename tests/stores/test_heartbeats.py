"""Heartbeats: one thread for each store writes those of every name, each as long as it needs them."""

import asyncio
from threading import enumerate as threads

from sqlalchemy import Connection, select

from accord.stores.memory import MemoryStore
from accord.stores.schema import runners

SOON_S, NEVER_S = 0.01, 1_000.0


class Work:
    """Something that needs heartbeats until it is done."""

    is_running = True

    def needs_heartbeats(self) -> bool:
        return self.is_running


def names(connection: Connection) -> set[str]:
    return {name for (name,) in connection.execute(select(runners.c.runner))}


def thread_count() -> int:
    return sum(thread.name == "accord-heartbeat" for thread in threads())


async def until_written(store: MemoryStore, *expected: str) -> None:
    await store.write(lambda connection: connection.execute(runners.delete()))
    while await store.read(names) != {*expected}:  # noqa: ASYNC110 - the thread of the store writes them
        await asyncio.sleep(SOON_S)


async def until_threads(count: int) -> None:
    while thread_count() != count:  # noqa: ASYNC110 - a thread tells nobody that it ends
        await asyncio.sleep(SOON_S)


async def test_one_thread_writes_all_heartbeats_and_ends_with_the_last_that_is_needed():
    store, turns, slots = MemoryStore(), Work(), Work()
    await store.open()
    before = thread_count()
    store.heartbeats.start("turns", turns.needs_heartbeats, lease_s=NEVER_S)
    store.heartbeats.start("slots", slots.needs_heartbeats, lease_s=SOON_S)  # the shorter interval counts for both
    await until_written(store, "turns", "slots")
    await until_threads(before + 1)
    slots.is_running = False
    await until_written(store, "turns")
    slots.is_running = True
    store.heartbeats.start("slots", slots.needs_heartbeats, lease_s=SOON_S)
    await until_written(store, "turns", "slots")
    turns.is_running = False
    store.heartbeats.stop("slots")
    await until_threads(before)
    await store.close()


async def test_what_is_freed_needs_no_heartbeats():
    store, turns = MemoryStore(), Work()
    await store.open()
    before = thread_count()
    store.heartbeats.start("turns", turns.needs_heartbeats, lease_s=SOON_S)
    await until_written(store, "turns")
    del turns
    await until_threads(before)
    await store.close()
