"""Half of a surrogate pair, as JavaScript sends it: the conversation goes on, and no request loses its id."""

import json
from typing import Any

import pytest

from accord.acp_tools.proxy.guard import HALF_PAIR, RPC, SHAPE, Mode, ProxyFinding, Severity, Side
from tests.acp_tools.proxy.test_guard import IMAGE, TEXT, guard_after_handshake, line, prompt

HALF = {"type": "text", "text": "a smile: \ud83d"}
LINES: dict[str, bytes] = {
    "in the text of a prompt": prompt(HALF, call_id=5),
    "the other half": prompt({"type": "text", "text": "\ude00!"}, call_id=5),
    "in another request": line("session/new", {"cwd": "/\ud83d", "mcpServers": []}, 5),
    "in the name of a member": line("session/new", {"\ud83d": 1}, 5),
    "in a notification": b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"\\ud83d"}}\r\n',
    "in a batch": b"[" + prompt(HALF, call_id=5).strip() + b" , " + line("x", {}, 6).strip() + b"]\n",
}
WARNING = (Severity.WARNING, RPC, HALF_PAIR)


def found(findings: Any) -> list[tuple[Severity, str, str]]:
    return [(finding.severity, finding.clause, finding.sentence) for finding in findings]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", LINES)
def test_a_line_of_the_editor_passes_byte_for_byte_with_a_warning(mode: Mode, name: str):
    decision = guard_after_handshake(mode, {}).decide(LINES[name])
    assert (decision.forward, decision.reply) == (LINES[name], b"")
    assert found(decision.findings)[0] == WARNING


@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.ADAPT])
def test_content_that_was_not_declared_is_still_refused_with_the_id_of_the_request(mode: Mode):
    decision = guard_after_handshake(mode, {}).decide(prompt(HALF, IMAGE, call_id=5))
    refused = json.loads(decision.reply)
    assert (decision.forward, refused["id"], refused["error"]["code"]) == (b"", 5, -32602)


def test_a_prompt_that_adapt_rewrites_has_the_replacement_character_instead():
    decision = guard_after_handshake(Mode.ADAPT, {}, folder="/f").decide(prompt(HALF, IMAGE, call_id=5))
    sent = json.loads(decision.forward)
    assert (sent["id"], sent["params"]["prompt"][0]["text"]) == (5, "a smile: \ufffd")
    assert sent["params"]["prompt"][1]["type"] == "resource_link"
    assert WARNING in found(decision.findings)


def test_a_batch_that_is_rewritten_keeps_its_ids():
    both = b"[" + prompt(HALF, call_id=5).strip() + b"," + prompt(HALF, IMAGE, call_id=6).strip() + b"]\n"
    decision = guard_after_handshake(Mode.GUARD, {}).decide(both)
    assert [message["id"] for message in json.loads(decision.forward)] == [5]
    assert [error["id"] for error in json.loads(decision.reply)] == [6]


def test_a_line_that_is_broken_in_another_way_is_still_refused():
    decision = guard_after_handshake(Mode.GUARD, {}).decide(b'{"jsonrpc":"2.0","id":5,"method":"\\ud83d",}\n')
    assert (decision.forward, json.loads(decision.reply)["error"]["code"]) == (b"", -32700)


def test_an_answer_and_an_update_of_the_agent_are_read():
    guard = guard_after_handshake(Mode.GUARD, {})
    guard.decide(prompt(TEXT, call_id=5))
    answer = b'{"jsonrpc":"2.0","id":5,"result":{"stopReason":"end_turn","_meta":{"x":"\\ud83d"}}}'
    block = guard.check_agent([answer])
    assert (block.findings, block.rewritten) == ([ProxyFinding(4, Side.AGENT, *WARNING)], {})
    assert guard.fail_pending("It is gone") == b"", "the answer counts"
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "\ud83d"}}
    params = {"sessionId": "s", "update": update}
    text = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()
    assert found(guard.check_agent([text]).findings) == [WARNING]
    del update["content"]
    text = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {**params, "x": "\ud83d"}}).encode()
    assert [finding.clause for finding in guard.check_agent([text]).findings] == [RPC, SHAPE]
