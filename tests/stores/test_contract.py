"""The contract of every store: one test body, in memory, on SQLite and on a real PostgreSQL."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from accord.errors import StoreConflictError, StoreError
from accord.ports import PacketBatch, RunStart, SessionStore
from accord.stores.memory import MemoryStore
from accord.wire.request import ClientCapabilities
from accord.wire.session import PacketRecord, RunRecord, SessionRecord
from tests.stores.records import a_receipt, a_session, a_turn, at, begun, ending, put, said

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
    await put(store, session)
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


async def test_a_session_begun_in_again_is_renewed_but_not_younger(store: SessionStore):
    declared = ClientCapabilities(prefers_markdown=False)
    await put(store, a_session(seconds=5), "r1")
    again = a_session(seconds=9, agent="other", capabilities=declared, negotiated={"x": 1})
    renewed = replace(again, created_at=at(5))
    assert (await put(store, again, "r2")).session == renewed
    assert await store.session("s1") == renewed
    late = replace(again, updated_at=at(7))
    assert (await put(store, late, "r3")).session == renewed


async def test_a_session_does_not_keep_what_an_earlier_turn_declared(store: SessionStore):
    declared = ClientCapabilities(supported_events=[], prefers_markdown=False)
    await put(store, a_session(capabilities=declared, negotiated={"x": 1}), "r1")
    renewed = a_session(negotiated={"y": 2}, updated_at=at(3))
    assert (await put(store, renewed, "r2")).session == renewed
    assert await store.session("s1") == renewed


async def test_many_may_begin_in_the_same_new_session_at_once(store: SessionStore):
    for number in range(10):
        begun = await asyncio.gather(*(put(store, a_session(f"s{number}"), f"r{number}-{one}") for one in range(8)))
        assert {told.existing for told in begun} == {None}
    assert len(await store.sessions("ada", limit=99)) == 10


async def test_a_turn_cannot_begin_in_a_session_of_another_owner(store: SessionStore):
    await put(store, a_session(owner="ada"))
    with pytest.raises(StoreConflictError, match="another owner"):
        await put(store, a_session(owner="eve", agent="hers"), "r2")
    assert await store.session("s1") == a_session(owner="ada")
    assert await store.turn("r2") is None


@pytest.mark.parametrize("turn", [a_turn(session_id="s2"), a_turn(owner="eve")], ids=["session", "owner"])
async def test_a_turn_begins_in_its_own_session_only(store: SessionStore, turn: RunRecord):
    with pytest.raises(StoreConflictError, match="not of this session"):
        await store.begin_turn(a_session(), turn, history=0)
    assert await store.session("s1") is None
    assert await store.turn("r1") is None


async def test_sessions_are_listed_by_owner_newest_first_page_by_page(store: SessionStore):
    mine = [a_session(f"s{number}", seconds=number // 2) for number in range(7)]  # some of the same moment
    for session in [*mine, a_session("other", owner="eve")]:
        await put(store, session)
    pages = [await store.sessions("ada", limit=3)]
    while pages[-1]:
        pages.append(await store.sessions("ada", limit=3, after=pages[-1][-1]))
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [session for page in pages for session in page] == mine[::-1]


# Turns


async def test_a_new_turn_is_the_callers_to_run_and_a_known_one_is_shown(store: SessionStore):
    session = a_session(updated_at=at(1))
    assert await store.begin_turn(session, a_turn(), history=9) == RunStart(session, None, [], None)
    again = a_turn(request_digest="another body", runner="p2", created_at=at(5))
    assert await store.begin_turn(session, again, history=9) == RunStart(session, a_turn())
    assert await store.turn("r1") == a_turn()


async def test_a_new_turn_gets_the_last_messages_and_the_last_receipt_hash(store: SessionStore):
    for number in range(2):
        await begun(store, f"r{number}")
        receipt = a_receipt(f"r{number}", await store.last_receipt_hash("s1"))
        await store.end_turn(ending(f"r{number}", messages=said(f"q{number}", f"a{number}"), receipt=receipt))
    for request_id, limit, told in [("x", 3, ["a0", "q1", "a1"]), ("y", 0, []), ("z", 9, ["q0", "a0", "q1", "a1"])]:
        new = await store.begin_turn(a_session(), a_turn(request_id), history=limit)
        assert [*new.history] == said(*told)
        assert new.last_receipt_hash == a_receipt("r1", a_receipt("r0", None).hash).hash


KEPT = a_session(capabilities=ClientCapabilities(prefers_markdown=False), negotiated={"x": 1})


@pytest.mark.parametrize(
    "session",
    [
        replace(KEPT, agent="other", updated_at=at(9)),
        replace(KEPT, capabilities=ClientCapabilities(), negotiated={}),
        a_session("s2", agent="other"),
        a_session("s3", owner="eve"),
    ],
    ids=["agent", "capabilities", "another_session", "another_owner"],
)
async def test_a_known_request_writes_nothing_whatever_comes_with_it(store: SessionStore, session: SessionRecord):
    await put(store, KEPT, "r1")
    told = await put(store, session, "r1")
    assert told.existing is not None
    assert (told.session, told.existing.owner, told.existing.session_id) == (KEPT, "ada", "s1")
    assert await store.session("s1") == KEPT
    assert session.session_id == "s1" or await store.session(session.session_id) is None


async def test_of_many_callers_exactly_one_may_run_a_turn(store: SessionStore):
    told = await asyncio.gather(*(store.begin_turn(a_session(), a_turn(), history=0) for _ in range(20)))
    assert [begun.existing for begun in told].count(None) == 1
    assert [begun.existing for begun in told if begun.existing] == [a_turn()] * 19


async def test_of_several_stores_over_the_same_data_exactly_one_may_run_a_turn(new_store: Callable[[], SessionStore]):
    stores = [new_store() for _ in range(4)]
    if isinstance(stores[0], MemoryStore):
        stores = stores[:1] * 4  # there is no other way to share it
    await asyncio.gather(*(store.open() for store in stores))
    for number in range(10):
        turn, sessions = a_turn(f"r{number}"), [a_session(agent=f"agent{which}") for which in range(4)]
        told = await asyncio.gather(
            *(store.begin_turn(session, turn, history=0) for store, session in zip(stores, sessions, strict=True))
        )
        (winner,) = [begun.session for begun in told if begun.existing is None]
        assert winner.agent in {session.agent for session in sessions}
        assert await stores[0].session("s1") == winner  # those that came too late renewed nothing
    for store in stores:
        await store.close()


async def test_a_turn_renews_its_session_when_it_begins_and_when_it_ends(store: SessionStore):
    await put(store, a_session(updated_at=at(1)), "r1")
    assert (await store.session("s1") or a_session()).updated_at == at(1)
    await store.end_turn(ending(seconds=7))
    assert (await store.session("s1") or a_session()).updated_at == at(7)


# Packets


async def test_packets_come_back_in_order_from_where_one_left_off(store: SessionStore):
    await begun(store)
    await store.append_packets(PacketBatch("r1", 1, ["a", AWKWARD]))
    await store.append_packets(PacketBatch("r1", 3, ["c"]))
    await store.append_packets(PacketBatch("r1", 4, []))
    every = numbered(1, "a", AWKWARD, "c")
    assert await store.packets("r1", after_seq=0, limit=10) == every
    assert await store.packets("r1", after_seq=1, limit=10) == every[1:]
    assert await store.packets("r1", after_seq=1, limit=1) == every[1:2]
    assert await store.packets("r1", after_seq=3, limit=10) == []
    assert (await store.turn("r1") or a_turn()).last_seq == 3


@pytest.mark.parametrize("first_seq", [-1, 0, 1, 2, 4], ids=lambda seq: f"seq{seq}")
async def test_a_gap_or_a_repetition_is_a_conflict_and_leaves_nothing(store: SessionStore, first_seq: int):
    await begun(store)
    await store.append_packets(PacketBatch("r1", 1, ["a", "b"]))
    with pytest.raises(StoreConflictError, match="do not follow"):
        await store.append_packets(PacketBatch("r1", first_seq, ["x", "y", "z"]))
    assert await store.packets("r1", after_seq=0, limit=10) == numbered(1, "a", "b")


async def test_a_turn_that_is_over_or_unknown_takes_no_packets(store: SessionStore):
    await begun(store)
    await store.end_turn(ending())
    for request_id in ("r1", "r2"):
        for packets in ([], ["late"]):
            with pytest.raises(StoreConflictError, match="running turn"):
                await store.append_packets(PacketBatch(request_id, 1, packets))
    assert await store.packets("r1", after_seq=0, limit=10) == []


@pytest.mark.parametrize("declared", [None, ClientCapabilities(), ClientCapabilities(supported_events=[])])
async def test_a_turn_keeps_what_its_client_declared_and_its_conversation(
    store: SessionStore, declared: ClientCapabilities | None
):
    turn = a_turn("r1", capabilities=declared, conversation_id="c")
    await store.begin_turn(a_session(), turn, history=0)
    found = await store.turn("r1")
    assert found is not None
    assert found == turn
    assert (found.capabilities and found.capabilities.declares_events) == (declared and declared.declares_events)
    assert await store.running("p1") == [turn]


async def test_a_conflict_does_not_affect_other_writes(store: SessionStore):
    for number in range(8):
        await begun(store, f"r{number}")
    wrong = [store.append_packets(PacketBatch(f"r{number}", 5, ["gap"])) for number in range(0, 8, 2)]
    right = [store.append_packets(PacketBatch(f"r{number}", 1, ["a"])) for number in range(8)]
    outcomes = await asyncio.gather(*wrong, *right, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreConflictError] * 4 + [type(None)] * 8
    for number in range(8):
        assert await store.packets(f"r{number}", after_seq=0, limit=10) == numbered(1, "a")


async def test_many_streams_at_once_stay_apart(store: SessionStore):
    async def stream(name: str) -> None:
        for seq in range(1, 11):
            await store.append_packets(PacketBatch(name, seq, [f"{name}:{seq}"]))

    names = [f"r{number}" for number in range(12)]
    for name in names:
        await begun(store, name)
    await asyncio.gather(*map(stream, names))
    for name in names:
        found = await store.packets(name, after_seq=0, limit=100)
        assert found == numbered(1, *(f"{name}:{seq}" for seq in range(1, 11)))


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
    for call in (store.probe(), put(store, a_session()), store.delete_user("ada")):
        with pytest.raises(StoreError, match="not open"):
            await call
    await store.open()
    await store.probe()
    await store.close()


async def test_a_time_without_a_zone_is_never_stored(store: SessionStore):
    await put(store, a_session())
    with pytest.raises(TypeError):
        await store.expire(at(9).replace(tzinfo=None))
    assert await store.session("s1") == a_session()


async def test_a_cancelled_write_is_finished_before_its_caller_is_cancelled(store: SessionStore):
    await begun(store)
    task = asyncio.create_task(store.append_packets(PacketBatch("r1", 1, ["a", "b"])))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await store.packets("r1", after_seq=0, limit=10) == numbered(1, "a", "b")
    await store.append_packets(PacketBatch("r1", 3, ["next"]))
