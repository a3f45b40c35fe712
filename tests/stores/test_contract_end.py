"""The contract of every store for the end of turns and for deletion: one test body for all of them."""

import asyncio
from collections.abc import Callable

import pytest

from accord.errors import ErrorCode, RefusedError, StoreConflictError
from accord.ports import PacketBatch, RunStart, SessionStore, Store
from accord.stores import erase
from accord.stores.memory import MemoryStore
from accord.stores.sql import SqlStore
from accord.wire.session import DeletionCounts, PacketRecord, ReceiptRecord, StoredState
from tests.stores.records import a_receipt, a_session, a_turn, at, begun, ending, put, said


def numbered(first: int, *bodies: str) -> list[PacketRecord]:
    return [PacketRecord(seq=seq, body=body) for seq, body in enumerate(bodies, start=first)]


@pytest.mark.parametrize("state", [StoredState.DONE, StoredState.FAILED, StoredState.CANCELLED])
async def test_a_turn_ends_once_with_its_last_packets_messages_and_receipt(store: SessionStore, state: StoredState):
    await begun(store)
    await store.append_packets(PacketBatch("r1", 1, ["a"]))
    receipt, last = a_receipt("r1", None), PacketBatch("r1", 2, ["b", "c"])
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


async def say(
    store: SessionStore, number: int, session_id: str, conversation_id: str | None, *, owner: str = "ada"
) -> list[str]:
    """Run a turn that adds one message; returns the texts of the history that it was given."""
    session = a_session(session_id, owner=owner)
    turn = a_turn(f"r{number}", session_id, owner=owner, conversation_id=conversation_id)
    start = await store.begin_turn(session, turn, history=9)
    await store.end_turn(ending(turn.request_id, seconds=number, messages=said(f"m{number}")))
    return [message.content for message in start.history]


async def test_a_conversation_goes_on_in_any_session_of_its_user_and_in_no_other(store: SessionStore):
    assert await say(store, 1, "s1", "c") == []
    assert await say(store, 2, "s1", None) == []
    assert await say(store, 3, "s2", "c") == ["m1"]
    assert await say(store, 4, "s1", "c") == ["m1", "m3"]
    assert await say(store, 5, "s1", "other") == []
    assert await say(store, 6, "s1", None) == ["m2"]
    assert await say(store, 7, "s3", "c", owner="eve") == []
    assert await store.history("s1", limit=9) == said("m1", "m2", "m4", "m5", "m6")
    assert await store.delete_user("eve") == DeletionCounts(sessions=1, turns=1, messages=1)
    assert await say(store, 8, "s2", "c") == ["m1", "m3", "m4"]


async def test_the_history_of_a_conversation_is_its_last_messages_that_fit(store: SessionStore):
    for number in range(1, 6):
        await say(store, number, f"s{number % 2}", "c")
    size = len(said("m1")[0].to_json())
    for limit, max_bytes, texts in [(2, 9 * size, ["m4", "m5"]), (9, 3 * size, ["m3", "m4", "m5"]), (0, 9 * size, [])]:
        turn = a_turn(f"r{limit}{max_bytes}", "s9", conversation_id="c")
        start = await store.begin_turn(a_session("s9"), turn, history=limit, history_bytes=max_bytes)
        assert [message.content for message in start.history] == texts


async def test_a_deleted_session_takes_its_messages_out_of_every_conversation(store: SessionStore):
    await say(store, 1, "s1", "c")
    await store.begin_turn(a_session("s2", seconds=100), a_turn("r2", "s2", seconds=100), history=0)
    await store.expire(at(50))
    assert await say(store, 3, "s2", "c") == []


# What an end that fails would have left, all of it at once.
LEFT = PacketBatch("r2", 2, ["lost?"])


async def nothing_was_left(store: SessionStore) -> None:
    assert await store.turn("r2") == a_turn("r2", last_seq=1)
    assert await store.packets("r2", after_seq=0, limit=10) == numbered(1, "a")
    assert await store.history("s1", limit=10) == []
    assert await store.receipt("r2") is None
    assert (await store.session("s1") or a_session()).updated_at == at(0)


