"""What a request selects: its conversation, its agent, its own view, and whether its answer is streamed."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import ScriptedBackend
from accord.client import AsyncClient
from accord.config import ServerConfig
from accord.core.receipt import verify
from accord.core.work.emulation.choose import preset_config
from accord.core.work.plan import PlanConfig
from accord.errors import AgentError, ErrorSeverity, RefusedError
from accord.ports import SessionStore
from accord.run import Dispatcher, Engine, Sessions
from accord.servers.http.app import Application
from accord.servers.observability import Log, Observers
from accord.servers.service import AllowAll, Service
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.packet import ErrorPacket, StreamError
from accord.wire.request import ServiceRequest
from tests.servers.process import accord_serve
from tests.servers.refusing import EVERYWHERE, application
from tests.servers.transports import body, events_of, served, within

VOICE: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


async def recall(turn: Turn) -> AsyncIterator[Yielded]:
    """Answers with the questions of the history."""
    yield " ".join(message.content for message in turn.history if message.role == "user") or "(fresh)"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "accord.db")


CONVERSATION: list[tuple[str, str, str | None, str, str]] = [
    # question, session, conversation, user, and the earlier questions that the agent sees
    ("one", "s", None, "u", "(fresh)"),
    ("two", "s", None, "u", "one"),
    ("red", "s", "c", "u", "(fresh)"),
    ("green", "s2", "c", "u", "red"),
    ("blue", "s", "c", "u", "red green"),
    ("else", "s", "d", "u", "(fresh)"),
    ("three", "s", None, "u", "one two"),
    ("theirs", "t", "c", "mallory", "(fresh)"),
    ("again", "t2", "c", "mallory", "theirs"),
    ("black", "s3", "c", "u", "red green blue"),
    ("four", "s2", None, "u", "(fresh)"),
    ("empty", "s", "s", "u", "(fresh)"),
]


@pytest.mark.parametrize("transport", ["http-json", "http-events", "websocket", "client-ask"])
def test_a_conversation_goes_on_in_any_session_of_its_user_and_in_no_other(transport: str, store: SessionStore):
    sessions = Sessions(Engine(Agent(recall), Dispatcher([])), store)

    async def run() -> None:
        async with EVERYWHERE[transport](sessions) as send:
            for number, (query, session, conversation, user, expected) in enumerate(CONVERSATION, 1):
                payload = {} if conversation is None else {"conversation_id": conversation}
                assert await send(body(number, query, session=session, user=user, **payload)) == expected, query

    within(run)


async def show(turn: Turn) -> AsyncIterator[Yielded]:
    yield "**bold**"
    yield turn.citation({"source_id": "1", "uri": "https://example.com/r", "title": "Report"})


def test_a_request_without_capabilities_is_of_a_standard_client_whatever_its_session_declared(store: SessionStore):
    sessions = Sessions(Engine(Agent(show), Dispatcher([])), store)

    async def run() -> None:
        async with served(application(sessions)) as address, aiohttp.ClientSession(address) as client:
            for number, capabilities in enumerate([VOICE, None, VOICE, None], 1):
                request = body(number) if capabilities is None else body(number, capabilities=capabilities)
                async with client.post("/v1/assist", json=request) as response:
                    output = (await response.json())["output"]
                assert ("events" in output) is (capabilities is None)
                assert ("**" in output["text"]) is (capabilities is None)

    within(run)


AGENTS = """
from accord import Agent

async def support(turn):
    yield f"support {len(turn.history)}"

async def bill(turn):
    yield f"billing {len(turn.history)}"

