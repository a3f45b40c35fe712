"""Turns under faults: nothing is lost, repeated, out of order or left running, whatever is killed, stopped or full."""

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from accord.stores.postgres import PostgresStore
from accord.stores.sqlite import SqliteStore
from tests.faults.checks import (
    ask_json,
    check_reading,
    check_stored,
    has_status,
    log_records,
    print_figures,
    questions,
    until,
)
from tests.faults.clients import Outcome, read_all, read_raw, read_with_accord
from tests.faults.service import LEASE_S, Service, serving
from tests.stores.postgres_server import PostgresServer, running_server

pytestmark = pytest.mark.timeout(400)

NUMBERS = 60
COUNTING = f"count {NUMBERS} 20"
LONG_S = 4 * LEASE_S
READERS = (read_with_accord, read_raw)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer, request: pytest.FixtureRequest) -> str:
    return postgres.make_database(f"faults_{abs(hash(request.node.nodeid))}")


def on_postgres(folder: Path, database: str, **more: Any) -> Service:
    return Service(folder, 'kind = "postgres"', env={"ACCORD_STORE_URL": database}, **more)


def on_sqlite(folder: Path, **more: Any) -> Service:
    return Service(folder, f'kind = "sqlite"\npath = "{folder / "accord.db"}"', **more)


async def every(seconds: tuple[float, float], seed: int, fault: Callable[[], Awaitable[None]]) -> None:
    """Cause the fault again and again, at times that are random but the same in every run."""
    dice = Random(seed)  # noqa: S311 - repeatable on purpose
    while True:
        await asyncio.sleep(dice.uniform(*seconds))
        await fault()


async def stop(faults: asyncio.Task[None]) -> None:
    """Cause no more faults; fails if causing them failed."""
    faults.cancel()
    with suppress(asyncio.CancelledError):
        await faults


def test_turns_under_kill_9_of_the_server(tmp_path: Path, database: str):
    async def run() -> None:
        service, kills = on_postgres(tmp_path, database), 0

        async def fault() -> None:
            nonlocal kills
            kills += 1
            await service.kill()
            await service.start()

        turns = questions(200, COUNTING)
        async with serving(service):
            faults = asyncio.create_task(every((1.5, 3.0), 1, fault))
            await read_all([(READERS[n % 2], service.address, turn) for n, turn in enumerate(turns)], at_once=16)
            await stop(faults)
            for turn in turns:
                check_reading(turn, NUMBERS)
            if service.process is None or service.process.returncode is not None:
                await service.start()
            await check_stored(PostgresStore(database), turns)
        assert kills >= 3
        print_figures("kill -9 of the server", turns, kills=kills)

    asyncio.run(run())


def test_turns_under_kill_9_of_postgresql(tmp_path: Path, postgres: PostgresServer, database: str):
    async def run() -> None:
        service, kills = on_postgres(tmp_path, database), 0

        async def fault() -> None:
            nonlocal kills
            kills += 1
            await asyncio.to_thread(postgres.kill)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(postgres.start)

        turns = questions(200, COUNTING)
        async with serving(service):
            faults = asyncio.create_task(every((1.5, 3.0), 2, fault))
            await read_all([(READERS[n % 2], service.address, turn) for n, turn in enumerate(turns)], at_once=16)
            await stop(faults)
            await asyncio.to_thread(postgres.start_if_stopped)
            for turn in turns:
                check_reading(turn, NUMBERS)
            await check_stored(PostgresStore(database), turns)
            assert service.process is not None
            assert service.process.returncode is None
        assert kills >= 3
        print_figures("kill -9 of PostgreSQL", turns, kills=kills)

    asyncio.run(run())


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_an_idle_process_keeps_the_turns_that_it_begins_later(tmp_path: Path, database: str, store: str):
    """The heartbeat of an idle process is old; a turn that it begins then is not abandoned."""

    async def run() -> None:
        pair = [on_sqlite(tmp_path) if store == "sqlite" else on_postgres(tmp_path, database) for _ in range(2)]
        turns = questions(24, f"count 8 {int(LONG_S * 1_000 / 8)}")
        first, *rest = turns
        async with serving(*pair):
            await read_all([(read_raw, pair[0].address, first)], at_once=1)
            await asyncio.sleep(2 * LEASE_S)  # idle for longer than a lease: this is the fault
            async with asyncio.TaskGroup() as group:
                group.create_task(read_all([(read_raw, pair[0].address, turn) for turn in rest], at_once=24))
                # Readers of the other process look for abandoned turns.
                group.create_task(read_elsewhere(pair[1].address, rest[:4]))
            for turn in turns:
                check_reading(turn, 8)
                assert turn.error_code is None
            await check_stored(
                SqliteStore(tmp_path / "accord.db") if store == "sqlite" else PostgresStore(database), turns
            )
        print_figures(f"idle for {2 * LEASE_S:g} s, then turns of {LONG_S:g} s, {store}", turns)

    asyncio.run(run())


