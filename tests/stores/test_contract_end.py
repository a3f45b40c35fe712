"""What every store keeps to when a turn ends and when things are forgotten: one test body for all of them."""

import asyncio

import pytest

from accord.errors import StoreConflictError
from accord.ports import Append, SessionStore
from accord.stores import sql
from accord.wire.session import Erased, PacketRecord, ReceiptRecord, TurnState
from tests.stores.records import a_receipt, a_session, a_turn, at, begun, ending, put, said


def numbered(first: int, *bodies: str) -> list[PacketRecord]:
    return [PacketRecord(seq=seq, body=body) for seq, body in enumerate(bodies, start=first)]


@pytest.mark.parametrize("state", [TurnState.DONE, TurnState.FAILED, TurnState.CANCELLED])
async def test_a_turn_ends_once_with_its_last_packets_messages_and_receipt(store: SessionStore, state: TurnState):
    await begun(store)
    await store.append_packets(Append("r1", 1, ["a"]))
    receipt, last = a_receipt("r1", None), Append("r1", 2, ["b", "c"])
    assert await store.end_turn(ending(last, state, 3, messages=said("hi", "ho"), receipt=receipt))
    assert await store.turn("r1") == a_turn(state=state, ended_at=at(3), last_seq=3)
    assert await store.packets("r1", after_seq=0, limit=10) == numbered(1, "a", "b", "c")
    assert await store.history("s1", limit=10) == said("hi", "ho")
    assert await store.receipt("r1") == receipt
    assert await store.last_receipt_hash("s1") == receipt.hash
    with pytest.raises(StoreConflictError, match="not running"):
        await store.end_turn(ending(messages=said("again")))
    assert await store.history("s1", limit=10) == said("hi", "ho")


async def test_an_unknown_turn_cannot_end(store: SessionStore):
    with pytest.raises(StoreConflictError, match="not running"):
        await store.end_turn(ending())


async def test_the_history_is_the_last_messages_oldest_first(store: SessionStore):
    for number in range(3):
        await begun(store, f"r{number}")
        await store.end_turn(ending(f"r{number}", messages=said(f"q{number}", f"a{number}")))
    assert await store.history("s1", limit=3) == said("a1", "q2", "a2")
    assert await store.history("s1", limit=0) == []


# What an end that fails would have left, all of it at once.
LEFT = Append("r2", 2, ["lost?"], {"i1": "lost?"})


async def nothing_was_left(store: SessionStore) -> None:
    assert await store.turn("r2") == a_turn("r2", last_seq=1)
    assert await store.packets("r2", after_seq=0, limit=10) == numbered(1, "a")
    assert await store.item("r2", "i1") is None
    assert await store.history("s1", limit=10) == []
    assert await store.receipt("r2") is None
    assert (await store.session("s1") or a_session()).updated_at == at(0)


@pytest.mark.parametrize("first_seq", [0, 1, 3], ids=lambda seq: f"seq{seq}")
async def test_an_end_whose_packets_do_not_follow_writes_nothing(store: SessionStore, first_seq: int):
    await begun(store, "r2")
    await store.append_packets(Append("r2", 1, ["a"]))
    wrong = Append("r2", first_seq, LEFT.packets, LEFT.items)
    with pytest.raises(StoreConflictError, match="do not follow"):
        await store.end_turn(ending(wrong, messages=said("lost?"), receipt=a_receipt("r2", None)))
    await nothing_was_left(store)


async def test_an_end_whose_receipt_does_not_follow_the_last_one_is_told_and_writes_nothing(store: SessionStore):
    await begun(store, "r1")
    await begun(store, "r2")
    await store.append_packets(Append("r2", 1, ["a"]))
    first = a_receipt("r1", None)
    assert await store.end_turn(ending("r1", seconds=0, receipt=first))
    assert not await store.end_turn(ending(LEFT, messages=said("lost?"), receipt=a_receipt("r2", None)))
    await nothing_was_left(store)
    second = a_receipt("r2", first.hash)
    assert await store.end_turn(ending(LEFT, receipt=second))
    assert await store.receipts("s1") == [first, second]


@pytest.mark.parametrize("receipt", [a_receipt("r1", None), a_receipt("r2", None, "s2")], ids=["turn", "session"])
async def test_a_turn_cannot_end_with_the_receipt_of_another(store: SessionStore, receipt: ReceiptRecord):
    await begun(store, "r2")
    await store.append_packets(Append("r2", 1, ["a"]))
    with pytest.raises(StoreConflictError, match="not of this turn"):
        await store.end_turn(ending(LEFT, messages=said("lost?"), receipt=receipt))
    await nothing_was_left(store)


async def test_turns_that_end_at_once_make_one_chain(store: SessionStore):
    async def end(request_id: str) -> None:
        while True:
            sealed = a_receipt(request_id, await store.last_receipt_hash("s1"))
            if await store.end_turn(ending(request_id, receipt=sealed)):
                return

    names = [f"r{number}" for number in range(6)]
    for name in names:
        await begun(store, name)
    await asyncio.gather(*map(end, names))
    chain = await store.receipts("s1")
    assert sorted(receipt.request_id for receipt in chain) == names
    assert [receipt.previous_hash for receipt in chain] == [None, *(receipt.hash for receipt in chain[:-1])]


# Forgetting


async def test_deleting_a_user_deletes_everything_of_theirs_and_nothing_else(store: SessionStore):
    for owner, session_id, request_id in [("ada", "s1", "r1"), ("ada", "s2", "r2"), ("eve", "s3", "r3")]:
        await begun(store, request_id, session_id, owner=owner)
        await store.append_packets(Append(request_id, 1, ["a", "b", "c"], {"i1": "an item"}))
        receipt = a_receipt(request_id, None, session_id)
        await store.end_turn(ending(request_id, messages=said("x", "y"), receipt=receipt))
    assert await store.delete_user("ada") == Erased(sessions=2, turns=2, packets=6, messages=4, receipts=2)
    assert await store.delete_user("ada") == Erased()
    assert await store.sessions("ada", limit=10) == []
    for session_id, request_id in [("s1", "r1"), ("s2", "r2")]:
        assert await store.session(session_id) is None
        assert await store.turn(request_id) is None
        assert await store.receipt(request_id) is None
        assert await store.packets(request_id, after_seq=0, limit=10) == []
        assert await store.item(request_id, "i1") is None
    assert await store.item("r3", "i1") == "an item"
    assert len(await store.packets("r3", after_seq=0, limit=10)) == 3
    assert await store.history("s3", limit=10) == said("x", "y")


async def test_a_deleted_users_running_turn_cannot_bring_anything_back(store: SessionStore):
    await begun(store)
    await store.delete_user("ada")
    with pytest.raises(StoreConflictError):
        await store.append_packets(Append("r1", 1, ["late"]))
    with pytest.raises(StoreConflictError):
        await store.end_turn(ending(messages=said("late")))
    assert await store.packets("r1", after_seq=0, limit=10) == []


async def test_only_sessions_that_nothing_has_happened_in_expire(store: SessionStore):
    for number in range(3):
        await put(store, a_session(f"s{number}", seconds=number))
    await put(store, a_session("s0", updated_at=at(10)), "r1")
    assert await store.expire(at(2)) == Erased(sessions=1, turns=1)
    assert [session.session_id for session in await store.sessions("ada", limit=10)] == ["s2", "s0"]


async def test_deleting_in_several_steps_is_complete(store: SessionStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sql, "ERASE_STEP", 3)
    for number in range(9):
        await put(store, a_session(f"s{number}"))
    assert await store.expire(at(1)) == Erased(sessions=9, turns=9)
