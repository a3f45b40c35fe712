"""A call of a model API that lasts is in the store while it runs: it can be cancelled, and a kill does not hide it."""

import asyncio
import json
import sqlite3
from pathlib import Path

import aiohttp
import pytest

from accord.agents import demo
from accord.core.receipt import verify
from accord.run import Dispatcher, Engine, Sessions
from tests.servers.clock import run
from tests.servers.gateway import TOKEN, Gateway, gateway
from tests.servers.http.test_counted_calls import BODIES, PATHS, backend
from tests.servers.paid_endpoint import PaidEndpoint, paid_endpoint
from tests.servers.process import accord_serve
from tests.stores.passing import let_pass

LEASE_S = 1.0
KEY = {"authorization": f"Bearer {TOKEN}"}


async def begin(served: Gateway, endpoint: PaidEndpoint, api: str) -> aiohttp.ClientResponse:
    """Begin a streamed call that does not end by itself, and wait until it is stored as running."""
    endpoint.faults["m"] = "left"
    response = await served.post(PATHS[api], {**BODIES[api], "model": "m", "stream": True})
    async with asyncio.timeout(20):
        while await served.store.turn(id_of(response)) is None:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
    return response


def id_of(response: aiohttp.ClientResponse) -> str:
    return response.headers["accord-receipt"].split("/")[-2]


@pytest.mark.parametrize("api", PATHS)
def test_a_running_call_can_be_cancelled(tmp_path: Path, api: str):
    async def check() -> None:
        async with paid_endpoint() as endpoint, gateway(tmp_path, backend("m", endpoint.url, api)) as served:
            async with await begin(served, endpoint, api) as response:
                url = f"{served.address}/v1/requests/{id_of(response)}"
                async with served.session.delete(url, headers=KEY) as cancelled:
                    assert cancelled.status < 300, await cancelled.text()
                async with asyncio.timeout(20):
                    answer = (await response.content.read()).decode()
            async with asyncio.timeout(20):
                await endpoint.left.wait()
            assert "cancelled" in answer
            receipt = await served.receipt(response.headers["accord-receipt"])
            assert receipt["outcome"]["status"] == "cancelled"
            assert receipt["call"]["estimated"]
            async with served.session.delete(url, headers=KEY) as again:
                assert again.status == 409

    run(check())


def test_a_call_that_ends_is_stored_once(tmp_path: Path):
    async def check() -> None:
        async with paid_endpoint() as endpoint, gateway(tmp_path, backend("m", endpoint.url)) as served:
            async with await begin(served, endpoint, "chat") as response:
                number = id_of(response)
                response.close()
            receipt = await served.receipt(f"/v1/requests/{number}/receipt")
            turn = await served.store.turn(number)
            assert turn is not None
            assert (receipt["outcome"]["status"], turn.state, turn.runner) == ("cancelled", "cancelled", "")
            assert verify([receipt]).ok

    run(check())


def test_a_call_is_stored_though_another_process_has_ended_one_before_it_in_its_chain(tmp_path: Path):
    async def check() -> None:
        async with paid_endpoint() as endpoint, gateway(tmp_path, backend("m", endpoint.url)) as served:
            other = Sessions(Engine(demo, Dispatcher([])), served.store)
            async with await begin(served, endpoint, "chat") as first, await begin(served, endpoint, "chat") as second:
                await let_pass(served.store, 1)
                turn = await served.store.turn(id_of(first))
                assert turn is not None
                claimed = await served.store.take_over(turn, 0, runner=other.runner)
                assert claimed is not None
                assert await other.endings.interrupt(claimed)
                second.close()
                ended = await served.receipt(second.headers["accord-receipt"])
                first.close()
                receipts = await served.store.receipts(turn.session_id)
            assert ended["outcome"]["status"] == "cancelled"
            assert verify([json.loads(each.body) for each in receipts]).ok
            assert len(receipts) == 2

    run(check())


def test_another_process_ends_the_calls_of_one_that_was_killed(tmp_path: Path):
    async def check() -> None:
        async with paid_endpoint() as endpoint, aiohttp.ClientSession() as session:
            endpoint.faults["m"] = "left"
            config = backend("m", endpoint.url) + f"\n[server]\nlease_s = {LEASE_S}\n"
            body = {**BODIES["chat"], "model": "m", "stream": True}
            async with (
                accord_serve(tmp_path, config=config) as first,
                session.post(first.address + PATHS["chat"], json=body) as response,
            ):
                await response.content.readany()
                number = id_of(response)
                async with asyncio.timeout(20):
                    while not stored(tmp_path, number):  # noqa: ASYNC110 - nothing else tells
                        await asyncio.sleep(0.01)
                first.process.kill()
                await first.process.wait()
            async with accord_serve(tmp_path, config=config) as second, asyncio.timeout(20):
                async with session.get(f"{second.address}/v1/requests/{number}") as ended:
                    await ended.read()
                async with session.get(f"{second.address}/v1/requests/{number}/receipt") as found:
                    receipt = await found.json()
                async with session.get(f"{second.address}/v1/responses/resp_{number.replace('-', '')}") as no_response:
                    assert no_response.status == 404
            assert receipt["outcome"] == {
                "status": "failed",
                "code": "unavailable",
                "message": "The process that ran this turn has died, or was cut off from the store",
            }
            assert verify([receipt]).ok

    run(check())


def stored(folder: Path, request_id: str) -> bool:
    with sqlite3.connect(folder / "accord.db") as connection:
        return bool(connection.execute("SELECT 1 FROM turns WHERE request_id = ?", (request_id,)).fetchall())
