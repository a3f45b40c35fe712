"""What every store keeps to: one test body, in memory, on SQLite and on a real PostgreSQL."""

import asyncio
from collections.abc import Callable

import pytest

from accord.errors import StoreConflictError, StoreError
from accord.ports import SessionStore
from accord.stores import sql
from accord.wire.client import ClientCapabilities
from accord.wire.session import Erased, PacketRecord, TurnState
from tests.stores.records import a_receipt, a_session, a_turn, at, begun, said

AWKWARD = '{"p":"Zürich \\u0000 🦜 \' ; DROP TABLE packets; -- %s :x $1"}'


def numbered(first: int, *bodies: str) -> list[PacketRecord]:
    return [PacketRecord(seq=seq, body=body) for seq, body in enumerate(bodies, start=first)]


# Sessions


@pytest.mark.parametrize(
    "declared",
    [
        None,
        ClientCapabilities(),
        ClientCapabilities(supported_events=[]),
        ClientCapabilities(supported_events=["citation_block"], prefers_markdown=False, image_resolution="low"),
    ],
    ids=["nothing", "silence", "no_events", "much"],
)
async def test_a_session_comes_back_as_it_was_put(store: SessionStore, declared: ClientCapabilities | None):
    session = a_session(capabilities=declared, negotiated={"b": [1, 2.5, None, "ü\x00"], "a": {"deep": True}})
    await store.put_session(session)
    found = await store.session("s1")
    assert found == session
    assert found is not None
    assert (found.capabilities and found.capabilities.declares_events) == (declared and declared.declares_events)


async def test_what_was_never_put_is_not_there(store: SessionStore):
    assert await store.session("s1") is None
    assert await store.turn("r1") is None
    assert await store.receipt("r1") is None
    assert await store.last_receipt_hash("s1") is None
    assert await store.receipts("s1") == []
    assert await store.history("s1", limit=10) == []
    assert await store.packets("r1", after_seq=0, limit=10) == []


async def test_a_session_put_again_is_renewed_but_not_younger(store: SessionStore):
    await store.put_session(a_session(seconds=0))
    await store.put_session(a_session(seconds=9, agent="other", negotiated={"x": 1}))
    renewed = a_session(agent="other", negotiated={"x": 1}, created_at=at(0), updated_at=at(9))
    assert await store.session("s1") == renewed


async def test_many_may_put_the_same_new_session_at_once(store: SessionStore):
    for number in range(10):
        await asyncio.gather(*(store.put_session(a_session(f"s{number}")) for _ in range(8)))
    assert len(await store.sessions("ada", limit=99)) == 10


async def test_nobody_takes_over_a_session_of_another_owner(store: SessionStore):
    await store.put_session(a_session(owner="ada"))
    with pytest.raises(StoreConflictError, match="another owner"):
        await store.put_session(a_session(owner="eve"))
    assert await store.session("s1") == a_session(owner="ada")


