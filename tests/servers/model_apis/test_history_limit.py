"""What `previous_response_id` continues is limited in bytes: a real service, its store file, and requests over HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from tests.servers.clock import run
from tests.servers.process import ServedProcess, accord_serve

ECHO = '[[backends]]\nname = "echo"\nkind = "echo"\n'
MEMORY = '\n[store]\nkind = "memory"\n'
KB = 1024
MB = 1024 * KB


def limited(max_bytes: int) -> str:
    return f"{ECHO}[limits]\nmax_history_bytes = {max_bytes}\n"


class Client:
    """A client of the responses API."""

    def __init__(self, served: ServedProcess, session: aiohttp.ClientSession) -> None:
        self.served = served
        self.session = session

    async def post(self, given: Any, previous: str | None = None) -> tuple[int, dict[str, Any]]:
        body = json.dumps({"model": "echo", "input": given, "previous_response_id": previous}).encode()
        headers = {"content-type": "application/json"}
        address = f"{self.served.address}/v1/responses"
        async with self.session.post(address, data=BytesIO(body), headers=headers) as response:
            return response.status, await response.json()

    async def chain(self, count: int, size: int, previous: str | None = None) -> str:
        """The id of the last of so many responses, each with so long an input."""
        for _ in range(count):
            status, answer = await self.post("x" * size, previous)
            assert status == 200, answer
            previous = answer["id"]
        assert previous is not None
        return previous

    async def get(self, given: str) -> tuple[int, dict[str, Any]]:
        async with self.session.get(f"{self.served.address}/v1/responses/{given}") as response:
            return response.status, await response.json()


def with_client(folder: Path, config: str, work: Callable[[Client], Awaitable[None]]) -> None:
    async def serve() -> None:
        async with (
            accord_serve(folder, "--log-level", "error", config=config) as served,
            aiohttp.ClientSession() as made,
        ):
            await work(Client(served, made))

    run(serve())


def assert_refused(answer: tuple[int, dict[str, Any]], limit: str) -> None:
    status, body = answer
    assert status == 400
    error = body["error"]
    assert (error["param"], error["code"]) == ("previous_response_id", "context_length_exceeded")
    assert limit in error["message"]
    assert "send the items that matter as input" in error["message"]


@pytest.mark.parametrize("store", ["", MEMORY])
def test_a_chain_that_is_too_long_is_refused_and_never_cut(tmp_path: Path, store: str):
    async def work(client: Client) -> None:
        fitting = await client.chain(3, 10 * KB)
        assert (await client.post("hi", fitting))[0] == 200
        status, answer = await client.post("x" * 100 * KB, fitting)  # a chain that gets too long with this response
        assert status == 200
        assert_refused(
            await client.post("hi", answer["id"]), "131072 bytes, which is the limit (limits.max_history_bytes)"
        )
        assert (await client.post("hi", fitting))[0] == 200

    with_client(tmp_path, limited(128 * KB) + store, work)


@pytest.mark.parametrize("store", ["", MEMORY])
def test_a_response_that_is_too_long_alone_is_kept_and_cannot_be_continued(tmp_path: Path, store: str):
    async def work(client: Client) -> None:
        last = await client.chain(1, 200 * KB)
        status, stored = await client.get(last)
        assert (status, stored["id"], stored["status"]) == (200, last, "completed")
        assert_refused(await client.post("hi", last), "131072 bytes")

    with_client(tmp_path, limited(128 * KB) + store, work)


def test_the_values_of_a_chain_are_limited_as_those_of_a_request(tmp_path: Path):
    async def work(client: Client) -> None:
        items = [{"role": "user", "content": "a"}] * 100
        first = await client.post(items)
        second = await client.post(items, first[1]["id"])
        assert (first[0], second[0]) == (200, 200)
        limit = "500 JSON values, which is the limit (server.max_values)"
        assert_refused(await client.post("hi", second[1]["id"]), limit)

    with_client(tmp_path, f"{ECHO}[server]\nmax_values = 500\n", work)


def test_long_responses_of_an_earlier_configuration_take_no_memory(tmp_path: Path):
    """The store has a chain of 30 MB; five small requests and the reading of a response do not load it at once."""
    last = ""

    async def store(client: Client) -> None:
        nonlocal last
        last = await client.chain(3, 5 * MB)

    async def read(client: Client) -> None:
        before = client.served.memory_mb("VmHWM")
        for answer in await asyncio.gather(*(client.post("hi", last) for _ in range(5))):
            assert_refused(answer, "4194304 bytes")
        assert client.served.memory_mb("VmHWM") - before < 30
        for status, answer in await asyncio.gather(*(client.get(last) for _ in range(10))):
            assert (status, answer["id"]) == (200, last)
        assert client.served.memory_mb("VmHWM") - before < 100

    with_client(tmp_path, limited(1_000 * MB), store)
    with_client(tmp_path, ECHO, read)


def test_the_id_of_an_agents_turn_is_not_that_of_a_response(tmp_path: Path):
    async def work(client: Client) -> None:
        number = str(uuid4())
        context = {"session_id": number, "user": {"id": "ada", "name": "A"}}
        request = {"request_id": number, "context": context, "payload": {"query": "hi"}}
        async with client.session.post(f"{client.served.address}/v1/assist", json=request) as response:
            assert response.status == 200
        assert (await client.get(f"resp_{number}"))[0] == 404
        status, answer = await client.post("hi", f"resp_{number}")
        assert (status, answer["error"]["code"]) == (400, "previous_response_not_found")

    with_client(tmp_path, ECHO, work)
