"""A service that was open and got a token: it closes without a restart, and never opens again by itself."""

import asyncio
from pathlib import Path

import aiohttp

from tests.cli.test_app import accord
from tests.servers.process import ServedProcess, accord_serve
from tests.servers.transports import body, within

CONFIG = "[server]\nrecheck_s = 0.1\n"


async def status(served: ServedProcess, token: str = "", number: int = 1) -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = body(number, user="ada", session=f"s{number}")
    async with (
        aiohttp.ClientSession(served.address, headers=headers) as client,
        client.post("/v1/assist", json=request) as response,
    ):
        return response.status


async def until_status(served: ServedProcess, expected: int, token: str = "") -> None:
    while await status(served, token) != expected:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)


async def tokens(served: ServedProcess, *arguments: str) -> str:
    config = str(served.folder / "accord.toml")
    done = await asyncio.to_thread(accord, "keys", *arguments, "--config", config)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_token_closes_an_open_service_and_only_a_command_opens_it_again(tmp_path: Path):
    async def run() -> None:
        async with accord_serve(tmp_path, config=CONFIG) as served:
            assert await status(served) == 200
            token = (await tokens(served, "add", "ada")).strip()
            await until_status(served, 401)
            assert await status(served, token) == 200
            token_id = (await tokens(served, "list")).split("│")[1].strip()
            await tokens(served, "revoke", token_id)
            await until_status(served, 401, token)
            assert await status(served) == 401
        async with accord_serve(tmp_path, config=CONFIG) as served:
            assert await status(served) == 401
            await served.until_logged("requires keys, and there are none")
            await tokens(served, "open")
        async with accord_serve(tmp_path, config=CONFIG) as served:
            assert await status(served) == 200

    within(run)
