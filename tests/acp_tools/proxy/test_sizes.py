"""Sizes that the proxy refuses: none of content unless it is configured to, and what limits its own memory."""

import json
from typing import Any

import pytest

from accord.acp_tools.proxy.guard import IDS, RPC, Guard, Mode, ProxyLimits, Severity, Side
from accord.core.prompt import ContentLimits
from accord.core.sizes import MAX_VALUES
from tests.acp_tools.proxy.test_guard import TEXT, guard_after_handshake, line, prompt

LARGE = 40 * 1024 * 1024
IMAGE = {"type": "image", "data": "AAAA" * (LARGE // 3), "mimeType": "image/png"}
LARGE_PROMPTS: dict[str, tuple[dict[str, bool], list[Any]]] = {
    "a large image": ({"image": True}, [IMAGE]),
    "a large text": ({}, [{"type": "text", "text": "w" * LARGE}]),
    "many blocks": ({}, [TEXT] * (MAX_VALUES // 2 + 1)),
}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", LARGE_PROMPTS)
def test_the_size_of_content_is_left_to_the_agent(mode: Mode, name: str):
    declared, blocks = LARGE_PROMPTS[name]
    message_line = prompt(*blocks)
    decision = guard_after_handshake(mode, declared).decide(message_line)
    assert (decision.forward == message_line, decision.reply, decision.findings) == (True, b"", ())


def test_adapt_saves_a_large_image():
    decision = guard_after_handshake(Mode.ADAPT, {}, folder="/f").decide(prompt(IMAGE))
    assert [len(file.data) for file in decision.files] == [LARGE // 3 * 3]
    assert json.loads(decision.forward)["params"]["prompt"][0]["type"] == "resource_link"


CONFIGURED: list[tuple[ContentLimits, list[Any], str]] = [
    (ContentLimits(4, 100, 100), [TEXT], "text block is larger than 4"),
    (ContentLimits(100, 9, 100), [TEXT, TEXT], "the prompt is larger than 9"),
    (ContentLimits(100, 100, 1), [TEXT, TEXT], "the number of blocks is larger than 1"),
]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("content", "blocks", "sentence"), CONFIGURED)
def test_a_configured_limit_refuses_larger_content(
    mode: Mode, content: ContentLimits, blocks: list[Any], sentence: str
):
    guard = guard_after_handshake(mode, {}, limits=ProxyLimits(content))
    decision = guard.decide(prompt(*blocks, call_id=8))
    assert any(sentence in finding.sentence for finding in decision.findings)
    if mode is Mode.OBSERVE:
        assert decision.forward == prompt(*blocks, call_id=8)
    else:
        refused = json.loads(decision.reply)
        assert (decision.forward, refused["id"], refused["error"]["code"]) == (b"", 8, -32602)
        assert sentence in refused["error"]["message"]
    assert guard.decide(prompt({"type": "text", "text": "Hi"})).forward


@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.ADAPT])
def test_a_message_with_too_many_values_is_refused_with_its_id(mode: Mode):
    guard = guard_after_handshake(mode, {}, limits=ProxyLimits(max_values=10))
    assert guard.decide(prompt(TEXT)).forward
    refused = json.loads(guard.decide(prompt(*[TEXT] * 5, call_id=8)).reply)
    assert refused == {
        "jsonrpc": "2.0",
        "id": 8,
        "error": {"code": -32600, "message": "A message has at most 10 values"},
    }


@pytest.mark.parametrize(("max_chars", "sent"), [(5, "[x:1]\nwords"), (4, "[x:1, the first 4 of 5 characters]\nword")])
def test_embedded_text_is_cut_where_it_is_configured(max_chars: int, sent: str):
    guard = guard_after_handshake(Mode.ADAPT, {}, limits=ProxyLimits(max_text_chars=max_chars))
    decision = guard.decide(prompt({"type": "resource", "resource": {"uri": "x:1", "text": "words"}}))
    assert json.loads(decision.forward)["params"]["prompt"] == [{"type": "text", "text": sent}]


TOO_LONG = {"code": -32600, "message": "The line is longer than 100663296 bytes"}
REQUEST = b'{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"prompt":[{'
RESPONSE = b'{"jsonrpc":"2.0","id":7,"result":{"content":"'
OVERSIZED: dict[str, tuple[bytes, Any, Any]] = {
    "a request": (REQUEST, 7, None),
    "a request with an id of text": (REQUEST.replace(b"7", b'"x"'), "x", None),
    "a request whose method comes last": (b'{"id":7,"params":{"prompt":[{', 7, None),
    "a request whose id comes last": (b'{"jsonrpc":"2.0","method":"session/prompt","params":{', "null", None),
    "an id of the wrong type": (REQUEST.replace(b"7", b"true"), "null", None),
    "no message": (b"x" * 100, "null", None),
    "a response": (RESPONSE, None, 7),
    "an error response": (b'{"id":7,"error":{"code":1,"message":"', None, 7),
    "a response without an id": (b'{"jsonrpc":"2.0","result":{"content":"', None, None),
}
"""The beginning of the line, the id of the error to the editor, and that of the error to the agent."""


def error_id(error_line: bytes) -> Any:
    if not error_line:
        return None
    message = json.loads(error_line)
    assert message == {"jsonrpc": "2.0", "id": message["id"], "error": TOO_LONG}
    return "null" if message["id"] is None else message["id"]


@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.ADAPT])
@pytest.mark.parametrize("name", OVERSIZED)
def test_an_oversized_line_of_the_editor_is_refused_with_an_error_for_the_side_that_waits(mode: Mode, name: str):
    beginning, to_editor, to_agent = OVERSIZED[name]
    guard = Guard(mode)
    decision = guard.decide_oversized(Side.EDITOR, beginning)
    assert (error_id(decision.reply), error_id(decision.forward)) == (to_editor, to_agent)
    [finding] = decision.findings
    assert (guard.number, finding.number, finding.side, finding.clause) == (1, 1, Side.EDITOR, RPC)
    assert (finding.severity, finding.sentence) == (Severity.ERROR, f"{TOO_LONG['message']} and is refused")


