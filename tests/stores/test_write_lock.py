"""Writers of several processes take turns, and no process that is stopped or dead keeps the others waiting for ever."""

import asyncio
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from accord.errors import StoreError
from accord.stores.sqlite import SqliteStore
from accord.stores.write_lock import SUFFIX, WriteLock

WAIT_S = 10.0
HOLD = """
import sys
from pathlib import Path
from accord.stores.write_lock import WriteLock
with WriteLock(Path(sys.argv[1])) as lock:
    lock.acquire()
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another_process(file: Path) -> Generator["subprocess.Popen[str]"]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@asynccontextmanager
async def opened(file: Path, *, busy_timeout_s: float = 30.0) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(file, busy_timeout_s=busy_timeout_s)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def test_a_writer_waits_until_another_process_is_done(tmp_path: Path):
    async with opened(tmp_path / "s.db") as store:
        with held_by_another_process(tmp_path / "s.db") as process:
            writing = asyncio.ensure_future(store.probe())
            await store.requires_tokens()  # readers do not wait
            assert not writing.done()
            process.communicate("", timeout=WAIT_S)
            await asyncio.wait_for(writing, WAIT_S)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
async def test_a_dead_process_does_not_keep_the_lock(tmp_path: Path, stop: signal.Signals):
    async with opened(tmp_path / "s.db") as store:
        with held_by_another_process(tmp_path / "s.db") as process:
            writing = asyncio.ensure_future(store.probe())
            process.send_signal(stop)
            await asyncio.wait_for(writing, WAIT_S)


async def test_writes_fail_while_another_process_has_the_lock_for_too_long(tmp_path: Path):
    async with opened(tmp_path / "s.db", busy_timeout_s=0.2) as store:
        with held_by_another_process(tmp_path / "s.db"):
            for _ in range(2):
                async with asyncio.timeout(WAIT_S):
                    outcomes = await asyncio.gather(store.probe(), store.probe(), return_exceptions=True)
                assert [type(each) for each in outcomes] == [StoreError, StoreError]
                assert str(outcomes[0]).endswith(
                    "another process has held it for too long; stop that process, or try again"
                )
        await asyncio.wait_for(store.probe(), WAIT_S)


async def test_a_store_can_be_closed_while_another_process_has_the_lock(tmp_path: Path):
    store = SqliteStore(tmp_path / "s.db", busy_timeout_s=0.2)
    await store.open()
    with held_by_another_process(tmp_path / "s.db"):
        with pytest.raises(StoreError, match="held it for too long"):
            await asyncio.wait_for(store.probe(), WAIT_S)
        await asyncio.wait_for(store.close(), WAIT_S)


async def test_a_heartbeat_and_a_new_store_work_while_another_program_keeps_the_lock(tmp_path: Path):
    file = tmp_path / "s.db"
    async with opened(file, busy_timeout_s=0.2) as store:
        with held_by_another_process(file):
            heartbeat = store.heartbeat()
            await asyncio.wait_for(asyncio.to_thread(heartbeat.beat, "runner"), WAIT_S)
            await asyncio.to_thread(heartbeat.close)
            other = SqliteStore(file, busy_timeout_s=0.2)
            await asyncio.wait_for(other.open(), WAIT_S)
            await other.close()


@pytest.mark.parametrize("mode", [0o600, 0o660])
async def test_the_lock_has_the_mode_of_its_database(tmp_path: Path, mode: int):
    file = tmp_path / "s.db"
    file.touch(mode=0o600)
    file.chmod(mode)
    async with opened(file) as store:
        await store.probe()
    assert stat.S_IMODE((tmp_path / f"s.db{SUFFIX}").stat().st_mode) == mode


async def test_a_store_works_without_its_lock(tmp_path: Path):
    (tmp_path / f"s.db{SUFFIX}").mkdir()  # cannot be opened as a file
    async with opened(tmp_path / "s.db") as store:
        await store.probe()


def test_two_threads_of_one_process_take_turns(tmp_path: Path):
    (tmp_path / "s.db").touch()
    with WriteLock(tmp_path / "s.db") as first, WriteLock(tmp_path / "s.db") as second:
        first.acquire()
        second.acquire_within(0.05)
        assert second.waiting_s >= 0.05
        first.release()
        second.acquire_within(WAIT_S)
        assert second.waiting_s == 0.0
