"""`accord proxy` between real processes: what passes is unchanged, what is refused never arrives."""

import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.acp_tools.proxy.conversation import Conversation, hello, prompt, proxy
from tests.cli.test_app import accord

TEXT = {"type": "text", "text": "Hello"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
HELLO = hello()


@pytest.mark.parametrize("mode", ["observe", "guard"])
def test_a_proxied_conversation_equals_the_direct_one_byte_for_byte(tmp_path: Path, mode: str):
    unusual = [b'{ "odd" :  1}\n', b"garbage\n"] if mode == "observe" else [b'{ "id" :  1, "method": "test/odd"}\n']
    sent_lines = [HELLO, *unusual, prompt(7, TEXT), prompt("x", {"type": "text", "text": "y" * 2_000_000})]
    received: list[bytes] = []
    seen: list[bytes] = []
    for front in ((), proxy(mode, "--log", str(tmp_path / "log.jsonl"))):
        with Conversation(tmp_path, *front) as conversation:
            conversation.send(*sent_lines)
            received.append(b"".join(conversation.receive() for _ in range(len(sent_lines) + 1)))
            conversation.end()
            seen.append(conversation.received.read_bytes())
    assert received[0] == received[1]
    assert seen[0] == seen[1] == b"".join(sent_lines)


def test_guard_refuses_a_prompt_and_does_not_forward_it(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard")) as conversation:
        conversation.call(HELLO)
        (refused,) = conversation.call(prompt(3, TEXT, IMAGE))
        error = json.loads(refused)["error"]
        assert (error["code"], error["data"]["required"]) == (-32602, "promptCapabilities.image")
        assert b"end_turn" in conversation.call(prompt(4, TEXT))[-1]
        assert conversation.end() == 0
        assert b"aGk=" not in conversation.received.read_bytes()


def test_adapt_saves_the_image_sends_a_link_and_tells_the_user(tmp_path: Path):
    with Conversation(tmp_path, *proxy("adapt")) as conversation:
        conversation.call(HELLO)
        received = conversation.call(prompt(3, TEXT, IMAGE))
        assert json.loads(received[0])["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
        assert b"end_turn" in received[-1]
        sent = json.loads(conversation.received.read_bytes().splitlines()[-1])["params"]["prompt"][1]
        assert sent["type"] == "resource_link"
        assert Path(unquote(urlsplit(str(sent["uri"])).path)).read_bytes() == b"hi"


@pytest.mark.parametrize("behaviour", ["echo", "pieces"])
@pytest.mark.parametrize("log", [False, True])
def test_adapt_declares_images_in_each_answer_to_initialize(tmp_path: Path, behaviour: str, log: bool):
    more = ("--log", "log.jsonl") if log else ()
    with Conversation(tmp_path, *proxy("adapt", *more), behaviour=behaviour) as conversation:
        answer, again = (conversation.call(HELLO)[0] for _ in range(2))
        assert answer == again
        declared = json.loads(answer)["result"]["agentCapabilities"]["promptCapabilities"]
        raised = {"accord.adapted": ["image", "audio", "embeddedContext"]}
        assert (declared["image"], declared["_meta"]) == (True, raised)
        draft = json.loads(conversation.call(hello(2))[0])["result"]
        assert draft["capabilities"]["session"]["prompt"]["image"] == {}
        assert b"saved and sent as a link" in conversation.call(prompt(3, IMAGE))[0]
        assert conversation.end() == 0
    if log:
        entries = [json.loads(entry) for entry in (tmp_path / "log.jsonl").read_text().splitlines()]
        (_, original, sent, *_) = entries
        assert (original["from"], original["outcome"]) == ("agent", "adapted")
        assert original["message"]["result"] == {"protocolVersion": 1, "agentCapabilities": {}}
        assert (sent["from"], sent["to"], sent["number"]) == ("accord", "editor", original["number"])
        assert sent["message"] == json.loads(answer)
        assert [finding["severity"] for finding in original["findings"]] == ["info"]


LIMITED: list[tuple[str, int, int, int, str]] = [
    ("--max-block-bytes", 4, 1, -32602, "text block is larger than 4"),
    ("--max-prompt-bytes", 9, 2, -32602, "the prompt is larger than 9"),
    ("--max-blocks", 1, 2, -32602, "the number of blocks is larger than 1"),
    ("--max-values", 10, 3, -32600, "at most 10 values"),
    ("--max-line-bytes", 140, 3, -32600, "longer than 140 bytes"),
]


@pytest.mark.parametrize(("flag", "limit", "blocks", "code", "sentence"), LIMITED)
def test_each_limit_refuses_a_prompt_with_its_own_id(
    *, tmp_path: Path, flag: str, limit: int, blocks: int, code: int, sentence: str
):
    with Conversation(tmp_path, *proxy("guard", flag, str(limit))) as conversation:
        conversation.call(HELLO)
        error = json.loads(conversation.call(prompt(3, *[TEXT] * blocks))[0])
        assert (error["id"], error["error"]["code"], sentence in error["error"]["message"]) == (3, code, True), error
        assert b"end_turn" in conversation.call(prompt(4, {"type": "text", "text": "Hi"}))[-1]


def test_the_length_of_embedded_text_can_be_set(tmp_path: Path):
    with Conversation(tmp_path, *proxy("adapt", "--max-embedded-chars", "4")) as conversation:
        conversation.call(HELLO)
        resource = {"uri": "untitled:1", "text": "words"}
        received = conversation.call(prompt(3, {"type": "resource", "resource": resource}))
        assert b"cut after 4 characters" in received[0]


def test_an_image_that_cannot_be_saved_is_described_and_the_trace_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    log = tmp_path / "log.jsonl"
    with Conversation(tmp_path, *proxy("adapt", "--log", str(log))) as conversation:
        conversation.call(HELLO)
        (folder,) = (path for path in tmp_path.glob("accord-*") if path.is_dir())
        folder.rmdir()
        received = conversation.call(prompt(3, TEXT, {**IMAGE, "alt": "a cat"}))
        assert "an image was sent as its description" in received[0].decode()
        assert b"end_turn" in received[-1]
        (refused,) = conversation.call(prompt(4, IMAGE))
        assert json.loads(refused)["error"]["code"] == -32602
        assert b'"id": 4' not in conversation.received.read_bytes()
        sent = json.loads(conversation.received.read_bytes().splitlines()[-1])["params"]["prompt"]
        assert sent == [TEXT, {"type": "text", "text": "[image: a cat]"}]
        assert conversation.end() == 0
        assert "described: an image was sent as its description" in conversation.stderr()
    assert "described: an image" in log.read_text()
    assert "was saved" not in log.read_text()


def test_the_proxy_exits_with_the_status_of_the_agent(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard"), behaviour="crash") as conversation:
        assert conversation.process.wait(30) == 3
        assert conversation.stderr() == "accord: the agent ended with status 3\n"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ([], 2, "The command of the agent is missing"),
        (["--", "no-such-agent"], 127, "cannot be started"),
        (["--show", "a.jsonl", "--", "x"], 2, "starts no agent; leave out the command"),
        (["--mode", "loud", "--", "x"], 2, 'unknown mode "loud"; use guard, adapt, observe'),
        (["--max-blocks", "0", "--", "x"], 2, "greater than or equal to 1"),
        (["--max-line-bytes", "many", "--", "x"], 2, "--max-line-bytes"),
    ],
)
def test_a_wrong_command_line_gets_one_sentence(arguments: list[str], status: int, sentence: str):
    command = [sys.executable, "-m", "accord", "proxy", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, sentence in done.stderr) == (status, True), done.stderr


def test_a_log_is_shown(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    with Conversation(tmp_path, *proxy("guard", "--log", str(log))) as conversation:
        conversation.call(HELLO)
        conversation.call(prompt(3, IMAGE))
        conversation.end()
    with log.open("ab") as file:
        file.write(b'{"cut off')
    done = accord("proxy", "--show", str(log))
    assert (done.returncode, done.stderr) == (0, f"accord: {log}: line 5 is no entry of a log, or was cut off\n")
    first, _, refused, finding, error = done.stdout.splitlines()
    assert re.fullmatch(r"1 2\S+T\S+ editor → agent  initialize #0 .*", first)
    assert re.search(r'editor → agent  session/prompt #3 \[\{"type": "image".*  refused$', refused)
    assert finding.startswith("  error: Block 0: Invalid content type: agent does not support image content (")
    assert re.search(r"^3 \S+ accord → editor  failure #3 .*  sent$", error.replace("2 2", "3 2", 1))


@pytest.mark.parametrize("old", [("--trace", "a.jsonl"), ("--trace=a.jsonl",), ("--full",)])
def test_the_options_of_before_answer_with_the_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: tuple[str, ...]
):
    monkeypatch.chdir(tmp_path)
    done = accord("proxy", *old, "--", "no-such-agent")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("accord: --trace and --full are now --log FILE")
    assert [*tmp_path.iterdir()] == []
