"""The contract of every SQL store as a queue of turns: fair order, one worker for each turn, epochs that fence."""

import asyncio
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from accord.errors import ErrorCode, RefusedError, StoreConflictError
from accord.ports import ClaimedRun, PacketBatch, QueuedWork, Store
from tests.stores.passing import let_pass
from tests.stores.records import a_session, a_turn, ending, said

LEASE_S = 15.0


@pytest.fixture
def queue(store: Store) -> Store:
    return store


async def put_in(queue: Store, request_id: str, owner: str = "ada", **work: Any) -> None:
    session = a_session(f"of {owner}", owner=owner)
    turn = a_turn(request_id, session.session_id, owner=owner, runner="")
    fields: dict[str, Any] = {"agent": "demo", "request": f'{{"request_id":"{request_id}"}}', **work}
    added = QueuedWork(**fields)
    assert (await queue.queue_turn(session, turn, added)).existing is None


async def claim(queue: Store, runner: str = "w1", *agents: str) -> ClaimedRun | None:
    return await queue.claim(agents or ["demo"], runner=runner, history=10, history_bytes=10_000)


async def must_claim(queue: Store, runner: str = "w1") -> ClaimedRun:
    claimed = await claim(queue, runner)
    assert claimed is not None
    return claimed


async def test_a_waiting_turn_is_given_to_one_worker_with_all_that_it_needs(queue: Store):
    await put_in(queue, "r1", streams=False, may_restart=True, trace="00-1-2-01")
    assert (await queue.waiting()).total == 1
    claimed = await must_claim(queue)
    work = QueuedWork("demo", '{"request_id":"r1"}', streams=False, may_restart=True, trace="00-1-2-01")
    assert (claimed.turn.request_id, claimed.turn.runner, claimed.turn.epoch) == ("r1", "w1", 1)
    assert (claimed.work, claimed.is_cancelled, claimed.last_receipt_hash) == (work, False, None)
    assert await claim(queue, "w2") is None
    assert (await queue.waiting()).total == 0


async def test_a_turn_that_is_known_is_not_queued_again(queue: Store):
    await put_in(queue, "r1")
    turn = a_turn("r1", "of ada", runner="")
    start = await queue.queue_turn(a_session("of ada"), turn, QueuedWork("demo", "{}"))
    assert start.existing is not None
    assert (await queue.waiting()).total == 1


async def test_many_workers_get_every_turn_once(queue: Store):
    for number in range(20):
        await put_in(queue, f"r{number}", owner=f"u{number % 3}")

    async def work(runner: str) -> list[str]:
        got: list[str] = []
        while claimed := await claim(queue, runner):
            got.append(claimed.turn.request_id)
        return got

    taken = await asyncio.gather(*(work(f"w{number}") for number in range(4)))
    assert sorted(chain.from_iterable(taken)) == sorted(f"r{number}" for number in range(20))


async def test_the_first_turn_of_a_user_does_not_wait_for_the_many_of_another(queue: Store):
    for number in range(5):
        await put_in(queue, f"a{number}", owner="ada")
    await put_in(queue, "b0", owner="bob")
    await put_in(queue, "b1", owner="bob")
    order = [(await must_claim(queue)).turn.request_id for _ in range(7)]
    assert order == ["a0", "b0", "a1", "b1", "a2", "a3", "a4"]


async def test_a_worker_is_given_turns_of_its_own_agents_only(queue: Store):
    await put_in(queue, "r1", agent="other")
    assert await claim(queue, "w1", "demo") is None
    claimed = await claim(queue, "w1", "demo", "other")
    assert claimed is not None
    assert claimed.work is not None
    assert claimed.work.agent == "other"


