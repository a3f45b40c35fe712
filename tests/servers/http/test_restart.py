"""A server that is killed, and one that stops: packets that a client has are stored, and every stream has an end."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp

from accord.core.receipt import verify
from accord.stores.sqlite import SqliteStore
from tests.servers.http.test_resume import EVENTS
from tests.servers.serving_child import child
from tests.servers.transports import body, events_of, within


async def read_until(response: aiohttp.ClientResponse, needle: bytes) -> bytes:
    """What came up to and with these bytes, in whole events."""
    content = b""
    while needle not in content:
        content += await response.content.readany()
    return content[: content.rindex(b"\n\n") + 2]


async def chain(path: Path, session: str = "s") -> list[Any]:
    store = SqliteStore(path)
    await store.open()
    kept = [json.loads(record.body) for record in await store.receipts(session)]
    await store.close()
    return kept


def test_a_client_of_a_killed_server_gets_the_rest_from_the_next_one(tmp_path: Path):
    path, request = tmp_path / "accord.db", body(1, "100000")

    async def run() -> None:
        async with (
            child(path) as (first, address),
            aiohttp.ClientSession(address) as client,
            client.post("/v1/assist", json=request, headers=EVENTS) as response,
        ):
            had = events_of(await read_until(response, b"id: 5\n"))
            first.kill()
            await first.wait()
        last = had[-1][0]
        headers = {**EVENTS, "last-event-id": str(last)}
        async with child(path) as (_, address), aiohttp.ClientSession(address) as client:
            async with client.post("/v1/assist", json=request, headers=headers) as response:
                rest = events_of(await response.read())
            async with client.get(f"/v1/requests/{UUID(int=1)}", headers=EVENTS) as response:
                again = events_of(await response.read())
            async with client.get(f"/v1/requests/{UUID(int=1)}/receipt") as response:
                receipt = await response.json()
            async with client.post("/v1/assist", json=body(2, "2")) as response:
                assert (await response.json())["output"]["text"].strip() == "0 1"
        assert again == [*had, *rest]
        assert [seq for seq, _ in again] == list(range(1, len(again) + 1))
        assert [packet["op"] for _, packet in again[-2:]] == ["error", "close"]
        assert "has died, or was cut off" in again[-2][1]["p"]["message"]
        assert receipt["outcome"]["status"] == "failed"
        receipts = await chain(path)
        assert [each["request_id"] for each in receipts] == [str(UUID(int=1)), str(UUID(int=2))]
        assert verify(receipts).ok

    within(run)


def test_a_stopping_server_finishes_its_streams_and_accepts_no_new_requests(tmp_path: Path):
    async def run() -> None:
        async with child(tmp_path / "accord.db") as (process, address), aiohttp.ClientSession(address) as client:
            async with client.post("/v1/assist", json=body(1, "60"), headers=EVENTS) as response:
                begun = await read_until(response, b"id: 2\n")
                process.send_signal(signal.SIGTERM)
                while True:
                    async with client.post("/v1/assist", json=body(2, "1", session="t")) as other:
                        if other.status == 503:
                            assert other.headers["retry-after"] == "5"
                            break
                begun += await response.read()
            assert events_of(begun)[-1][1] == {"op": "close"}
            assert len([packet for _, packet in events_of(begun) if packet["op"] == "delta"]) == 60
            assert await asyncio.wait_for(process.wait(), 10) == 0

    within(run)


def test_a_second_signal_stops_at_once(tmp_path: Path):
    async def run() -> None:
        async with (
            child(tmp_path / "accord.db") as (process, address),
            aiohttp.ClientSession(address) as client,
            client.post("/v1/assist", json=body(1, "100000"), headers=EVENTS) as response,
        ):
            await read_until(response, b"id: 2\n")
            process.send_signal(signal.SIGTERM)
            async with client.post("/v1/assist", json=body(2, "1", session="t")):
                process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 10) == 0

    within(run)
