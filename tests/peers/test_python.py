"""The Python SDK's client, as a library, against an agent of ours over real pipes: one process for all of it."""

import asyncio
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, audio_block, image_block, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.interfaces import Client
from acp.schema import AllowedOutcome, RequestPermissionResponse

from accord.stores.sqlite import SqliteStore
from accord.wire.receipt import Receipt

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 60


class Listener(Client):
    """A client that keeps what it is told, and tells when the agent begins to speak."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.has_begun = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.asked: list[Any] = []
        self.may_answer = True

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:  # noqa: ARG002 - the SDK's
        self.updates.append(update)
        if update.session_update == "agent_message_chunk":
            self.has_begun.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:  # noqa: ARG002
        self.asked.append((tool_call, options, list(self.updates)))
        self.is_asked.set()
        if not self.may_answer:
            await asyncio.Event().wait()
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))

    def heard(self) -> list[Any]:
        """What it was told since it was asked last."""
        heard, self.updates = self.updates, []
        self.has_begun.clear()
        return heard


@dataclass
class Visit:
    """All that came of one visit."""

    initialized: Any = None
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    updates: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    errors: dict[str, RequestError] = field(default_factory=dict[str, RequestError])
    exit_status: int | None = None
    receipts: list[Any] = field(default_factory=list[Any])
    asked: list[Any] = field(default_factory=list[Any])


async def pay(folder: Path) -> Visit:
    """Say hello, ask, be refused, cancel, look at what was said, and go."""
    visit, listener = Visit(), Listener()  # pyright: ignore[reportAbstractUsage] - the SDK asks for what is there
    command = [sys.executable, "-m", "accord", "acp", "tests.peers.everything:agent"]
    environ = {**os.environ, "ACCORD_STORE_PATH": str(folder / "accord.db")}
    async with spawn_agent_process(listener, *command, env=environ, cwd=ROOT) as (agent, process):
        visit.initialized = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
        await ask(visit, listener, agent, session)
        process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
        visit.exit_status = await process.wait()
    store = SqliteStore(folder / "accord.db")
    await store.open()
    visit.receipts = [Receipt.parse(record.body) for record in await store.receipts(session)]
    await store.close()
    return visit


async def ask(visit: Visit, listener: Listener, agent: ClientSideConnection, session: str) -> None:
    visit.answers["text"] = await agent.prompt(session_id=session, prompt=[text_block("Hello")])
    visit.updates["text"] = listener.heard()
    blocks: list[Any] = [text_block("Hello"), image_block("aGk=", "image/png")]
    visit.answers["image"] = await agent.prompt(session_id=session, prompt=blocks)
    listener.heard()
    try:
        await agent.prompt(session_id=session, prompt=[text_block("Hello"), audio_block("aGk=", "audio/wav")])
    except RequestError as error:
        visit.errors["audio"] = error
    visit.updates["audio"] = listener.heard()
    waiting = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("wait")]))
    await listener.has_begun.wait()
    await agent.cancel(session_id=session)
    visit.answers["wait"] = await waiting
    visit.answers["chart"] = await agent.prompt(session_id=session, prompt=[text_block("chart")])
    visit.updates["chart"] = listener.heard()
    (kept,) = re.findall(r"kept as ([\w-]+)", words(visit.updates["chart"]))
    visit.answers["item"] = await agent.ext_method("accord/item", {"sessionId": session, "itemId": kept})
    try:
        await agent.ext_method("accord/item", {"sessionId": session, "itemId": "none"})
    except RequestError as error:
        visit.errors["item"] = error
    listener.heard()
    visit.answers["ask"] = await agent.prompt(session_id=session, prompt=[text_block("ask")])
    visit.updates["ask"], visit.asked = listener.heard(), listener.asked
    listener.may_answer = False
    listener.is_asked.clear()
    waiting = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("ask for ever")]))
    await listener.is_asked.wait()
    await agent.cancel(session_id=session)
    visit.answers["ask for ever"] = await waiting
    visit.answers["list"] = await agent.list_sessions()
    await agent.close_session(session_id=session)
    listener.heard()
    await agent.load_session(cwd="/", session_id=session, mcp_servers=[])
    visit.updates["load"] = listener.heard()


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    async def bounded() -> Visit:
        return await asyncio.wait_for(pay(tmp_path_factory.mktemp("python")), PATIENCE_S)

    return asyncio.run(bounded())


def words(updates: list[Any]) -> str:
    return "".join(each.content.text for each in updates if each.session_update == "agent_message_chunk")


def test_the_client_is_told_what_the_agent_takes(visit: Visit):
    able = visit.initialized.agent_capabilities
    assert visit.initialized.protocol_version == 1
    assert (able.prompt_capabilities.image, able.prompt_capabilities.audio) == (True, False)
    assert able.load_session


def test_a_prompt_is_answered_with_updates_that_the_client_can_read(visit: Visit):
    assert visit.answers["text"].stop_reason == "end_turn"
    assert words(visit.updates["text"]) == "You said: Hello"
    kinds = [each.session_update for each in visit.updates["text"]]
    assert {"agent_thought_chunk", "plan", "tool_call", "tool_call_update"} <= set(kinds)
    (call,) = [each for each in visit.updates["text"] if getattr(each, "title", None) == "Read a file"]
    assert [part.type for part in call.content] == ["content", "diff"]


def test_content_that_was_declared_comes_in(visit: Visit):
    assert visit.answers["image"].stop_reason == "end_turn"


def test_content_that_was_not_declared_is_refused_to_the_letter_and_nothing_is_told(visit: Visit):
    error = visit.errors["audio"]
    assert (error.code, str(error)) == (-32602, "Invalid content type: agent does not support audio content")
    assert error.data == {
        "contentType": "audio",
        "declaredCapability": False,
        "required": "promptCapabilities.audio",
        "supportedTypes": ["text", "resource_link", "image"],
    }
    assert visit.updates["audio"] == []


def test_a_prompt_that_is_cancelled_says_so(visit: Visit):
    assert visit.answers["wait"].stop_reason == "cancelled"


def test_a_session_is_listed_and_told_again(visit: Visit):
    assert [each.title for each in visit.answers["list"].sessions] == ["Hello"]
    assert visit.updates["load"][0].session_update == "user_message_chunk"
    assert "You said: Hello" in words(visit.updates["load"])


def test_every_prompt_that_could_be_read_left_a_receipt_the_refused_one_too(visit: Visit):
    outcomes = ["done", "done", "refused", "cancelled", "done", "done", "cancelled"]
    assert [receipt.outcome.status for receipt in visit.receipts] == outcomes


def test_the_client_is_asked_for_permission_after_it_was_shown_the_call(visit: Visit):
    (call, options, before), *_ = visit.asked
    assert call.tool_call_id in [getattr(update, "tool_call_id", None) for update in before]
    assert (call.title, call.kind, [option.kind for option in options]) == (
        "May I?",
        "edit",
        ["allow_once", "reject_once"],
    )
    assert visit.answers["ask"].stop_reason == "end_turn"
    assert words(visit.updates["ask"]) == "You said: ask, allowed"


def test_a_client_that_never_answers_can_cancel_and_every_receipt_says_what_came_of_it(visit: Visit):
    assert visit.answers["ask for ever"].stop_reason == "cancelled"
    asked = [record for receipt in visit.receipts for record in receipt.permissions or ()]
    assert [(record.title, record.status, record.chosen) for record in asked] == [
        ("May I?", "allowed", "allow"),
        ("May I?", "cancelled", None),
    ]


def test_what_could_not_be_shown_is_fetched_by_the_name_that_the_text_gives_it(visit: Visit):
    assert visit.initialized.agent_capabilities.field_meta == {"accord.methods": ["_accord/item"]}
    assert visit.answers["item"]["item"]["type"] == "chart"
    assert visit.answers["item"]["item"]["data"] == {"points": [1, 2]}
    assert visit.errors["item"].code == -32002


def test_the_agent_goes_when_its_client_does(visit: Visit):
    assert visit.exit_status == 0