@pytest.mark.parametrize(("mode", "side"), [(Mode.OBSERVE, Side.EDITOR), *((mode, Side.AGENT) for mode in Mode)])
@pytest.mark.parametrize("name", OVERSIZED)
def test_any_other_oversized_line_passes_with_a_warning(mode: Mode, side: Side, name: str):
    beginning = OVERSIZED[name][0]
    decision = Guard(mode, limits=ProxyLimits(max_line_bytes=5)).decide_oversized(side, beginning)
    assert (decision.forward, decision.reply) == (beginning, b"")
    [finding] = decision.findings
    assert (finding.severity, finding.sentence) == (
        Severity.WARNING,
        "The line is longer than 5 bytes and passes unchecked",
    )


def test_oversized_lines_that_pass_count_as_calls_and_answers():
    guard = guard_after_handshake(Mode.OBSERVE, {})
    guard.decide_oversized(Side.EDITOR, REQUEST)
    assert guard.check_agent([b'{"jsonrpc":"2.0","id":7,"result":{}}']).findings == []
    guard.decide_oversized(Side.AGENT, REQUEST)
    assert guard.decide(b'{"jsonrpc":"2.0","id":7,"result":{}}\n').findings == ()
    guard = guard_after_handshake(Mode.GUARD, {})
    guard.decide(line("session/load", {}, 7))
    guard.decide_oversized(Side.AGENT, RESPONSE)
    assert guard.fail_pending("It is gone") == b""
    guard.check_agent([line("fs/read_text_file", {}, 7).strip()])
    guard.decide_oversized(Side.EDITOR, RESPONSE)
    assert [finding.clause for finding in guard.decide(b'{"jsonrpc":"2.0","id":7,"result":{}}\n').findings] == [IDS]


@pytest.mark.parametrize("mode", Mode)
def test_a_line_that_arrives_whole_is_measured_too(mode: Mode):
    message_line = prompt(TEXT, call_id=8)
    size = len(message_line.strip())
    assert guard_after_handshake(mode, {}, limits=ProxyLimits(max_line_bytes=size)).decide(message_line).forward
    decision = guard_after_handshake(mode, {}, limits=ProxyLimits(max_line_bytes=size - 1)).decide(message_line)
    if mode is Mode.OBSERVE:
        assert (decision.forward, decision.reply) == (message_line, b"")
    else:
        assert (decision.forward, json.loads(decision.reply)["id"]) == (b"", 8)
