"""A turn that a stopping worker gives back: the next one continues it, and clients see nothing of the change."""

import json
from collections.abc import Callable

import pytest

from accord.backends.scripted import ScriptedBackend
from accord.queues.postgres import ChannelWorkQueue, PostgresChannel
from accord.run import Dispatcher, Engine, Links, Sessions
from accord.run.packet_log import StoreLog
from accord.stores.postgres import PostgresStore
from accord.wire.request import ServiceRequest
from tests.queues.agents import safe
from tests.queues.fleet import Place, bounded, numbers, request

WORKERS = 6


def test_a_turn_that_is_given_back_again_and_again_has_no_error_in_its_stream(
    new_place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
):
    place = new_place("postgres")
    monkeypatch.setenv("ACCORD_TEST_RUNS", str(place.runs_file))
    made = [ServiceRequest.model_validate(request("count 40 2")) for _ in range(10)]

    async def work(store: PostgresStore, channel: PostgresChannel, *, stops: bool) -> None:
        """Run all turns that wait; with `stops`, give them back at once when all have begun."""
        engine = Engine(safe, Dispatcher([ScriptedBackend("a", [["unused"]], {"streaming": "native"})]))
        links = Links(channel, StoreLog(store, channel), ChannelWorkQueue(channel))
        sessions = Sessions(engine, store, links=links)
        while claimed := await sessions.claim(["safe"]):
            await sessions.run_claimed(claimed)
        await sessions.drain(0.02 if stops else 20)

    async def run() -> None:
        store, channel = PostgresStore(place.database), PostgresChannel(place.database)
        await store.open()
        await channel.open()
        engine = Engine(safe, Dispatcher([ScriptedBackend("a", [["unused"]], {"streaming": "native"})]))
        server = Sessions(engine, store, links=Links(channel, StoreLog(store, channel), ChannelWorkQueue(channel)))
        for each in made:
            await server.begin(each)
        for _ in range(WORKERS):
            await work(store, channel, stops=True)
        await work(store, channel, stops=False)
        for each in made:
            found = await store.packets(str(each.request_id), after_seq=0, limit=1_000)
            packets = [json.loads(body) for _, body in found]
            assert [packet["op"] for packet in packets] == ["delta"] * (len(packets) - 1) + ["close"]
            assert "".join(packet["p"] for packet in packets[:-1]) == numbers(40)
        await server.drain(0)
        await channel.close()
        await store.close()

    bounded(run)
