"""A turn ends when its limit says so, or when it is cancelled, whatever its agent makes of that; on every transport."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from accord.agent import Agent
from accord.backends.scripted import Pause, ScriptedBackend
from accord.config import LoadedConfig
from accord.run import Dispatcher, Engine, Sessions, TimeLimits
from accord.servers.http.app import Application
from accord.stores.memory import MemoryStore
from tests.servers.acp.editor import start
from tests.servers.conftest import NewQueue
from tests.servers.model_apis.served import BACKENDS, CONFIG, PATHS
from tests.servers.process import EVENTS, ROOT, accord_serve
from tests.servers.queued import QUEUED, queued
from tests.servers.stubborn_agent import EVERYWHERE, STEP_S, WAYS, agent_may_run, stubborn
from tests.servers.transports import TRANSPORTS, Ask, ReportedError, body, events_of, make_service, within

KEYS = {f"ACCORD_KEY_{name.upper()}": "a-key" for name in BACKENDS}
TURN_S = 0.5
SOON_S = 10
"""Far more than a turn of `TURN_S` takes, and far less than its agent would."""
ROWS = [
    *((None, "http-events", way) for way in WAYS),
    *((queue, name, way) for queue, name in [(None, "http-json"), (None, "websocket"), *QUEUED] for way in EVERYWHERE),
]
ANY_WAY = pytest.mark.parametrize(("kind", "transport", "way"), ROWS, ids=["-".join(filter(None, row)) for row in ROWS])


@pytest.fixture(autouse=True)
def stopping_agents() -> Generator[None]:
    """Let the agents of the test end with it."""
    agent_may_run.set()
    yield
    agent_may_run.clear()


@asynccontextmanager
async def limited(queue: LoadedConfig | None, transport: str, **limits: float) -> AsyncGenerator[tuple[Ask, Sessions]]:
    """The stubborn agent on this transport, with these limits."""
    service = make_service(Agent(stubborn))
    engine = Engine(Agent(stubborn), Dispatcher([]), limits=TimeLimits(**limits))
    async with queued(queue, Sessions(engine, MemoryStore())) as sessions:
        application = Application(replace(service, sessions=sessions))
        async with TRANSPORTS[transport](application) as ask:
            try:
                yield ask, sessions
            finally:
                agent_may_run.clear()


async def stored_turn(sessions: Sessions, number: int) -> list[tuple[str, Any]]:
    packets = await sessions.store.packets(str(UUID(int=number)), after_seq=0, limit=1_000)
    return [(packet["op"], packet.get("p")) for packet in (json.loads(each.body) for each in packets)]


@ANY_WAY
def test_a_turn_ends_at_its_limit_and_nothing_of_it_counts_after_that(
    new_queue: NewQueue, kind: str | None, transport: str, way: str
):
    queue = new_queue(kind)
    limit = {"gap_s": TURN_S} if way == "shield" else {"turn_s": TURN_S}

    async def run() -> None:
        async with limited(queue, transport, **limit) as (ask, sessions):
            async with asyncio.timeout(SOON_S):
                with pytest.raises(ReportedError) as raised:
                    await ask(body(1, way))
            assert raised.value.code == "timed_out"
            assert (await sessions.receipt(str(UUID(int=1)))).outcome.code == "timed_out"
            stored = await stored_turn(sessions, 1)
            assert [op for op, _ in stored[-2:]] == ["error", "close"]
            await asyncio.sleep(10 * STEP_S)  # the agent goes on meanwhile
            assert await stored_turn(sessions, 1) == stored
            text = "".join(content for op, content in stored if op == "delta")
            assert text.startswith("before ")
            (said, *_) = await ask(body(2, "history"))
            assert said["p"] == f"user:{way}|assistant:{text}"

    within(run)


@ANY_WAY
def test_a_cancelled_turn_is_never_done(new_queue: NewQueue, kind: str | None, transport: str, way: str):
    queue = new_queue(kind)

    async def run() -> None:
        async with limited(queue, transport) as (ask, sessions):
            asking = asyncio.ensure_future(ask(body(1, way)))
            async with asyncio.timeout(SOON_S):
                while not await stored_turn(sessions, 1):  # noqa: ASYNC110 - another process may write it
                    await asyncio.sleep(STEP_S)
                assert (turn := await sessions.find(str(UUID(int=1)), None))
                assert await sessions.cancel(turn)
                with pytest.raises(ReportedError) as raised:
                    await asking
            assert raised.value.code == "cancelled"
            assert (await sessions.receipt(turn.request_id)).outcome.status == "cancelled"
            stored = await stored_turn(sessions, 1)
            await asyncio.sleep(10 * STEP_S)
            assert await stored_turn(sessions, 1) == stored

    within(run)


def test_what_an_agent_holds_of_a_backend_is_free_when_its_turn_is_over():
    backend = ScriptedBackend("a", [["first ", Pause(3_600)], ["answer"]], {"streaming": "native"})
    limits = TimeLimits(turn_s=TURN_S)
    dispatcher = Dispatcher([backend], limits=limits, concurrent={"a": 1})
    service = make_service(Agent(stubborn))
    sessions = Sessions(Engine(Agent(stubborn), dispatcher, limits=limits), MemoryStore())

    async def run() -> None:
        async with TRANSPORTS["http-events"](Application(replace(service, sessions=sessions))) as ask:
            async with asyncio.timeout(SOON_S):
                with pytest.raises(ReportedError, match="timed_out"):
                    await ask(body(1, "ask"))
                assert backend.closed == 1
                packets = await ask(body(2, "relay"))
            assert [packet["p"] for packet in packets if packet["op"] == "delta"] == ["before ", "answer"]
            agent_may_run.clear()

    within(run)


STUBBORN_AGENT = "tests.servers.stubborn_agent:agent"
SHORT = {"ACCORD_LIMITS_TURN_S": str(TURN_S)}


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["limited", "cancelled"])
@pytest.mark.parametrize("way", EVERYWHERE)
def test_an_editors_prompt_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, *, is_cancelled: bool):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if not is_cancelled:
        monkeypatch.setenv("ACCORD_LIMITS_TURN_S", str(TURN_S))
    editor = start(tmp_path, STUBBORN_AGENT)
    try:
        session = editor.new_session()
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": way}]}
        editor.send(
            json.dumps({"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": prompt}).encode() + b"\n"
        )
        assert editor.receive()["params"]["update"]["content"]["text"].startswith("before ")
        if is_cancelled:
            cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
            editor.send(json.dumps(cancel).encode() + b"\n")
        while (frame := editor.receive()).get("id") != "p":
            pass
        if is_cancelled:
            assert frame["result"] == {"stopReason": "cancelled"}
        else:
            assert frame["error"]["data"]["code"] == "timed_out"
        assert editor.call("session/new", cwd="/", mcpServers=[])[1] == []  # no update came after the end
    finally:
        editor.close()


@pytest.mark.parametrize("way", ["swallow", "closing"])
def test_a_service_stops_although_an_agent_does_not(tmp_path: Path, way: str):
    async def run() -> None:
        async with (
            accord_serve(tmp_path, STUBBORN_AGENT, environ={**SHORT, "PYTHONPATH": str(ROOT)}) as service,
            aiohttp.ClientSession(service.address) as client,
        ):
            async with client.post("/v1/assist", json=body(1, way), headers=EVENTS) as response:
                assert events_of(await response.read())[-2][1]["p"]["code"] == "timed_out"
            await service.until_logged("goes on running")
            service.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(SOON_S):
                assert await service.process.wait() == 0

    within(run)


def test_an_abandoned_agent_that_goes_on_asking_takes_no_memory(tmp_path: Path):
    async def run() -> None:
        async with (
            accord_serve(tmp_path, STUBBORN_AGENT, environ={**SHORT, "PYTHONPATH": str(ROOT)}) as service,
            aiohttp.ClientSession(service.address) as client,
        ):
            before_mb = service.memory_mb()
            async with client.post("/v1/assist", json=body(1, "ask again"), headers=EVENTS) as response:
                assert events_of(await response.read())[-2][1]["p"]["code"] == "timed_out"
            await service.until_logged("asked again", timeout_s=40)
            assert service.memory_mb() < before_mb + 40

    within(run)


def test_an_agent_that_cancels_all_tasks_fails_its_own_turn_only(tmp_path: Path):
    async def run() -> None:
        async with (
            accord_serve(tmp_path, STUBBORN_AGENT, environ={"PYTHONPATH": str(ROOT)}) as service,
            aiohttp.ClientSession(service.address) as client,
        ):

            async def ask(number: int, query: str) -> list[dict[str, Any]]:
                async with client.post("/v1/assist", json=body(number, query), headers=EVENTS) as response:
                    return [packet for _, packet in events_of(await response.read())]

            innocent = asyncio.create_task(ask(1, "count"))
            for number in range(2, 7):
                failed = (await ask(number, "cancel all"))[-2]["p"]
                assert (failed["code"], "did not start" in failed["message"]) == ("agent_failed", True)
            assert (await ask(7, "cancel others"))[-2] == {"op": "delta", "p": "after "}
            assert "".join(packet["p"] for packet in (await innocent)[:-1]) == "before " + "".join(
                f"{number} " for number in range(100)
            )
            async with client.get("/health/ready") as response:
                assert response.status == 200
            service.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(SOON_S):
                assert await service.process.wait() == 0

    within(run)


def stream_start(api: str) -> bytes:
    """The first events of an answer of this API."""
    response: dict[str, Any] = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "in_progress",
        "output": [],
    }
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 1},
    }
    events: dict[str, list[dict[str, Any]]] = {
        "chat": [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "so far"}}]}],
        "responses": [
            {"type": "response.created", "sequence_number": 0, "response": response},
            {"type": "response.output_text.delta", "sequence_number": 1, "item_id": "i", "output_index": 0, "content_index": 0, "delta": "so far"},
        ],
        "messages": [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "so far"}},
        ],
    }  # fmt: skip
    return b"".join(
        (f"event: {event['type']}\n" if "type" in event else "").encode() + f"data: {json.dumps(event)}\n\n".encode()
        for event in events[api]
    )


@dataclass
class DrippingEndpoint:
    """An endpoint of every model API that begins an answer, and then sends a byte at a time for ever."""

    address: str = ""
    open: int = 0
    seen: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open, self.seen = self.open + 1, self.seen + 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET"):
                return
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            sent = json.loads(await reader.readexactly(length))
            api = next(api for api, path in PATHS.items() if path.encode() in head)
            kind, start = (
                ("text/event-stream", stream_start(api) + b": ") if sent.get("stream") else ("application/json", b"{")
            )
            writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode() + start)
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.open -= 1


@asynccontextmanager
async def dripping() -> AsyncGenerator[DrippingEndpoint]:
    endpoint = DrippingEndpoint()
    server = await asyncio.start_server(endpoint.answer, "127.0.0.1", 0)
    endpoint.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield endpoint


QUESTION = [{"role": "user", "content": "hi"}]
REQUESTS: dict[str, dict[str, Any]] = {
    "chat": {"messages": QUESTION},
    "responses": {"input": "hi"},
    "messages": {"messages": QUESTION, "max_tokens": 10},
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_model_call_has_a_limit_in_all(tmp_path: Path, *, stream: bool):
    """Relayed and translated: each API asks a backend of each API."""

    async def run() -> None:
        async with (
            dripping() as endpoint,
            accord_serve(
                tmp_path, config=CONFIG.format(address=endpoint.address), environ={**SHORT, **KEYS}
            ) as service,
            aiohttp.ClientSession(service.address) as client,
        ):

            async def ask(api: str, backend: str) -> tuple[int, str, dict[str, Any]]:
                request = {"model": backend, "stream": stream, **REQUESTS[api]}
                async with client.post(PATHS[api], json=request) as response:
                    text = (await response.read()).decode()
                    request_id = response.headers.get("x-request-id") or response.headers["request-id"]
                async with client.get(f"/v1/requests/{request_id}/receipt") as response:
                    return response.status, text, await response.json()

            async with asyncio.timeout(SOON_S):
                answers = await asyncio.gather(*(ask(api, backend) for api in PATHS for backend in PATHS))
            for status, text, receipt in answers:
                assert status == 200
                assert "timed_out" in text
                assert ("so far" in text) is stream
                assert receipt["outcome"]["code"] == "timed_out"
            async with asyncio.timeout(SOON_S):
                while endpoint.open:  # noqa: ASYNC110 - the endpoint notices a closed connection when it writes
                    await asyncio.sleep(0.05)

    within(run)


def test_an_endpoint_that_drips_its_count_of_tokens_is_given_up_for_an_estimate(tmp_path: Path):
    async def run() -> None:
        circuit = "\n[circuit]\nfailures = 2\npause_s = 60\n"
        async with (
            dripping() as endpoint,
            accord_serve(
                tmp_path, config=CONFIG.format(address=endpoint.address) + circuit, environ={**SHORT, **KEYS}
            ) as service,
            aiohttp.ClientSession(service.address) as client,
        ):
            seen_before = endpoint.seen
            for _ in range(4):
                request = {"model": "messages", "messages": QUESTION}
                async with client.post("/v1/messages/count_tokens", json=request) as response:
                    assert (response.status, (await response.json())["input_tokens"] > 0) == (200, True)
                    assert response.headers["accord-dispositions"] == "input_tokens=emulated"
            assert endpoint.seen - seen_before == 2  # then its circuit is open

    within(run)
