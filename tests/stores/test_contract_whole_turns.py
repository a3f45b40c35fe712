"""The contract of every store for turns that are stored when they are over: one test body for all of them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from accord.errors import StoreConflictError
from accord.ports import SessionStore, Store, WholeRun
from accord.stores.prepared import driver_of
from accord.stores.sqlite import SqliteStore
from accord.wire.session import PacketRecord, StoredState
from tests.stores.passing import let_pass
from tests.stores.records import a_receipt, a_session, a_turn, at, begun


def whole(request_id: str, previous: str | None, *packets: str, state: StoredState = StoredState.DONE) -> WholeRun:
    turn = a_turn(request_id, state=state, ended_at=at(3), last_seq=len(packets))
    return WholeRun(turn, a_receipt(request_id, previous), packets)


def hash_of(run: WholeRun) -> str:
    assert run.receipt is not None
    return run.receipt.hash


async def test_turns_that_are_over_are_stored_together_with_their_packets_and_receipts(store: SessionStore):
    first = whole("r1", None, "a", "b")
    second = whole("r2", hash_of(first), state=StoredState.FAILED)
    await store.add_turns(a_session(), [first, second])
    third = whole("r3", hash_of(second), "c")
    await store.add_turns(a_session(seconds=5), [third])
    assert [await store.turn(each.turn.request_id) for each in (first, second, third)] == [
        first.turn,
        second.turn,
        third.turn,
    ]
    assert await store.packets("r1", after_seq=0, limit=9) == [PacketRecord(1, "a"), PacketRecord(2, "b")]
    assert await store.receipts("s1") == [first.receipt, second.receipt, third.receipt]
    assert await store.receipt("r2") == second.receipt
    assert await store.last_receipt_hash("s1") == hash_of(third)
    session = await store.session("s1")
    assert session is not None
    assert (session.created_at, session.updated_at) == (at(0), at(5))


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([whole("r9", "0" * 64)], "do not follow"),
        ([whole("r2", None), whole("r3", None)], "do not follow"),
        ([whole("r1", None)], "stored already"),
        ([WholeRun(whole("r2", None).turn, a_receipt("r3", None))], "not of this turn"),
        ([WholeRun(replace(whole("r2", None).turn, owner="eve"), a_receipt("r2", None))], "not of this session"),
    ],
)
async def test_turns_that_contradict_what_is_stored_are_a_conflict_and_nothing_is_written(
    store: SessionStore, turns: list[WholeRun], reason: str
):
    await begun(store, "r1")
    with pytest.raises(StoreConflictError, match=reason):
        await store.add_turns(a_session(), turns)
    assert await store.receipts("s1") == []
    assert await store.turn("r2") is None


async def test_a_run_is_stored_as_running_and_then_as_it_ended(store: SessionStore):
    running = WholeRun(a_turn("r1", runner="me"))
    await store.add_turns(a_session(), [whole("r0", None), running])
    assert await store.running("me") == [running.turn]
    assert await store.receipt("r1") is None
    ended = replace(whole("r1", await store.last_receipt_hash("s1"), "a"), runner="me")
    await store.add_turns(a_session(), [ended])
    assert (await store.turn("r1"), await store.receipt("r1")) == (ended.turn, ended.receipt)
    assert await store.packets("r1", after_seq=0, limit=9) == [PacketRecord(1, "a")]
    assert len(await store.receipts("s1")) == 2


@pytest.mark.parametrize("by", ["", "another"])
async def test_a_run_of_another_process_is_not_replaced(store: SessionStore, by: str):
    running = WholeRun(a_turn("r1", runner="me"))
    await store.add_turns(a_session(), [running])
    with pytest.raises(StoreConflictError, match="stored already"):
        await store.add_turns(a_session(), [replace(whole("r1", None), runner=by)])
    assert await store.turn("r1") == running.turn


async def test_a_running_run_of_a_silent_process_is_ended_by_another_one(store: Store):
    await store.add_turns(a_session(), [WholeRun(a_turn("r1", runner="dead"))])
    await let_pass(store, 1)
    (left,) = await store.abandoned(0, runner="me", limit=9)
    claimed = await store.take_over(left, 0, runner="me")
    assert claimed is not None
    with pytest.raises(StoreConflictError, match="stored already"):
        await store.add_turns(a_session(), [replace(whole("r1", None), runner="dead")])


async def test_a_session_of_another_owner_takes_no_turns(store: SessionStore):
    await begun(store, "r1", owner="eve")
    with pytest.raises(StoreConflictError, match="another owner"):
        await store.add_turns(a_session(), [whole("r2", None)])


async def test_whole_turns_are_deleted_with_their_user(store: Store):
    await store.add_turns(a_session(), [whole("r1", None, "a")])
    counts = await store.delete_user("ada")
    assert (counts.sessions, counts.turns, counts.packets, counts.receipts) == (1, 1, 1, 1)
    assert await store.turn("r1") is None


async def test_many_turns_take_as_many_statements_as_one(tmp_path: Path):
    """The driver waits for the interpreter's lock after every row: a busy service would store less than it makes."""

    async def statements(count: int) -> list[str]:
        store = SqliteStore(tmp_path / f"{count}.db")
        await store.open()
        seen: list[str] = []
        await store.write(lambda connection: driver_of(connection).set_trace_callback(seen.append))
        turns, previous = list[WholeRun](), None
        for number in range(count):
            turns.append(whole(f"r{number}", previous, "a", "b"))
            previous = hash_of(turns[-1])
        await store.add_turns(a_session(), turns)
        await store.write(lambda connection: driver_of(connection).set_trace_callback(None))
        stored = await store.receipts("s1")
        await store.close()
        assert stored == [each.receipt for each in turns]
        return [each.split("(")[0] for each in seen]

    assert await statements(100) == await statements(1)
