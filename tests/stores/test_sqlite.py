"""What the SQLite store guarantees beyond the contract: its schema, its errors, its deletion."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from msgspec.structs import replace
from sqlalchemy import Connection, create_engine, select

from accord.errors import ErrorCode, StoreConflictError, StoreError
from accord.ports import PacketBatch
from accord.stores import sqlite
from accord.stores.failure import SQLITE
from accord.stores.liveness import FORGOTTEN_AFTER
from accord.stores.migrate import FOLDER, HEAD
from accord.stores.schema import runners, whole_schema
from accord.stores.sqlite import SqliteStore
from tests.stores.records import a_receipt, a_session, a_turn, begun, ending, put, said
from tests.stores.test_contract_liveness import beat


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.sqlite3"


async def test_sessions_survive_a_restart(file: Path):
    store = SqliteStore(file)
    for request_id in ("r1", "r2"):  # the second opening migrates nothing and finds everything
        await store.open()
        await put(store, a_session(negotiated={"streaming": "native"}), request_id)
        await store.close()
    await store.open()
    assert await store.session("s1") == a_session(negotiated={"streaming": "native"})
    await store.close()


async def test_the_revisions_lead_to_the_schema_that_the_statements_use(file: Path):
    store = SqliteStore(file)
    await store.open()
    await store.close()
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), whole_schema()) == []
    engine.dispose()


def test_the_newest_revision_is_the_one_that_a_store_opens_with():
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_a_store_of_a_newer_version_is_left_alone(file: Path, caplog: pytest.LogCaptureFixture):
    store = SqliteStore(file)
    await store.open()
    await store.close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(StoreError, match="schema 9999, which this version of Accord does not know"):
        await store.open()
    assert "Upgrading" not in caplog.text


def nothing(file: Path) -> None:
    file.parent.rmdir()


def a_folder(file: Path) -> None:
    file.mkdir()


def no_database(file: Path) -> None:
    file.write_text("This is not a database, but a text that is long enough to be taken for one. " * 20)


def a_locked_file(file: Path) -> None:
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("PRAGMA journal_mode=WAL")
    holder.execute("BEGIN EXCLUSIVE")
    HELD.append(holder)


HELD: list[sqlite3.Connection] = []


@pytest.mark.parametrize(
    ("trouble", "meaning"),
    [
        (nothing, SQLITE["SQLITE_CANTOPEN"]),
        (a_folder, SQLITE["SQLITE_CANTOPEN"]),
        (no_database, SQLITE["SQLITE_NOTADB"]),
        (a_locked_file, SQLITE["SQLITE_BUSY"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_a_file_that_cannot_be_used_is_named_with_the_reason_in_one_line(
    file: Path, trouble: Callable[[Path], None], meaning: str
):
    folder = file.parent / "inner"
    folder.mkdir()
    file = folder / file.name
    trouble(file)
    store = SqliteStore(file, busy_timeout_s=0.05)
    with pytest.raises(StoreError) as caught:
        await store.open()
    assert str(caught.value) == f"{file}: {meaning}"
    assert caught.value.code is ErrorCode.UNAVAILABLE
    while HELD:
        HELD.pop().close()


async def test_a_store_that_may_not_create_its_file_says_that_it_is_missing_and_leaves_no_trace(file: Path):
    with pytest.raises(StoreError) as caught:
        await SqliteStore(file, create=False).open()
    assert str(caught.value) == f"{file}: there is no such file"
    assert [*file.parent.iterdir()] == []


async def test_a_store_that_may_not_create_its_file_opens_one_that_is_there(file: Path):
    store, reader = SqliteStore(file), SqliteStore(file, create=False)
    await store.open()
    await begun(store)
    await reader.open()
    assert await reader.turn("r1") == a_turn()
    await reader.close()
    await store.close()


async def test_a_file_held_by_another_process_fails_a_call_and_not_the_store(file: Path):
    store = SqliteStore(file, busy_timeout_s=0.05)
    await store.open()
    await begun(store)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process has held it for too long"):
            await store.append_packets(PacketBatch("r1", 1, ["a"]))
        assert await store.packets("r1", after_seq=0, limit=9) == []  # readers wait for nobody
    await store.append_packets(PacketBatch("r1", 1, ["a"]))
    assert len(await store.packets("r1", after_seq=0, limit=9)) == 1
    await store.close()


async def test_a_full_disk_is_reported_and_writing_continues_when_there_is_space_again(file: Path):
    store = SqliteStore(file)
    await store.open()
    await begun(store)
    await store.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=40").all())
    with pytest.raises(StoreError, match="the disk is full"):
        await store.append_packets(PacketBatch("r1", 1, ["x" * 1_000_000]))
    await store.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=4000").all())
    await store.append_packets(PacketBatch("r1", 1, ["x" * 1_000_000]))
    await store.close()


async def test_what_is_deleted_is_nowhere_in_the_files(file: Path):
    store = SqliteStore(file)
    await store.open()
    await begun(store)
    await store.append_packets(PacketBatch("r1", 1, ["a secret packet", "a secret item" * 900]))
    receipt = replace(a_receipt("r1", None), body="a secret receipt")
    await store.end_turn(ending(messages=said("a secret message"), receipt=receipt))
    assert b"a secret" in everything(file)
    await store.delete_user("ada")
    assert b"a secret" not in everything(file)
    await store.close()


async def test_the_log_is_moved_into_the_file_when_it_has_grown(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite, "CHECKPOINT_ROWS", 10)
    store = SqliteStore(file)
    await store.open()
    await begun(store)
    for seq in range(1, 41):
        await store.append_packets(PacketBatch("r1", seq, ["x" * 20_000]))
    assert size(log_of(file)) < 300_000
    assert size(file) > 500_000
    assert len(await store.packets("r1", after_seq=0, limit=99)) == 40
    await store.close()


def log_of(file: Path) -> Path:
    return file.with_name(file.name + "-wal")


def size(file: Path) -> int:
    return file.stat().st_size


def everything(file: Path) -> bytes:
    return b"".join(path.read_bytes() for path in file.parent.iterdir())


def test_a_commit_is_flushed_and_reads_cannot_write(file: Path, runner: asyncio.Runner):
    store = SqliteStore(file)
    runner.run(store.open())

    def pragma(connection: Connection, name: str) -> object:
        return connection.exec_driver_sql(f"PRAGMA {name}").scalar()

    found = {name: runner.run(store.write(pragma, name)) for name in ("journal_mode", "synchronous", "foreign_keys")}
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    assert runner.run(store.read(pragma, "query_only")) == 1
    runner.run(store.close())


async def test_processes_that_were_long_silent_are_deleted_unless_a_turn_of_theirs_still_runs(file: Path):
    store = SqliteStore(file)
    await store.open()
    await begun(store)  # run by p1
    for runner in ("p1", "gone", "silent"):
        await beat(store, runner)

    def make_older(connection: Connection, runner: str, seconds: float) -> None:
        microseconds = int(seconds * 1e6)
        connection.exec_driver_sql("UPDATE runners SET seen_at = seen_at - ? WHERE runner = ?", (microseconds, runner))

    def kept(connection: Connection) -> list[str]:
        return [*connection.scalars(select(runners.c.runner).order_by(runners.c.runner))]

    day = FORGOTTEN_AFTER.total_seconds()
    for runner, seconds in [("p1", day + 1), ("gone", day + 1), ("silent", day - 60)]:
        await store.write(make_older, runner, seconds)
    await beat(store, "p2")
    assert await store.read(kept) == ["p1", "p2", "silent"]
    await store.end_turn(ending())
    await beat(store, "p2")
    assert await store.read(kept) == ["p2", "silent"]
    await store.close()


async def test_a_heartbeat_for_a_file_that_is_gone_fails_and_makes_no_file(file: Path):
    with pytest.raises(StoreError, match="the file cannot be opened"):
        await beat(SqliteStore(file), "p1")
    assert not file.exists()  # noqa: ASYNC240


async def test_a_turn_whose_session_was_deleted_by_hand_is_a_conflict(file: Path):
    store = SqliteStore(file)
    await store.open()
    await begun(store)
    with closing(sqlite3.connect(file, isolation_level=None)) as shell:  # foreign keys are off there
        shell.execute("DELETE FROM sessions")
    with pytest.raises(StoreConflictError, match="session is gone"):
        await put(store, a_session(), "r1")
    await store.close()


def test_the_store_of_one_file_loads_no_driver_of_another():
    script = "import json, sys, accord.stores.sqlite; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert {"asyncpg", "greenlet", "alembic"} & set(json.loads(done.stdout)) == set()


async def test_many_stores_opened_at_once_make_one_schema(file: Path):
    stores = [SqliteStore(file) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await begun(stores[0])
    for store in stores:
        assert await store.turn("r1") is not None
        await store.close()