@pytest.mark.parametrize("first_seq", [0, 1, 3], ids=lambda seq: f"seq{seq}")
async def test_an_end_whose_packets_do_not_follow_writes_nothing(store: SessionStore, first_seq: int):
    await begun(store, "r2")
    await store.append_packets(PacketBatch("r2", 1, ["a"]))
    wrong = PacketBatch("r2", first_seq, LEFT.packets)
    with pytest.raises(StoreConflictError, match="do not follow"):
        await store.end_turn(ending(wrong, messages=said("lost?"), receipt=a_receipt("r2", None)))
    await nothing_was_left(store)


async def test_an_end_whose_receipt_does_not_follow_the_last_one_returns_false_and_writes_nothing(store: SessionStore):
    await begun(store, "r1")
    await begun(store, "r2")
    await store.append_packets(PacketBatch("r2", 1, ["a"]))
    first = a_receipt("r1", None)
    assert await store.end_turn(ending("r1", seconds=0, receipt=first))
    assert not await store.end_turn(ending(LEFT, messages=said("lost?"), receipt=a_receipt("r2", None)))
    await nothing_was_left(store)
    second = a_receipt("r2", first.hash)
    assert await store.end_turn(ending(LEFT, receipt=second))
    assert await store.receipts("s1") == [first, second]


async def test_a_chain_is_read_in_pages(store: SessionStore):
    chain: list[ReceiptRecord] = []
    for name in ("r1", "r2", "r3", "r4", "r5"):
        await begun(store, name)
        chain.append(a_receipt(name, chain[-1].hash if chain else None))
        assert await store.end_turn(ending(name, receipt=chain[-1]))
    pages = [await store.receipts("s1", after=after, limit=2) for after in (0, 2, 4, 6)]
    assert pages == [chain[:2], chain[2:4], chain[4:], []]
    assert await store.receipts("s1", after=3) == chain[3:]
    assert await store.receipts("other", after=0, limit=2) == []


@pytest.mark.parametrize("receipt", [a_receipt("r1", None), a_receipt("r2", None, "s2")], ids=["turn", "session"])
async def test_a_turn_cannot_end_with_the_receipt_of_another(store: SessionStore, receipt: ReceiptRecord):
    await begun(store, "r2")
    await store.append_packets(PacketBatch("r2", 1, ["a"]))
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
        await store.append_packets(PacketBatch(request_id, 1, ["a", "b", "c"]))
        receipt = a_receipt(request_id, None, session_id)
        await store.end_turn(ending(request_id, messages=said("x", "y"), receipt=receipt))
    assert await store.delete_user("ada") == DeletionCounts(sessions=2, turns=2, packets=6, messages=4, receipts=2)
    assert await store.delete_user("ada") == DeletionCounts()
    assert await store.sessions("ada", limit=10) == []
    for session_id, request_id in [("s1", "r1"), ("s2", "r2")]:
        assert await store.session(session_id) is None
        assert await store.turn(request_id) is None
        assert await store.receipt(request_id) is None
        assert await store.packets(request_id, after_seq=0, limit=10) == []
    assert len(await store.packets("r3", after_seq=0, limit=10)) == 3
    assert await store.history("s3", limit=10) == said("x", "y")


async def test_a_deleted_users_running_turn_cannot_bring_anything_back(store: SessionStore):
    await begun(store)
    await store.delete_user("ada")
    with pytest.raises(StoreConflictError):
        await store.append_packets(PacketBatch("r1", 1, ["late"]))
    with pytest.raises(StoreConflictError):
        await store.end_turn(ending(messages=said("late")))
    assert await store.packets("r1", after_seq=0, limit=10) == []


async def test_only_sessions_that_nothing_has_happened_in_expire(store: SessionStore):
    for number in range(3):
        await put(store, a_session(f"s{number}", seconds=number))
    await put(store, a_session("s0", updated_at=at(10)), "r1")
    assert await store.expire(at(2)) == DeletionCounts(sessions=1, turns=1)
    assert [session.session_id for session in await store.sessions("ada", limit=10)] == ["s2", "s0"]


async def test_deleting_in_several_steps_is_complete(store: SessionStore, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"HIDE_SESSIONS": 4, "CHUNK_ROWS": 5, "CHUNK_PARENTS": 2, "STEP_S": 0}.items():
        monkeypatch.setattr(erase, name, value)
    for number in range(9):
        await put(store, a_session(f"s{number}"), f"r{number}")
        packets = ["x"] * 3 if number else ["x"] * 23
        await store.end_turn(ending(PacketBatch(f"r{number}", 1, packets), messages=said("a", "b")))
    seen: list[DeletionCounts] = []
    whole = DeletionCounts(sessions=9, turns=9, packets=47, messages=18)
    assert await store.expire(at(3), progress=seen.append) == whole
    assert seen[-1:] in ([], [whole])  # a store of one step has nothing to say in between
    assert await store.expire(at(3)) == DeletionCounts()


