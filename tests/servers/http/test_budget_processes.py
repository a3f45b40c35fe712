"""Budgets and usage of several `accord serve` on one store: bursts, long streams, and processes that are killed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, cast
from uuid import uuid4

import pytest

from accord.stores.sqlite import SqliteStore
from accord.wire.keys import UsageGroup
from tests.servers.budget_processes import (
    CHAT,
    LEASE_S,
    SharedStore,
    chat,
    complete_until_killed,
    connected,
    count_receipts,
    most_within,
    on_postgres,
    on_sqlite,
    served,
)
from tests.servers.transports import body
from tests.stores.postgres_server import PostgresServer, running_server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> SharedStore:
    if request.param == "sqlite":
        return on_sqlite(tmp_path)
    server = cast("PostgresServer", request.getfixturevalue("postgres"))
    return on_postgres(server.make_database(f"of_{uuid4().hex}"))


def test_a_burst_on_two_processes_spends_the_budget_once(tmp_path: Path, shared: SharedStore):
    async def check() -> None:
        async with served(tmp_path, shared, "first", "second", budget=3) as processes, connected() as client:
            answers = await asyncio.gather(*(chat(client, each) for each in processes * 60))
            statuses = [status for status, _ in answers]
            # What a request costs is what was estimated: nothing is exceeded.
            assert (statuses.count(200), statuses.count(403)) == (30, 90)
            for process in processes:
                status, answer = await chat(client, process)
                assert (status, answer["accord"]["code"]) == (403, "budget_exceeded")
                details = answer["accord"]["details"]
                assert details["spent_usd"] + details["reserved_usd"] == pytest.approx(3)
            while await shared.store.spent("k1", None) < 3_000_000:  # noqa: ASYNC110 - written behind the answers
                await asyncio.sleep(0.01)
            assert await shared.store.spent("k1", None) == 3_000_000

    asyncio.run(check())


def test_a_long_stream_keeps_its_reservation_and_a_killed_process_does_not(tmp_path: Path, shared: SharedStore):
    async def check() -> None:
        async with served(tmp_path, shared, "first", "second", budget=0.1) as (first, second), connected() as client:
            stream = await client.post(f"{first.address}/v1/chat/completions", json={**CHAT, "stream": True})
            assert stream.status == 200
            until = monotonic() + 2 * LEASE_S
            while monotonic() < until:  # longer than the lease: the process is alive
                status, answer = await chat(client, second)
                assert (status, answer["accord"]["details"]["reserved_usd"]) == (403, 0.1)
                await asyncio.sleep(0.1)
            first.process.kill()
            killed_at = monotonic()
            while (await chat(client, second))[0] != 200:
                assert monotonic() - killed_at < LEASE_S + 10
                await asyncio.sleep(0.05)
            stream.close()

    asyncio.run(check())


def test_a_running_turn_is_reserved_and_a_stopped_one_is_spent_in_every_process(tmp_path: Path, shared: SharedStore):
    async def check() -> None:
        async with served(tmp_path, shared, "first", "second", budget=10.3) as (first, second), connected() as client:
            request, events = body(1, user="ada"), {"accept": "text/event-stream"}
            stream = await client.post(f"{first.address}/v1/assist", json=request, headers=events)
            assert stream.status == 200
            await stream.content.readany()
            async with client.post(f"{second.address}/v1/assist", json=body(2, user="ada"), headers=events) as refused:
                assert (refused.status, (await refused.json())["details"]["reserved_usd"]) == (403, approx_first())
            async with client.post(f"{second.address}/v1/assist", json=request, headers=events) as again:
                assert again.status == 200  # the turn that runs, which is paid for
                assert b"on and on" in await again.content.readany()
            await client.delete(f"{second.address}/v1/requests/{request['request_id']}")
            assert b"cancelled" in await stream.read()
            while await shared.store.spent("k1", None) < 1024 * 10_000:  # noqa: ASYNC110 - written behind the answers
                await asyncio.sleep(0.01)
            status, answer = await chat(client, second)
            assert (status, answer["accord"]["code"]) == (403, "budget_exceeded")
            assert answer["accord"]["details"]["spent_usd"] == approx_first()

    asyncio.run(check())


def approx_first() -> Any:
    """What a question without a limit may cost: its input costs nothing."""
    return pytest.approx(1024 * 0.01)


@pytest.mark.parametrize(("budget", "connections", "kills"), [(None, 6, 3), (None, 48, 3), (1e6, 24, 2)])
def test_what_a_killed_process_under_load_did_not_count_is_50_ms_of_calls(
    tmp_path: Path, shared: SharedStore, budget: float | None, connections: int, kills: int
):
    async def check() -> None:
        counted = receipts = 0
        for number in range(kills):
            async with served(tmp_path, shared, f"p{number}", budget=budget) as (process,):
                ended: list[float] = []
                clients = [asyncio.create_task(complete_until_killed(process.port, ended)) for _ in range(connections)]
                began_at = monotonic()
                while len(ended) < 4 * connections or monotonic() - began_at < 1 + 0.037 * number:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                process.process.kill()
                await process.process.wait()
                await asyncio.gather(*clients)
                (total,) = await shared.store.usage(by=UsageGroup.KEY)
                lost = len(ended) - (total.requests - counted)
                counted = total.requests
                most = most_within(0.05, ended)
                assert lost <= most, f"{lost} of {len(ended)} calls are missing, and {most} end in 50 ms"
                if isinstance(shared.store, SqliteStore):
                    stored = await asyncio.to_thread(count_receipts, tmp_path / "accord.db")
                    assert len(ended) - (stored - receipts) <= most
                    receipts = stored

    asyncio.run(check())