async def test_sessions_are_listed_by_owner_newest_first_page_by_page(store: SessionStore):
    mine = [a_session(f"s{number}", seconds=number // 2) for number in range(7)]  # some of the same moment
    for session in [*mine, a_session("other", owner="eve")]:
        await store.put_session(session)
    pages = [await store.sessions("ada", limit=3)]
    while pages[-1]:
        pages.append(await store.sessions("ada", limit=3, after=pages[-1][-1]))
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [session for page in pages for session in page] == mine[::-1]


# Turns


async def test_a_new_turn_is_the_callers_to_run_and_a_known_one_is_shown(store: SessionStore):
    await begun(store)
    again = a_turn().model_copy(update={"request_digest": "another body", "created_at": at(5)})
    assert await store.begin_turn(again) == a_turn()
    assert await store.turn("r1") == a_turn()


async def test_the_same_request_id_of_another_owner_is_shown_too_for_the_caller_to_refuse(store: SessionStore):
    await begun(store)
    await store.put_session(a_session("s2", owner="eve"))
    known = await store.begin_turn(a_turn("r1", "s2", owner="eve"))
    assert known is not None
    assert known.owner == "ada"


async def test_of_many_callers_exactly_one_may_run_a_turn(store: SessionStore):
    await store.put_session(a_session())
    told = await asyncio.gather(*(store.begin_turn(a_turn()) for _ in range(20)))
    assert told.count(None) == 1
    assert [turn for turn in told if turn] == [a_turn()] * 19


@pytest.mark.parametrize(("session_id", "owner"), [("nowhere", "ada"), ("s1", "eve")])
async def test_a_turn_needs_a_session_of_its_owner(store: SessionStore, session_id: str, owner: str):
    await store.put_session(a_session())
    with pytest.raises(StoreConflictError, match="no such session"):
        await store.begin_turn(a_turn("r1", session_id, owner=owner))
    assert await store.turn("r1") is None


async def test_a_turn_renews_its_session_when_it_begins_and_when_it_ends(store: SessionStore):
    await begun(store)
    assert (await store.session("s1") or a_session()).updated_at == at(1)
    await store.end_turn("r1", TurnState.DONE, at(7))
    assert (await store.session("s1") or a_session()).updated_at == at(7)


async def test_what_a_killed_process_left_running_can_be_found(store: SessionStore):
    await store.put_session(a_session())
    for number in (3, 1, 2, 9):
        await store.begin_turn(a_turn(f"r{number}", seconds=number))
    await store.end_turn("r2", TurnState.FAILED, at(4))
    assert [turn.request_id for turn in await store.unfinished(at(9), limit=10)] == ["r1", "r3"]
    assert [turn.request_id for turn in await store.unfinished(at(9), limit=1)] == ["r1"]


# Packets


async def test_packets_come_back_in_order_from_where_one_left_off(store: SessionStore):
    await begun(store)
    await store.append_packets("r1", 1, ["a", AWKWARD])
    await store.append_packets("r1", 3, ["c"])
    await store.append_packets("r1", 4, [])
    every = numbered(1, "a", AWKWARD, "c")
    assert await store.packets("r1", after_seq=0, limit=10) == every
    assert await store.packets("r1", after_seq=1, limit=10) == every[1:]
    assert await store.packets("r1", after_seq=1, limit=1) == every[1:2]
    assert await store.packets("r1", after_seq=3, limit=10) == []
    assert (await store.turn("r1") or a_turn()).last_seq == 3


@pytest.mark.parametrize("first_seq", [-1, 0, 1, 2, 4], ids=lambda seq: f"seq{seq}")
async def test_a_gap_or_a_repetition_is_a_conflict_and_leaves_nothing(store: SessionStore, first_seq: int):
    await begun(store)
    await store.append_packets("r1", 1, ["a", "b"])
    with pytest.raises(StoreConflictError, match="do not follow"):
        await store.append_packets("r1", first_seq, ["x", "y", "z"])
    assert await store.packets("r1", after_seq=0, limit=10) == numbered(1, "a", "b")


async def test_a_turn_that_is_over_or_unknown_takes_no_packets(store: SessionStore):
    await begun(store)
    await store.end_turn("r1", TurnState.DONE, at(2))
    for request_id in ("r1", "r2"):
        with pytest.raises(StoreConflictError, match="running turn"):
            await store.append_packets(request_id, 1, ["late"])
    assert await store.packets("r1", after_seq=0, limit=10) == []


async def test_a_conflict_costs_nobody_else_anything(store: SessionStore):
    for number in range(8):
        await begun(store, f"r{number}")
    wrong = [store.append_packets(f"r{number}", 5, ["gap"]) for number in range(0, 8, 2)]
    right = [store.append_packets(f"r{number}", 1, ["a"]) for number in range(8)]
    outcomes = await asyncio.gather(*wrong, *right, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreConflictError] * 4 + [type(None)] * 8
    for number in range(8):
        assert await store.packets(f"r{number}", after_seq=0, limit=10) == numbered(1, "a")


async def test_many_streams_at_once_stay_apart(store: SessionStore):
    async def stream(name: str) -> None:
        for seq in range(1, 11):
            await store.append_packets(name, seq, [f"{name}:{seq}"])

    names = [f"r{number}" for number in range(12)]
    for name in names:
        await begun(store, name)
    await asyncio.gather(*map(stream, names))
    for name in names:
        found = await store.packets(name, after_seq=0, limit=100)
        assert found == numbered(1, *(f"{name}:{seq}" for seq in range(1, 11)))


# The end of a turn


@pytest.mark.parametrize("state", [TurnState.DONE, TurnState.FAILED, TurnState.CANCELLED])
async def test_a_turn_ends_once_with_its_messages_and_its_receipt(store: SessionStore, state: TurnState):
    await begun(store)
    receipt = a_receipt("r1", None)
    assert await store.end_turn("r1", state, at(3), messages=said("hi", "ho"), receipt=receipt)
    assert await store.turn("r1") == a_turn().model_copy(update={"state": state, "ended_at": at(3)})
    assert await store.history("s1", limit=10) == said("hi", "ho")
    assert await store.receipt("r1") == receipt
    assert await store.last_receipt_hash("s1") == receipt.hash
    with pytest.raises(StoreConflictError, match="not running"):
        await store.end_turn("r1", TurnState.DONE, at(4), messages=said("again"))
    assert await store.history("s1", limit=10) == said("hi", "ho")


async def test_an_unknown_turn_cannot_end(store: SessionStore):
    with pytest.raises(StoreConflictError, match="not running"):
        await store.end_turn("r1", TurnState.DONE, at(4))


async def test_the_history_is_the_last_messages_oldest_first(store: SessionStore):
    for number in range(3):
        await begun(store, f"r{number}")
        await store.end_turn(f"r{number}", TurnState.DONE, at(2), messages=said(f"q{number}", f"a{number}"))
    assert await store.history("s1", limit=3) == said("a1", "q2", "a2")
    assert await store.history("s1", limit=0) == []


async def test_a_receipt_that_does_not_follow_the_last_one_is_told_and_nothing_is_written(store: SessionStore):
    await begun(store, "r1")
    await begun(store, "r2")
    first = a_receipt("r1", None)
    assert await store.end_turn("r1", TurnState.DONE, at(2), receipt=first)
    late = a_receipt("r2", None)
    assert not await store.end_turn("r2", TurnState.DONE, at(3), messages=said("lost?"), receipt=late)
    assert (await store.turn("r2") or a_turn()).state is TurnState.RUNNING
    assert await store.history("s1", limit=10) == []
    second = a_receipt("r2", first.hash)
    assert await store.end_turn("r2", TurnState.DONE, at(3), receipt=second)
    assert await store.receipts("s1") == [first, second]


async def test_turns_that_end_at_once_make_one_chain(store: SessionStore):
    async def end(request_id: str) -> None:
        while True:
            sealed = a_receipt(request_id, await store.last_receipt_hash("s1"))
            if await store.end_turn(request_id, TurnState.DONE, at(2), receipt=sealed):
                return

    names = [f"r{number}" for number in range(6)]
    for name in names:
        await begun(store, name)
    await asyncio.gather(*map(end, names))
    chain = await store.receipts("s1")
    assert sorted(receipt.request_id for receipt in chain) == names
    assert [receipt.previous_hash for receipt in chain] == [None, *(receipt.hash for receipt in chain[:-1])]


@pytest.mark.parametrize("receipt", [a_receipt("r2", None), a_receipt("r1", None, "s2")], ids=["turn", "session"])
async def test_a_turn_cannot_end_with_the_receipt_of_another(store: SessionStore, receipt: object):
    await begun(store)
    with pytest.raises(StoreConflictError, match="not of this turn"):
        await store.end_turn("r1", TurnState.DONE, at(2), receipt=receipt)  # pyright: ignore[reportArgumentType]
    assert (await store.turn("r1") or a_turn()).state is TurnState.RUNNING


# Forgetting


async def test_deleting_a_user_deletes_everything_of_theirs_and_nothing_else(store: SessionStore):
    for owner, session_id, request_id in [("ada", "s1", "r1"), ("ada", "s2", "r2"), ("eve", "s3", "r3")]:
        await begun(store, request_id, session_id, owner=owner)
        await store.append_packets(request_id, 1, ["a", "b", "c"])
        receipt = a_receipt(request_id, None, session_id)
        await store.end_turn(request_id, TurnState.DONE, at(2), messages=said("x", "y"), receipt=receipt)
    assert await store.delete_user("ada") == Erased(sessions=2, turns=2, packets=6, messages=4, receipts=2)
    assert await store.delete_user("ada") == Erased()
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
        await store.append_packets("r1", 1, ["late"])
    with pytest.raises(StoreConflictError):
        await store.end_turn("r1", TurnState.DONE, at(2), messages=said("late"))
    assert await store.packets("r1", after_seq=0, limit=10) == []


async def test_only_sessions_that_nothing_has_happened_in_expire(store: SessionStore):
    for number in range(3):
        await store.put_session(a_session(f"s{number}", seconds=number))
    await store.begin_turn(a_turn("r1", "s0", seconds=10))
    assert await store.expire(at(2)) == Erased(sessions=1)
    assert [session.session_id for session in await store.sessions("ada", limit=10)] == ["s2", "s0"]


async def test_deleting_in_several_steps_is_complete(store: SessionStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sql, "ERASE_STEP", 3)
    for number in range(9):
        await store.put_session(a_session(f"s{number}"))
    assert await store.expire(at(1)) == Erased(sessions=9)


# Opening and closing


async def test_an_open_store_answers_its_probe_and_a_closed_one_says_so(new_store: Callable[[], SessionStore]):
    store = new_store()
    with pytest.raises(StoreError, match="not open"):
        await store.probe()
    await store.open()
    await store.open()
    await store.probe()
    await store.close()
    await store.close()
    for call in (store.probe(), store.put_session(a_session()), store.delete_user("ada")):
        with pytest.raises(StoreError, match="not open"):
            await call
    await store.open()
    await store.probe()
    await store.close()


async def test_a_time_without_its_zone_is_never_kept(store: SessionStore):
    await store.put_session(a_session())
    with pytest.raises(TypeError):
        await store.expire(at(9).replace(tzinfo=None))
    assert await store.session("s1") == a_session()


async def test_a_cancelled_call_is_finished_before_its_caller_is_told(store: SessionStore):
    await begun(store)
    task = asyncio.create_task(store.append_packets("r1", 1, ["a", "b"]))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await store.packets("r1", after_seq=0, limit=10) == numbered(1, "a", "b")
    await store.append_packets("r1", 3, ["next"])
