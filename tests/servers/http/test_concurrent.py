"""The limit of a backend, through two `accord serve` on one store: turns and model API calls count, and none is lost."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import aiohttp
import pytest

from tests.servers.model_endpoint import BACKEND, SLOW, ModelEndpoint, endpoint
from tests.servers.process import ServedProcess, accord_serve
from tests.servers.transports import body
from tests.stores.postgres_server import PostgresServer, running_server

LIMIT_S = 50
LEASE_S = 1.5


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The `[store]` table of a configuration, and the address of PostgreSQL.

    A database for each test: processes are killed at the end, and their slots are taken until the lease is over.
    """
    if request.param == "sqlite":
        return f'[store]\npath = "{tmp_path}/accord.db"\n', ""
    server = cast("PostgresServer", request.getfixturevalue("postgres"))
    return '[store]\nkind = "postgres"\nurl_env = "STORE_URL"\n', server.make_database(f"of_{uuid4().hex}")


@asynccontextmanager
async def two_processes(
    folder: Path, store: tuple[str, str], *, concurrent: int, wait_s: float
) -> AsyncGenerator[tuple[ModelEndpoint, list[ServedProcess], list[aiohttp.ClientSession]]]:
    """An endpoint behind a backend with this limit, and two processes that share it and a store."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(LIMIT_S))
        model = await stack.enter_async_context(endpoint("one"))
        backend = BACKEND.format(name="one", url=model.url).replace(
            "[[backends]]", f"[[backends]]\nconcurrent = {concurrent}"
        )
        config = f"{backend}\n[limits]\nslot_wait_s = {wait_s}\n[server]\nlease_s = {LEASE_S}\n{store[0]}"
        processes: list[ServedProcess] = []
        clients: list[aiohttp.ClientSession] = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            serving = accord_serve(folder / name, "relay", config=config, environ={"STORE_URL": store[1]})
            processes.append(await stack.enter_async_context(serving))
            clients.append(await stack.enter_async_context(aiohttp.ClientSession(processes[-1].address)))
        yield model, processes, clients


def chat(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "one", "messages": [{"role": "user", "content": text}], **more}


async def complete(client: aiohttp.ClientSession, **more: Any) -> str:
    async with client.post("/v1/chat/completions", json=chat(**more)) as response:
        text = await response.text()
        assert response.status == 200, text
        return text


async def start_slow_call(model: ModelEndpoint, client: aiohttp.ClientSession) -> "asyncio.Task[str]":
    """A call that holds its slot until `model.release` is set."""
    call = asyncio.create_task(complete(client, text=SLOW, stream=True))
    has_begun = asyncio.create_task(model.is_slow.wait())
    await asyncio.wait([call, has_begun], return_when=asyncio.FIRST_COMPLETED)
    assert has_begun.done(), call.result()
    return call


async def ask(client: aiohttp.ClientSession, number: int) -> str:
    async with client.post("/v1/assist", json=body(number, session=f"s{number}")) as response:
        text = await response.text()
        assert response.status == 200, text
        return text


def test_never_more_calls_of_all_processes_run_at_once_than_the_limit_says(tmp_path: Path, store: tuple[str, str]):
    async def run() -> None:
        async with two_processes(tmp_path, store, concurrent=3, wait_s=30) as (model, _, clients):
            model.takes_s = 0.01
            calls = [
                call
                for number in range(10)
                for client in clients
                for call in (
                    complete(client),
                    complete(client, stream=True),
                    complete(client, n=2),
                    complete(client, n=2, stream=True),
                    ask(client, 1000 * (1 + clients.index(client)) + number),
                )
            ]
            answers = await asyncio.gather(*calls)
            assert all("one" in each for each in answers)
            assert model.most_running == 3

    asyncio.run(run())


def test_a_call_waits_for_one_of_another_process_that_is_killed_for_the_lease_only(
    tmp_path: Path, store: tuple[str, str]
):
    async def run() -> None:
        async with two_processes(tmp_path, store, concurrent=1, wait_s=20) as (model, processes, clients):
            holding = await start_slow_call(model, clients[0])
            waiting = asyncio.create_task(complete(clients[1]))
            # Longer than the lease: the process that lives keeps its slot.
            await asyncio.wait([waiting], timeout=2 * LEASE_S)
            assert (waiting.done(), model.answered) == (False, 1)
            processes[0].process.kill()
            began_at = asyncio.get_running_loop().time()
            assert "one" in await waiting
            assert asyncio.get_running_loop().time() - began_at < LEASE_S + 5
            assert isinstance((await asyncio.gather(holding, return_exceptions=True))[0], Exception)

    asyncio.run(run())


def test_a_call_that_gets_no_slot_in_time_is_refused_with_retry_after(tmp_path: Path, store: tuple[str, str]):
    async def run() -> None:
        async with two_processes(tmp_path, store, concurrent=1, wait_s=0.2) as (model, _, clients):
            holding = await start_slow_call(model, clients[0])
            async with clients[1].post("/v1/chat/completions", json=chat()) as response:
                error = (await response.json())["error"]
            assert (response.status, response.headers["retry-after"]) == (503, "1")
            assert error["message"].startswith("one: at the limit of 1 concurrent calls, and none ended within 0.2 s")
            async with clients[1].post("/v1/assist", json=body(1)) as response:
                assert response.status == 503, await response.text()
            async with clients[1].get(f"/v1/requests/{body(1)['request_id']}/receipt") as response:
                receipt = await response.json()
            (fallback,) = receipt["work"][0]["fallbacks"]
            assert (fallback["backend"], fallback["skipped"]) == ("one", True)
            assert fallback["message"] == "one: skipped: at its limit of 1 concurrent calls"
            model.release.set()
            await holding
            assert "one" in await complete(clients[1])

    asyncio.run(run())