agent = Agent(support, name="support")
billing = Agent(bill, name="billing", accepts=["image"])
strict = Agent(bill, name="strict", requires={"required": [{"capability": "vision", "min_support": "native"}]})
"""
AGENTS_CONFIG = """
[agents]
support = "served_agent:agent"
invoices = "served_agent:billing"
strict = "served_agent:strict"
"""
NAMED: list[tuple[str, dict[str, str] | None, int, str]] = [
    ("nobody", None, 200, "support"),
    ("the served one", {"id": "support", "name": "x"}, 200, "support"),
    ("another by its id", {"id": "billing", "name": "x"}, 200, "billing"),
    ("another by its name", {"id": "x", "name": "billing"}, 200, "billing"),
    ("another as it is configured", {"id": "invoices", "name": "x"}, 200, "billing"),
    ("one whose requirement is not met", {"id": "strict", "name": "x"}, 422, "strict"),
    ("an unknown one", {"id": "sales", "name": "Sales"}, 404, "support"),
]


def test_context_agent_selects_a_configured_agent_and_the_receipt_names_it(tmp_path: Path):
    async def run() -> None:
        async with (
            accord_serve(tmp_path, config=AGENTS_CONFIG, agent=AGENTS) as process,
            aiohttp.ClientSession(process.address) as client,
        ):
            for number, (name, agent, status, answering) in enumerate(NAMED, 1):
                request = body(number, session=f"s{number}")
                request["context"] |= {} if agent is None else {"agent": agent}
                async with client.post("/v1/assist", json=request) as response:
                    answer = await response.json(content_type=None)
                    assert response.status == status, name
                if status == 200:
                    assert answer["output"]["text"] == f"{answering} 0"
                if status == 404:
                    assert answer["details"]["agents"] == ["support", "billing", "strict", "invoices"]
                async with client.get(f"/v1/requests/{request['request_id']}/receipt") as response:
                    receipt = await response.json()
                assert receipt["parties"]["agent"]["name"] == answering, name
                assert receipt["outcome"]["status"] == ("done" if status == 200 else "refused")
                assert verify([receipt]).ok
            # The content of a prompt is checked against the declaration of the agent that it names.
            for number, name, status in ((20, "billing", 200), (21, "support", 422)):
                request = body(number, session=name, content=[IMAGE])
                request["context"]["agent"] = {"id": name, "name": name}
                async with client.post("/v1/assist", json=request) as response:
                    assert response.status == status

    within(run)


def test_the_id_of_a_service_is_its_own_and_stays_the_same(tmp_path: Path):
    async def ids(address: str) -> set[str]:
        found: set[str] = set()
        async with aiohttp.ClientSession(address) as client:
            for _ in range(3):
                async with client.get("/health") as response:
                    found.add((await response.json())["agent_id"])
        return found

    async def run() -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        async with accord_serve(tmp_path / "a") as first, accord_serve(tmp_path / "b") as second:
            one, other = await ids(first.address), await ids(second.address)
            assert len(one) == len(other) == 1
            assert one != other
            assert UUID(one.pop()).version == 4

    within(run)


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


def make_engine(manifest: dict[str, str], **config: Any) -> Engine:
    backend = ScriptedBackend("a", [["Hel", "lo"]], manifest)
    return Engine(Agent(relay), Dispatcher([backend], config=PlanConfig(**config)))


def test_a_whole_answer_needs_no_streaming_of_the_backend():
    engine = make_engine({"streaming": "unsupported"})

    async def run() -> None:
        answer = await engine.respond(ServiceRequest.model_validate(body()))
        assert answer.output["text"] == "Hello"
        async with EVERYWHERE["http-json"](Sessions(engine, MemoryStore())) as send:
            assert await send(body()) == "Hello"
        async with EVERYWHERE["client-ask"](Sessions(engine, MemoryStore())) as send:
            assert await send(body()) == "Hello"

    within(run)


@pytest.mark.parametrize("emulates", [True, False])
def test_a_stream_from_a_backend_without_streaming_is_emulated_if_that_is_configured_and_refused_otherwise(
    emulates: bool,
):
    engine = make_engine({}, emulation=preset_config(["streaming"])) if emulates else make_engine({})

    async def run() -> None:
        sessions = Sessions(engine, MemoryStore())
        headers = {"accept": "text/event-stream"}
        async with served(application(sessions)) as address, aiohttp.ClientSession(address) as client:
            async with client.post("/v1/assist", json=body(), headers=headers) as response:
                packets = [packet for _, packet in events_of(await response.read())]
            async with client.get(f"/v1/requests/{body()['request_id']}/receipt") as response:
                receipt = await response.json()
            if emulates:
                assert "".join(packet["p"] for packet in packets if packet["op"] == "delta") == "Hello"
                emulated = [entry["capability"] for entry in receipt["work"][0]["emulations"]["emulated"]]
                assert emulated == ["streaming"]
            else:
                assert [packet["op"] for packet in packets] == ["error", "close"]
                assert packets[0]["p"]["code"] == "CAPABILITY_UNSUPPORTED"
                assert receipt["outcome"]["status"] == "refused"

    within(run)


@pytest.mark.parametrize(
    ("code", "raised", "status"),
    [("rate_limit_exceeded", RefusedError, 429), ("my_own_code", AgentError, 500), ("x" * 300, AgentError, 500)],
)
def test_an_error_code_of_the_agents_own_is_kept(
    code: str, raised: type[Exception], status: int, caplog: pytest.LogCaptureFixture
):
    async def fail(_: Turn) -> AsyncIterator[Yielded]:
        yield "so far"
        yield ErrorPacket(p=StreamError(code=code, message="No more today", severity=ErrorSeverity.TRANSIENT))

    async def run() -> None:
        log = Observers(Log())
        sessions = Sessions(Engine(Agent(fail), Dispatcher([])), MemoryStore(), on_turn_ended=log.turn_ended)
        service = Service(sessions, ServerConfig(port=0), AllowAll(), log, "1.0")
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:
            for number in (1, 2):
                for _ in range(2):  # and again, from the store
                    async with client.post("/v1/assist", json=body(number)) as response:
                        assert response.status == status
            async with client.post("/v1/assist", json=body(1), headers={"accept": "text/event-stream"}) as response:
                packets = [packet for _, packet in events_of(await response.read())]
            assert packets[1]["p"]["code"] == code
            async with client.get(f"/v1/requests/{body(1)['request_id']}/receipt") as response:
                outcome = (await response.json())["outcome"]
            assert outcome == {"status": "failed", "code": code[:100], "message": "No more today"}
            async with AsyncClient(address, user="u") as caller:
                with pytest.raises(raised, match="No more today"):
                    _ = [text async for text in caller.resume(body(1)["request_id"]).text()]

    with caplog.at_level(logging.INFO, logger="accord"):
        within(run)
    lines = [vars(record)["fields"] for record in caplog.records if record.name == "accord.turn"]
    assert [(line["outcome"], line["code"]) for line in lines] == [("failed", code[:100])] * 2


def test_an_error_that_ended_a_turn_is_final_and_the_client_does_not_repeat_its_request():
    details = {"retry_after": 60}

    async def fail(_: Turn) -> AsyncIterator[Yielded]:
        yield ErrorPacket(
            p=StreamError(
                code="rate_limit_exceeded", message="No more", severity=ErrorSeverity.TRANSIENT, details=details
            )
        )

    async def never(_: float) -> None:
        raise AssertionError("the client waits")

    async def run() -> None:
        sessions = Sessions(Engine(Agent(fail), Dispatcher([])), MemoryStore())
        async with served(application(sessions)) as address, aiohttp.ClientSession(address) as client:
            async with client.post("/v1/assist", json=body(1)) as response:
                assert (response.status, (await response.json(content_type=None))["final"]) == (429, True)
                assert "Retry-After" not in response.headers
            async with AsyncClient(address, user="u", wait=never) as caller:
                with pytest.raises(RefusedError, match="No more") as caught:
                    await caller.ask("hi")
            assert caught.value.details == details

    within(run)


def test_refused_turns_leave_nothing_behind(caplog: pytest.LogCaptureFixture):
    log = Log()
    sessions = Sessions(Engine(Agent(recall), Dispatcher([])), MemoryStore(), on_turn_ended=Observers(log).turn_ended)
    service = Service(sessions, ServerConfig(port=0, turns_per_caller=4), AllowAll(), Observers(log), "1.0")
    requests = [body(number, content=[IMAGE]) for number in range(1, 31)]

    async def run() -> None:
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:

            async def post(request: Any, accept: str) -> int:
                async with client.post("/v1/assist", json=request, headers={"accept": accept}) as response:
                    await response.read()
                    return response.status

            for request in requests:
                both = (post(request, accept) for accept in ("application/json", "text/event-stream"))
                assert await asyncio.gather(*both) == [422, 422]
            async with client.ws_connect("/v1/ws") as socket:
                for number in range(31, 41):
                    await socket.send_json(body(number, content=[IMAGE]))
                    assert (await socket.receive_json())["op"] == "error"
            assert service.runs == {}
            assert sessions.running == 0
            assert not vars(log)["_open"]
            assert not vars(log)["_answered"]
            receipts = [json.loads(record.body) for record in await sessions.store.receipts("s")]
            assert len(receipts) == 40
            assert verify(receipts).ok

    with caplog.at_level(logging.INFO, logger="accord"):
        within(run)
    lines = [vars(record)["request_id"] for record in caplog.records if record.name == "accord.turn"]
    assert sorted(lines) == sorted(body(number)["request_id"] for number in range(1, 41))
    repeated = [record for record in caplog.records if record.name == "accord.http"]
    assert len(repeated) == 30, "the second request of each id starts no turn and has a line of its own"