async def read_elsewhere(address: str, turns: list[Outcome]) -> None:
    """Read turns that another process runs, to their end."""
    async with aiohttp.ClientSession(address) as http:
        for turn in turns:
            while True:
                async with http.get(
                    f"/v1/requests/{turn.request_id}", headers={"accept": "text/event-stream"}
                ) as found:
                    if found.status == 200:
                        await found.read()
                        break
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("skew_s", [-20, 20])
def test_processes_whose_clocks_differ_leave_each_others_turns_alone(tmp_path: Path, database: str, skew_s: float):
    async def run() -> None:
        right, wrong = on_postgres(tmp_path, database), on_postgres(tmp_path, database, skew_s=skew_s)
        turns = questions(12, f"count 8 {int(LONG_S * 1_000 / 8)}")
        async with serving(right, wrong):
            async with asyncio.TaskGroup() as group:
                group.create_task(read_all([(read_raw, right.address, turn) for turn in turns[:6]], at_once=6))
                group.create_task(read_all([(read_raw, wrong.address, turn) for turn in turns[6:]], at_once=6))
                group.create_task(read_elsewhere(wrong.address, turns[:2]))
                group.create_task(read_elsewhere(right.address, turns[6:8]))
            for turn in turns:
                check_reading(turn, 8)
                assert turn.error_code is None
            await check_stored(PostgresStore(database), turns)
        print_figures(f"clocks {skew_s} s apart", turns)

    asyncio.run(run())


def test_a_process_that_was_paused_longer_than_its_lease_writes_nothing_more(tmp_path: Path, database: str):
    async def run() -> None:
        paused, other = on_postgres(tmp_path, database), on_postgres(tmp_path, database)
        turns = questions(8, f"count 40 {int(LONG_S * 1_000 / 40)}")
        async with serving(paused, other):
            reading = asyncio.create_task(read_all([(read_raw, paused.address, turn) for turn in turns], at_once=8))
            await until(partial(all_begun, turns), 20)
            paused.send(signal.SIGSTOP)
            # Readers at the other process see the turns end, since their process is silent.
            await read_elsewhere(other.address, turns)
            paused.send(signal.SIGCONT)
            await reading
            for turn in turns:
                check_reading(turn, 40)
                assert turn.error_code == "unavailable"
            await check_stored(PostgresStore(database), turns)
            # The process that was paused goes on with new turns.
            again = questions(4, "count 3 10")
            await read_all([(read_raw, paused.address, turn) for turn in again], at_once=4)
            for turn in again:
                check_reading(turn, 3)
                assert turn.error_code is None
        print_figures(f"SIGSTOP for longer than the lease of {LEASE_S:g} s", turns)

    asyncio.run(run())


async def all_begun(turns: list[Outcome]) -> bool:
    return all(turn.packets for turn in turns)


def used_bytes(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.glob("accord.db*"))


async def limit_files(service: Service, most_bytes: int) -> None:
    """Let the service's files grow so far and no further: writing beyond fails as on a full disk."""
    assert service.process is not None
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))


def test_a_full_disk_ends_turns_clearly_and_loses_nothing_that_was_sent(tmp_path: Path):
    """The limit on the size of files stands in for the disk: it needs no privileges, and can be lifted."""

    async def run() -> None:
        service = on_sqlite(tmp_path)
        turns = questions(12, COUNTING)
        async with serving(service):
            first, *rest = turns
            await read_all([(read_raw, service.address, first)], at_once=1)
            await limit_files(service, used_bytes(tmp_path) + 4_096)
            reading = asyncio.create_task(read_all([(read_raw, service.address, turn) for turn in rest], at_once=6))
            await until(partial(has_status, service.address, "degraded"), 30)
            reasons = [str(record) for record in log_records(service.log) if "disk" in str(record).lower()]
            await limit_files(service, resource.RLIM_INFINITY)
            await reading
            for turn in turns:
                check_reading(turn, NUMBERS)
            await check_stored(SqliteStore(tmp_path / "accord.db"), turns)
            await until(partial(has_status, service.address, "ok"), 30)
        assert reasons, "the log does not say that the disk is full"
        print_figures("disk full", turns)

    asyncio.run(run())


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_an_agent_that_blocks_the_event_loop_costs_no_other_turn(tmp_path: Path, database: str, store: str):
    async def run() -> None:
        pair = [on_sqlite(tmp_path) if store == "sqlite" else on_postgres(tmp_path, database) for _ in range(2)]
        turns = questions(8, f"count 8 {int(LONG_S * 1_000 / 8)}")
        (blocking,) = questions(1, f"block {3 * LEASE_S}")
        async with serving(*pair):
            async with asyncio.TaskGroup() as group:
                group.create_task(read_all([(read_raw, pair[0].address, turn) for turn in turns], at_once=8))
                group.create_task(read_elsewhere(pair[1].address, turns[:4]))
                group.create_task(ask_json(pair[0].address, blocking))
            for turn in turns:
                check_reading(turn, 8)
                assert turn.error_code is None
        stacks = [record for record in log_records(pair[0].log) if "agents.py" in str(record)]
        assert stacks, "the log does not name the agent that blocks"
        print_figures(f"an agent blocks the loop for {3 * LEASE_S:g} s, {store}", turns)

    asyncio.run(run())
