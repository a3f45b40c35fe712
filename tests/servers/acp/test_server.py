"""`accord acp` over real pipes: the handshake, prompts, exact refusals, and lines that are not messages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.acp.editor import Editor, start

TEXT = {"type": "text", "text": "Hello"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """One agent for all tests: what one test does to it must not affect the next."""
    made = start(tmp_path_factory.mktemp("server"))
    assert "error" in made.call("session/prompt", sessionId="s", prompt=[TEXT])[0]  # before initialize
    yield made
    assert made.end() == 0
    made.close()


def text_of(messages: list[Any]) -> str:
    updates = [frame["params"]["update"] for frame in messages if frame.get("method") == "session/update"]
    chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks)


def test_a_prompt_is_answered_with_text_and_thoughts(editor: Editor):
    session = editor.new_session()
    answer, messages = editor.call("session/prompt", sessionId=session, prompt=[TEXT])
    assert answer["result"] == {"stopReason": "end_turn"}
    assert "- text: `Hello`" in text_of(messages)
    kinds = {frame["params"]["update"]["sessionUpdate"] for frame in messages}
    assert "agent_thought_chunk" in kinds


def test_the_agent_declares_the_content_that_it_accepts(tmp_path: Path):
    editor = start(tmp_path)
    first, _ = editor.call("initialize", protocolVersion=1, clientCapabilities={})
    assert first["result"]["protocolVersion"] == 1
    assert first["result"]["agentCapabilities"]["promptCapabilities"]["image"] is True
    assert not first["result"]["agentCapabilities"]["promptCapabilities"].get("audio")
    editor.close()


def test_the_draft_is_negotiated_if_the_client_offers_it(tmp_path: Path):
    editor = start(tmp_path)
    draft, _ = editor.call("initialize", protocolVersion=2, info={"name": "t", "version": "1"}, capabilities={})
    assert draft["result"]["protocolVersion"] == 2
    assert "image" in draft["result"]["capabilities"]["session"]["prompt"]
    editor.close()


def test_undeclared_content_is_refused_with_the_exact_error(editor: Editor):
    session = editor.new_session()
    answer, messages = editor.call("session/prompt", sessionId=session, prompt=[TEXT, AUDIO])
    assert messages == []
    assert answer["error"] == {
        "code": -32602,
        "message": "Invalid content type: agent does not support audio content",
        "data": {
            "contentType": "audio",
            "declaredCapability": False,
            "required": "promptCapabilities.audio",
            "supportedTypes": ["text", "resource_link", "image", "resource"],
        },
    }


@pytest.mark.parametrize(
    ("line", "code"),
    [(b"garbage\n", -32700), (b"[]\n", -32600), (b"42\n", -32600), (b'{"id":5,"method":"no/such"}\n', -32601)],
)
def test_a_bad_line_gets_one_error_and_the_next_prompt_works(editor: Editor, line: bytes, code: int):
    session = editor.new_session()
    editor.send(line)
    assert editor.receive()["error"]["code"] == code
    assert editor.call("session/prompt", sessionId=session, prompt=[TEXT])[0]["result"]["stopReason"] == "end_turn"


def test_partial_lines_unknown_notices_and_blank_lines_do_no_harm(editor: Editor):
    session = editor.new_session()
    editor.send(b'\n\n{"jsonrpc":"2.0","method":"$/unknown","params":[]}\n{"jsonrpc":"2.0",')
    editor.send(b'"method":"session/cancel","params":{"sessionId":"none"}}\n')
    assert editor.call("session/prompt", sessionId=session, prompt=[TEXT])[0]["result"]["stopReason"] == "end_turn"


def test_a_line_of_fifty_megabytes_is_read_and_its_content_refused(editor: Editor):
    session = editor.new_session()
    answer, _ = editor.call("session/prompt", sessionId=session, prompt=[{**AUDIO, "data": "aGlo" * 12_500_000}])
    assert answer["error"]["code"] == -32602
    assert len(json.dumps(answer)) < 10_000
    assert editor.call("session/prompt", sessionId=session, prompt=[TEXT])[0]["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"sessionId": "none", "prompt": [TEXT]}),
        ("session/prompt", {"prompt": [TEXT]}),
        ("session/prompt", []),
        ("session/load", {"sessionId": "none", "cwd": "/", "mcpServers": []}),
        ("session/set_mode", {"sessionId": "none", "modeId": "x"}),
    ],
)
def test_an_invalid_call_gets_an_error_and_the_server_goes_on(editor: Editor, method: str, params: Any):
    editor.new_session()
    editor.send(json.dumps({"jsonrpc": "2.0", "id": "odd", "method": method, "params": params}).encode() + b"\n")
    answer = editor.receive()
    assert answer["id"] == "odd"
    assert answer["error"]["code"] in {-32602, -32601, -32002, -32600}
    assert "Traceback" not in json.dumps(answer)


def test_sessions_are_listed_closed_and_loaded(editor: Editor):
    session = editor.new_session()
    editor.call("session/prompt", sessionId=session, prompt=[TEXT])
    listed = editor.call("session/list")[0]["result"]["sessions"]
    assert session in [each["sessionId"] for each in listed]
    assert "result" in editor.call("session/close", sessionId=session)[0]
    assert "result" in editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])[0]


@pytest.mark.parametrize("version", [1, 2])
def test_a_session_of_an_earlier_process_is_resumed_and_continues(tmp_path: Path, version: int):
    first = start(tmp_path)
    session = first.new_session(version)
    first.call("session/prompt", sessionId=session, prompt=[TEXT])
    if version == 2:  # the updates come after the answer to the call
        first.until_idle()
    assert first.end() == 0
    second = start(tmp_path)
    try:
        second.new_session(version)
        assert "result" in second.call("session/resume", sessionId=session, cwd="/", mcpServers=[])[0]
        assert "result" in second.call("session/prompt", sessionId=session, prompt=[TEXT])[0]
    finally:
        first.close()
        second.close()


def test_a_cancelled_prompt_ends_with_the_stop_reason_cancelled(tmp_path: Path):
    (tmp_path / "slow.py").write_text(
        "import asyncio\nfrom accord import Agent\nagent = Agent(name='slow')\n\n\n@agent\nasync def run(turn):\n"
        "    yield 'begun'\n    await asyncio.sleep(60)\n"
    )
    editor = start(tmp_path, "slow:agent")
    try:
        session = editor.new_session()
        params = {"sessionId": session, "prompt": [TEXT]}
        editor.send(
            json.dumps({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params}).encode() + b"\n"
        )
        assert editor.receive()["method"] == "session/update"
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        editor.send(json.dumps(cancel).encode() + b"\n")
        while (frame := editor.receive()).get("id") != 9:
            pass
        assert frame["result"]["stopReason"] == "cancelled"
    finally:
        editor.close()
