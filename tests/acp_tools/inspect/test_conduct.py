"""The rules for messages: one table of conversations with the rule that each breaks, without any process."""

import json
from typing import Any

import pytest

from accord.acp_tools.inspect.conduct import MAX_VIOLATIONS, Conduct, Rule
from accord.core.rpc import RpcFailure, RpcNotification, RpcRequest, RpcResult, read_frames

Sent = dict[str, Any]

INITIALIZE: Sent = {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
INITIALIZED: Sent = {"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": {}}}
NEW: Sent = {"id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
OPENED: Sent = {"id": 2, "result": {"sessionId": "s"}}
PROMPT: Sent = {
    "id": 3,
    "method": "session/prompt",
    "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "hello"}]},
}
ENDED: Sent = {"id": 3, "result": {"stopReason": "end_turn"}}
FILES: Sent = {"fs": {"readTextFile": True}}
OPTIONS: list[Any] = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


def update(kind: str = "agent_message_chunk", session: Any = "s", **members: Any) -> Sent:
    content = {"content": {"type": "text", "text": "ok"}} if kind.endswith("chunk") else {}
    return {
        "method": "session/update",
        "params": {"sessionId": session, "update": {"sessionUpdate": kind, **content, **members}},
    }


def request(method: str, **params: Any) -> Sent:
    return {"id": 900, "method": method, "params": {"sessionId": "s", **params}}


def permission(**params: Any) -> Sent:
    return request("session/request_permission", toolCall={"toolCallId": "c"}, **{"options": OPTIONS, **params})


def follow(*messages: Sent, capabilities: dict[str, Any] | None = None) -> Conduct:
    """Follow a conversation: requests that a client makes are the inspector's, all else is the agent's."""
    conduct = Conduct(capabilities)
    for number, message in enumerate(messages):
        (frame,) = read_frames(json.dumps({"jsonrpc": "2.0", **message}).encode())
        assert isinstance(frame, RpcRequest | RpcNotification | RpcResult | RpcFailure)
        if isinstance(frame, RpcRequest) and frame.id != 900:
            conduct.sent(frame, number)
        else:
            conduct.received(frame, number)
    conduct.close()
    return conduct


def broken(*messages: Sent, capabilities: dict[str, Any] | None = None) -> list[Rule]:
    return [violation.rule for violation in follow(*messages, capabilities=capabilities).violations]


OPEN = (INITIALIZE, INITIALIZED, NEW, OPENED)


@pytest.mark.parametrize(
    "messages",
    [
        OPEN,
        (*OPEN, PROMPT, update(), ENDED),
        (*OPEN, PROMPT, update("agent_thought_chunk"), update("plan", entries=[]), ENDED),
        (*OPEN, PROMPT, update(), {"id": 3, "result": {"stopReason": "refusal"}}),
        (*OPEN, PROMPT, {"id": 3, "result": {"stopReason": "cancelled"}}),
        (*OPEN, PROMPT, {"id": 3, "error": {"code": -32603, "message": "no key"}}),
        (*OPEN, PROMPT, update("tool_call", toolCallId="c", title="t"), permission(), update(), ENDED)[:-1],
        (
            *OPEN,
            PROMPT,
            update("tool_call", toolCallId="c", title="t", status="pending"),
            update("tool_call_update", toolCallId="c", status="completed"),
            update("tool_call_update", toolCallId="c", title="renamed"),
            ENDED,
        ),
        # Updates that belong to no turn may come at any time, also before the answer to session/new.
        (INITIALIZE, INITIALIZED, NEW, update("available_commands_update", availableCommands=[]), OPENED),
        (*OPEN, PROMPT, update(), ENDED, update("session_info_update", title="A talk")),
        # A loaded session is replayed before the answer.
        (INITIALIZE, INITIALIZED, {"id": 4, "method": "session/load", "params": {"sessionId": "old", "cwd": "/"}},
         update("user_message_chunk", "old"), update(session="old"), {"id": 4, "result": None}),
        # The answer to a prompt that the inspector sent to a session that does not exist.
        (*OPEN, {**PROMPT, "params": {"sessionId": "x", "prompt": []}}, update(session="x"), ENDED),
        # An error without a request is the answer to a line that could not be read.
        (*OPEN, {"id": None, "error": {"code": -32700, "message": "Parse error"}}),
        (*OPEN, {"method": "_vendor/notice", "params": {}}, {"method": "$/cancel_request", "params": {"requestId": 1}}),
        (*OPEN, {**PROMPT, "params": {"sessionId": "s", "prompt": []}}, ENDED),
        (*OPEN, PROMPT, update("_vendor_update", text="x"), update(), ENDED),
    ],
)  # fmt: skip
def test_a_proper_conversation_breaks_no_rule(messages: tuple[Sent, ...]):
    assert follow(*messages).violations == []


BROKEN: list[tuple[tuple[Sent, ...], Rule]] = [
    ((*OPEN, PROMPT, update(), {"id": 3, "result": None}), Rule.RESULT_SHAPE),
    ((*OPEN, PROMPT, update(), {"id": 3, "result": [1]}), Rule.RESULT_SHAPE),
    ((INITIALIZE, INITIALIZED, NEW, {"id": 2, "result": {}}), Rule.RESULT_SHAPE),
    ((INITIALIZE, INITIALIZED, NEW, {"id": 2, "result": {"sessionId": "s", "modes": []}}), Rule.RESULT_SHAPE),
    ((INITIALIZE, INITIALIZED, NEW, {"id": 2, "result": {"sessionId": "s", "models": {}}}), Rule.UNSTABLE),
    ((*OPEN, PROMPT, update(), {"id": 3, "result": {"stopReason": "done"}}), Rule.STOP_REASON),
    ((*OPEN, PROMPT, update(), {"id": 3, "result": {"_meta": {}}}), Rule.STOP_REASON),
    ((*OPEN, PROMPT, update(), ENDED, ENDED), Rule.ONE_ANSWER),
    ((*OPEN, {"id": 77, "result": {}}), Rule.ONE_ANSWER),
    ((*OPEN, PROMPT, {"id": 3, "error": {"message": "no"}}), Rule.ERROR_SHAPE),
    ((*OPEN, PROMPT, {"id": 3, "error": {"code": -1}}), Rule.ERROR_SHAPE),
    ((*OPEN, PROMPT, {"id": 3, "error": "no"}), Rule.ERROR_SHAPE),
    ((*OPEN, PROMPT, update(content="text"), update(), ENDED), Rule.UPDATE_SHAPE),
    ((*OPEN, PROMPT, update("hologram"), update(), ENDED), Rule.UPDATE_SHAPE),
    ((*OPEN, PROMPT, {**update(), "id": 900}, update(), ENDED), Rule.UPDATE_SHAPE),
    ((*OPEN, PROMPT, update("plan_removed"), update(), ENDED), Rule.UNSTABLE),
    ((*OPEN, PROMPT, update(), ENDED, update()), Rule.UPDATE_LATE),
    ((*OPEN, update()), Rule.UPDATE_OUTSIDE),
    ((*OPEN, PROMPT, update(), update(session="other"), ENDED), Rule.UPDATE_SESSION),
    ((INITIALIZE, INITIALIZED, update("usage_update", used=1, size=2)), Rule.UPDATE_SESSION),
    ((INITIALIZE, INITIALIZED, NEW, update("usage_update", "x", used=1, size=2), OPENED), Rule.UPDATE_SESSION),
    ((*OPEN, PROMPT, ENDED), Rule.TURN_OUTPUT),
    ((*OPEN, PROMPT, update("tool_call", toolCallId="c", title="t"), ENDED), Rule.CALLS_FINISH),
    ((*OPEN, request("fs/read_text_file", path="/a")), Rule.UNDECLARED_FS),
    ((*OPEN, request("fs/write_text_file", path="/a", content="")), Rule.UNDECLARED_FS),
    ((*OPEN, request("terminal/create", command="ls")), Rule.UNDECLARED_TERMINAL),
    ((*OPEN, permission(options=[])), Rule.PERMISSION_SHAPE),
    ((*OPEN, permission(options=OPTIONS * 2)), Rule.PERMISSION_SHAPE),
    ((*OPEN, permission(options=[{**OPTIONS[0], "kind": "maybe"}])), Rule.PERMISSION_SHAPE),
    ((*OPEN, request("session/request_permission", options=OPTIONS)), Rule.PERMISSION_SHAPE),
    ((*OPEN, request("client/beep")), Rule.CLIENT_METHODS),
    ((*OPEN, {"method": "client/beep"}), Rule.CLIENT_METHODS),
    ((*OPEN, request("elicitation/create", message="Name?")), Rule.CLIENT_METHODS),
    ((INITIALIZE, {"id": 1, "result": {"protocolVersion": 2, "agentCapabilities": {}}}), Rule.VERSION_BODY),
    ((INITIALIZE, {"id": 1, "result": {"protocolVersion": 1, "capabilities": {}}}), Rule.VERSION_BODY),
]


@pytest.mark.parametrize(("messages", "rule"), BROKEN)
def test_each_fault_breaks_exactly_its_rule(messages: tuple[Sent, ...], rule: Rule):
    assert set(broken(*messages)) == {rule}


@pytest.mark.parametrize(
    ("message", "rules"),
    [
        (request("fs/read_text_file", path="/a", line=1), []),
        (request("fs/read_text_file", path="a"), [Rule.ABSOLUTE_PATHS]),
        (request("fs/read_text_file", path="C:\\a"), []),
        (request("fs/read_text_file"), [Rule.CLIENT_SHAPE]),
        (request("fs/read_text_file", path="/a", line="1"), [Rule.CLIENT_SHAPE]),
        (request("fs/write_text_file", path="/a", content=""), [Rule.UNDECLARED_FS]),
    ],
)
def test_declared_files_are_requested_in_the_right_form(message: Sent, rules: list[Rule]):
    assert broken(*OPEN, message, capabilities=FILES) == rules


def test_a_request_that_is_sent_without_an_id_is_found():
    message = {"method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/a"}}
    assert broken(*OPEN, message, capabilities=FILES) == [Rule.CLIENT_SHAPE]


