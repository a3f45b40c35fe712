"""What endpoints report and how a store fails never lose or swell the usage of others: HTTP in, the store's file after it."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from accord.core.work.backend_call import MAX_COUNT
from accord.run.costs import OTHER
from accord.wire.keys import UsageGroup
from tests.cli.model_server import KEY, ModelServer
from tests.servers.clock import run
from tests.servers.gateway import Gateway
from tests.servers.http.test_call_costs import COST, gateway

WAIT_S = 20


class OddEndpoint(ModelServer):
    """It reports what the test says: usage, and the name of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.usage: dict[str, Any] = {"prompt_tokens": 7, "completion_tokens": 3}
        self.model = "tiny"

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        about = {"id": "1", "model": self.model}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
            return web.json_response({**about, "choices": [choice], "usage": self.usage})
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        await self.send(reply, {**about, "choices": [{"index": 0, "delta": {"content": "hello"}}]})
        await self.send(reply, {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await self.send(reply, {**about, "choices": [], "usage": self.usage})
        await reply.write(b"data: [DONE]\n\n")
        return reply


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[OddEndpoint]:
    monkeypatch.setenv("MODEL_KEY", KEY)
    with OddEndpoint().running() as server:
        assert isinstance(server, OddEndpoint)
        yield server


async def requests_by_key(served: Gateway, count: int) -> dict[str, int]:
    """The stored requests of each key, as soon as there are so many; the service writes them by itself."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = {each.name: each.requests for each in await served.store.usage(by=UsageGroup.KEY)}
            if sum(found.values()) >= count:
                return found
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", [False, True])
def test_absurd_usage_of_one_key_leaves_the_usage_of_others_and_the_budgets_as_they_are(
    tmp_path: Path, endpoint: OddEndpoint, stream: bool
):
    async def check() -> None:
        async with gateway(tmp_path, endpoint, budget_usd=10) as served:
            other = await served.add_key("k2")
            request = {"model": "priced", "messages": [{"role": "user", "content": "hi"}]}
            endpoint.usage = {"prompt_tokens": 7, "completion_tokens": 10**20}
            options: dict[str, Any] = {"stream": True} if stream else {}
            assert (await served.chat(**options))[0] == 200
            endpoint.usage = {"prompt_tokens": 7, "completion_tokens": 3}
            for _ in range(2):
                async with await served.post("/v1/chat/completions", request, other) as response:
                    assert response.status == 200, await response.text()
            assert await requests_by_key(served, 3) == {"k1": 1, "k2": 2}
            status, answer = await served.chat()
            assert (status, answer["accord"]["code"]) == (403, "budget_exceeded")
            assert answer["accord"]["details"]["spent_usd"] == pytest.approx(MAX_COUNT / 1000, rel=0.01)

    run(check())


def test_the_receipt_says_that_a_count_was_clamped(tmp_path: Path, endpoint: OddEndpoint):
    async def check() -> None:
        async with gateway(tmp_path, endpoint) as served:
            endpoint.usage = {"prompt_tokens": 7, "completion_tokens": 10**20}
            _, answer = await served.chat()
            work = (await served.receipt(answer["accord"]["receipt"]))["work"][0]
            assert work["usage"] == {"input_tokens": 7, "output_tokens": MAX_COUNT, "clamped": ["output_tokens"]}

    run(check())


def test_an_endpoint_that_invents_names_of_models_adds_one_row(tmp_path: Path, endpoint: OddEndpoint):
    async def check() -> None:
        async with gateway(tmp_path, endpoint, budget_usd=100) as served:
            for number in range(1000):
                endpoint.model = f"m{number}" * (1 + number % 300)
                assert (await served.chat())[0] == 200
            for model in ("tiny", "tiny-2026-01-31", "tiny@001"):
                endpoint.model = model
                assert (await served.chat())[0] == 200
            await requests_by_key(served, 1003)
            rows = {each.name: each.requests for each in await served.usage(UsageGroup.MODEL)}
            assert rows == {OTHER: 1000, "tiny": 3}

    run(check())


BREAKS = """
CREATE TRIGGER no_usage BEFORE INSERT ON model_usage BEGIN SELECT RAISE(ABORT, 'disk full'); END;
CREATE TRIGGER no_probe BEFORE INSERT ON probes BEGIN SELECT RAISE(ABORT, 'disk full'); END;
"""
REFUSES_ONE = """
CREATE TRIGGER no_usage BEFORE INSERT ON model_usage WHEN NEW.backend = 'unpriced'
BEGIN SELECT RAISE(ABORT, 'no such row'); END;
"""


def change_store(folder: Path, script: str) -> None:
    with closing(sqlite3.connect(folder / "accord.db")) as connection:
        connection.executescript(script)


def test_usage_that_a_store_could_not_write_is_written_when_it_works_again(tmp_path: Path, endpoint: OddEndpoint):
    async def check() -> None:
        async with gateway(tmp_path, endpoint) as served:
            await asyncio.to_thread(change_store, tmp_path, BREAKS)
            for _ in range(5):
                assert (await served.chat())[0] == 200
                await asyncio.sleep(0.02)  # each is another write that fails
            assert not await served.store.usage(by=UsageGroup.KEY)
            await asyncio.to_thread(change_store, tmp_path, "DROP TRIGGER no_usage; DROP TRIGGER no_probe;")
            assert await requests_by_key(served, 5) == {"k1": 5}
            (total,) = await served.usage()
            assert (total.requests, round(total.cost_usd * 1e6)) == (5, 5 * COST)

    run(check())


def test_a_budget_is_not_spent_while_the_store_cannot_reserve(tmp_path: Path, endpoint: OddEndpoint):
    async def check() -> None:
        async with gateway(tmp_path, endpoint, budget_usd=10) as served:
            failing = "CREATE TRIGGER broken BEFORE INSERT ON reservations BEGIN SELECT RAISE(ABORT, 'disk full'); END;"
            await asyncio.to_thread(change_store, tmp_path, failing)
            status, _ = await served.chat()
            assert (status, len(endpoint.bodies)) == (503, 0)
            await asyncio.to_thread(change_store, tmp_path, "DROP TRIGGER broken;")
            assert (await served.chat())[0] == 200

    run(check())


def test_a_row_that_the_store_refuses_takes_no_others_with_it(tmp_path: Path, endpoint: OddEndpoint):
    async def check() -> None:
        async with gateway(tmp_path, endpoint) as served:
            await asyncio.to_thread(change_store, tmp_path, REFUSES_ONE)
            for model in ("unpriced", "priced", "unpriced", "priced"):
                assert (await served.chat(model))[0] == 200
            await requests_by_key(served, 2)
            assert {each.name: each.requests for each in await served.usage(UsageGroup.BACKEND)} == {"priced": 2}
            await asyncio.to_thread(change_store, tmp_path, "DROP TRIGGER no_usage;")
        with closing(sqlite3.connect(tmp_path / "accord.db")) as connection:
            rows = connection.execute("SELECT backend, requests FROM model_usage ORDER BY backend").fetchall()
        assert rows == [("priced", 2), ("unpriced", 2)]  # tried once more when the service stops

    run(check())
