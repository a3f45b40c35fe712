"""The client of the Python SDK with an Accord agent over real pipes; one process for all tests."""

import asyncio
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp.client.connection import ClientSideConnection
from acp.interfaces import Client
from acp.schema import AllowedOutcome, RequestPermissionResponse

from accord.stores.sqlite import SqliteStore
from accord.wire.receipt import Receipt
from acp import PROTOCOL_VERSION, RequestError, audio_block, image_block, spawn_agent_process, text_block

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 60


class RecordingClient(Client):
    """A client that records updates and permission requests, with events for both."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.has_begun = asyncio.Event()
        self.has_request = asyncio.Event()
        self.requests: list[Any] = []
        self.may_answer = True

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:  # noqa: ARG002 - parameters of the SDK
        self.updates.append(update)
        if update.session_update == "agent_message_chunk":
            self.has_begun.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:  # noqa: ARG002
        self.requests.append((tool_call, options, list(self.updates)))
        self.has_request.set()
        if not self.may_answer:
            await asyncio.Event().wait()
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))

    def take_updates(self) -> list[Any]:
        """The updates since the last call."""
        updates, self.updates = self.updates, []
        self.has_begun.clear()
        return updates


@dataclass
class Exchange:
    """Everything that one connection gave."""

    initialized: Any = None
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    updates: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    errors: dict[str, RequestError] = field(default_factory=dict[str, RequestError])
    exit_status: int | None = None
    receipts: list[Any] = field(default_factory=list[Any])
    requests: list[Any] = field(default_factory=list[Any])


async def run_client(folder: Path) -> Exchange:
    """Initialize, prompt, be refused, cancel, load the session, and disconnect."""
    exchange, client = Exchange(), RecordingClient()  # pyright: ignore[reportAbstractUsage] - the rest is optional
    command = [sys.executable, "-m", "accord", "acp", "tests.peers.everything:agent"]
    environ = {**os.environ, "ACCORD_STORE_PATH": str(folder / "accord.db")}
    async with spawn_agent_process(client, *command, env=environ, cwd=ROOT) as (agent, process):
        exchange.initialized = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
        await send_prompts(exchange, client, agent, session)
        process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
        exchange.exit_status = await process.wait()
    store = SqliteStore(folder / "accord.db")
    await store.open()
    exchange.receipts = [Receipt.parse(record.body) for record in await store.receipts(session)]
    await store.close()
    return exchange


async def send_prompts(exchange: Exchange, client: RecordingClient, agent: ClientSideConnection, session: str) -> None:
    exchange.answers["text"] = await agent.prompt(session_id=session, prompt=[text_block("Hello")])
    exchange.updates["text"] = client.take_updates()
    blocks: list[Any] = [text_block("Hello"), image_block("aGk=", "image/png")]
    exchange.answers["image"] = await agent.prompt(session_id=session, prompt=blocks)
    client.take_updates()
    try:
        await agent.prompt(session_id=session, prompt=[text_block("Hello"), audio_block("aGk=", "audio/wav")])
    except RequestError as error:
        exchange.errors["audio"] = error
    exchange.updates["audio"] = client.take_updates()
    waiting = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("wait")]))
    await client.has_begun.wait()
    await agent.cancel(session_id=session)
    exchange.answers["wait"] = await waiting
    exchange.answers["chart"] = await agent.prompt(session_id=session, prompt=[text_block("chart")])
    exchange.updates["chart"] = client.take_updates()
    (item_id,) = re.findall(r"kept as ([\w-]+)", text_of(exchange.updates["chart"]))
    exchange.answers["item"] = await agent.ext_method("accord/item", {"sessionId": session, "itemId": item_id})
    try:
        await agent.ext_method("accord/item", {"sessionId": session, "itemId": "none"})
    except RequestError as error:
        exchange.errors["item"] = error
    client.take_updates()
    exchange.answers["ask"] = await agent.prompt(session_id=session, prompt=[text_block("ask")])
    exchange.updates["ask"], exchange.requests = client.take_updates(), client.requests
    client.may_answer = False
    client.has_request.clear()
    waiting = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("ask for ever")]))
    await client.has_request.wait()
    await agent.cancel(session_id=session)
    exchange.answers["ask for ever"] = await waiting
    exchange.answers["list"] = await agent.list_sessions()
    await agent.close_session(session_id=session)
    client.take_updates()
    await agent.load_session(cwd="/", session_id=session, mcp_servers=[])
    exchange.updates["load"] = client.take_updates()


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Exchange:
    async def bounded() -> Exchange:
        return await asyncio.wait_for(run_client(tmp_path_factory.mktemp("python")), LIMIT_S)

    return asyncio.run(bounded())


def text_of(updates: list[Any]) -> str:
    return "".join(each.content.text for each in updates if each.session_update == "agent_message_chunk")


def test_the_client_gets_the_declaration_of_the_agent(exchange: Exchange):
    declared = exchange.initialized.agent_capabilities
    assert exchange.initialized.protocol_version == 1
    assert (declared.prompt_capabilities.image, declared.prompt_capabilities.audio) == (True, False)
    assert declared.load_session


def test_a_prompt_is_answered_with_updates_that_the_client_can_read(exchange: Exchange):
    assert exchange.answers["text"].stop_reason == "end_turn"
    assert text_of(exchange.updates["text"]) == "You said: Hello"
    kinds = [each.session_update for each in exchange.updates["text"]]
    assert {"agent_thought_chunk", "plan", "tool_call", "tool_call_update"} <= set(kinds)
    (call,) = [each for each in exchange.updates["text"] if getattr(each, "title", None) == "Read a file"]
    assert [part.type for part in call.content] == ["content", "diff"]


def test_declared_content_is_accepted(exchange: Exchange):
    assert exchange.answers["image"].stop_reason == "end_turn"


def test_undeclared_content_is_refused_with_the_exact_error_and_no_update(exchange: Exchange):
    error = exchange.errors["audio"]
    assert (error.code, str(error)) == (-32602, "Invalid content type: agent does not support audio content")
    assert error.data == {
        "contentType": "audio",
        "declaredCapability": False,
        "required": "promptCapabilities.audio",
        "supportedTypes": ["text", "resource_link", "image"],
    }
    assert exchange.updates["audio"] == []


def test_a_cancelled_prompt_has_the_stop_reason_cancelled(exchange: Exchange):
    assert exchange.answers["wait"].stop_reason == "cancelled"


def test_a_session_is_listed_and_replayed(exchange: Exchange):
    assert [each.title for each in exchange.answers["list"].sessions] == ["Hello"]
    assert exchange.updates["load"][0].session_update == "user_message_chunk"
    assert "You said: Hello" in text_of(exchange.updates["load"])


def test_every_well_formed_prompt_left_a_receipt_even_the_refused_one(exchange: Exchange):
    outcomes = ["done", "done", "refused", "cancelled", "done", "done", "cancelled"]
    assert [receipt.outcome.status for receipt in exchange.receipts] == outcomes


def test_the_permission_request_comes_after_its_tool_call(exchange: Exchange):
    (call, options, before), *_ = exchange.requests
    assert call.tool_call_id in [getattr(update, "tool_call_id", None) for update in before]
    assert (call.title, call.kind, [option.kind for option in options]) == (
        "May I?",
        "edit",
        ["allow_once", "reject_once"],
    )
    assert exchange.answers["ask"].stop_reason == "end_turn"
    assert text_of(exchange.updates["ask"]) == "You said: ask, allowed"


def test_a_client_can_cancel_instead_of_answering_and_receipts_record_the_outcome(exchange: Exchange):
    assert exchange.answers["ask for ever"].stop_reason == "cancelled"
    records = [record for receipt in exchange.receipts for record in receipt.permissions or ()]
    assert [(record.title, record.status, record.chosen) for record in records] == [
        ("May I?", "allowed", "allow"),
        ("May I?", "cancelled", None),
    ]


def test_an_event_that_could_not_be_shown_is_fetched_by_its_id(exchange: Exchange):
    assert exchange.initialized.agent_capabilities.field_meta == {"accord.methods": ["_accord/item"]}
    assert exchange.answers["item"]["item"]["type"] == "chart"
    assert exchange.answers["item"]["item"]["data"] == {"points": [1, 2]}
    assert exchange.errors["item"].code == -32002


def test_the_agent_exits_when_its_client_disconnects(exchange: Exchange):
    assert exchange.exit_status == 0
