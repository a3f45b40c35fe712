"""Those who wait together are written together."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from accord.errors import StoreConflictError
from accord.stores.sqlite import SqliteStore
from accord.wire.session import TurnState
from tests.stores.records import a_session, a_turn, at, begun


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
        await store.put_session(a_session())
        names = [f"r{number}" for number in range(200)]
        await asyncio.gather(*(store.begin_turn(a_turn(name)) for name in names))
        before = store.commits
        await asyncio.gather(*(store.append_packets(name, 1, ["a"]) for name in names))
        assert store.commits - before <= 10
        for name in names:
            assert len(await store.packets(name, after_seq=0, limit=9)) == 1


async def test_one_stream_that_does_not_wait_shares_commits_with_itself_and_keeps_its_order(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        await begun(store)
        before = store.commits
        await asyncio.gather(*(store.append_packets("r1", seq, [str(seq)]) for seq in range(1, 201)))
        assert store.commits - before <= 10
        found = await store.packets("r1", after_seq=0, limit=999)
        assert [packet.body for packet in found] == [str(seq) for seq in range(1, 201)]


async def test_a_group_of_different_jobs_is_written_in_the_order_it_was_handed_over(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        jobs = [
            store.put_session(a_session()),
            store.begin_turn(a_turn()),
            store.append_packets("r1", 1, ["a"]),
            store.append_packets("r1", 2, ["b"]),
            store.end_turn("r1", TurnState.DONE, at(2)),
            store.append_packets("r1", 3, ["late"]),
        ]
        *outcomes, late = await asyncio.gather(*jobs, return_exceptions=True)
        assert outcomes == [None, None, None, None, True]
        assert isinstance(late, StoreConflictError)


async def test_closing_finishes_what_was_handed_over(tmp_path: Path):
    async with opened(tmp_path / "a.sqlite3") as store:
        await begun(store)
        waiting = [asyncio.ensure_future(store.append_packets("r1", seq, ["x"])) for seq in range(1, 51)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*waiting)
        await store.open()
        assert len(await store.packets("r1", after_seq=0, limit=99)) == 50
