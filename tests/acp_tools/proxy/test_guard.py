"""Every line between an editor and an agent passes as it is, is answered instead, or is rewritten; and it is told."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.proxy.guard import RPC, Guard, Mode
from accord.acp_tools.proxy.pump import BlockCutter
from accord.acp_tools.trace.writer import Severity, Side
from accord.core.output.agent_work import ALLOW_OR_REJECT, build_permission_question
from accord.core.prompt import ContentValidator
from accord.core.rpc import request_line
from accord.servers.acp.updates import TurnUpdates

TEXT = {"type": "text", "text": "Hello"}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
FILE = {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "words", "mimeType": "text/plain"}}
BINARY = {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "aGk="}}
NOTE = {"type": "resource", "resource": {"uri": "untitled:1", "text": "words", "mimeType": "text/plain"}}


def line(method: str, params: Any, own: Any = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": own, "method": method, "params": params}).encode() + b"\n"


def met(mode: Mode, declared: dict[str, Any], **parts: Any) -> Guard:
    """A guard that has seen the handshake of an agent that declares this."""
    guard = Guard(mode, **parts)
    guard.from_editor(line("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, 0))
    told = {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": declared}}
    guard.from_agent([json.dumps({"jsonrpc": "2.0", "id": 0, "result": told}).encode()])
    return guard


def prompt(*blocks: Any, own: Any = 1) -> bytes:
    return line("session/prompt", {"sessionId": "s", "prompt": list(blocks)}, own)


@pytest.mark.parametrize("own", [1, "x", None, 2**70])
def test_guard_refuses_what_was_not_declared_with_the_exact_error_and_the_agent_never_sees_it(own: Any):
    step = met(Mode.GUARD, {}).from_editor(prompt(TEXT, IMAGE, own=own))
    assert step.forward == b""
    told = json.loads(step.back)
    assert told["id"] == own
    assert told["error"] == ContentValidator({}).validate([TEXT, IMAGE]).error
    assert step.findings


@pytest.mark.parametrize(
    ("declared", "blocks"),
    [({}, [TEXT, LINK]), ({"image": True}, [TEXT, IMAGE]), ({"embeddedContext": True}, [FILE])],
)
def test_what_was_declared_passes_byte_for_byte(declared: dict[str, Any], blocks: list[Any]):
    asked = prompt(*blocks)
    step = met(Mode.GUARD, declared).from_editor(asked)
    assert (step.forward, step.back, step.findings) == (asked, b"", ())


@pytest.mark.parametrize("is_draft", [False, True])
@pytest.mark.parametrize("mode", Mode)
def test_what_an_agent_of_ours_asks_leave_for_and_what_it_is_answered_pass_as_they_are(mode: Mode, is_draft: bool):
    guard = Guard(mode)
    version = 2 if is_draft else 1
    guard.from_editor(line("initialize", {"protocolVersion": version}, 0))
    told: dict[str, Any] = {
        "protocolVersion": version,
        "agentCapabilities": {},
        "capabilities": {"session": {"prompt": {}}},
    }
    guard.from_agent([json.dumps({"jsonrpc": "2.0", "id": 0, "result": told}).encode()])
    question = build_permission_question("Go?", "1", ["why"], {"kind": "edit"}, ALLOW_OR_REJECT)
    asking = TurnUpdates("s", "own", is_draft=is_draft).request_permission(question)
    asked = request_line(7, "session/request_permission", asking.request)
    assert guard.from_agent([asked.rstrip(b"\n")]) == []
    answer = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"outcome": {"outcome": "cancelled"}}}).encode() + b"\n"
    step = guard.from_editor(answer)
    assert (step.forward, step.back, step.findings) == (answer, b"", ())


@pytest.mark.parametrize(
    "asked",
    [
        line("session/new", {"cwd": "/"}),
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}\n',
        b"\n",
        b'{ "jsonrpc" : "2.0",  "id":7, "result":{} }\r\n',
    ],
)
def test_whatever_is_no_prompt_passes_untouched(asked: bytes):
    assert met(Mode.GUARD, {}).from_editor(asked).forward == asked


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
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":3,"method":"session\\/prompt","params":{}}\n', -32700, None),
]


@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.ADAPT])
@pytest.mark.parametrize(("asked", "code", "own"), BROKEN)
def test_a_line_that_is_no_message_is_refused_and_the_agent_never_sees_it(
    mode: Mode, asked: bytes, code: int, own: Any
):
    step = met(mode, {"image": True}).from_editor(asked)
    assert (step.forward, step.saves, step.otherwise) == (b"", (), None)
    told = json.loads(step.back)
    assert (told["id"], told["error"]["code"]) == (own, code)
    [finding] = step.findings
    assert (finding.severity, finding.side, finding.clause) == (Severity.ERROR, Side.EDITOR, RPC)
    assert finding.sentence == f"This is no message: {told['error']['message']}"


def test_malformed_content_is_refused_in_guard_and_in_adapt():
    for mode in (Mode.GUARD, Mode.ADAPT):
        step = met(mode, {"image": True}).from_editor(prompt({"type": "image", "mimeType": "image/png"}))
        assert step.forward == b""
        assert json.loads(step.back)["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("block", "becomes"),
    [
        (FILE, {"type": "text", "text": "[file:///b.txt]\nwords"}),
        (NOTE, {"type": "text", "text": "[untitled:1]\nwords"}),
        (BINARY, {"type": "resource_link", "uri": "file:///c.bin"}),
    ],
)
def test_adapt_sends_down_the_ladder_and_says_so_to_the_user(block: dict[str, Any], becomes: dict[str, Any]):
    step = met(Mode.ADAPT, {}).from_editor(prompt(TEXT, block))
    sent = json.loads(step.forward)["params"]["prompt"]
    assert sent[0] == TEXT
    assert becomes.items() <= sent[1].items()
    notice = json.loads(step.back)
    assert notice["method"] == "session/update"
    assert step.findings


@pytest.mark.parametrize(
    ("uri", "becomes", "told"),
    [("file:///b.txt", "resource_link", "unsaved changes are lost"), ("untitled:1", "text", "cut after")],
)
def test_what_is_lost_of_a_text_too_long_is_told_to_the_user_and_in_the_record(uri: str, becomes: str, told: str):
    long = {"type": "resource", "resource": {"uri": uri, "text": "w" * 100_000, "mimeType": "text/plain"}}
    step = met(Mode.ADAPT, {}).from_editor(prompt(long))
    assert json.loads(step.forward)["params"]["prompt"][0]["type"] == becomes
    assert told in json.loads(step.back)["params"]["update"]["content"]["text"]
    assert any(told in finding.sentence for finding in step.findings)


def test_adapt_saves_a_picture_and_refuses_if_that_fails():
    step = met(Mode.ADAPT, {}, folder="/private").from_editor(prompt(TEXT, IMAGE))
    assert [save.data for save in step.saves] == [b"hi"]
    sent = json.loads(step.forward)["params"]["prompt"][1]
    assert sent["type"] == "resource_link"
    assert step.saves[0].name in sent["uri"]
    assert step.otherwise is not None
    assert json.loads(step.otherwise.back)["error"]["code"] == -32602


@given(st.binary(max_size=200))
def test_observing_touches_no_byte_whatever_is_said(data: bytes):
    guard = met(Mode.OBSERVE, {})
    assert guard.from_editor(data).forward == data
    guard.from_agent([data])


@given(st.binary(max_size=200), st.sampled_from(list(Mode)))
def test_no_bytes_make_the_guard_fail(data: bytes, mode: Mode):
    guard = met(mode, {})
    guard.from_editor(data)
    guard.from_agent(data.split(b"\n"))


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6), st.integers(1, 50))
def test_blocks_put_together_are_what_went_in(data: bytes, cuts: list[int], max_bytes: int):
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    cutter = BlockCutter(max_bytes)
    found = [block for place, end in itertools.pairwise(places) for block in cutter.feed(data[place:end])]
    assert b"".join(block.data for block in [*found, *cutter.close()]) == data


def test_what_the_agent_says_wrongly_is_found():
    guard = met(Mode.GUARD, {})
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "image"}}
    told = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    findings = guard.from_agent([json.dumps(told).encode()])
    assert findings
    assert findings[0].side is Side.AGENT


@pytest.mark.parametrize("more", ["image", "audio", "embeddedContext"])
def test_declaring_more_never_refuses_more(more: str):
    for block in (TEXT, LINK, IMAGE, FILE):
        passed = met(Mode.GUARD, {}).from_editor(prompt(block)).forward != b""
        assert not passed or met(Mode.GUARD, {more: True}).from_editor(prompt(block)).forward != b""