async def test_a_worker_that_lost_its_turn_can_neither_append_nor_end_it(queue: Store):
    await put_in(queue, "r1")
    first = await must_claim(queue)
    await queue.append_packets(PacketBatch("r1", 1, ['"a"'], 1))
    assert await queue.take_over(first.turn, LEASE_S, runner="w2") is None  # it has only just begun
    await let_pass(queue, LEASE_S + 1)
    second = await queue.take_over(first.turn, LEASE_S, runner="w2")
    assert second is not None
    assert (second.turn.runner, second.turn.epoch, second.turn.last_seq) == ("w2", 2, 1)
    assert await queue.take_over(first.turn, LEASE_S, runner="w3") is None  # of an epoch that is over
    with pytest.raises(StoreConflictError):
        await queue.append_packets(PacketBatch("r1", 2, ['"b"'], 1))
    with pytest.raises(StoreConflictError):
        await queue.end_turn(ending(PacketBatch("r1", 2, ['"b"'], 1)))
    assert await queue.end_turn(ending(PacketBatch("r1", 2, ['"c"'], 2)))
    assert [packet.body for packet in await queue.packets("r1", after_seq=0, limit=9)] == ['"a"', '"c"']


async def test_a_process_can_take_over_its_own_turns_at_once(queue: Store):
    await put_in(queue, "r1")
    first = await must_claim(queue)
    again = await queue.take_over(first.turn, LEASE_S, runner="w1")
    assert again is not None
    assert again.turn.epoch == 2


async def test_a_turn_that_is_put_back_is_next(queue: Store):
    for request_id in ("r1", "r2"):
        await put_in(queue, request_id)
    first = await must_claim(queue)
    assert await queue.queue_again(first.turn)
    assert not await queue.queue_again(replace(first.turn, epoch=7))
    again = await must_claim(queue, "w2")
    assert (again.turn.request_id, again.turn.epoch) == ("r1", 2)
    with pytest.raises(StoreConflictError):
        await queue.append_packets(PacketBatch("r1", 1, ['"late"'], 1))


async def test_waiting_turns_are_not_abandoned_however_long_they_wait(queue: Store):
    await put_in(queue, "r1")
    await let_pass(queue, 3_600)
    assert await queue.abandoned(LEASE_S, runner="w1", limit=9) == []


async def test_a_turn_whose_cancellation_was_requested_while_it_waited_is_given_out_as_such(queue: Store):
    await put_in(queue, "r1")
    assert await queue.request_cancel("r1")
    assert (await must_claim(queue)).is_cancelled


async def test_a_worker_gets_the_history_as_it_is_when_the_turn_is_given_out(queue: Store):
    await put_in(queue, "r1")
    await put_in(queue, "r2")
    first = await must_claim(queue)
    assert await queue.end_turn(ending(PacketBatch("r1", 1, [], first.turn.epoch), messages=said("hi", "ho")))
    assert [message.content for message in (await must_claim(queue)).history] == ["hi", "ho"]


async def test_a_user_has_at_most_so_many_turns_that_run_or_wait(queue: Store):
    async def add(request_id: str, owner: str) -> None:
        session = a_session(f"of {owner}", owner=owner)
        turn = a_turn(request_id, session.session_id, owner=owner, runner="")
        await queue.queue_turn(session, turn, QueuedWork("demo", "{}"), max_running=2)

    await add("r1", "ada")
    await must_claim(queue)
    await add("r2", "ada")
    with pytest.raises(RefusedError) as refused:
        await add("r3", "ada")
    assert refused.value.code is ErrorCode.RATE_LIMIT_EXCEEDED
    assert await queue.turn("r3") is None
    await add("r4", "bob")
    assert await queue.end_turn(ending(PacketBatch("r1", 1, [], 1)))
    await add("r3", "ada")


async def test_a_session_that_is_deleted_takes_its_waiting_turns_with_it(queue: Store):
    await put_in(queue, "r1")
    await queue.delete_user("ada")
    assert await claim(queue) is None
    assert (await queue.waiting()).total == 0


async def test_a_worker_learns_how_long_a_turn_has_waited(queue: Store):
    await put_in(queue, "r1")
    await let_pass(queue, 5)
    assert 5 <= (await must_claim(queue)).waited_s < 60
