"""`accord acp` over real pipes: the handshake, prompts, refusals to the letter, and lines that are no messages."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parent.parent.parent / "vectors" / "content.jsonl"
TEXT = {"type": "text", "text": "Hello"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}


class Editor:
    """An editor that says raw lines."""

    def __init__(self, folder: Path, agent: str = "demo") -> None:
        environ = {**os.environ, "ACCORD_STORE_PATH": str(folder / "accord.db"), "PYTHONPATH": str(folder)}
        command = [sys.executable, "-m", "accord", "acp", agent]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environ)
        self._last = 0

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the agent has ended"
        return json.loads(line)

    def ask(self, method: str, **params: Any) -> tuple[Any, list[Any]]:
        """The answer to a call, and what was told before it."""
        self._last += 1
        self.say(json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}).encode() + b"\n")
        told: list[Any] = []
        while (frame := self.hear()).get("id") != self._last:
            told.append(frame)
        return frame, told

    def new_session(self, version: int = 1) -> str:
        if version == 1:
            self.ask("initialize", protocolVersion=1, clientCapabilities={})
        else:
            self.ask("initialize", protocolVersion=2, info={"name": "t", "version": "1"}, capabilities={})
        return self.ask("session/new", cwd="/", mcpServers=[])[0]["result"]["sessionId"]

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(30)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """One agent for all of them: whatever one test does to it must not hurt the next."""
    made = Editor(tmp_path_factory.mktemp("door"))
    assert "error" in made.ask("session/prompt", sessionId="s", prompt=[TEXT])[0]  # before the introduction
    yield made
    assert made.end() == 0
    made.close()


def words(told: list[Any]) -> str:
    updates = [frame["params"]["update"] for frame in told if frame.get("method") == "session/update"]
    chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks)


def test_a_prompt_is_answered_with_words_and_thoughts(editor: Editor):
    session = editor.new_session()
    answer, told = editor.ask("session/prompt", sessionId=session, prompt=[TEXT])
    assert answer["result"] == {"stopReason": "end_turn"}
    assert "You said: **Hello**." in words(told)
    kinds = {frame["params"]["update"]["sessionUpdate"] for frame in told}
    assert "agent_thought_chunk" in kinds


def test_the_agent_declares_what_it_really_takes(tmp_path: Path):
    editor = Editor(tmp_path)
    first, _ = editor.ask("initialize", protocolVersion=1, clientCapabilities={})
    assert first["result"]["protocolVersion"] == 1
    assert first["result"]["agentCapabilities"]["promptCapabilities"]["image"] is True
    assert not first["result"]["agentCapabilities"]["promptCapabilities"].get("audio")
    editor.close()


def test_the_draft_is_spoken_where_it_is_asked_for(tmp_path: Path):
    editor = Editor(tmp_path)
    draft, _ = editor.ask("initialize", protocolVersion=2, info={"name": "t", "version": "1"}, capabilities={})
    assert draft["result"]["protocolVersion"] == 2
    assert "image" in draft["result"]["capabilities"]["session"]["prompt"]
    editor.close()


def test_undeclared_content_is_refused_to_the_letter(editor: Editor):
    session = editor.new_session()
    answer, told = editor.ask("session/prompt", sessionId=session, prompt=[TEXT, AUDIO])
    assert told == []
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
def test_one_bad_line_costs_one_reply_and_nothing_else(editor: Editor, line: bytes, code: int):
    session = editor.new_session()
    editor.say(line)
    assert editor.hear()["error"]["code"] == code
    assert editor.ask("session/prompt", sessionId=session, prompt=[TEXT])[0]["result"]["stopReason"] == "end_turn"


def test_half_lines_unknown_notices_and_blank_lines_cost_nothing(editor: Editor):
    session = editor.new_session()
    editor.say(b'\n\n{"jsonrpc":"2.0","method":"$/nobody","params":[]}\n{"jsonrpc":"2.0",')
    editor.say(b'"method":"session/cancel","params":{"sessionId":"none"}}\n')
    assert editor.ask("session/prompt", sessionId=session, prompt=[TEXT])[0]["result"]["stopReason"] == "end_turn"


def test_a_line_of_fifty_megabytes_is_read_and_refused_for_what_it_carries(editor: Editor):
    session = editor.new_session()
    answer, _ = editor.ask("session/prompt", sessionId=session, prompt=[{**AUDIO, "data": "aGlo" * 12_500_000}])
    assert answer["error"]["code"] == -32602
    assert len(json.dumps(answer)) < 10_000
    assert editor.ask("session/prompt", sessionId=session, prompt=[TEXT])[0]["result"]["stopReason"] == "end_turn"


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
def test_a_call_that_makes_no_sense_is_an_error_and_never_the_end(editor: Editor, method: str, params: Any):
    editor.new_session()
    editor.say(json.dumps({"jsonrpc": "2.0", "id": "odd", "method": method, "params": params}).encode() + b"\n")
    answer = editor.hear()
    assert answer["id"] == "odd"
    assert answer["error"]["code"] in {-32602, -32601, -32002, -32600}
    assert "Traceback" not in json.dumps(answer)


def test_sessions_are_listed_and_loaded_with_what_was_said(editor: Editor):
    session = editor.new_session()
    editor.ask("session/prompt", sessionId=session, prompt=[TEXT])
    listed = editor.ask("session/list")[0]["result"]["sessions"]
    assert session in [each["sessionId"] for each in listed]
    assert "result" in editor.ask("session/close", sessionId=session)[0]
    answer, told = editor.ask("session/load", sessionId=session, cwd="/", mcpServers=[])
    assert "result" in answer
    replayed = [frame["params"]["update"]["sessionUpdate"] for frame in told]
    assert replayed[:2] == ["user_message_chunk", "agent_message_chunk"]


def test_a_cancelled_prompt_says_so(tmp_path: Path):
    (tmp_path / "slow.py").write_text(
        "import asyncio\nfrom accord import Agent\nagent = Agent(name='slow')\n\n\n@agent\nasync def run(turn):\n"
        "    yield 'begun'\n    await asyncio.sleep(60)\n"
    )
    editor = Editor(tmp_path, "slow:agent")
    try:
        session = editor.new_session()
        params = {"sessionId": session, "prompt": [TEXT]}
        editor.say(
            json.dumps({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params}).encode() + b"\n"
        )
        assert editor.hear()["method"] == "session/update"
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        editor.say(json.dumps(cancel).encode() + b"\n")
        while (frame := editor.hear()).get("id") != 9:
            pass
        assert frame["result"]["stopReason"] == "cancelled"
    finally:
        editor.close()


def rows() -> list[dict[str, Any]]:
    every = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    return [row for row in every if row["context"] == "prompt" and row["protocolVersion"] == 1]


def test_every_vector_of_prompts_gives_its_verdict_through_the_door(tmp_path: Path):
    """The door is for prompts; the other two contexts are held to the vectors where they are checked, in the validator."""
    declared = {json.dumps(row["capabilities"], sort_keys=True): row["capabilities"] for row in rows()}
    module = "from accord import Agent\n\n\nasync def run(turn):\n    yield 'ok'\n\n\n"
    for number, capabilities in enumerate(declared.values()):
        module += f"agent{number} = Agent(run, name='vectors', accepts={capabilities!r})\n"
    (tmp_path / "vectors.py").write_text(module)
    for number, key in enumerate(declared):
        editor = Editor(tmp_path, f"vectors:agent{number}")
        try:
            session = editor.new_session()
            for row in rows():
                if json.dumps(row["capabilities"], sort_keys=True) != key:
                    continue
                answer, _ = editor.ask("session/prompt", sessionId=session, prompt=row["content"])
                if row["valid"] and row["content"]:
                    assert answer.get("result", {}).get("stopReason") == "end_turn", row["id"]
                elif row["response"] is not None and row["exact"]:
                    assert answer["error"] == row["response"].get("error", row["response"]), row["id"]
                elif row["response"] is not None:
                    assert answer["error"]["code"] == row["response"].get("error", row["response"])["code"], row["id"]
        finally:
            editor.close()
