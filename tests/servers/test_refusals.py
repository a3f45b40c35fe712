"""A request that may not run is refused before anything runs: in the same words on every transport, and for ever."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import ScriptedBackend
from accord.core.receipt import verify
from accord.errors import ERROR_FACTS, ErrorCode
from accord.ports import SessionStore
from accord.run import Dispatcher, Engine, Sessions
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.session import StoredState
from tests.servers.conftest import NewQueue
from tests.servers.queued import PROGRAM, QUEUED, reached
from tests.servers.refusing import EVERYWHERE, Refused, application
from tests.servers.transports import body, served, within

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
NO_AUDIO = {
    "contentType": "audio",
    "declaredCapability": False,
    "required": "promptCapabilities.audio",
    "supportedTypes": ["text", "resource_link"],
}
NO_IMAGE = NO_AUDIO | {"contentType": "image", "required": "promptCapabilities.image"}
NO_DATA = {"error": "missing_required_field", "field": "data", "contentType": "image", "index": 0}
NATIVE_VISION = {"required": [{"capability": "vision", "min_support": "native"}]}
HTTP = frozenset({"http-json", "http-events", "websocket"})
CLIENTS = frozenset({"client-ask", "client-stream"})
ACP = frozenset({"acp-1", "acp-2"})
ALL = frozenset({*EVERYWHERE, PROGRAM})
ROUTES = [*((None, name) for name in EVERYWHERE), *QUEUED, ("nats", PROGRAM)]
"""Each transport without a queue, and those with a queue behind them."""


@dataclass(frozen=True, slots=True)
class Row:
    """A request that is refused; `where` are the transports that can carry it."""

    name: str
    code: ErrorCode
    message: str
    details: Mapping[str, Any]
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    agent: Mapping[str, Any] = field(default_factory=dict[str, Any])
    named: Mapping[str, str] | None = None
    where: frozenset[str] = ALL

    def request(self, number: int = 1) -> dict[str, Any]:
        made = body(number, "SECRET", **self.payload)
        if self.named is not None:
            made["context"]["agent"] = self.named
        return made


ROWS = [
    Row(
        "undeclared content",
        ErrorCode.CONTENT_UNSUPPORTED,
        "Invalid content type: agent does not support image content",
        NO_IMAGE,
        {"content": [IMAGE]},
    ),
    Row(
        "two violations",
        ErrorCode.CONTENT_UNSUPPORTED,
        "Multiple content capability violations: 2 issues",
        {
            "violationCount": 2,
            "violations": [
                {
                    "code": -32602,
                    "message": f"Invalid content type: agent does not support {kind} content",
                    "data": data,
                }
                for kind, data in (("image", NO_IMAGE), ("audio", NO_AUDIO))
            ],
        },
        {"content": [IMAGE, AUDIO]},
    ),
    Row(
        "a missing field",
        ErrorCode.CONTENT_INVALID,
        "Missing required field: data",
        NO_DATA,
        {"content": [{"type": "image", "mimeType": "image/png"}]},
        where=ALL - {"engine"},
    ),
    Row(
        "a requirement of the request",
        ErrorCode.CAPABILITY_UNSUPPORTED,
        "No backend can do this work; nearest is a: vision (not declared)",
        {},
        {"requirements": NATIVE_VISION},
        where=ALL - ACP,
    ),
    Row(
        "a requirement of the agent",
        ErrorCode.CAPABILITY_UNSUPPORTED,
        "No backend can do this work; nearest is a: vision (not declared)",
        {},
        agent={"requires": NATIVE_VISION},
    ),
    Row(
        "an unknown agent",
        ErrorCode.NOT_FOUND,
        "There is no agent nobody here; context.agent may name answer",
        {"agents": ["answer"]},
        named={"id": "nobody", "name": "Nobody"},
        where=HTTP | {"engine", PROGRAM},
    ),
]
Case = tuple[str | None, str, Row]
CASES: list[Case] = [(queue, transport, row) for row in ROWS for queue, transport in ROUTES if transport in row.where]


def name_case(case: Case) -> str:
    queue, transport, row = case
    return "-".join(filter(None, (queue, transport, row.name)))


class Service:
    """An agent that never asks a backend, and counts how often it runs."""

    def __init__(self, store: SessionStore | None = None, **options: Any) -> None:
        self.runs = 0

        async def answer(turn: Turn) -> AsyncIterator[Yielded]:
            self.runs += 1
            yield f"{[message.content for message in turn.history]} {turn.text}"

        backend = ScriptedBackend("a", [["unused"]], {"streaming": "native"})
        engine = Engine(Agent(answer, **options), Dispatcher([backend]))
        self.sessions = Sessions(engine, store or MemoryStore())


def expected(row: Row, transport: str) -> dict[str, Any]:
    """The details of this refusal, which name the capability as the client's version of ACP spells it."""
    text = json.dumps(row.details)
    return json.loads(text.replace("promptCapabilities.", "session.prompt.") if transport == "acp-2" else text)


@pytest.mark.parametrize(("queue", "transport", "row"), CASES, ids=map(name_case, CASES))
def test_a_refusal_is_the_same_on_every_transport_and_the_agent_does_not_run(
    queue: str | None, transport: str, row: Row, new_queue: NewQueue
):
    service, loaded = Service(**row.agent), new_queue(queue)

    async def run() -> None:
        async with reached(transport, loaded, service.sessions) as (_, send):
            refused = await send(row.request())
            assert isinstance(refused, Refused), refused
            assert refused.code == row.code
            assert refused.message == row.message
            if row.code is ErrorCode.CAPABILITY_UNSUPPORTED:
                assert refused.details["nearest"] == "a"
                assert [need["capability"] for need in refused.details["needs"]] == ["vision"]
            else:
                assert refused.details == expected(row, transport)
            if transport.startswith("http"):
                assert refused.number == ERROR_FACTS[row.code].http
            if transport.startswith("acp"):
                assert refused.number == ERROR_FACTS[row.code].jsonrpc == -32602
            assert service.runs == 0
            if row.agent:
                return
            # Nothing of a refused prompt is in the history of the next turn.
            assert await send(body(2, "next")) == "[] next"

    within(run)


