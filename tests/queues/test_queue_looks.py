"""A worker finds waiting turns of which no message tells: when it starts, and when it has room again."""

import asyncio
from collections.abc import Callable

import pytest

from accord.backends.scripted import ScriptedBackend
from accord.config import ServerConfig
from accord.queues.postgres import ChannelWorkQueue, PostgresChannel
from accord.run import Dispatcher, Engine, Links, Sessions
from accord.run.packet_log import StoreLog
from accord.servers.queue import worker
from accord.stores.postgres import PostgresStore
from accord.wire.request import ServiceRequest
from tests.queues.agents import safe
from tests.queues.fleet import Place, bounded, request


def test_a_worker_with_room_for_one_runs_all_that_wait_without_another_message(
    new_place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
):
    place = new_place("postgres")
    monkeypatch.setenv("ACCORD_TEST_RUNS", str(place.runs_file))
    monkeypatch.setattr(worker, "LOOK_EVERY_S", 1_000.0)  # otherwise it would find them with its next look

    async def run() -> None:
        store, channel = PostgresStore(place.database), PostgresChannel(place.database)
        await store.open()
        await channel.open()
        queue = ChannelWorkQueue(channel)
        engine = Engine(safe, Dispatcher([ScriptedBackend("a", [["unused"]], {"streaming": "native"})]))
        sessions = Sessions(engine, store, links=Links(channel, StoreLog(store, channel), queue))
        for _ in range(4):
            await sessions.begin(ServiceRequest.model_validate(request("count 2 1")))
        await queue.receive(["safe"], limit=1, timeout_s=5)  # the messages are gone
        await asyncio.sleep(0.1)
        await queue.receive(["safe"], limit=1, timeout_s=0.1)
        working = worker.Worker(sessions, queue, ServerConfig(), turns=1)
        task = asyncio.create_task(working.run())
        async with asyncio.timeout(20):
            while sum(place.runs().values()) < 4 or (await store.waiting()).total or sessions.running:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        working.stop()
        await task
        await working.drain(5)
        await channel.close()
        await store.close()

    bounded(run)
