"""Calls of the model APIs under kill -9: how much usage is lost, and how far a shared budget is exceeded."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic

import aiohttp
import pytest

from accord.wire.keys import UsageGroup
from tests.faults.checks import until
from tests.servers.budget_processes import (
    LEASE_S,
    SharedStore,
    chat,
    complete_until_killed,
    connected,
    most_within,
    on_postgres,
    on_sqlite,
    served,
)
from tests.servers.process import ServedProcess
from tests.stores.postgres_server import PostgresServer, running_server

pytestmark = pytest.mark.timeout(400)

KILLS = 6
CONNECTIONS = 48
"""Far more than one process answers at once."""
BUDGET = 3
COST = 0.1
"""What one request costs, and what is estimated for it."""
AT_ONCE = 8


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer) -> SharedStore:
    if request.param == "sqlite":
        return on_sqlite(tmp_path)
    return on_postgres(postgres.make_database(f"usage_{abs(hash(request.node.nodeid))}"))


def test_usage_under_kill_9_of_a_saturated_process(tmp_path: Path, shared: SharedStore):
    async def run() -> None:
        answers = counted = most_lost = 0
        for number in range(KILLS):
            async with served(tmp_path, shared, f"p{number}") as (process,):
                ended: list[float] = []
                clients = [asyncio.create_task(complete_until_killed(process.port, ended)) for _ in range(CONNECTIONS)]
                began_at = monotonic()
                while len(ended) < 4 * CONNECTIONS or monotonic() - began_at < 2 + 0.037 * number:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                process.process.kill()
                await process.process.wait()
                await asyncio.gather(*clients)
                (total,) = await shared.store.usage(by=UsageGroup.KEY)
                lost = len(ended) - (total.requests - counted)
                assert lost <= most_within(0.05, ended)
                answers, counted, most_lost = answers + len(ended), total.requests, max(lost, most_lost)
        print(
            f"\nusage under kill -9: {KILLS} kills, {answers} calls answered, {counted} counted, {most_lost} lost at most"
        )

    asyncio.run(run())


def test_a_shared_budget_under_kill_9_of_its_processes(tmp_path: Path, shared: SharedStore):
    """One process stays; others are begun, burst and are killed, until the budget is spent."""

    async def burst(client: aiohttp.ClientSession, process: ServedProcess, statuses: Counter[int]) -> None:
        async def one() -> None:
            with suppress(aiohttp.ClientError):
                statuses[(await chat(client, process))[0]] += 1

        await asyncio.gather(*(one() for _ in range(AT_ONCE)))

    async def run() -> None:
        statuses, kills = Counter[int](), 0
        dice = Random(3)  # noqa: S311 - repeatable on purpose
        async with served(tmp_path, shared, "stays", budget=BUDGET) as (stays,), connected() as client:
            while kills < KILLS:
                async with served(tmp_path, shared, f"k{kills}", budget=BUDGET) as (killed,):
                    bursts = asyncio.gather(burst(client, killed, statuses), burst(client, stays, statuses))
                    await asyncio.sleep(dice.uniform(0, 0.03))
                    killed.process.kill()
                    kills += 1
                    await bursts
            # What killed processes had reserved is free after their leases; then the rest is spent.
            await until(lambda: refused(client, stays, statuses), 3 * LEASE_S + 10)
        spent = await spent_usd(shared)
        lost = statuses[200] - round(spent / COST)
        print(
            f"\na shared budget under kill -9: {kills} kills, {statuses[200]} answers of {BUDGET / COST:.0f}, {lost} not counted"
        )
        assert spent <= BUDGET + 1e-9
        assert 0 <= lost <= KILLS * AT_ONCE

    asyncio.run(run())


async def refused(client: aiohttp.ClientSession, process: ServedProcess, statuses: Counter[int]) -> bool:
    """Spend what is left; whether the budget is spent and nothing of it is reserved."""
    status, answer = await chat(client, process)
    statuses[status] += 1
    return status == 403 and answer["accord"]["details"]["reserved_usd"] == 0


async def spent_usd(shared: SharedStore) -> float:
    await shared.store.open()
    try:
        return await shared.store.spent("k1", None) / 1e6
    finally:
        await shared.store.close()