def test_a_violation_names_the_lines_that_show_it():
    (found,) = follow(*OPEN, PROMPT, update(), {"id": 3, "result": {"stopReason": "done"}}).violations
    assert found.lines == (4, 6)
    assert found.sentence.startswith("The stop reason is 'done'; use cancelled, end_turn, ")


def test_the_number_of_violations_is_limited():
    assert len(broken(*OPEN, *[update()] * (MAX_VIOLATIONS + 50))) == MAX_VIOLATIONS


def test_only_rules_with_something_to_judge_count_as_judged():
    assert Rule.STOP_REASON not in follow(*OPEN).judged
    assert {Rule.STOP_REASON, Rule.UPDATE_SHAPE, Rule.TURN_OUTPUT} <= follow(*OPEN, PROMPT, update(), ENDED).judged


def test_the_draft_ends_turns_with_a_state_and_has_no_late_updates():
    initialized: Sent = {
        "id": 1,
        "result": {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {}},
    }
    accepted = {"id": 3, "result": {"messageId": "m"}}
    assert broken(INITIALIZE, initialized, NEW, OPENED, PROMPT, accepted, update(messageId="m")) == []
    assert broken(INITIALIZE, initialized, NEW, OPENED, PROMPT, {"id": 3, "result": {}}) == [Rule.RESULT_SHAPE]
