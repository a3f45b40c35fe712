"""How the SQLite store uses space: large rows, short steps, a file that shrinks, and files of older versions."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine

from accord.ports import PacketBatch
from accord.stores import erase, writer
from accord.stores.migrate import FOLDER
from accord.stores.sqlite import SqliteStore
from accord.wire.session import DeletionCounts
from tests.stores.records import START, a_receipt, a_session, a_turn, at, begun, ending, said

READ_SO_FAR = Path("/proc/self/io")
LARGE = "x" * 1_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.sqlite3"


@pytest.mark.skipif(not READ_SO_FAR.exists(), reason="needs Linux's count of what a process has read")
async def test_a_small_turn_reads_none_of_the_large_packets_and_messages_beside_it(file: Path):
    store = SqliteStore(file)
    await store.open()
    for number in range(0, 40, 2):
        name = f"r{number:02}"
        await begun(store, name, name)
        await store.end_turn(ending(PacketBatch(name, 1, [LARGE]), messages=said(LARGE)))
    before = read_so_far()
    for number in range(1, 40, 2):
        name = f"r{number:02}"
        await begun(store, name, name)
        await store.append_packets(PacketBatch(name, 1, ["small"]))
        await store.end_turn(ending(name, messages=said("small")))
    assert read_so_far() - before < 5_000_000
    await store.close()


def size(file: Path) -> int:
    return file.stat().st_size


def read_so_far() -> int:
    return int(READ_SO_FAR.read_text().split()[1])


async def test_a_large_deletion_is_many_short_transactions_and_the_file_shrinks(file: Path):
    store = SqliteStore(file)
    await store.open()
    await begun(store)
    for seq in range(1, 21):
        await store.append_packets(PacketBatch("r1", seq, [LARGE]))
    await store.end_turn(ending())
    before, commits, steps = size(file), store.commits, list[DeletionCounts]()
    assert (await store.expire(START + timedelta(days=1), progress=steps.append)).packets == 20
    assert before > 15_000_000
    assert store.commits - commits > 20_000_000 / erase.STEP_BYTES
    assert len({step.packets for step in steps}) > 5
    assert size(file) < 500_000
    await store.close()


async def test_others_write_while_much_is_deleted(file: Path):
    store, other = SqliteStore(file), SqliteStore(file)
    await store.open()
    await other.open()
    await begun(store)
    for first in range(1, 20_001, 2_000):
        await store.append_packets(PacketBatch("r1", first, ["x" * 200] * 2_000))
    await store.end_turn(ending())
    deleting = asyncio.create_task(store.expire(START + timedelta(days=1)))
    slowest, turns = 0.0, 0
    while not deleting.done():
        began_at = monotonic()
        name = f"new {turns}"
        session = a_session(name, updated_at=START + timedelta(days=2))
        await other.begin_turn(session, a_turn(name, name), history=0)
        slowest, turns = max(slowest, monotonic() - began_at), turns + 1
        await asyncio.sleep(0.002)
    assert (await deleting).packets == 20_000
    assert turns >= 5  # with one large transaction it is one or two
    assert slowest < 2
    for each in (store, other):
        await each.close()


async def test_large_packets_that_wait_together_are_not_one_transaction(file: Path):
    store = SqliteStore(file)
    await store.open()
    names = [f"r{number}" for number in range(12)]
    for name in names:
        await begun(store, name, name)
    commits = store.commits
    await asyncio.gather(*(store.append_packets(PacketBatch(name, 1, [LARGE])) for name in names))
    assert store.commits - commits >= 12 * len(LARGE) / writer.MAX_GROUP_BYTES
    await store.close()


async def test_the_log_is_emptied_by_size_too(file: Path):
    store = SqliteStore(file)
    await store.open()
    await begun(store)
    for seq in range(1, 61):
        await store.append_packets(PacketBatch("r1", seq, [LARGE]))
    assert size(file.with_name(file.name + "-wal")) < 40_000_000
    await store.close()


def file_of_first_version(file: Path) -> None:
    """A store as the first version made it, with one turn in it."""
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(FOLDER))
        command.upgrade(config, "0001")
    engine.dispose()
    with closing(sqlite3.connect(file)) as old, old:
        old.execute("PRAGMA journal_mode=WAL")
        now = int(at(1).timestamp() * 1_000_000)
        old.execute(
            "INSERT INTO sessions VALUES ('s1', 'ada', 'demo', NULL, '{}', ?, ?, 2, 1, ?)",
            (now, now, a_receipt("r1", None).hash),
        )
        old.execute("INSERT INTO turns VALUES ('r1', 's1', 'ada', 'd', 'p1', 'done', 2, ?, ?)", (now, now))
        old.executemany("INSERT INTO packets VALUES ('r1', ?, ?)", [(1, "é" * 3000), (2, "b")])
        bodies = [message.to_json() for message in said("é" * 10, "short")]
        old.executemany("INSERT INTO messages VALUES ('s1', ?, ?)", enumerate(bodies, start=1))
        receipt = a_receipt("r1", None)
        old.execute(
            "INSERT INTO receipts VALUES ('s1', 1, 'r1', ?, ?, NULL)",
            (receipt.body, receipt.hash),
        )


async def test_a_file_of_the_first_version_keeps_all_its_data_and_shrinks_from_now_on(file: Path):
    file_of_first_version(file)
    store = SqliteStore(file)
    await store.open()
    session = await store.session("s1")
    assert session is not None
    assert (session.owner, session.agent, session.updated_at) == ("ada", "demo", at(1))
    turn = await store.turn("r1")
    assert turn is not None
    assert [kept.body for kept in await store.packets("r1", after_seq=0, limit=9)] == ["é" * 3000, "b"]
    assert await store.history("s1", limit=9) == said("é" * 10, "short")
    assert await store.history("s1", limit=9, max_bytes=len(said("short")[0].to_json())) == said("short")
    assert await store.receipts("s1") == [a_receipt("r1", None)]

    def pragma(connection: Connection, name: str) -> object:
        return connection.exec_driver_sql(f"PRAGMA {name}").all()

    assert await store.write(pragma, "auto_vacuum") == [(2,)]
    assert await store.write(pragma, "foreign_key_check") == []
    assert await store.write(pragma, "integrity_check") == [("ok",)]
    # The next turn of the session, and its end: every statement fits the new tables.
    new = await store.begin_turn(a_session(updated_at=at(5)), a_turn("r2"), history=9)
    assert new.last_receipt_hash == a_receipt("r1", None).hash
    receipt = a_receipt("r2", a_receipt("r1", None).hash)
    assert await store.end_turn(ending("r2", messages=said("more"), receipt=receipt))
    assert await store.delete_user("ada") == DeletionCounts(sessions=1, turns=2, packets=2, messages=3, receipts=2)
    await store.close()
