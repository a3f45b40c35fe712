"""Turns that are remembered: repeated, replayed, chained, and ended whatever happens."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Fault, Pause, ScriptedBackend
from accord.core.seal import verify
from accord.engine import Dispatcher, Engine, Sessions
from accord.engine.sessions import INTERRUPTED
from accord.errors import RefusedError
from accord.ports import SessionStore
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.packet import DeltaPacket, StreamPacket
from accord.wire.request import ServiceRequest
from accord.wire.session import PacketRecord, SessionRecord, TurnState

STREAMS = {"streaming": "native"}


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    yield f"{len(turn.history)} before. "
    async for text in turn.ask():
        yield text


def request(number: int = 1, query: str = "hi", user: str = "u", **payload: Any) -> ServiceRequest:
    return ServiceRequest.model_validate(
        {
            "request_id": str(UUID(int=number)),
            "context": {"session_id": "s", "user": {"id": user, "name": "U"}},
            "payload": {"query": query, **payload},
        }
    )


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "accord.db")


def sessions(store: SessionStore, *script: Any) -> tuple[Sessions, ScriptedBackend]:
    backend = ScriptedBackend("a", [list(script)], STREAMS)
    return Sessions(Engine(Agent(relay), Dispatcher([backend])), store), backend


def within(store: SessionStore, task: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        await store.open()
        try:
            return await asyncio.wait_for(task(), 30)
        finally:
            await store.close()

    return asyncio.run(bounded())


async def read(made: Sessions, asked: ServiceRequest) -> list[PacketRecord]:
    return [kept async for kept in made.packets(asked)]


def text_of(kept: list[PacketRecord]) -> str:
    packets = [StreamPacket.parse(record.body) for record in kept]
    return "".join(packet.p for packet in packets if packet.op == "delta")


def test_a_turn_is_kept_packet_by_packet_and_ended_with_its_receipt(store: SessionStore):
    made, _ = sessions(store, "Hel", "lo")

    async def run() -> None:
        kept = await read(made, request())
        assert text_of(kept) == "0 before. Hello"
        assert [record.seq for record in kept] == list(range(1, len(kept) + 1))
        turn = await store.turn(str(UUID(int=1)))
        assert turn is not None
        assert turn.state is TurnState.DONE
        assert [record.body for record in await store.packets(turn.request_id, after_seq=0, limit=99)] == [
            record.body for record in kept
        ]
        receipt = await store.receipt(turn.request_id)
        assert receipt is not None
        told = json.loads(receipt.body)
        assert told["outcome"] == {"status": "done"}
        assert told["work"][0]["backend"]["name"] == "a"
        assert sum(told["adaptation"]["totals"].values()) == len(kept)

    within(store, run)


def test_a_repeated_request_is_answered_again_and_never_run_twice(store: SessionStore):
    made, backend = sessions(store, "once")

    async def run() -> None:
        first, second = await read(made, request()), await read(made, request())
        assert first == second
        assert len(backend.orders) == 1

    within(store, run)


@pytest.mark.parametrize(
    ("other", "code"),
    [(request(1, "something else"), "request_conflict"), (request(1, user="mallory"), "forbidden")],
)
def test_another_request_under_the_same_id_is_refused(store: SessionStore, other: ServiceRequest, code: str):
    made, _ = sessions(store, "once")

    async def run() -> None:
        await read(made, request())
        with pytest.raises(RefusedError) as caught:
            await read(made, other)
        assert caught.value.code == code

    within(store, run)


def test_the_next_turn_knows_what_was_said_and_its_receipt_follows(store: SessionStore):
    made, backend = sessions(store, "ok")

    async def run() -> None:
        await read(made, request(1, "first"))
        assert text_of(await read(made, request(2, "second"))).startswith("2 before.")
        said = [part.dump()["text"] for message in backend.orders[1].conversation.messages for part in message.content]
        assert said == ["first", "0 before. ok", "second"]
        receipts = [json.loads(record.body) for record in await store.receipts("s")]
        assert receipts[1]["previous"] == receipts[0]["hash"]
        assert verify(receipts).ok

    within(store, run)


def test_what_a_client_declared_lasts_for_the_session(store: SessionStore):
    made, _ = sessions(store, "**bold**")

    async def run() -> None:
        await read(made, request(1, capabilities={"supported_events": [], "prefers_markdown": False}))
        assert text_of(await read(made, request(2))).endswith("bold")

    within(store, run)


def test_a_failed_turn_is_kept_with_its_reason(store: SessionStore):
    made, _ = sessions(store, "so far", Fault("gone"))

    async def run() -> None:
        kept = await read(made, request())
        assert [StreamPacket.parse(record.body).op for record in kept] == ["delta", "delta", "error", "close"]
        receipt = await store.receipt(str(UUID(int=1)))
        assert receipt is not None
        assert json.loads(receipt.body)["outcome"]["code"] == "backend_failed"

    within(store, run)


def test_a_reader_that_goes_away_leaves_an_ended_turn(store: SessionStore):
    made, backend = sessions(store, "one", Pause(60))

    async def run() -> None:
        packets = made.packets(request())
        await anext(packets)
        await packets.aclose()
        turn = await store.turn(str(UUID(int=1)))
        assert turn is not None
        assert turn.state is TurnState.CANCELLED
        assert backend.closed == 1

    within(store, run)


def test_turns_of_one_session_that_end_at_once_make_one_chain(store: SessionStore):
    made, _ = sessions(store, "ok")

    async def run() -> None:
        await asyncio.gather(*(read(made, request(number)) for number in range(1, 9)))
        receipts = [json.loads(record.body) for record in await store.receipts("s")]
        assert len(receipts) == 8
        assert verify(receipts).ok

    within(store, run)


def test_a_turn_that_a_killed_process_left_is_ended_and_its_packets_stay(store: SessionStore):
    made, backend = sessions(store, "never")

    async def run() -> None:
        now = made.engine.clock.now()
        await store.put_session(SessionRecord(session_id="s", owner="u", agent="relay", created_at=now, updated_at=now))
        left = made.record(request()).model_copy(update={"created_at": now - timedelta(minutes=1)})
        await store.begin_turn(left)
        await store.append_packets(left.request_id, 1, [DeltaPacket(p="so far").to_json()])
        assert await made.recover() == 1
        assert await made.recover() == 0
        packets = [StreamPacket.parse(kept.body) for kept in await read(made, request())]
        assert [packet.op for packet in packets] == ["delta", "error", "close"]
        assert (packets[1].p.message, packets[1].p.severity) == (INTERRUPTED, "transient")
        assert backend.orders == []

    within(store, run)
