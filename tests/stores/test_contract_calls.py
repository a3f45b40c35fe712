"""The contract of every store for sessions of calls: what expires, what they hold, and the quota."""

from datetime import timedelta

import pytest

from accord.errors import ErrorCode, RefusedError, StoreConflictError
from accord.ports import Store, StoredTotal, WholeRun
from accord.wire.session import DeletionCounts, SessionKind
from tests.stores.records import START, a_receipt, a_session, a_turn, at, begun, ending

LATER = START + timedelta(days=40)


async def add_call(
    store: Store, name: str, *, kind: SessionKind = SessionKind.CALLS, seconds: float = 0, packets: tuple[str, ...] = ()
) -> None:
    """A session with one call."""
    receipt = a_receipt(f"of {name}", None, name)
    turn = a_turn(f"of {name}", name, last_seq=len(packets))
    await store.add_turns(a_session(name, kind=kind, seconds=seconds), [WholeRun(turn, receipt, packets)])


async def test_calls_expire_by_themselves_and_with_the_turns(store: Store):
    await begun(store)
    await store.end_turn(ending(receipt=a_receipt("r1", None)))
    await add_call(store, "old")
    await add_call(store, "old responses", kind=SessionKind.RESPONSES, packets=("p",))
    await add_call(store, "new", seconds=100)
    never = START - timedelta(days=1)
    assert await store.expire(never, calls=at(50)) == DeletionCounts(sessions=2, turns=2, packets=1, receipts=2)
    assert await store.receipt("of old") is None
    assert await store.receipt("of new") is not None
    assert await store.receipt("r1") is not None
    assert await store.expire(LATER, calls=never) == DeletionCounts(sessions=1, turns=1, receipts=1)
    assert await store.expire(LATER) == DeletionCounts(sessions=1, turns=1, receipts=1)
    assert await store.stored() == []


async def test_what_is_stored_is_counted_by_kind(store: Store):
    await begun(store)
    await store.end_turn(ending(receipt=a_receipt("r1", None)))
    await add_call(store, "first", seconds=3)
    await add_call(store, "second", seconds=2)
    await add_call(store, "third", kind=SessionKind.RESPONSES, seconds=4, packets=("12345",))
    size = [len(a_receipt(f"of {name}", None, name).body) for name in ("first", "second", "third")]
    assert await store.stored() == [
        StoredTotal(SessionKind.CALLS, 2, size[0] + size[1], at(2)),
        StoredTotal(SessionKind.RESPONSES, 1, size[2] + 5, at(4)),
        StoredTotal(SessionKind.TURNS, 1, len(a_receipt("r1", None).body), at(0)),
    ]


async def test_calls_count_for_the_quota_of_turns_and_calls(store: Store):
    await store.check_quota("ada", 1)
    await add_call(store, "c1")
    size = len(a_receipt("of c1", None).body)
    await store.check_quota("ada", size + 1)
    await store.check_quota("eve", size)
    with pytest.raises(RefusedError) as refused:
        await store.check_quota("ada", size)
    assert refused.value.code is ErrorCode.QUOTA_EXCEEDED
    with pytest.raises(RefusedError):
        await store.begin_turn(a_session(), a_turn(), history=0, quota_bytes=size)
    await store.expire(LATER)
    await store.check_quota("ada", 1)


async def test_a_session_of_calls_takes_no_turn_and_none_of_turns_a_call(store: Store):
    await add_call(store, "c1")
    with pytest.raises(StoreConflictError, match="holds something else"):
        await store.begin_turn(a_session("c1"), a_turn("r2", "c1"), history=0)
    await begun(store)
    with pytest.raises(StoreConflictError, match="holds something else"):
        await add_call(store, "s1")
    session = await store.session("c1")
    assert session is not None
    assert session.kind is SessionKind.CALLS
