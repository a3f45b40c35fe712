"""One run read by different clients over HTTP, each in the view of its own declaration; and what a declaration may be."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.client import AsyncClient
from accord.core.output import ClientAdapter
from accord.core.output.packets import OutputCollector
from accord.errors import RefusedError
from accord.ports import Clock, SessionStore
from accord.run import Dispatcher, Engine, Sessions
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.packet import EventPacket, StreamPacket
from accord.wire.request import ClientCapabilities
from tests.servers.clock import ManualClock
from tests.servers.refusing import application
from tests.servers.transports import body, events_of, served, within

EVENTS = {"accept": "text/event-stream"}
REQUEST = body(query="Sales")
PATH = f"/v1/requests/{REQUEST['request_id']}"
VOICE: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
CLI: dict[str, Any] = {"supported_events": ["PROGRESS_INDICATOR"], "prefers_markdown": True, "image_resolution": "low"}
POLLS: dict[str, Any] = {"supported_events": ["poll", "markdown_block"], "prefers_markdown": False}
READERS: dict[str, dict[str, Any] | None] = {"web": None, "cli": CLI, "voice": VOICE, "custom": POLLS}
Packets = list[tuple[int | None, dict[str, Any]]]


class Served:
    """An agent that sends half of its answer, waits, and sends the other half."""

    def __init__(self, store: SessionStore | None = None, clock: Clock | None = None, *, waits: bool = True) -> None:
        self.may_end, self.address = asyncio.Event(), ""
        if not waits:
            self.may_end.set()
        engine = Engine(Agent(self.answer, name="seller"), Dispatcher([]), clock=clock)
        self.sessions = Sessions(engine, store or MemoryStore())

    async def answer(self, turn: Turn) -> AsyncIterator[Yielded]:
        yield f"# {turn.text}\n\nIt **rose**, see [here](https://example.com)"
        yield turn.progress("Counting", 0.5)
        yield turn.citation({"source_id": "1", "uri": "https://example.com/r", "title": "Report"})
        yield ". More:\n\n"
        await self.may_end.wait()
        yield EventPacket(p={"id": "same", "type": "poll", "data": {"number": 1}})
        yield turn.markdown("| a | b |\n|---|---|\n| 1 | 2 |\n")
        yield turn.media({"url": "https://example.com/i.png", "mime_type": "image/png", "alt_text": "A chart"})
        yield EventPacket(p={"id": "same", "type": "poll", "data": {"number": 2}})
        yield turn.thought("private")
        yield "The *end*.\n"

    async def stored(self) -> list[StreamPacket]:
        records = await self.sessions.store.packets(REQUEST["request_id"], after_seq=0, limit=99)
        return [StreamPacket.parse(record.body) for record in records]

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[aiohttp.ClientSession]:
        async with served(application(self.sessions)) as self.address, aiohttp.ClientSession(self.address) as client:
            yield client


def alone(packets: list[StreamPacket], declared: dict[str, Any] | None) -> Packets:
    """What a client with this declaration gets of these packets if it is the only one."""
    adapter = ClientAdapter(None if declared is None else ClientCapabilities.model_validate(declared))
    adapted = [each for packet in packets for each in adapter.feed(packet)]
    return [(number, json.loads(packet.to_json())) for number, packet in enumerate(adapted, 1)]


def whole(packets: Packets) -> dict[str, Any]:
    collector = OutputCollector()
    for _, packet in packets:
        collector.feed(StreamPacket.model_validate(packet))
    return collector.output


async def read_events(client: aiohttp.ClientSession, declared: Any, after: int = 0, stop: int = 99) -> Packets:
    """The packets from this number on as a stream of events, up to `stop` of them."""
    headers = {**EVENTS, "accord-capabilities": declared if isinstance(declared, str) else json.dumps(declared)}
    found, raw = Packets(), b""
    async with client.get(PATH, headers={**headers, "last-event-id": str(after)}) as response:
        assert response.status == 200, await response.text()
        while len(found) < stop and (line := await response.content.readline()):
            raw += line
            found = events_of(raw) if line == b"\n" else found
    return found[:stop]


async def read_websocket(client: aiohttp.ClientSession, declared: Any, after: int = 0) -> Packets:
    found: Packets = []
    async with client.ws_connect("/v1/ws") as socket:
        await socket.send_json({"resume": REQUEST["request_id"], "after": after, "capabilities": declared})
        while not found or found[-1][1]["op"] != "close":
            frame = await socket.receive_json()
            assert frame.pop("request_id") == REQUEST["request_id"]
            found.append((frame.pop("id"), frame))
    return found


async def read_client(address: str, declared: Any, after: int = 0) -> Packets:
    async with AsyncClient(address, user="u") as client:
        stream = client.resume(REQUEST["request_id"], after=after, capabilities=declared)
        return [(stream.last_id, json.loads(packet.to_json())) async for packet in stream]


async def read_json(client: aiohttp.ClientSession, declared: Any) -> dict[str, Any]:
    text = declared if isinstance(declared, str) else json.dumps(declared)
    async with client.get(f"{PATH}?capabilities={quote(text)}") as response:
        assert response.status == 200, await response.text()
        return (await response.json())["output"]


async def post(client: aiohttp.ClientSession, declared: dict[str, Any] | None = None) -> Packets:
    request = REQUEST if declared is None else body(query="Sales", capabilities=declared)
    async with client.post("/v1/assist", json=request, headers=EVENTS) as response:
        assert response.status == 200
        return events_of(await response.read())


async def until_running(client: aiohttp.ClientSession) -> None:
    """Return once the first packets are there; the caller bounds the wait."""
    while True:
        async with client.get(PATH, headers=EVENTS) as response:
            if response.status == 200:
                await response.content.readuntil(b"data:")
                return


@pytest.mark.parametrize("requester", READERS)
def test_one_run_is_read_by_four_clients_at_once_and_each_gets_its_own_view(requester: str):
    async def run() -> None:
        made = Served()
        async with made.client() as client:
            sending = asyncio.create_task(post(client, READERS[requester]))
            await until_running(client)
            reading = [
                *(asyncio.create_task(read_events(client, READERS[name] or name)) for name in READERS),
                *(asyncio.create_task(read_websocket(client, READERS[name] or name)) for name in READERS),
                *(asyncio.create_task(read_client(made.address, READERS[name] or name)) for name in READERS),
            ]
            answering = [asyncio.create_task(read_json(client, READERS[name] or name)) for name in READERS]
            made.may_end.set()
            first, streams = await sending, await asyncio.gather(*reading)
            answers, packets = await asyncio.gather(*answering), await made.stored()
            expected = [alone(packets, declared) for declared in READERS.values()]
            assert first == alone(packets, READERS[requester])
            assert streams == expected * 3
            assert answers == [whole(view) for view in expected]
            # The same again, when it is over.
            assert [await read_events(client, READERS[name] or name) for name in READERS] == expected
            assert [await read_json(client, READERS[name] or name) for name in READERS] == answers

    within(run)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_client_that_is_cut_off_goes_on_in_another_process(reader: str, cut: int, tmp_path: Path):
    async def run() -> None:
        first, second = (Served(SqliteStore(tmp_path / "accord.db")) for _ in range(2))
        async with first.client() as here, second.client() as there:
            sending = asyncio.create_task(post(here, CLI))
            await until_running(here)
            declared = READERS[reader] or reader
            seen = await read_events(here, declared, stop=1)
            going_on = asyncio.create_task(read_events(there, declared, after=1, stop=cut - 1)) if cut > 1 else None
            first.may_end.set()
            await sending
            seen += await going_on if going_on is not None else []
            expected = alone(await first.stored(), READERS[reader])
            assert seen == expected[:cut]
            assert await read_events(there, declared, after=cut) == expected[cut:]
            assert await read_websocket(there, declared, after=cut) == expected[cut:]
            assert await read_client(second.address, declared, after=cut) == expected[cut:]

    within(run)


def test_a_finished_run_is_read_an_hour_later_by_a_voice():
    async def run() -> None:
        clock = ManualClock()
        made = Served(clock=clock, waits=False)
        async with made.client() as client:
            await post(client)
            clock.elapsed_s += 3_600
            assert await read_events(client, "voice") == alone(await made.stored(), VOICE)
            spoken = (await read_json(client, "voice"))["text"]
            assert "Source: Report." in spoken
            assert not {"*", "#", "|", "https"} & set(spoken.split())

    within(run)


def test_events_of_a_whole_answer_say_after_how_much_text_they_came():
    async def run() -> None:
        made = Served(waits=False)
        async with made.client() as client:
            async with client.post("/v1/assist", json=REQUEST) as response:
                output = (await response.json())["output"]
            packets, text, expected = alone(await made.stored(), None), "", list[str]()
            for _, packet in packets:
                if packet["op"] == "delta":
                    text += packet["p"]
                elif packet["op"] == "event":
                    expected.append(text)
            assert len(expected) > 3
            assert [output["text"][: event["text_offset"]] for event in output["events"]] == expected

    within(run)


WRONG = [
    ("both places", "?capabilities=voice", "voice", "Declare the capabilities once"),
    ("the parameter twice", "?capabilities=voice&capabilities=cli", None, "Declare the capabilities once"),
    ("a wrong type", None, '{"supported_events": 7}', "supported_events"),
    ("a wrong item", None, '{"supported_events": [7]}', "supported_events.0"),
    ("a wrong flag", "?capabilities=" + quote('{"prefers_markdown": "perhaps"}'), None, "prefers_markdown"),
    ("broken JSON", None, '{"supported_events": [', "ClientCapabilities"),
    ("an array", None, "[]", "unknown client"),
    ("an unknown name", "?capabilities=voise", None, "did you mean voice?"),
    ("an unknown name in the header", None, "vioce", "did you mean voice?"),
    ("an empty name", "?capabilities=", None, "unknown client"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "header", "sentence"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
@pytest.mark.parametrize("path", [PATH, f"{PATH}/adaptation"], ids=["read", "adaptation"])
def test_a_declaration_that_cannot_be_read_is_refused_and_named(
    path: str, query: str | None, header: str | None, sentence: str
):
    async def run() -> None:
        async with Served(waits=False).client() as client:
            await post(client)
            headers = {} if header is None else {"Accord-Capabilities": header}
            for accept in ("application/json", "text/event-stream"):
                async with client.get(path + (query or ""), headers={**headers, "accept": accept}) as response:
                    problem = await response.json(content_type=None)
                    assert (response.status, problem["code"]) == (400, "invalid_message")
                    assert sentence.lower() in problem["detail"].lower()

    within(run)


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ({"supported_events": 7}, "supported_events"),
        ('{"supported_events": 7}', "supported_events"),
        ("voise", "did you mean voice?"),
        (7, "capabilities"),
    ],
)
def test_a_websocket_refuses_a_declaration_that_cannot_be_read_and_stays_open(declared: Any, sentence: str):
    async def run() -> None:
        async with Served(waits=False).client() as client:
            await post(client)
            async with client.ws_connect("/v1/ws") as socket:
                frame = {"resume": REQUEST["request_id"], "capabilities": declared}
                await socket.send_json(frame)
                answer = await socket.receive_json()
                assert (answer["op"], answer["p"]["code"]) == ("error", "invalid_message")
                assert answer["request_id"] == REQUEST["request_id"]
                assert sentence in answer["p"]["message"]
                assert "ServiceRequest" not in answer["p"]["message"]
                await socket.send_json({**frame, "capabilities": "voice"})
                assert (await socket.receive_json())["id"] == 1

    within(run)


def test_a_websocket_that_has_read_a_turn_to_its_end_may_read_it_again_at_once(tmp_path: Path):
    async def run() -> None:
        made = Served(SqliteStore(tmp_path / "accord.db"), waits=False)
        async with made.client() as client:
            await post(client)
            async with client.ws_connect("/v1/ws") as socket:
                for declared in ("voice", None, None, "cli", None) * 4:
                    await socket.send_json({"resume": REQUEST["request_id"], "capabilities": declared})
                    while (frame := await socket.receive_json())["op"] != "close":
                        assert frame["op"] != "error", frame

    within(run)


@pytest.mark.parametrize("reader", READERS)
def test_the_adaptation_report_of_any_reader_can_be_had_while_the_turn_runs_and_later(reader: str):
    async def run() -> None:
        made, declared = Served(), READERS[reader]
        headers = {"accord-capabilities": json.dumps(declared) if declared else reader}
        async with made.client() as client:
            sending = asyncio.create_task(post(client, VOICE))
            await until_running(client)

            async def report() -> dict[str, Any]:
                async with client.get(f"{PATH}/adaptation", headers=headers) as response:
                    assert response.status == 200
                    return await response.json()

            running = await report()
            made.may_end.set()
            await sending
            adapter = ClientAdapter(None if declared is None else ClientCapabilities.model_validate(declared))
            for packet in await made.stored():
                adapter.feed(packet)
            done = await report()
            assert done == json.loads(adapter.report.to_json())
            assert sum(running["totals"].values()) < sum(done["totals"].values())
            async with client.get(f"{PATH}/receipt") as response:
                receipt = await response.json()
            if reader == "voice":
                assert receipt["adaptation"] == done
            assert receipt["parties"]["client"]["declared"] == VOICE

    within(run)


def test_every_item_can_be_had_as_the_agent_made_it_also_if_ids_are_repeated():
    async def run() -> None:
        made = Served()
        async with made.client() as client:

            async def item(item_id: str) -> tuple[int, dict[str, Any]]:
                async with client.get(f"{PATH}/items/{item_id}") as response:
                    return response.status, await response.json(content_type=None)

            sending = asyncio.create_task(post(client, VOICE))
            await until_running(client)
            early = [packet.p for packet in await made.stored() if isinstance(packet, EventPacket)]
            assert early
            assert [await item(event["id"]) for event in early] == [(200, event) for event in early]
            assert (await item("same"))[0] == 404
            made.may_end.set()
            await sending
            stored = [packet.p for packet in await made.stored() if isinstance(packet, EventPacket)]
            for event in stored:
                assert await item(event["id"]) == (200, event if event["id"] != "same" else polls_of(stored)[0])
            async with client.get(f"{PATH}/adaptation?capabilities=cli") as response:
                entries = (await response.json())["entries"]
            kept = [entry["id"] for entry in entries if entry.get("type") == "poll"]
            assert len(set(kept)) == 2
            assert [(await item(each))[1] for each in kept] == polls_of(stored)
            for missing in ("none", "same-99", "event-99", ".."):
                status, problem = await item(quote(missing, safe="").replace(".", "%2E"))
                assert (status, problem["code"]) == (404, "not_found"), missing

    within(run)


def test_a_declaration_in_the_header_may_name_any_event_type():
    async def run() -> None:
        async with Served(waits=False).client() as client:
            await post(client)
            declared = '{"supported_events": ["prüfung"]}'
            async with client.get(f"{PATH}/adaptation", headers={"accord-capabilities": declared}) as response:
                assert (await response.json())["declared"] == json.loads(declared)

    within(run)


def polls_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == "poll"]


def test_the_python_client_refuses_a_declaration_before_it_sends_it():
    async def run() -> None:
        made = Served(waits=False)
        async with made.client() as client, AsyncClient(made.address, user="u") as caller:
            await post(client)
            with pytest.raises(RefusedError, match="did you mean voice"):
                await caller.answer(REQUEST["request_id"], capabilities="voise")
            answer = await caller.answer(REQUEST["request_id"], capabilities=VOICE)
            assert "Source: Report." in answer.output["text"]
            report = await caller.adaptation(REQUEST["request_id"], capabilities="voice")
            assert answer.metrics is not None
            assert answer.metrics["adaptation"] == report.dump()["totals"]

    within(run)
