"""Stored turns: repeated, replayed, chained, and ended whatever happens."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause, ScriptedBackend, ScriptedFault
from accord.core.receipt import verify
from accord.errors import ErrorSeverity, InvalidMessageError, RefusedError
from accord.ports import PacketBatch, RunEnd, SessionStore
from accord.run import Dispatcher, Engine, Run, Sessions
from accord.run.endings import INTERRUPTED
from accord.run.record import record_request
from accord.run.rules import SessionRules
from accord.run.run import AHEAD
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, StreamError, StreamPacket
from accord.wire.request import Identity, ServiceRequest, SessionContext
from accord.wire.session import PacketRecord, RunRecord, SessionRecord, StoredState
from tests.run.playing import read_turn, respond, stream
from tests.stores.passing import let_pass
from tests.stores.test_contract_liveness import beat

STREAMS = {"streaming": "native"}


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    yield f"{len(turn.history)} before. "
    async for text in turn.ask():
        yield text


def request(number: int = 1, query: str = "hi", user: str = "u", session: str = "s", **payload: Any) -> ServiceRequest:
    return ServiceRequest.model_validate(
        {
            "request_id": str(UUID(int=number)),
            "context": {"session_id": session, "user": {"id": user, "name": "U"}},
            "payload": {"query": query, **payload},
        }
    )


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "accord.db")


def sessions(store: SessionStore, *script: Any, **rules: Any) -> tuple[Sessions, ScriptedBackend]:
    backend = ScriptedBackend("a", [list(script)], STREAMS)
    return Sessions(Engine(Agent(relay), Dispatcher([backend])), store, SessionRules(**rules)), backend


def within(store: SessionStore, task: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        await store.open()
        try:
            return await asyncio.wait_for(task(), 30)
        finally:
            await store.close()

    return asyncio.run(bounded())


async def read(made: Sessions, asked: ServiceRequest) -> list[PacketRecord]:
    return [kept async for kept in stream(made, asked)]


def text_of(kept: list[PacketRecord]) -> str:
    packets = [StreamPacket.parse(record.body) for record in kept]
    return "".join(packet.p for packet in packets if packet.op == "delta")


def test_a_turn_is_stored_packet_by_packet_and_ended_with_its_receipt(store: SessionStore):
    made, _ = sessions(store, "Hel", "lo")

    async def run() -> None:
        kept = await read(made, request())
        assert text_of(kept) == "0 before. Hello"
        assert [record.seq for record in kept] == list(range(1, len(kept) + 1))
        turn = await store.turn(str(UUID(int=1)))
        assert turn is not None
        assert turn.state is StoredState.DONE
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
    [(request(1, "something else"), "request_conflict"), (request(1, user="mallory"), "not_found")],
)
def test_another_request_under_the_same_id_is_refused(store: SessionStore, other: ServiceRequest, code: str):
    made, _ = sessions(store, "once")

    async def run() -> None:
        await read(made, request())
        with pytest.raises(RefusedError) as caught:
            await read(made, other)
        assert caught.value.code == code

    within(store, run)


@pytest.mark.parametrize(("session", "user"), [("", "u"), ("s", ""), ("a\0b", "u"), ("s", "x" * 513)])
def test_a_request_without_a_user_or_session_is_refused(store: SessionStore, session: str, user: str):
    made, _ = sessions(store, "never")
    asked = request().model_copy(
        update={"context": SessionContext(session_id=session, user=Identity(id=user, name="U"))}
    )

    async def run() -> None:
        with pytest.raises(InvalidMessageError, match="1 to 512 characters"):
            await made.begin(asked)

    within(store, run)


def test_the_next_turn_gets_the_history_and_its_receipt_follows(store: SessionStore):
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


def test_what_a_client_declared_does_not_last_for_the_session(store: SessionStore):
    made, _ = sessions(store, "**bold**")

    async def run() -> None:
        await read(made, request(1, capabilities={"supported_events": [], "prefers_markdown": False}))
        assert text_of(await read(made, request(2))).endswith("**bold**")

    within(store, run)


def test_a_failed_turn_is_stored_with_its_reason(store: SessionStore):
    made, _ = sessions(store, "so far", ScriptedFault("gone"))

    async def run() -> None:
        kept = await read(made, request())
        assert [StreamPacket.parse(record.body).op for record in kept] == ["delta", "delta", "error", "close"]
        receipt = await store.receipt(str(UUID(int=1)))
        assert receipt is not None
        assert json.loads(receipt.body)["outcome"]["code"] == "backend_failed"

    within(store, run)


@pytest.mark.parametrize(("unread_s", "state"), [(None, StoredState.DONE), (0, StoredState.CANCELLED)])
def test_a_turn_without_readers_goes_on_or_stops_as_configured(
    store: SessionStore, unread_s: float | None, state: StoredState
):
    made, backend = sessions(store, "one", Pause(0.05), "two", stop_unread_after_s=unread_s)

    async def run() -> None:
        turn = await made.begin(request())
        packets = read_turn(turn)
        await anext(packets)
        await packets.aclose()
        await made.drain(20)
        kept = await store.turn(turn.request_id)
        assert kept is not None
        assert kept.state is state
        assert backend.closed == 1

    within(store, run)


def test_a_stream_is_resumed_after_any_packet_while_it_runs_and_afterwards(store: SessionStore):
    made, backend = sessions(store, *["word ", Pause(0.001)] * 20)

    async def run() -> None:
        turn = await made.begin(request())
        whole = [kept async for kept in read_turn(turn)]
        for kept in whole:
            again = await made.find(turn.request_id, "u")
            assert again is not None
            assert [rest async for rest in read_turn(again, kept.seq)] == whole[kept.seq :]
        assert len(backend.orders) == 1

    within(store, run)


def test_several_read_one_running_turn_each_from_where_it_was(store: SessionStore):
    made, _ = sessions(store, *["word ", Pause(0.001)] * 200)

    async def run() -> None:
        turn = await made.begin(request())

        async def reading(after: int) -> list[PacketRecord]:
            return [kept async for kept in read_turn(turn, after)]

        whole, *rest = await asyncio.gather(*(reading(after) for after in (0, 3, 150, 201)))
        assert len(whole) == 202
        assert rest == [whole[3:], whole[150:], whole[201:]]

    within(store, run)


def test_a_reader_far_behind_is_given_the_rest_from_the_store(store: SessionStore):
    made, _ = sessions(store, *["word ", Pause(0.0)] * 400)

    async def run() -> None:
        turn = await made.begin(request())
        slow = read_turn(turn)
        first = await anext(slow)
        quick = [kept async for kept in read_turn(turn)]
        assert [first] + [kept async for kept in slow] == quick

    within(store, run)


def test_a_turn_does_not_run_far_ahead_of_its_readers(store: SessionStore):
    made, _ = sessions(store, *["word ", Pause(0.0)] * 1_000)

    async def run() -> None:
        turn = await made.begin(request())
        assert isinstance(turn, Run)
        packets = read_turn(turn)
        await anext(packets)
        await asyncio.wait([turn.task], timeout=0.2)
        record = await store.turn(turn.request_id)
        assert record is not None
        assert record.last_seq <= 1 + AHEAD
        assert len([kept async for kept in packets]) == 1_001

    within(store, run)


def test_a_turn_is_cancelled_for_all_its_readers_and_closed_properly(store: SessionStore):
    made, backend = sessions(store, "one", Pause(60))

    async def run() -> None:
        turn = await made.begin(request())
        assert isinstance(turn, Run)
        packets = read_turn(turn)
        seen = [await anext(packets)]
        turn.cancel()
        seen += [kept async for kept in packets]
        assert [StreamPacket.parse(kept.body).op for kept in seen][-2:] == ["error", "close"]
        assert backend.closed == 1
        assert await read(made, request()) == seen

    within(store, run)


def test_one_more_turn_than_may_run_at_once_is_refused_and_says_so(store: SessionStore):
    made, _ = sessions(store, "one", Pause(60), concurrent_turns=1)

    async def run() -> None:
        first = await made.begin(request(1))
        assert await made.begin(request(1)) is first
        with pytest.raises(RefusedError, match="Too many turns are running") as caught:
            await made.begin(request(2))
        assert caught.value.code == "unavailable"
        await made.drain(0)

    within(store, run)


def test_a_session_keeps_what_was_negotiated_last(store: SessionStore):
    made, _ = sessions(store, "ok")

    async def run() -> None:
        await read(made, request(1))
        await read(made, request(2, capabilities={"supported_events": ["CITATION_BLOCK"], "prefers_markdown": False}))
        kept = await store.session("s")
        assert kept is not None
        assert kept.negotiated == {
            "content": ["text", "resource_link"],
            "client": {"events": ["citation_block"], "text": "plain", "images": None, "assumed": []},
        }

    within(store, run)


def test_a_deferred_event_can_be_fetched_by_the_id_of_its_notice(store: SessionStore):
    async def show(turn: Turn) -> AsyncIterator[Yielded]:
        yield "Look.\n\n"
        yield turn.event("floor_plan", {"rooms": 3})

    made = Sessions(Engine(Agent(show), Dispatcher([])), store)

    async def run() -> None:
        turn = await made.begin(request(capabilities={"supported_events": [], "prefers_markdown": True}))
        assert isinstance(turn, Run)
        _ = [kept async for kept in read_turn(turn)]
        (item_id,) = turn.view.adapter.deferred
        item = await made.item(turn.request_id, item_id)
        assert item is not None
        assert item["data"] == {"rooms": 3}
        assert await made.item(turn.request_id, "another") is None

    within(store, run)


def test_a_repeated_request_gets_the_same_answer(store: SessionStore):
    made, _ = sessions(store, "Hello")

    async def run() -> None:
        first, second = await respond(made, request()), await respond(made, request())
        assert first == second
        assert first.output == {"text": "0 before. Hello"}

    within(store, run)


def test_turns_of_one_session_that_end_at_once_make_one_chain(store: SessionStore):
    made, _ = sessions(store, "ok")

    async def run() -> None:
        await asyncio.gather(*(read(made, request(number)) for number in range(1, 9)))
        receipts = [json.loads(record.body) for record in await store.receipts("s")]
        assert len(receipts) == 8
        assert verify(receipts).ok

    within(store, run)


def test_a_turn_that_a_dead_process_left_is_ended_with_a_receipt_and_its_packets_stay(store: SessionStore):
    made, backend = sessions(store, "never", lease_s=15)

    async def run() -> None:
        left = await leave(store)
        alive = await leave(store, number=2, runner="alive")
        await let_pass(store, 16)
        await beat(store, "alive")
        assert await made.recover() == 1
        assert await made.recover() == 0
        packets = [StreamPacket.parse(kept.body) for kept in await read(made, request())]
        assert [packet.op for packet in packets] == ["delta", "error", "close"]
        assert (packets[1].p.message, packets[1].p.severity) == (INTERRUPTED, "transient")
        assert (await made.receipt(left.request_id)).outcome.message == INTERRUPTED
        running = await store.turn(alive.request_id)
        assert running is not None
        assert running.state is StoredState.RUNNING
        assert backend.orders == []

    within(store, run)


def test_a_turn_of_another_process_is_read_along_to_its_end(store: SessionStore):
    made, _ = sessions(store, "never")

    async def run() -> None:
        left = await leave(store)
        turn = await made.begin(request())
        packets = read_turn(turn)
        assert (await anext(packets)).seq == 1
        await store.end_turn(
            RunEnd(PacketBatch(left.request_id, 2, [ClosePacket().to_json()]), StoredState.DONE, left.created_at)
        )
        assert [kept.seq async for kept in packets] == [2]

    within(store, run)


def test_a_request_that_another_process_is_about_to_refuse_is_refused_here_as_well(store: SessionStore):
    made, backend = sessions(store, "never")
    asked = request(content=[{"type": "image", "data": "aGk=", "mimeType": "image/png"}])

    async def run() -> None:
        left = await leave(store, asked, packets=[])
        waiting = asyncio.create_task(made.begin(asked))
        error = ErrorPacket(
            p=StreamError(code="content_unsupported", message="No images", severity=ErrorSeverity.FATAL)
        )
        last = PacketBatch(left.request_id, 1, [error.to_json(), ClosePacket().to_json()])
        assert (await asyncio.wait([waiting], timeout=0.05))[1] == {waiting}
        await store.end_turn(RunEnd(last, StoredState.REFUSED, left.created_at))
        with pytest.raises(RefusedError, match="No images"):
            await waiting
        assert backend.orders == []

    within(store, run)


def test_nobody_waits_for_a_turn_of_another_user(store: SessionStore):
    made, _ = sessions(store, "never")
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

    async def run() -> None:
        await leave(store, request(user="ann"))
        with pytest.raises(RefusedError, match="no such request"):
            await asyncio.wait_for(made.begin(request(user="u", session="t", content=[image])), 5)

    within(store, run)


SO_FAR = [DeltaPacket(p="so far").to_json()]


async def leave(
    store: SessionStore,
    asked: ServiceRequest | None = None,
    *,
    number: int = 1,
    runner: str = "other",
    packets: list[str] = SO_FAR,
) -> RunRecord:
    """A turn that another process has begun and said something in."""
    asked, when = asked or request(number), datetime.now(UTC)
    owner = asked.context.user.id
    session = SessionRecord(session_id="s", owner=owner, agent="relay", created_at=when, updated_at=when)
    left = RunRecord(
        request_id=str(asked.request_id),
        session_id="s",
        owner=owner,
        runner=runner,
        request_digest=record_request(asked.payload)["digest"],
        created_at=when,
    )
    await store.begin_turn(session, left, history=0)
    if packets:
        await store.append_packets(PacketBatch(left.request_id, 1, packets))
    return left
