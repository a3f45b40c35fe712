"""Jobs that wait at the same time share one commit."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from accord.errors import StoreConflictError
from accord.ports import PacketBatch, RunStart
from accord.stores.sqlite import SqliteStore
from tests.stores.records import a_session, a_turn, begun, ending


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def test_two_hundred_appends_at_once_need_few_commits(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        names = [f"r{number}" for number in range(200)]
        await asyncio.gather(*(store.begin_turn(a_session(), a_turn(name), history=0) for name in names))
        before = store.commits
        await asyncio.gather(*(store.append_packets(PacketBatch(name, 1, ["a"])) for name in names))
        assert store.commits - before <= 10
        for name in names:
            assert len(await store.packets(name, after_seq=0, limit=9)) == 1


async def test_one_stream_that_does_not_wait_shares_commits_with_itself_and_keeps_its_order(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        await begun(store)
        before = store.commits
        await asyncio.gather(*(store.append_packets(PacketBatch("r1", seq, [str(seq)])) for seq in range(1, 201)))
        assert store.commits - before <= 10
        found = await store.packets("r1", after_seq=0, limit=999)
        assert [packet.body for packet in found] == [str(seq) for seq in range(1, 201)]


async def test_a_group_of_different_jobs_is_written_in_the_order_it_was_handed_over(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        jobs = [
            store.begin_turn(a_session(), a_turn(), history=0),
            store.append_packets(PacketBatch("r1", 1, ["a"])),
            store.append_packets(PacketBatch("r1", 2, ["b"])),
            store.end_turn(ending(PacketBatch("r1", 3, ["c"]))),
            store.append_packets(PacketBatch("r1", 4, ["late"])),
        ]
        first, *outcomes, late = await asyncio.gather(*jobs, return_exceptions=True)
        assert first == RunStart(a_session(), history=[])
        assert outcomes == [None, None, True]
        assert isinstance(late, StoreConflictError)


async def test_closing_finishes_what_was_handed_over(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        await begun(store)
        waiting = [asyncio.ensure_future(store.append_packets(PacketBatch("r1", seq, ["x"]))) for seq in range(1, 51)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*waiting)
        await store.open()
        assert len(await store.packets("r1", after_seq=0, limit=99)) == 50


async def test_a_beginning_that_conflicts_after_writing_does_not_affect_its_group(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        await begun(store, "r0", "hers", owner="eve")
        mine = [store.begin_turn(a_session(), a_turn(f"r{number}"), history=0) for number in range(1, 9)]
        taken = store.begin_turn(a_session("hers"), a_turn("taken", "hers"), history=0)
        *outcomes, conflict = await asyncio.gather(*mine, taken, return_exceptions=True)
        assert outcomes == [RunStart(a_session(), history=[])] * 8
        assert isinstance(conflict, StoreConflictError)
        assert await store.turn("taken") is None


async def test_a_job_whose_caller_is_gone_is_still_written_and_its_failure_is_ignored(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        await begun(store)
        calls = [PacketBatch("r1", 1, ["a"]), PacketBatch("r1", 9, ["a gap"]), PacketBatch("r1", 2, ["b"])]
        tasks = [asyncio.create_task(store.append_packets(new)) for new in calls]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 3
        assert len(await store.packets("r1", after_seq=0, limit=9)) == 2
