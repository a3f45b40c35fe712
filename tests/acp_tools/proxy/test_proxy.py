"""`accord proxy` between real processes: what passes is the same to the byte, what is refused never arrives."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acp_tools.proxy.talk import Talk, hello, prompt, proxy

TEXT = {"type": "text", "text": "Hello"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
HELLO = hello()


@pytest.mark.parametrize("mode", ["observe", "guard"])
def test_a_proxied_conversation_equals_the_direct_one_byte_for_byte(tmp_path: Path, mode: str):
    odd = [b'{ "odd" :  1}\n', b"garbage\n"] if mode == "observe" else [b'{ "id" :  1, "method": "test/odd"}\n']
    said = [HELLO, *odd, prompt(7, TEXT), prompt("x", {"type": "text", "text": "y" * 2_000_000})]
    heard: list[bytes] = []
    seen: list[bytes] = []
    for front in ((), proxy(mode, "--trace", str(tmp_path / "trace.jsonl"))):
        with Talk(tmp_path, *front) as talk:
            talk.say(*said)
            heard.append(b"".join(talk.hear() for _ in range(len(said) + 1)))
            talk.end()
            seen.append(talk.seen.read_bytes())
    assert heard[0] == heard[1]
    assert seen[0] == seen[1] == b"".join(said)


def test_guard_refuses_and_the_agent_never_sees_it(tmp_path: Path):
    with Talk(tmp_path, *proxy("guard")) as talk:
        talk.ask(HELLO)
        (refused,) = talk.ask(prompt(3, TEXT, IMAGE))
        error = json.loads(refused)["error"]
        assert (error["code"], error["data"]["required"]) == (-32602, "promptCapabilities.image")
        assert b"end_turn" in talk.ask(prompt(4, TEXT))[-1]
        assert talk.end() == 0
        assert b"aGk=" not in talk.seen.read_bytes()


def test_adapt_gives_the_agent_a_link_and_tells_the_user(tmp_path: Path):
    with Talk(tmp_path, *proxy("adapt")) as talk:
        talk.ask(HELLO)
        heard = talk.ask(prompt(3, TEXT, IMAGE))
        assert json.loads(heard[0])["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
        assert b"end_turn" in heard[-1]
        sent = json.loads(talk.seen.read_bytes().splitlines()[-1])["params"]["prompt"][1]
        assert sent["type"] == "resource_link"


def test_a_picture_that_cannot_be_saved_is_described_and_the_trace_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    trace = tmp_path / "trace.jsonl"
    with Talk(tmp_path, *proxy("adapt", "--trace", str(trace))) as talk:
        talk.ask(HELLO)
        (folder,) = (path for path in tmp_path.glob("accord-*") if path.is_dir())
        folder.rmdir()
        heard = talk.ask(prompt(3, TEXT, {**IMAGE, "alt": "a cat"}))
        assert "an image was sent as its description" in heard[0].decode()
        assert b"end_turn" in heard[-1]
        (refused,) = talk.ask(prompt(4, IMAGE))
        assert json.loads(refused)["error"]["code"] == -32602
        sent = json.loads(talk.seen.read_bytes().splitlines()[-1])["params"]["prompt"]
        assert sent == [TEXT, {"type": "text", "text": "[image: a cat]"}]
        assert talk.end() == 0
        assert "described: an image was sent as its description" in talk.told()
    assert "described: an image" in trace.read_text()
    assert "saved" not in trace.read_text()


def test_the_agents_exit_status_is_the_proxys(tmp_path: Path):
    with Talk(tmp_path, *proxy("guard"), manner="crash") as talk:
        assert talk.process.wait(30) == 3
        assert talk.told() == "accord: the agent ended with status 3\n"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ([], 2, "The command of the agent is missing"),
        (["--", "no-such-agent"], 127, "cannot be started"),
        (["--mode", "loud", "--", "x"], 2, 'unknown mode "loud"; use guard, adapt, observe'),
    ],
)
def test_a_wrong_call_is_told_in_one_sentence(arguments: list[str], status: int, sentence: str):
    command = [sys.executable, "-m", "accord", "proxy", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, sentence in done.stderr) == (status, True), done.stderr


def test_a_trace_is_shown_and_drawn(tmp_path: Path):
    trace = tmp_path / "trace.jsonl"
    with Talk(tmp_path, *proxy("guard", "--trace", str(trace))) as talk:
        talk.ask(HELLO)
        talk.ask(prompt(3, IMAGE))
        talk.end()
    with trace.open("ab") as file:
        file.write(b'{"cut off')
    shown = [sys.executable, "-m", "accord", "trace", "show", str(trace)]
    done = subprocess.run(shown, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "session/prompt" in done.stdout
    assert "image" in done.stdout
    page = tmp_path / "trace.html"
    done = subprocess.run([*shown, "--html", str(page)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "<script" not in page.read_text()
    assert "session/prompt" in page.read_text()
    done = subprocess.run([*shown[:-1], "none.jsonl"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
