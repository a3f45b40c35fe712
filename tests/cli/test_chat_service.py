"""What `accord chat` says of wrong options, and of a service that is away, closed, breaks or lacks the agent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.live_terminal import accord_on_terminal
from tests.cli.test_chat import answer_to, ask, piped, serving
from tests.client.faulty_server import END, STREAM_HEAD, Do, FaultyServer, Seen, Step, as_json, chunk, problem
from tests.client.faulty_server import event as sse

MISTAKES: list[tuple[list[str], str]] = [
    (["--url", "http://127.0.0.1:1", "--store", "a.db"], "--config and --store are for an agent in this process"),
    (["--as", "nothing"], "--as nothing: expected web, cli, voice, or a file with ClientCapabilities"),
    (["--url", "ftp://a.example"], "base_url: expected an http or https address"),
    (["no_such_module:agent"], "there is no module no_such_module"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_wrong_argument_is_explained(tmp_path: Path, arguments: list[str], message: str):
    done = piped(arguments, "hello", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_service_that_cannot_be_reached_is_explained_and_can_be_tried_again(tmp_path: Path):
    with FaultyServer(lambda _: [Do.CLOSE]) as gone:
        pass
    done = piped(["--url", gone.url], "hello\nagain", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"unavailable: The service cannot be reached: nothing listens at {gone.url}")
    assert done.stderr.rstrip().endswith("Start it with `accord serve`, or correct the address")
    with accord_on_terminal("chat", "--url", gone.url, cwd=tmp_path) as (terminal, _):
        shown = ask(terminal, "hello")
        assert shown.count("nothing listens at") == 2


def test_an_agent_that_the_service_does_not_have_is_explained(tmp_path: Path):
    with serving(tmp_path) as address:
        with accord_on_terminal("chat", "writer", "--url", address, cwd=tmp_path) as (terminal, _):
            shown = ask(terminal, "hello")
            assert "There is no agent writer; the service has tester" in shown
            assert "There is no agent writer here; context.agent may name tester" in " ".join(shown.split())
        assert piped(["tester", "--url", address], "hello", tmp_path).stdout == "You said hello\n"


def test_a_token_is_read_from_the_environment_or_asked_for(tmp_path: Path):
    added = [sys.executable, "-m", "accord", "keys", "add", "ann", "--store", "accord.db"]
    done = subprocess.run(added, capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    token = next(word for word in done.stdout.split() if word.startswith("acc"))
    with serving(tmp_path) as address:
        arguments = ["--url", address, "--user", "ann"]
        assert piped(arguments, "hello", tmp_path, ACCORD_TOKEN=token).stdout == "You said hello\n"
        refused = piped(arguments, "hello", tmp_path)
        assert (refused.returncode, "Put the token into the variable ACCORD_TOKEN" in refused.stderr) == (1, True)
        other = piped(["--url", address], "hello", tmp_path, ACCORD_TOKEN=token)
        assert "Start with --user NAME" in other.stderr
        with accord_on_terminal("chat", *arguments, cwd=tmp_path) as (terminal, _):
            terminal.wait_for("Token:")
            terminal.type("wrong\r")
            terminal.wait_for("The token is not known to this service")
            terminal.wait_until(lambda: terminal.shown.count("Token:") == 2)
            terminal.type(f"{token}\r")
            assert "You said hello" in ask(terminal, "hello")
            assert token.encode() not in terminal.received


def test_a_connection_that_breaks_is_made_again_and_the_answer_continues(tmp_path: Path):
    events = [sse(number, json.dumps(packet)) for number, packet in enumerate([{"op": "delta", "p": "first and "}, {"op": "delta", "p": "second"}, {"op": "close"}], 1)]  # fmt: skip

    def answer(seen: Seen) -> list[Step]:
        if seen.target.endswith("/capabilities"):
            party = {"name": "far", "accepts": ["text"]}
            return [as_json({"agent": party, "backends": [], "emulations": {}, "text_profiles": [], "events": []})]
        if seen.target.endswith("/receipt"):
            return [problem(404, "not_found")]
        if seen.method == "POST":
            return [STREAM_HEAD, chunk(events[0]), Do.RESET]
        return [STREAM_HEAD, *map(chunk, events[seen.last_id :]), END]

    with (
        FaultyServer(answer) as server,
        accord_on_terminal("chat", "--url", server.url, cwd=tmp_path) as (terminal, _),
    ):
        answer_shown = answer_to(ask(terminal, "hello"), "hello")
        assert "The connection was lost; the answer continues." in answer_shown
        assert "first and second" in answer_shown
