"""The update that an editor is sent for each packet, in both versions: one table, checked with the wire models."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest

from accord.acp import schema_v2
from accord.acp.schema_v1 import OtherSessionUpdate, SessionNotification
from accord.agent import Agent, Turn, Yielded
from accord.run import Dispatcher, Engine
from accord.servers.acp.messages import DEFAULT_EDITOR
from accord.servers.acp.updates import DraftWriter, PromptUpdates, StableWriter
from accord.wire.agent_work import PLAN, TOOL_CALL
from accord.wire.event import PresentationEventType
from accord.wire.packet import StreamPacket
from accord.wire.request import ClientCapabilities, ServiceRequest
from tests.run.playing import collected

Yield = Callable[[Turn], Yielded]

DIFF = {"type": "diff", "path": "/a.py", "oldText": "one\n", "newText": "two"}
PATCH = "--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n-one\n+two\n\\ No newline at end of file\n"
SOURCE = {"source_id": "1", "uri": "https://example.com/r", "title": "Report"}
PIXEL = {"url": "https://example.com/p.png", "mime_type": "image/png", "alt_text": "A pixel"}

YIELDED: dict[str, Yield] = {
    "text": lambda _: "Hello",
    "thought_trace": lambda turn: turn.thought("Hm"),
    "progress_indicator": lambda turn: turn.progress("Looking", 0.5),
    "citation_block": lambda turn: turn.citation(SOURCE),
    "media_carousel": lambda turn: turn.media(PIXEL),
    "markdown_block": lambda turn: turn.markdown("> so"),
    "user_error": lambda turn: turn.user_error("It broke"),
    "plan": lambda turn: turn.plan({"content": "Look", "status": "completed"}, "Act"),
    "tool_call": lambda turn: turn.tool_call("1", "Edit", "done", DIFF, status="completed", kind="edit"),
    "custom event": lambda turn: turn.event("chart", {"points": [1]}),
}
"""One of everything that an agent can yield."""

KINDS: dict[str, tuple[str, str]] = {
    "text": ("agent_message_chunk", "agent_message_chunk"),
    "thought_trace": ("agent_thought_chunk", "agent_thought_chunk"),
    "progress_indicator": ("tool_call", "tool_call_update"),
    "citation_block": ("agent_message_chunk", "agent_message_chunk"),
    "media_carousel": ("agent_message_chunk", "agent_message_chunk"),
    "markdown_block": ("agent_message_chunk", "agent_message_chunk"),
    "user_error": ("agent_message_chunk", "agent_message_chunk"),
    "plan": ("plan", "plan_update"),
    "tool_call": ("tool_call", "tool_call_update"),
    "custom event": ("agent_message_chunk", "agent_message_chunk"),
}
"""The kind of the first update for it, in version 1 and in the draft."""


def packets(what: list[Yield], capabilities: ClientCapabilities) -> list[StreamPacket]:
    """The packets that a client with these capabilities gets from an agent that yields this."""

    async def run(turn: Turn) -> AsyncIterator[Yielded]:
        for make in what:
            yield make(turn)

    async def gather() -> list[StreamPacket]:
        request = ServiceRequest.model_validate(
            {
                "request_id": str(UUID(int=1)),
                "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
                "payload": {"query": "hi", "capabilities": capabilities.dump()},
            }
        )
        return await collected(Engine(Agent(run), Dispatcher([])).begin(request))

    return asyncio.run(gather())


def updates_of(*what: Yield, is_draft: bool, capabilities: ClientCapabilities = DEFAULT_EDITOR) -> list[dict[str, Any]]:
    updates = PromptUpdates((DraftWriter if is_draft else StableWriter)("s"), "turn")
    lines = updates.lines([packet.to_json() for packet in packets(list(what), capabilities)])
    lines += updates.ending(schema_v2.StopReason.END_TURN)
    notices = [json.loads(line)["params"] for line in lines.splitlines()]
    for params in notices:
        read = (schema_v2.UpdateSessionNotification if is_draft else SessionNotification).model_validate(params)
        assert not isinstance(read.update, OtherSessionUpdate | schema_v2.OtherSessionUpdate)
    return [params["update"] for params in notices]


def test_the_table_has_every_event_type():
    assert {*map(str, PresentationEventType), PLAN, TOOL_CALL, "text", "custom event"} == set(YIELDED) == set(KINDS)


@pytest.mark.parametrize("is_draft", [False, True], ids=["stable", "draft"])
@pytest.mark.parametrize("name", YIELDED)
def test_nothing_that_an_agent_yields_is_dropped(name: str, is_draft: bool):
    first = updates_of(YIELDED[name], is_draft=is_draft)[0]
    assert first["sessionUpdate"] == KINDS[name][is_draft]
    if first["sessionUpdate"].endswith("_chunk"):
        assert first["content"]["text"].strip()


def test_a_plan_is_sent_step_by_step():
    (plan,) = updates_of(YIELDED["plan"], is_draft=False)
    steps = [("Look", "completed", "medium"), ("Act", "pending", "medium")]
    assert [(entry["content"], entry["status"], entry["priority"]) for entry in plan["entries"]] == steps
    (draft,) = updates_of(YIELDED["plan"], is_draft=True)
    assert draft["plan"] == {"type": "items", "planId": "turn-plan", "entries": plan["entries"]}


def test_a_tool_call_has_its_content_in_the_format_of_each_version():
    (call,) = updates_of(YIELDED["tool_call"], is_draft=False)
    text = {"type": "content", "content": {"type": "text", "text": "done"}}
    assert (call["toolCallId"], call["title"], call["kind"], call["status"]) == (
        "turn-call-1",
        "Edit",
        "edit",
        "completed",
    )
    assert call["content"] == [text, DIFF]
    (draft,) = updates_of(YIELDED["tool_call"], is_draft=True)
    changed = {"type": "diff", "changes": [{"operation": "modify", "path": "/a.py"}]}
    assert draft["content"] == [text, {**changed, "patch": {"format": "git_patch", "text": PATCH}}]


@pytest.mark.parametrize("is_draft", [False, True], ids=["stable", "draft"])
def test_a_call_is_updated_under_its_id_and_an_open_one_ends_with_the_turn(is_draft: bool):
    begun, more, other, ended = updates_of(
        lambda turn: turn.tool_call("1", "Read", status="pending"),
        lambda turn: turn.tool_call("1", "Read", "half of it"),
        lambda turn: turn.tool_call("2", "Run", status="failed"),
        is_draft=is_draft,
    )
    assert begun["toolCallId"] == more["toolCallId"] == ended["toolCallId"] != other["toolCallId"]
    assert [more["sessionUpdate"], ended["sessionUpdate"]] == ["tool_call_update"] * 2
    assert [begun["status"], more["status"], ended["status"]] == ["pending", "in_progress", "completed"]


@pytest.mark.parametrize("kind", [PLAN, TOOL_CALL])
def test_an_unreadable_event_becomes_a_line_of_text(kind: str):
    (chunk,) = updates_of(lambda turn: turn.event(kind, {"entries": "all"}), is_draft=False)
    assert "cannot be read" in chunk["content"]["text"]
    assert chunk["_meta"]["accord.event"]["type"] == kind


@pytest.mark.parametrize(
    ("share", "status", "title"),
    [(0.5, "running", "Looking (50%)"), (None, "running", "Looking"), (1.0, "complete", "Looking")],
)
def test_running_progress_has_its_percentage_in_the_title(share: float | None, status: str, title: str):
    (update,) = updates_of(lambda turn: turn.progress("Looking", share, status=status), is_draft=False)[:1]
    assert update["title"] == title


PROGRESS = ClientCapabilities(supported_events=["progress_indicator"])
SILENT = ClientCapabilities(supported_events=[])


def test_a_client_that_shows_progress_gets_plans_and_calls_as_progress():
    plan, call, _ = packets([YIELDED["plan"], YIELDED["tool_call"]], PROGRESS)
    assert plan.p["data"] == {"label": "Plan", "status": "running", "progress_percent": 0.5}
    assert call.p["data"] == {"label": "Edit", "status": "complete"}


def test_a_client_that_shows_no_events_gets_the_plan_and_failed_calls_as_text():
    failed = packets([YIELDED["plan"], lambda turn: turn.tool_call("1", "Edit", status="failed")], SILENT)
    text = "".join(packet.p for packet in failed if packet.op == "delta")
    assert "Look" in text
    assert "Edit" in text
    assert [packet.op for packet in packets([YIELDED["tool_call"]], SILENT)] == ["close"]


def test_malformed_tool_content_is_an_error_of_the_agent():
    got = packets([lambda turn: turn.tool_call("1", "x", {"type": "diff"})], SILENT)
    assert [packet.op for packet in got] == ["error", "close"]
