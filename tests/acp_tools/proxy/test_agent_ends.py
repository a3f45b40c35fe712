"""When the agent ends, every request of the editor that has no answer gets an error with its own id."""

import json
import signal
from pathlib import Path

import pytest

from tests.acp_tools.proxy.conversation import (
    Conversation,
    child_of,
    hello,
    is_running,
    line,
    prompt,
    proxy,
    until,
)

TEXT = {"type": "text", "text": "Hello"}
NO_ANSWER = "; it did not answer this request"


def errors_in(lines: list[bytes]) -> list[tuple[object, str]]:
    """The id and the sentence of each error; every line must be an error of the proxy."""
    errors = [json.loads(each) for each in lines]
    assert {error["error"]["code"] for error in errors} <= {-32603}
    return [(error["id"], error["error"]["message"]) for error in errors]


@pytest.mark.parametrize("mode", ["guard", "adapt"])
def test_requests_of_an_agent_that_is_killed_get_errors_after_everything_that_it_wrote(tmp_path: Path, mode: str):
    log = tmp_path / "log.jsonl"
    with Conversation(tmp_path, *proxy(mode, "--log", str(log))) as conversation:
        conversation.call(hello())
        conversation.send(line("first", "test/never", {}), prompt(2, TEXT), line(3, "test/die", {}), prompt(4, TEXT))
        update, answer, *rest = conversation.rest()
        assert b"agent_message_chunk" in update
        assert json.loads(answer)["id"] == 2
        sentence = f"The agent was ended by SIGKILL{NO_ANSWER}"
        assert errors_in(rest) == [("first", sentence), (3, sentence), (4, sentence)]
        assert conversation.process.wait(30) == 128 + signal.SIGKILL
        assert conversation.stderr().splitlines()[-1] == "accord: the agent was ended by SIGKILL"
    entries = [json.loads(entry) for entry in log.read_text().splitlines()]
    assert [(entry["from"], entry["to"], entry["kind"]) for entry in entries[-3:]] == [
        ("accord", "editor", "failure")
    ] * 3


def test_a_prompt_that_was_refused_because_it_could_not_be_saved_gets_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Conversation(tmp_path, *proxy("adapt")) as conversation:
        conversation.call(hello())
        (folder,) = (path for path in tmp_path.glob("accord-*") if path.is_dir())
        folder.rmdir()
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        assert json.loads(conversation.call(prompt(1, image))[0])["error"]["code"] == -32602
        conversation.send(line(2, "test/die", {}))
        assert errors_in(conversation.rest()) == [(2, f"The agent was ended by SIGKILL{NO_ANSWER}")]


def test_observe_adds_no_line(tmp_path: Path):
    with Conversation(tmp_path, *proxy("observe")) as conversation:
        conversation.call(hello())
        conversation.send(line(3, "test/die", {}))
        assert conversation.rest() == []


def test_an_agent_that_cannot_start_properly_answers_initialize_with_an_error(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard"), behaviour="crash") as conversation:
        conversation.send(hello())
        assert errors_in(conversation.rest()) == [(0, f"The agent ended with status 3{NO_ANSWER}")]
        assert conversation.process.wait(30) == 3


def test_a_line_that_the_agent_did_not_finish_is_ended_before_the_errors(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard")) as conversation:
        conversation.call(hello())
        conversation.send(line(1, "test/half-line", {}))
        half, *rest = conversation.rest()
        assert half == b'{"jsonrpc":"2.0","id":99,"res\n'
        assert errors_in(rest) == [(1, f"The agent ended with status 3{NO_ANSWER}")]


def test_requests_that_arrive_after_the_agent_has_ended_get_errors_too(tmp_path: Path):
    """A child process of the agent keeps its output open, so the proxy waits for more."""
    with Conversation(tmp_path, *proxy("guard")) as conversation:
        conversation.call(hello())
        agent = child_of(conversation)
        conversation.send(line(1, "test/leave-a-child", {}))
        assert b"agent_message_chunk" in conversation.receive()
        until(lambda: not is_running(agent))
        conversation.send(*[prompt(number, TEXT) for number in range(2, 200)])
        sentence = f"The agent ended with status 3{NO_ANSWER}"
        assert errors_in(conversation.rest()) == [(number, sentence) for number in range(1, 200)]


@pytest.mark.parametrize("behaviour", ["echo", "stubborn"])
def test_an_agent_that_closes_its_output_is_ended_and_its_requests_get_errors(tmp_path: Path, behaviour: str):
    with Conversation(tmp_path, *proxy("guard"), behaviour=behaviour) as conversation:
        conversation.call(hello())
        agent = child_of(conversation)
        conversation.send(line(1, "test/close-output", {}))
        assert b"agent_message_chunk" in conversation.receive()
        sentence = f"The agent closed its input or output without ending{NO_ANSWER}"
        assert errors_in(conversation.rest()) == [(1, sentence)]
        conversation.process.wait(30)
        assert conversation.stderr() == "accord: the agent closed its input or output without ending\n"
        assert not is_running(agent)


def test_an_agent_that_closes_its_input_may_finish_and_later_requests_get_errors(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard")) as conversation:
        conversation.call(hello())
        conversation.send(line(1, "test/close-input", {}))
        assert b"agent_message_chunk" in conversation.receive()
        for number in range(2, 20):
            conversation.send(prompt(number, TEXT))
        Path(f"{conversation.received}.go-on").touch()
        answer, *rest = conversation.rest()
        assert json.loads(answer) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        sentence = f"The agent ended while the editor was still connected{NO_ANSWER}"
        assert errors_in(rest) == [(number, sentence) for number in range(2, 20)]
        assert "exception" not in conversation.stderr()


def test_a_signal_to_the_proxy_is_an_end_of_the_agent_too(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard")) as conversation:
        conversation.call(hello())
        conversation.send(line(1, "test/never", {}))
        until(lambda: b"test/never" in conversation.received.read_bytes())
        conversation.process.send_signal(signal.SIGTERM)
        assert errors_in(conversation.rest()) == [(1, f"The agent was ended by SIGTERM{NO_ANSWER}")]


def test_an_editor_that_closes_its_side_gets_no_errors(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard")) as conversation:
        conversation.call(hello())
        conversation.send(line(1, "test/never", {}))
        assert conversation.end() == 0
        assert conversation.rest() == []
        assert conversation.stderr() == ""
