"""A broken stream is resumed: exactly the rest, in order, in any process and at any time."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause
from accord.config import UnreadPolicy
from accord.run import SessionRules
from accord.servers.http.app import Application
from accord.stores.sqlite import SqliteStore
from accord.wire.session import StoredState
from tests.servers.transports import body, events_of, make_service, served, within

EVENTS = {"accept": "text/event-stream"}
WORDS = [step for number in range(12) for step in (f"word{number} ", Pause(0.002))]


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


async def whole(client: aiohttp.ClientSession, request: dict[str, Any], after: int = 0) -> list[tuple[int | None, Any]]:
    """The rest of a stream, to its end."""
    headers = {**EVENTS, **({"last-event-id": str(after)} if after else {})}
    async with client.post("/v1/assist", json=request, headers=headers) as response:
        return events_of(await response.read())


async def cut_after(client: aiohttp.ClientSession, request: dict[str, Any], last: int, after: int) -> list[Any]:
    """What a client has when its connection is cut after this packet."""
    headers = {**EVENTS, **({"last-event-id": str(after)} if after else {})}
    async with client.post("/v1/assist", json=request, headers=headers) as response:
        content = b""
        while f"id: {last}\n".encode() not in content or not content.endswith(b"\n\n"):
            content += await response.content.readany()
        response.close()
    return [(seq, packet) for seq, packet in events_of(content) if seq is not None and seq <= last]


def test_a_connection_that_is_cut_after_every_single_packet_loses_and_repeats_nothing(tmp_path: Path):
    async def run() -> None:
        service = make_service(Agent(relay), *WORDS, store=SqliteStore(tmp_path / "accord.db"))
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            complete = await whole(client, body(1))
            pieces: list[Any] = []
            for last in range(1, len(complete) + 1):
                pieces += await cut_after(client, body(2), last, last - 1)
            assert pieces == complete
            assert [seq for seq, _ in complete] == list(range(1, 14))

    within(run)


def test_a_stream_is_taken_up_by_its_address_as_well(tmp_path: Path):
    async def run() -> None:
        service = make_service(Agent(relay), *WORDS, store=SqliteStore(tmp_path / "accord.db"))
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            request = body(1)
            begun = await cut_after(client, request, 3, 0)
            headers = {**EVENTS, "last-event-id": "3"}
            async with client.get(f"/v1/requests/{request['request_id']}", headers=headers) as response:
                rest = events_of(await response.read())
            assert [*begun, *rest] == await whole(client, request)
            async with client.get(f"/v1/requests/{request['request_id']}") as response:
                assert (await response.json())["output"]["text"].startswith("word0 word1")

    within(run)


def test_a_stream_is_adapted_by_what_was_declared_at_its_start(tmp_path: Path):
    async def run() -> None:
        service = make_service(Agent(relay), "**bold**", store=SqliteStore(tmp_path / "accord.db"))
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            request = body(1, capabilities={"supported_events": [], "prefers_markdown": False})
            first = await whole(client, request)
            async with client.get(f"/v1/requests/{request['request_id']}", headers=EVENTS) as response:
                assert events_of(await response.read()) == first
            assert "*" not in json.dumps(first)

    within(run)


def test_a_finished_stream_is_read_again_after_a_restart(tmp_path: Path):
    async def run() -> None:
        found: list[Any] = []
        for _ in range(2):
            service = make_service(Agent(relay), *WORDS, store=SqliteStore(tmp_path / "accord.db"))
            async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
                found.append(await whole(client, body(1)))
        assert found[0] == found[1]

    within(run)


@pytest.mark.parametrize(
    ("unread", "state"), [(UnreadPolicy.CONTINUE, StoredState.DONE), (UnreadPolicy.STOP, StoredState.CANCELLED)]
)
def test_a_turn_whose_client_went_away_goes_on_or_stops_as_configured(unread: UnreadPolicy, state: StoredState):
    async def run() -> None:
        rules = SessionRules(stop_unread_after_s=0.001 if unread is UnreadPolicy.STOP else None)
        service = make_service(Agent(relay), *WORDS, rules=rules)
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            request = body(1)
            await cut_after(client, request, 1, 0)
            await service.sessions.drain(20)
            turn = await service.sessions.store.turn(request["request_id"])
            assert turn is not None
            assert turn.state is state

    within(run)


def test_an_idle_stream_is_kept_open_by_heartbeats():
    async def run() -> None:
        service = make_service(Agent(relay), "a", Pause(0.3), "b", heartbeat_s=0.05)
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            async with client.post("/v1/assist", json=body(), headers=EVENTS) as response:
                content = await response.read()
            assert content.count(b": still here\n\n") >= 2
            assert [packet["op"] for _, packet in events_of(content)] == ["delta", "delta", "close"]

    within(run)


def test_a_running_turn_is_cancelled_by_its_address_and_its_stream_closed_properly():
    async def run() -> None:
        service = make_service(Agent(relay), "a", Pause(60))
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            request = body()
            async with client.post("/v1/assist", json=request, headers=EVENTS) as response:
                begun = await response.content.readany()
                async with client.delete(f"/v1/requests/{request['request_id']}") as cancelled:
                    assert cancelled.status == 202
                rest = await response.read()
            assert [packet["op"] for _, packet in events_of(begun + rest)] == ["delta", "error", "close"]
            async with client.delete(f"/v1/requests/{request['request_id']}") as again:
                assert again.status == 409

    within(run)


def test_several_turns_share_a_websocket_and_each_can_be_cancelled_and_resumed():
    async def run() -> None:
        service = make_service(Agent(relay), "a", Pause(0.1), "b")
        async with (
            served(Application(service)) as address,
            aiohttp.ClientSession(address) as client,
            client.ws_connect("/v1/ws") as socket,
        ):
            one, two = body(1), body(2)
            for request in (one, two):
                await socket.send_json(request)
            seen: dict[str, list[Any]] = {one["request_id"]: [], two["request_id"]: []}
            cancelled = False
            while not all(packets and packets[-1]["op"] == "close" for packets in seen.values()):
                packet = await socket.receive_json()
                seen[packet["request_id"]].append(packet)
                if packet["request_id"] == two["request_id"] and not cancelled:
                    cancelled = True
                    await socket.send_json({"cancel": two["request_id"]})
            assert [packet["op"] for packet in seen[one["request_id"]]] == ["delta", "delta", "close"]
            assert [packet["op"] for packet in seen[two["request_id"]]] == ["delta", "error", "close"]
            await socket.send_json({"resume": one["request_id"], "after": 1})
            again = [await socket.receive_json() for _ in range(2)]
            assert again == seen[one["request_id"]][1:]
            await socket.send_json({"resume": "nobody's"})
            assert (await socket.receive_json())["p"]["code"] == "not_found"

    within(run)


def test_a_draining_service_lets_running_turns_finish():
    async def run() -> None:
        service = make_service(Agent(relay), "a", Pause(0.2), "b")
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            async with client.post("/v1/assist", json=body(1), headers=EVENTS) as response:
                begun = await response.content.readany()
                service.is_draining = True
                async with client.post("/v1/assist", json=body(2)) as refused:
                    assert (refused.status, refused.headers["retry-after"]) == (503, "5")
                await service.sessions.drain(20)
                rest = await response.read()
            assert [packet["op"] for _, packet in events_of(begun + rest)] == ["delta", "delta", "close"]

    within(run)
