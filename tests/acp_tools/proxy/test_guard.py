"""Every line between an editor and an agent passes unchanged, is answered, or is rewritten, with findings."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.proxy.guard import RPC, Guard, Mode, Severity, Side
from accord.acp_tools.proxy.pump import BlockSplitter
from accord.core.output.agent_work import ALLOW_OR_REJECT, build_permission_request
from accord.core.prompt import ContentValidator
from accord.core.rpc import request_line
from accord.servers.acp.updates import DraftWriter, PromptUpdates, StableWriter

TEXT = {"type": "text", "text": "Hello"}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
FILE = {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "words", "mimeType": "text/plain"}}
BINARY = {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "aGk="}}
NOTE = {"type": "resource", "resource": {"uri": "untitled:1", "text": "words", "mimeType": "text/plain"}}


def line(method: str, params: Any, call_id: Any = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}).encode() + b"\n"


def guard_after_handshake(mode: Mode, declared: dict[str, Any], **parts: Any) -> Guard:
    """A guard after the handshake of an agent that declares this."""
    guard = Guard(mode, **parts)
    guard.decide(line("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, 0))
    result = {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": declared}}
    guard.check_agent([json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).encode()])
    return guard


def prompt(*blocks: Any, call_id: Any = 1) -> bytes:
    return line("session/prompt", {"sessionId": "s", "prompt": list(blocks)}, call_id)


@pytest.mark.parametrize("call_id", [1, "x", None, 2**70])
def test_guard_refuses_undeclared_content_with_the_exact_error_and_does_not_forward_it(call_id: Any):
    decision = guard_after_handshake(Mode.GUARD, {}).decide(prompt(TEXT, IMAGE, call_id=call_id))
    assert decision.forward == b""
    reply = json.loads(decision.reply)
    assert reply["id"] == call_id
    assert reply["error"] == ContentValidator({}).validate([TEXT, IMAGE]).error
    assert decision.findings


@pytest.mark.parametrize(
    ("declared", "blocks"),
    [({}, [TEXT, LINK]), ({"image": True}, [TEXT, IMAGE]), ({"embeddedContext": True}, [FILE])],
)
def test_declared_content_passes_byte_for_byte(declared: dict[str, Any], blocks: list[Any]):
    message_line = prompt(*blocks)
    decision = guard_after_handshake(Mode.GUARD, declared).decide(message_line)
    assert (decision.forward, decision.reply, decision.findings) == (message_line, b"", ())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.ADAPT])
def test_an_empty_prompt_is_refused_in_the_draft_only(mode: Mode, version: int):
    guard = Guard(mode)
    guard.decide(line("initialize", {"protocolVersion": version}, 0))
    guard.check_agent([json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": version}}).encode()])
    decision = guard.decide(prompt())
    if version == 1:
        assert (decision.forward, decision.reply) == (prompt(), b"")
    else:
        assert decision.forward == b""
        assert json.loads(decision.reply)["error"] == ContentValidator({}, protocol_version=2).validate([]).error


@pytest.mark.parametrize("is_draft", [False, True])
@pytest.mark.parametrize("mode", Mode)
def test_permission_requests_of_an_accord_agent_and_their_answers_pass_unchanged(mode: Mode, is_draft: bool):
    guard = Guard(mode)
    version = 2 if is_draft else 1
    guard.decide(line("initialize", {"protocolVersion": version}, 0))
    result: dict[str, Any] = {
        "protocolVersion": version,
        "agentCapabilities": {},
        "capabilities": {"session": {"prompt": {}}},
    }
    guard.check_agent([json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).encode()])
    question = build_permission_request("Go?", "1", ["why"], {"kind": "edit"}, ALLOW_OR_REJECT)
    message = PromptUpdates((DraftWriter if is_draft else StableWriter)("s"), "turn").request_permission(question)
    message_line = request_line(7, "session/request_permission", message.request)
    assert guard.check_agent([message_line.rstrip(b"\n")]).findings == []
    answer = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"outcome": {"outcome": "cancelled"}}}).encode() + b"\n"
    decision = guard.decide(answer)
    assert (decision.forward, decision.reply, decision.findings) == (answer, b"", ())


@pytest.mark.parametrize(
    "message_line",
    [
        line("session/new", {"cwd": "/"}),
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}\n',
        b"\n",
        b'{ "jsonrpc" : "2.0",  "id":7, "result":{} }\r\n',
    ],
)
def test_any_message_other_than_a_prompt_passes_unchanged(message_line: bytes):
    assert guard_after_handshake(Mode.GUARD, {}).decide(message_line).forward == message_line


BROKEN = [
    (b"garbage\n", -32700, None),
    (b"[]\n", -32600, None),
    (b"42\n", -32600, None),
    (b'{"jsonrpc":"2.0","id":3}\n', -32600, 3),
    (b'{"jsonrpc":"1.0","id":3,"method":"x"}\n', -32600, 3),
    (b'{"jsonrpc":"2.0","id":3,"method":7}\n', -32600, 3),
    (b'{"jsonrpc":"2.0","id":[],"method":"session/prompt"}\n', -32600, None),
    (b'{"jsonrpc":"2\\u002e0","id":3,"method":"session\\/prompt","params":{"prompt":[{"type":"image"}]}}\n', -32600, 3),
    (b'{"jsonrpc":"2\\u002e0","id":"x","method":"session/prompt","params":{"prompt":[]}}\n', -32600, "x"),
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":3,"method":"session\\/prompt","params":{}}\n', -32700, 3),
]


@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.ADAPT])
@pytest.mark.parametrize(("message_line", "code", "call_id"), BROKEN)
def test_a_line_that_is_not_a_message_is_refused_and_not_forwarded(
    mode: Mode, message_line: bytes, code: int, call_id: Any
):
    decision = guard_after_handshake(mode, {"image": True}).decide(message_line)
    assert (decision.forward, decision.files, decision.if_not_saved) == (b"", (), None)
    reply = json.loads(decision.reply)
    assert (reply["id"], reply["error"]["code"]) == (call_id, code)
    [finding] = decision.findings
    assert (finding.severity, finding.side, finding.clause) == (Severity.ERROR, Side.EDITOR, RPC)
    assert finding.sentence == f"Not a JSON-RPC message: {reply['error']['message']}"


def test_malformed_content_is_refused_in_guard_and_in_adapt():
    for mode in (Mode.GUARD, Mode.ADAPT):
        decision = guard_after_handshake(mode, {"image": True}).decide(
            prompt({"type": "image", "mimeType": "image/png"})
        )
        assert decision.forward == b""
        assert json.loads(decision.reply)["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("block", "becomes"),
    [
        (FILE, {"type": "text", "text": "[file:///b.txt]\nwords"}),
        (NOTE, {"type": "text", "text": "[untitled:1]\nwords"}),
        (BINARY, {"type": "resource_link", "uri": "file:///c.bin"}),
    ],
)
def test_adapt_replaces_undeclared_content_and_tells_the_user(block: dict[str, Any], becomes: dict[str, Any]):
    decision = guard_after_handshake(Mode.ADAPT, {}).decide(prompt(TEXT, block))
    sent = json.loads(decision.forward)["params"]["prompt"]
    assert sent[0] == TEXT
    assert becomes.items() <= sent[1].items()
    notice = json.loads(decision.reply)
    assert notice["method"] == "session/update"
    assert decision.findings


@pytest.mark.parametrize(
    ("uri", "becomes", "phrase"),
    [("file:///b.txt", "resource_link", "unsaved changes are lost"), ("untitled:1", "text", "cut after")],
)
def test_the_loss_of_a_long_text_is_in_the_notice_and_in_the_findings(uri: str, becomes: str, phrase: str):
    long = {"type": "resource", "resource": {"uri": uri, "text": "w" * 100_000, "mimeType": "text/plain"}}
    decision = guard_after_handshake(Mode.ADAPT, {}).decide(prompt(long))
    assert json.loads(decision.forward)["params"]["prompt"][0]["type"] == becomes
    assert phrase in json.loads(decision.reply)["params"]["update"]["content"]["text"]
    assert any(phrase in finding.sentence for finding in decision.findings)


def test_adapt_saves_an_image_and_refuses_the_prompt_if_that_fails():
    decision = guard_after_handshake(Mode.ADAPT, {}, folder="/private").decide(prompt(TEXT, IMAGE))
    assert [file.data for file in decision.files] == [b"hi"]
    sent = json.loads(decision.forward)["params"]["prompt"][1]
    assert sent["type"] == "resource_link"
    assert decision.files[0].path in sent["uri"]
    assert decision.if_not_saved is not None
    assert json.loads(decision.if_not_saved.reply)["error"]["code"] == -32602


@given(st.binary(max_size=200))
def test_observe_changes_no_byte(data: bytes):
    guard = guard_after_handshake(Mode.OBSERVE, {})
    assert guard.decide(data).forward == data
    guard.check_agent([data])


@given(st.binary(max_size=200), st.sampled_from(list(Mode)))
def test_no_bytes_make_the_guard_fail(data: bytes, mode: Mode):
    guard = guard_after_handshake(mode, {})
    guard.decide(data)
    guard.check_agent(data.split(b"\n"))


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6), st.integers(1, 50))
def test_the_blocks_joined_are_the_input(data: bytes, cuts: list[int], max_bytes: int):
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    splitter = BlockSplitter(max_bytes)
    found = [block for place, end in itertools.pairwise(places) for block in splitter.feed(data[place:end])]
    assert b"".join(block.data for block in [*found, *splitter.close()]) == data


def test_a_malformed_update_of_the_agent_is_a_finding():
    guard = guard_after_handshake(Mode.GUARD, {})
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "image"}}
    result = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    findings = guard.check_agent([json.dumps(result).encode()]).findings
    assert findings
    assert findings[0].side is Side.AGENT


@pytest.mark.parametrize("more", ["image", "audio", "embeddedContext"])
def test_declaring_more_never_refuses_more(more: str):
    for block in (TEXT, LINK, IMAGE, FILE):
        passed = guard_after_handshake(Mode.GUARD, {}).decide(prompt(block)).forward != b""
        assert not passed or guard_after_handshake(Mode.GUARD, {more: True}).decide(prompt(block)).forward != b""
