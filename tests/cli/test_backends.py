"""`accord backends` and `accord ask` with an endpoint on this machine, as a user runs them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accord.backends.probe import red_png, small_pdf
from accord.cli import main
from accord.core.receipt import verify
from tests.cli.model_server import KEY, PATIENCE_S, ModelServer

CONFIG = """\
# The comments of a file stay where they are.
[[backends]]
name = "local"  # at home
kind = "openai"
model = "tiny"
base_url = "{url}"
key_env = "TINY_KEY"
concurrent = 7

[backends.overrides]
audio = "unsupported"
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        yield running


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "accord.toml").write_text(CONFIG.format(url=server.url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_CONFIG", "accord.toml")  # a file that the user names is trusted
    monkeypatch.setenv("TINY_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


@pytest.fixture
def accord(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capfd.readouterr()
        assert KEY not in out + err, "a key is never printed"
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out, err

    return run


def test_a_backend_is_shown_with_its_state_and_its_sources(accord: Run):
    code, out, _ = accord("backends", "--json")
    assert code == 0
    [backend] = json.loads(out)["backends"]
    assert (backend["name"], backend["kind"], backend["model"], backend["ok"]) == ("local", "openai", "tiny", True)
    assert backend["sources"]["operator"] == 1
    assert backend["sources"]["API"] > 3
    assert "image_input" in backend["unknown"]
    assert backend["concurrent"] == 7
    assert "no facts about a model named 'tiny'" in backend["warnings"][0]


def test_the_same_as_a_table(accord: Run):
    code, out, _ = accord("backends")
    assert code == 0
    assert "operator 1, API" in out
    heading, row = (next(line for line in out.splitlines() if name in line) for name in ("at once", "openai"))
    assert row[heading.index("at once") :].split()[0] == "7"
    assert "no facts about a model named 'tiny'" in out


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("/nowhere", "there is no such model or address (404)"),
        ("port", "the endpoint cannot be reached"),
        ("key", "the key is missing or not accepted (401)"),
    ],
)
def test_a_backend_that_cannot_be_reached_gives_exit_status_1(
    accord: Run, folder: Path, server: ModelServer, wrong: str, message: str
):
    url = {"/nowhere": f"{server.url}{wrong}", "port": "http://127.0.0.1:9/v1"}.get(wrong, server.url)
    text = CONFIG.format(url=url)
    (folder / "accord.toml").write_text(text.replace("TINY_KEY", "UNSET_KEY") if wrong == "key" else text)
    code, out, _ = accord("backends", "--timeout", "5")
    assert code == 1
    assert message in out


def test_without_a_backend_the_echo_is_explained(accord: Run, folder: Path):
    (folder / "accord.toml").write_text("")
    code, out, _ = accord("backends")
    assert code == 0
    assert "the built-in echo answers" in out


def test_a_probe_compares_what_is_declared_with_what_is_observed(accord: Run):
    code, out, err = accord("backends", "probe", "local", "--json")
    assert code == 0, err
    result = json.loads(out)
    observed = {name: found["observed"] for name, found in result["capabilities"].items()}
    assert observed == {
        "streaming": "works",
        "system_message": "works",
        "stop_sequences": "accepted but ignored",
        "tool_use": "works",
        "image_input": "refused",
        "pdf_input": "refused",
        "json_mode": "accepted but ignored",
        "structured_output_json_schema": "works",
        "extended_thinking": "cannot be told",
    }
    differs = [name for name, found in result["capabilities"].items() if found["differs"]]
    assert "stop_sequences" in differs
    assert "streaming" not in differs
    assert result["spent"]["input_tokens"] > 0
    assert "tool_use: works" in err


def test_a_saved_probe_is_used_from_then_on(accord: Run, folder: Path):
    code, out, err = accord("backends", "probe", "local", "--write")
    assert code == 0, err
    assert "New, or different from what is declared: stop_sequences, " in out
    text = (folder / "accord.toml").read_text()
    assert text.startswith("# The comments of a file stay where they are.")
    assert 'name = "local"  # at home\nprobed = "accord.local.probed.json"\n' in text
    _, out, _ = accord("backends", "--json")
    [backend] = json.loads(out)["backends"]
    assert backend["sources"]["probe"] >= 4
    assert "image_input" not in backend["unknown"]
    assert backend["warnings"] == []
    assert accord("ask", "hi", "--require", "image_input")[0] == 1


def test_a_probe_of_another_model_is_not_used(accord: Run, folder: Path):
    (folder / "accord.local.probed.json").write_text(
        '{"backend": "local", "model": "old", "date": "2026-01-01", "found": {}}'
    )
    (folder / "accord.toml").write_text(
        (folder / "accord.toml").read_text().replace('"tiny"', '"tiny"\nprobed = "accord.local.probed.json"')
    )
    _, out, _ = accord("backends")
    assert 'accord.local.probed.json is a probe of "old", so it is not used' in out


def test_a_backend_that_does_not_answer_gets_one_request_only(
    accord: Run, monkeypatch: pytest.MonkeyPatch, server: ModelServer
):
    monkeypatch.delenv("TINY_KEY")
    before = len(server.bodies)
    code, out, _ = accord("backends", "probe", "local")
    assert (code, len(server.bodies) - before) == (1, 1)
    assert "the key is missing or not accepted" in out


def test_an_answer_goes_to_standard_output_and_its_receipt_names_the_model(accord: Run):
    code, out, err = accord("ask", "Thank you", "--receipt")
    assert (code, out) == (0, "You are welcome \n")
    receipt = json.loads(err.strip().splitlines()[-1])
    assert verify([receipt]).ok
    party = receipt["work"][0]["backend"]
    assert (party["name"], party["model"]) == ("local", "tiny")
    assert party["evidence"]["audio"] == {"source": "operator"}
    assert receipt["work"][0]["usage"]["output_tokens"] == 3


def test_an_answer_as_json(accord: Run):
    code, out, _ = accord("ask", "Thank you", "--json", "--receipt")
    result = json.loads(out)
    assert (code, result["status"], result["text"], result["model"]) == (0, "done", "You are welcome ", "tiny")
    assert result["receipt"]["outcome"] == {"status": "done"}


def test_the_emulation_of_a_schema_is_reported(accord: Run, folder: Path):
    (folder / "s.json").write_text('{"type": "object", "properties": {"legs_of_a_cat": {"type": "integer"}}}')
    overrides = '[backends.overrides]\nstructured_output_json_schema = "{}"'
    text = (folder / "accord.toml").read_text()
    (folder / "accord.toml").write_text(text.replace("[backends.overrides]", overrides.format("native")))
    code, out, err = accord("ask", "How many legs?", "--schema", "s.json", "--no-stream")
    assert (code, json.loads(out), err) == (0, {"legs_of_a_cat": 4}, "")
    (folder / "accord.toml").write_text(text.replace("[backends.overrides]", overrides.format("unsupported")))
    code, _, err = accord("ask", "How many legs?", "--schema", "s.json")
    assert "emulated: structured_output_json_schema" in err


def test_a_refusal_names_what_is_missing_and_the_remedies(accord: Run, folder: Path):
    (folder / "a.png").write_bytes(red_png())
    code, out, err = accord("ask", "Which colour?", "--image", "a.png")
    assert (code, out) == (1, "")
    assert "refused: " in err
    assert "image_input" in err
    assert err.index("refused: ") < err.index("would help: ")


def test_files_are_attached_to_the_prompt(accord: Run, folder: Path, server: ModelServer):
    (folder / "notes.txt").write_text("remember the milk")
    code, _, err = accord("ask", "What is in it?", "--file", "notes.txt", "--system", "Be brief")
    assert code == 0, err
    sent = server.bodies[-1]["messages"]
    assert sent[0]["role"] == "system"
    assert "remember the milk" in json.dumps(sent)
    assert str(folder) not in json.dumps(sent)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--image", "no.png"), "no.png: No such file or directory"),
        (("--image", "accord.toml"), "accord.toml: expected an image (PNG, JPEG, GIF or WebP)"),
        (("--file", "empty"), "empty: is empty"),
        (("--file", "large.pdf"), "large.pdf: is too large; limits.max_block_bytes allows 700 bytes"),
        (("--schema", "accord.toml"), "accord.toml: expected JSON"),
        (("--backend", "remote"), "There is no backend remote; there are: local"),
        (("--require", "Vison"), '--require Vison: unknown capability "Vison"; did you mean vision?'),
        (("--require", "tool_use=nativ"), '--require tool_use=nativ: unknown level "nativ"; use native or emulated'),
        (("--require", "tool_use:much"), '--require tool_use:much: unknown level "much"; use native or emulated'),
        (("--require", ","), '--require ",": names no capability; expected capabilities such as tool_use=native'),
        (("--require", "./no.json"), "--require ./no.json: No such file; expected capabilities such as"),
    ],
)
def test_each_mistake_has_its_message(accord: Run, folder: Path, arguments: tuple[str, ...], sentence: str):
    (folder / "empty").touch()
    (folder / "large.pdf").write_bytes(small_pdf("a"))
    with (folder / "accord.toml").open("a") as config:
        config.write("[limits]\nmax_block_bytes = 700\n")
    code, out, err = accord("ask", "hi", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_failing_endpoint_is_a_failure_in_one_line(accord: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACCORD_KEY_LOCAL", "wrong")
    code, out, err = accord("ask", "hi")
    assert (code, out) == (1, "")
    assert "failed: local: the key is missing or not accepted (401)" in err


def test_an_endpoint_that_is_down_fails_the_turn_and_not_the_call(accord: Run, folder: Path):
    text = CONFIG.format(url="http://127.0.0.1:9/v1") + "[backends.options]\nretries = 0\n"
    (folder / "accord.toml").write_text(text)
    code, out, err = accord("ask", "hi")
    assert (code, out) == (1, "")
    assert err.count("failed: local: the endpoint cannot be reached") == 1


def test_a_probe_is_compared_with_requirements(accord: Run, folder: Path):
    code, out, _ = accord("backends", "probe", "local", "--json", "--require", "system_message,stop_sequences=native")
    result = json.loads(out)
    assert code == 1
    assert result["negotiation"]["result"]["unsupported"] == ["stop_sequences"]  # accepted but ignored
    assert result["negotiation"]["evidence"]["system_message"]["source"] == "accord backends probe"
    (folder / "probe.json").write_text(out)
    again, out, _ = accord("negotiate", "--manifest", "probe.json", "--require", "system_message", "--json")
    assert (again, json.loads(out)["evidence"]["system_message"]["date"]) == (0, result["date"])


def test_a_probe_that_finds_a_requirement_unmet_gives_exit_status_1(accord: Run):
    code, out, err = accord("backends", "probe", "local", "--require", "system_message,time_travel")
    assert code == 1
    assert "1 unsupported — incompatible" in out
    assert 'unknown capability "time_travel"' in err


def test_negotiate_uses_the_probe_of_a_configured_backend(accord: Run):
    before, out, _ = accord("negotiate", "--backend", "local", "--require", "image_input", "--json")
    assert (before, json.loads(out)["requirements"][0]["how"]) == (1, "not declared")
    assert accord("backends", "probe", "local", "--write")[0] == 0
    _, out, _ = accord("negotiate", "--backend", "local", "--require", "image_input", "--json")
    assert json.loads(out)["evidence"]["image_input"]["source"] == "accord backends probe"


def test_an_unknown_backend_gives_a_suggestion(accord: Run):
    code, _, err = accord("negotiate", "--backend", "lcoal", "--require", "vision")
    assert (code, err) == (2, "accord: There is no backend lcoal; did you mean local?\n")


def test_ctrl_c_stops_the_endpoint_as_well(folder: Path, server: ModelServer):
    command = [sys.executable, "-m", "accord", "ask", "-", "--backend", "local"]
    environ: dict[str, Any] = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=environ)
    try:
        assert process.stdin is not None
        process.stdin.write(b"please wait")
        process.stdin.close()
        process.stdin = None
        assert process.stdout is not None
        assert process.stdout.read(len(b"You are welcome")) == b"You are welcome"
        assert server.waiting.wait(PATIENCE_S)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 128 + signal.SIGINT
        assert b"Traceback" not in err
        assert server.left.wait(PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
