"""The log of a real `accord serve`: one line for each turn and each other request, and one format for all lines."""

import asyncio
import json
from pathlib import Path

import aiohttp

from tests.servers.process import accord_serve
from tests.servers.transports import body, within


def test_a_warning_of_uvicorn_is_a_line_of_json_like_every_other(tmp_path: Path):
    async def run() -> None:
        async with accord_serve(tmp_path, "--log-json") as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
            await reader.read()
            writer.close()
            line = json.loads(await served.until_logged("Invalid HTTP request received"))
            assert (line["level"], line["logger"]) == ("warning", "uvicorn.error")

    within(run)


def test_a_request_that_starts_a_turn_is_one_line_and_every_other_request_another(tmp_path: Path):
    async def run() -> None:
        async with (
            accord_serve(tmp_path, "--log-json") as served,
            aiohttp.ClientSession(served.address, headers={"accept": "text/event-stream"}) as client,
        ):
            for _ in range(2):  # the second request repeats the first and starts no turn
                async with client.post("/v1/assist", json=body()) as response:
                    assert response.status == 200
                    await response.read()
            async with client.get("/v1/requests/unknown") as response:
                assert response.status == 404
            await served.until_logged('"status":404')
            lines = [json.loads(line) for line in served.log_lines if '"method"' in line or "accord.turn" in line]
            turn, repeated, missing = lines
            assert (turn["logger"], turn["message"], turn["request_id"]) == (
                "accord.turn",
                "turn done",
                body()["request_id"],
            )
            assert {"session", "outcome", "ms", "method", "route", "status", "request_ms"} <= turn["fields"].keys()
            assert (repeated["logger"], repeated["fields"]["status"]) == ("accord.http", 200)
            assert (missing["logger"], missing["fields"]["status"]) == ("accord.http", 404)

    within(run)


def test_a_client_that_disconnects_is_in_the_line_of_the_turn_that_it_left(tmp_path: Path):
    agent = """
import asyncio
from accord import Agent

async def slow(turn):
    yield "a"
    await asyncio.sleep(0.5)
    yield "b"

agent = Agent(slow)
"""

    async def run() -> None:
        async with accord_serve(tmp_path, "--log-json", agent=agent) as served:
            headers = {"accept": "text/event-stream"}
            async with (
                aiohttp.ClientSession(served.address) as client,
                client.post("/v1/assist", json=body(), headers=headers) as response,
            ):
                await response.content.readuntil(b"data:")
                response.close()
            line = json.loads(await served.until_logged("accord.turn"))
            assert (line["fields"]["outcome"], line["fields"]["status"]) == ("done", 499)
            assert line["fields"]["request_ms"] < line["fields"]["ms"]
            assert not [line for line in served.log_lines if "accord.http" in line]

    within(run)
