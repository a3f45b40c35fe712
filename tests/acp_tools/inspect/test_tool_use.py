"""What a turn with a tool shows: tables of what an agent sent to the client and to the fake model."""

import json
from pathlib import Path
from typing import Any

import pytest

from accord.acp_tools.inspect.fake_model import MalformedRequest, ReceivedRequest
from accord.acp_tools.inspect.replies import Answered, Refused, Reply, Silent, not_applicable, not_judged
from accord.acp_tools.inspect.tool_use import (
    COMMAND,
    DISK_TEXT,
    READ,
    RUN,
    WRITE,
    ToolTask,
    ToolTurn,
    can_reject,
    has_kinds,
    why_unused,
)
from accord.core.rpc import RpcRequest
from tests.acp_tools.inspect.fake_model.chat_requests import chat_request

DONE = Answered({"stopReason": "end_turn"})
PATH = Path("/folder") / READ.file_name
READ_TOOL = {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
SHELL = {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}


def model_request(task: ToolTask, *tools: Any, result: str | None = None) -> ReceivedRequest:
    messages: list[Any] = [{"role": "user", "content": task.prompt(PATH)}]
    if result is not None:
        messages.append({"role": "tool", "tool_call_id": "1", "content": result})
    return chat_request(*messages, tools=[{"type": "function", "function": tool} for tool in tools])


def turn(
    task: ToolTask = READ,
    *,
    reply: Reply = DONE,
    requests: list[tuple[str, Any]] | None = None,
    updates: list[Any] | None = None,
    model: list[ReceivedRequest] | None = None,
    has_file: bool = False,
    refused: MalformedRequest | None = None,
) -> ToolTurn:
    sent = [RpcRequest(1, method, json.dumps(params).encode()) for method, params in requests or []]
    return ToolTurn(task, reply, sent, updates or [], model, has_file or task.has_file, refused=refused)


@pytest.mark.parametrize(
    "used",
    [
        turn(requests=[("fs/read_text_file", {"path": str(PATH)})]),
        turn(RUN, requests=[("terminal/create", {"command": "sh", "args": ["-c", f"{COMMAND} > a"]})]),
        turn(WRITE, has_file=True),
        turn(model=[model_request(READ, READ_TOOL, result="an error")]),
        turn(updates=[{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": DISK_TEXT}}]),
    ],
)
def test_the_use_of_a_tool_is_recognized(used: ToolTurn):
    assert used.is_used
    assert why_unused(used) is None


USED_NO_TOOL = "The agent used no tool; the fake model calls its tools: add --mock-llm"


@pytest.mark.parametrize(
    ("unused", "outcome"),
    [
        (turn(), not_applicable(USED_NO_TOOL)),
        (turn(requests=[("fs/read_text_file", {"path": "/folder/AGENTS.md"})]), not_applicable(USED_NO_TOOL)),
        (turn(requests=[("fs/read_text_file", [])]), not_applicable(USED_NO_TOOL)),
        (turn(RUN, requests=[("terminal/create", {"command": "git status"})]), not_applicable(USED_NO_TOOL)),
        (turn(model=[]), not_judged("The agent did not call the fake model")),
        (
            turn(model=[], refused=MalformedRequest("POST /v1/messages", "max_tokens: missing")),
            not_judged("The fake model refused the agent's request: POST /v1/messages: max_tokens: missing"),
        ),
        (turn(model=[model_request(READ)]), not_applicable("The agent offers its model no tool that reads files")),
        (
            turn(RUN, model=[model_request(RUN)]),
            not_applicable("The agent offers its model no tool that runs commands"),
        ),
        (
            turn(model=[model_request(READ, READ_TOOL)]),
            not_judged("The agent did not carry out the call of its model"),
        ),
        (
            turn(reply=Silent(2), model=[model_request(READ, READ_TOOL)]),
            not_judged("The prompt to use a tool was not answered: no answer within 2 s", Silent(2)),
        ),
        (
            turn(reply=Refused(-32603, "no key")),
            not_judged("The prompt to use a tool was not answered: error -32603: no key", Refused(-32603, "no key")),
        ),
    ],
)
def test_a_turn_without_a_tool_has_a_reason(unused: ToolTurn, outcome: object):
    assert why_unused(unused) == outcome


@pytest.mark.parametrize(
    ("task", "tools", "uses_shell"),
    [
        (READ, [READ_TOOL, SHELL], False),
        (READ, [SHELL], True),
        (WRITE, [SHELL], True),
        (RUN, [SHELL], False),
        (READ, [], False),
    ],
)
def test_a_shell_in_place_of_a_file_tool_is_recognized(task: ToolTask, tools: list[Any], uses_shell: bool):
    assert turn(task, model=[model_request(task, *tools)]).uses_shell is uses_shell


def call(call_id: str, kind: str = "tool_call", **members: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "toolCallId": call_id, **members}


def permission(call_id: str, **members: Any) -> tuple[str, Any]:
    return ("session/request_permission", {"toolCall": {"toolCallId": call_id, **members}})


UPDATE = "tool_call_update"


@pytest.mark.parametrize(
    ("updates", "requests", "unannounced"),
    [
        ([call("1"), call("1", UPDATE)], [], []),
        ([call("1", UPDATE), call("1")], [], ["1"]),
        ([call("1"), call("2", UPDATE)], [], ["2"]),
        ([call("1", UPDATE)], [permission("1")], []),
        ([{"sessionUpdate": "plan"}], [], []),
    ],
)
def test_updates_of_tool_calls_that_were_not_announced_are_found(
    updates: list[Any], requests: list[Any], unannounced: list[str]
):
    assert turn(updates=updates, requests=requests).unannounced_calls == unannounced


@pytest.mark.parametrize(
    ("updates", "requested", "names_file"),
    [
        ([], permission("1", title=f"Write {WRITE.file_name}"), True),
        ([call("1", locations=[{"path": f"/folder/{WRITE.file_name}"}])], permission("1"), True),
        ([call("2", locations=[{"path": f"/folder/{WRITE.file_name}"}])], permission("1"), False),
        (
            [call("1", title=WRITE.file_name)],
            ("session/request_permission", {"subject": {"type": "tool_call", "toolCall": {"toolCallId": "1"}}}),
            True,
        ),
    ],
)
def test_a_permission_names_the_file_itself_or_by_its_tool_call(
    updates: list[Any], requested: tuple[str, Any], names_file: bool
):
    found = turn(WRITE, updates=updates, requests=[requested])
    assert found.names_file(found.permissions[0]) is names_file


@pytest.mark.parametrize(
    ("options", "is_well_formed", "is_rejectable"),
    [
        ([{"kind": "allow_once"}, {"kind": "reject_once"}], True, True),
        ([{"kind": "reject_always"}], True, True),
        ([{"kind": "allow_once"}], True, False),
        ([{"kind": "allow_once"}, {"name": "No"}], False, False),
        ([{"kind": "reject_once"}, {"kind": "later"}], False, True),
        ([], False, False),
        (None, False, False),
    ],
)
def test_the_options_of_a_permission_say_whether_it_can_be_rejected(
    options: Any, is_well_formed: bool, is_rejectable: bool
):
    assert has_kinds({"options": options}) is is_well_formed
    assert can_reject({"options": options}) is is_rejectable