async def test_a_session_that_is_being_deleted_is_gone_at_once_and_its_id_free_when_it_is_done(
    store: SessionStore, new_store: Callable[[], Store]
):
    assert isinstance(store, SqlStore)
    if isinstance(store, MemoryStore):
        pytest.skip("nothing else can open it")
    for request_id, chain in [("r1", None), ("r2", a_receipt("r1", None).hash)]:
        await begun(store, request_id)
        receipt = a_receipt(request_id, chain)
        await store.end_turn(ending(PacketBatch(request_id, 1, ["a"]), messages=said("x"), receipt=receipt))
    await begun(store, "r3")  # still runs
    await store.write(erase.hide_user, "ada")  # and here the process that deletes is killed
    other = new_store()
    await other.open()
    try:
        assert (await other.session("s1"), await other.sessions("ada", limit=9)) == (None, [])
        assert [await other.turn(name) for name in ("r1", "r2", "r3")] == [None] * 3
        assert (await other.receipt("r1"), await other.receipts("s1"), await other.last_receipt_hash("s1")) == (
            None,
            [],
            None,
        )
        assert await other.history("s1", limit=9) == []
        with pytest.raises(StoreConflictError):
            await other.append_packets(PacketBatch("r3", 1, ["late"]))
        for request_id, session_id in [("r4", "s1"), ("r1", "s1"), ("r1", "s2")]:
            with pytest.raises(RefusedError, match="being deleted") as caught:
                await begun(other, request_id, session_id)
            assert (caught.value.code, caught.value.details["retry_after"]) == (ErrorCode.UNAVAILABLE, 1)
        # Whatever is deleted next finishes it.
        assert await other.expire(at(-99)) == DeletionCounts(sessions=1, turns=3, packets=2, messages=2, receipts=2)
        await begun(other, "r1")
    finally:
        await other.close()


# How much is stored


async def test_the_newest_messages_that_fit_are_given_and_each_is_whole(store: SessionStore):
    texts = ["a" * 100, "é" * 300, '\x00\x08\t\n\x1f\x7f"\\\u2028/' * 20, "d" * 100]
    await begun(store)
    await store.end_turn(ending(messages=said(*texts)))
    sizes = [len(message.to_json().encode()) for message in said(*texts)]
    for count in range(5):
        fitting = sum(sizes[4 - count :])
        expected = said(*texts[4 - count :])
        assert await store.history("s1", limit=9, max_bytes=fitting) == expected
        assert await store.history("s1", limit=9, max_bytes=fitting + sizes[3 - count] - 1) == expected
        new = await store.begin_turn(a_session(), a_turn(f"n{count}"), history=9, history_bytes=fitting)
        assert list(new.history) == expected
    assert await store.history("s1", limit=2) == said(*texts[2:])


async def test_a_user_whose_quota_is_used_up_begins_no_turn_until_something_is_deleted(store: SessionStore):
    async def begin(request_id: str, owner: str, quota: int) -> RunStart:
        session, turn = a_session(f"of {owner}", owner=owner), a_turn(request_id, f"of {owner}", owner=owner)
        return await store.begin_turn(session, turn, history=0, quota_bytes=quota)

    await begin("r1", "ada", 1)
    await store.append_packets(PacketBatch("r1", 1, ["é" * 50]))
    receipt = a_receipt("r1", None, "of ada")
    await store.end_turn(ending(PacketBatch("r1", 2, ["y" * 30]), messages=said("hi"), receipt=receipt))
    stored = 100 + 30 + len(said("hi")[0].to_json()) + len(receipt.body)
    with pytest.raises(RefusedError, match=f"{stored} of {stored} bytes") as caught:
        await begin("r2", "ada", stored)
    assert caught.value.code is ErrorCode.QUOTA_EXCEEDED
    assert await store.turn("r2") is None
    assert (await begin("r1", "ada", 1)).existing is not None  # what is known can be read
    await begin("r2", "ada", stored + 1)
    await begin("r3", "eve", 1)
    await store.delete_user("ada")
    await begin("r4", "ada", 1)