STORED = [
    (queue, transport, row)
    for queue, transport, row in CASES
    # The Python client does not send malformed content, so that the service has no receipt of it.
    if transport != "engine" and not (transport in CLIENTS and row.code is ErrorCode.CONTENT_INVALID)
]


@pytest.mark.parametrize(("queue", "transport", "row"), STORED, ids=map(name_case, STORED))
def test_a_refusal_has_a_receipt_in_the_chain_of_its_session_and_leaves_nothing_running(
    queue: str | None, transport: str, row: Row, new_queue: NewQueue
):
    service, loaded = Service(**row.agent), new_queue(queue)

    async def run() -> None:
        async with reached(transport, loaded, service.sessions) as (sessions, send):
            for number in (1, 2, 3):
                assert isinstance(await send(row.request(number)), Refused)
            store = sessions.store
            session_id = (await store.sessions("u", limit=10))[0].session_id
            receipts = [json.loads(record.body) for record in await store.receipts(session_id)]
            assert verify(receipts).ok
            assert [receipt["outcome"]["status"] for receipt in receipts] == ["refused"] * 3
            assert {receipt["outcome"]["code"] for receipt in receipts} == {row.code}
            assert "SECRET" not in json.dumps(receipts)
            for receipt in receipts:
                turn = await store.turn(receipt["request_id"])
                assert turn is not None
                assert turn.state is StoredState.REFUSED
            assert list(await store.history(session_id, limit=10)) == []
            assert sessions.running == 0

    within(run)


async def answers(address: str, request: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """What a request gets as JSON and as a stream, and what reading it gets in both formats, in another view as well."""
    found: list[tuple[int, dict[str, Any]]] = []
    path = f"/v1/requests/{request['request_id']}"
    async with aiohttp.ClientSession(address) as client:
        for accept in ("application/json", "text/event-stream"):
            async with client.post("/v1/assist", json=request, headers={"accept": accept}) as response:
                found.append((response.status, await response.json(content_type=None)))
            for query in ("", "?capabilities=voice"):
                async with client.get(path + query, headers={"accept": accept}) as response:
                    found.append((response.status, await response.json(content_type=None)))
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_refused_request_is_refused_in_the_same_way_for_ever_and_in_every_process(row: Row, tmp_path: Path):
    async def refusals(*, accepts: list[str] | None = None) -> list[tuple[int, dict[str, Any]]]:
        """From a process with another agent: what was decided stays decided."""
        service = Service(SqliteStore(tmp_path / "accord.db"), **({"accepts": accepts} if accepts else row.agent))
        async with served(application(service.sessions)) as address:
            found = await answers(address, row.request())
            assert service.runs == 0
            return found

    async def run() -> None:
        first, *others = [*await refusals(), *await refusals(), *await refusals(accepts=["image", "audio"])]
        assert first[0] == ERROR_FACTS[row.code].http
        assert others == [first] * len(others)

    within(run)


def test_what_is_stated_and_can_be_met_runs():
    service = Service(requires={"required": [{"capability": "streaming", "min_support": "native"}]})

    async def run() -> None:
        async with EVERYWHERE["http-json"](service.sessions) as send:
            request = body(
                requirements={
                    "required": [{"capability": "streaming", "min_support": "emulated"}],
                    "preferred": NATIVE_VISION["required"],
                }
            )
            assert await send(request) == "[] hi"

    within(run)


OLDER = [
    ("the older shape", {"payload": {"input": "hi", "content": [{"type": "image"}]}}),
    (
        "the older shape around a malformed block",
        {"payload": {"input": "hi", "content": [{"type": "text", "text": 5}]}},
    ),
    ("content that is no array", {"query": "hi", "content": "text"}),
    ("a block that is no object", {"query": "hi", "content": [7]}),
]


@pytest.mark.parametrize("payload", [row[1] for row in OLDER], ids=[row[0] for row in OLDER])
def test_malformed_content_is_an_error_of_content_wherever_a_request_has_it(payload: dict[str, Any]):
    service = Service()

    async def run() -> None:
        async with EVERYWHERE["http-json"](service.sessions) as send:
            refused = await send({**body(), "payload": payload})
            assert isinstance(refused, Refused)
            assert (refused.code, refused.number) == ("content_invalid", 422)
            assert service.runs == 0

    within(run)


def test_a_refusal_does_not_repeat_a_long_name_of_an_agent():
    service, request = Service(), body()
    request["context"]["agent"] = {"id": "x" * 100_000, "name": "n"}

    async def run() -> None:
        async with EVERYWHERE["http-json"](service.sessions) as send:
            refused = await send(request)
            assert isinstance(refused, Refused)
            assert refused.code == "not_found"
            assert len(refused.message) < 1_000

    within(run)


def test_a_request_that_is_malformed_elsewhere_as_well_is_not_a_turn():
    service = Service()

    async def run() -> None:
        async with EVERYWHERE["http-json"](service.sessions) as send:
            refused = await send(body(files=7, content=[{"type": "image"}]))
            assert isinstance(refused, Refused)
            assert (refused.code, refused.number) == ("invalid_message", 400)
            assert await service.sessions.store.turn(body()["request_id"]) is None

    within(run)
