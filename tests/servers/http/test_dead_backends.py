"""Dead backends in front of a good one, through a real `accord serve`: they fail a few requests over, then are skipped."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.servers.model_endpoint import BACKEND, endpoint
from tests.servers.process import accord_serve
from tests.servers.transports import body

LIMIT_S = 40
REQUESTS = 100
CIRCUIT = "\n[circuit]\nfailures = 2\npause_s = 60\n"


def dead_url() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


async def fallbacks(client: aiohttp.ClientSession, kind: str, number: int) -> list[Any]:
    """Send a request, and return what its receipt says of the backends before the one that answered."""
    if kind == "turn":
        request = body(number)
        async with client.post("/v1/assist", json=request) as response:
            assert response.status == 200, await response.text()
            receipt = f"/v1/requests/{request['request_id']}/receipt"
    else:
        chat = {"model": "auto", "messages": [{"role": "user", "content": "hi"}], "stream": kind == "stream"}
        async with client.post("/v1/chat/completions", json=chat) as response:
            text = await response.text()
            assert (response.status, response.headers["accord-served-by"]) == (200, "good; model=m-good"), text
            receipt = response.headers["accord-receipt"]
    async with client.get(receipt) as response:
        work = (await response.json())["work"][0]
    assert work["backend"]["name"] == "good"
    return work["fallbacks"]


@pytest.mark.parametrize("kind", ["turn", "whole", "stream"])
def test_dead_backends_fail_a_few_requests_over_and_then_cost_nothing(tmp_path: Path, kind: str):
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), endpoint("good") as good:
            dead = [BACKEND.format(name=name, url=dead_url()).replace("retries = 0", "retries = 2") for name in "ab"]
            config = "".join([*dead, BACKEND.format(name="good", url=good.url), CIRCUIT])
            async with (
                accord_serve(tmp_path, "relay", config=config) as served,
                aiohttp.ClientSession(served.address) as client,
            ):
                records = [await fallbacks(client, kind, number) for number in range(1, 5)]
                await served.until_logged("backends.b: is down; skipped for")
        assert [[each.get("skipped", False) for each in record] for record in records] == [
            [False, False],
            [False, False],
            [True, True],
            [True, True],
        ]
        assert records[3][0]["message"].startswith("a: skipped: down since 20")

    asyncio.run(run())


def test_a_backend_whose_streams_always_break_off_is_skipped(tmp_path: Path):
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), endpoint("bad") as bad, endpoint("good") as good:
            bad.breaks_off = True
            config = BACKEND.format(name="bad", url=bad.url) + BACKEND.format(name="good", url=good.url) + CIRCUIT
            async with (
                accord_serve(tmp_path, "relay", config=config) as served,
                aiohttp.ClientSession(served.address) as client,
            ):
                chat = {"model": "auto", "messages": [{"role": "user", "content": "hi"}], "stream": True}
                for expected in ("bad", "bad", "good"):
                    async with client.post("/v1/chat/completions", json=chat) as response:
                        text = await response.text()
                    assert response.headers["accord-served-by"].startswith(expected)
                    assert ("broke off" in text) is (expected == "bad")
        assert bad.answered == 2

    asyncio.run(run())


class DeadEndpoint:
    """An endpoint that fails every request, and counts them."""

    def __init__(self) -> None:
        self.calls = 0
        self.url = ""

    async def fail(self, _: web.Request) -> web.Response:
        self.calls += 1
        return web.json_response({"error": {"message": "broken"}}, status=500)


@asynccontextmanager
async def dead_endpoint() -> AsyncGenerator[DeadEndpoint]:
    made, app = DeadEndpoint(), web.Application()
    app.router.add_post("/{path:.*}", made.fail)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()


HI: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("kind", ["turn", "whole", "stream"])
@pytest.mark.parametrize("at_once", [1, REQUESTS])
def test_a_dead_backend_without_an_alternative_gets_one_call_for_a_request(tmp_path: Path, kind: str, at_once: int):
    async def send(client: aiohttp.ClientSession, number: int) -> None:
        path, request = "/v1/chat/completions", {"model": "dead", **HI, "stream": kind == "stream"}
        if kind == "turn":
            path, request = "/v1/assist", body(number, session=f"s{number}")
        async with client.post(path, json=request) as response:
            await response.read()
            assert response.status >= 500

    async def run() -> int:
        async with asyncio.timeout(LIMIT_S), dead_endpoint() as dead:
            config = BACKEND.format(name="dead", url=dead.url).replace("retries = 0", "retries = 2")
            async with (
                accord_serve(tmp_path, "relay", config=config + "\n[circuit]\npause_s = 60\n") as served,
                aiohttp.ClientSession(served.address, connector=aiohttp.TCPConnector(limit=0)) as client,
            ):
                for first in range(1, REQUESTS + 1, at_once):
                    await asyncio.gather(*(send(client, number) for number in range(first, first + at_once)))
            return dead.calls

    calls = asyncio.run(run())
    assert REQUESTS <= calls <= REQUESTS + 2, "until the circuit opens, two failures may be followed by another call"


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
PICTURES = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}] * 3
DESCRIBED = """
[emulation]
describe_images_with = "dead"
[emulation.preset]
image_input = true
[circuit]
failures = 2
pause_s = 60
"""


@pytest.mark.parametrize(
    ("path", "request_body", "status", "calls"),
    [
        # The first request opens the circuit; the later ones try a backend that nothing can replace once each.
        ("/v1/chat/completions", {"model": "good", "messages": [{"role": "user", "content": PICTURES}]}, 502, 11),
        # The estimate of Accord replaces a count.
        ("/v1/messages/count_tokens", {"model": "dead", **HI}, 200, 2),
    ],
    ids=["images", "tokens"],
)
def test_a_dead_backend_that_describes_or_counts_gets_no_more_calls_than_its_circuit_allows(
    tmp_path: Path, path: str, request_body: dict[str, Any], status: int, calls: int
):
    async def run() -> int:
        async with asyncio.timeout(LIMIT_S), endpoint("good") as good, dead_endpoint() as dead:
            config = BACKEND.format(name="good", url=good.url)
            describer = BACKEND.format(name="dead", url=dead.url).replace("openai", "anthropic")
            config += describer.replace("overrides = {", 'overrides = { image_input = "native",')
            config = config.replace("retries = 0", "retries = 2") + DESCRIBED
            async with (
                accord_serve(tmp_path, "relay", config=config) as served,
                aiohttp.ClientSession(served.address) as client,
            ):
                for _ in range(10):
                    async with client.post(path, json=request_body) as response:
                        assert response.status == status, await response.text()
            return dead.calls

    assert asyncio.run(run()) == calls
