"""`accord negotiate`, `accord models` and `accord validate`, as a user types them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_app import accord

MANIFEST = '{"streaming": "native", "tool_bash": {"restricted": {"reason": "[bold]sandbox"}}}'
NEEDS = '{"required": [{"capability": "streaming", "min_support": "native"}]}'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "m.json").write_text(MANIFEST)
    (tmp_path / "r.json").write_text(NEEDS)
    (tmp_path / "broken.json").write_text('{"required": [')
    (tmp_path / "wrong.json").write_text('{"required": [{"capability": "streaming", "min_support": "some"}]}')
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    return tmp_path


def test_files_are_negotiated(files: Path):
    done = accord("negotiate", "--manifest", str(files / "m.json"), "--require", str(files / "r.json"))
    assert done.returncode == 0
    assert "1 native, 0 emulatable, 0 unsupported — fully compatible" in done.stdout


def test_an_incompatible_backend_gives_exit_status_1(files: Path):
    done = accord("negotiate", "--manifest", str(files / "m.json"), "--require", "tool_bash=native,streaming")
    assert done.returncode == 1
    assert "1 native, 0 emulatable, 1 unsupported — incompatible" in done.stdout


def test_markup_in_a_reason_is_printed_as_text(files: Path):
    done = accord("negotiate", "--manifest", str(files / "m.json"), "--require", "tool_bash")
    assert "[bold]sandbox" in done.stdout


def test_json_output_has_the_sources(files: Path):
    done = accord(
        "negotiate",
        "--manifest",
        str(files / "m.json"),
        "--require",
        "vision",
        "--override",
        "image_input=native",
        "--json",
    )
    result = json.loads(done.stdout)
    assert result["result"]["native"] == ["vision"]
    assert result["evidence"]["image_input"]["source"] == "operator"
    assert result["evidence"]["streaming"]["source"] == str(files / "m.json")


def test_a_model_is_negotiated_by_its_name():
    done = accord("negotiate", "--manifest", "openai/gpt-4o", "--require", "vision", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["evidence"]["image_input"]["date"]


def test_a_capability_without_a_source_is_unknown():
    done = accord("negotiate", "--manifest", "openai/gpt-4o", "--require", "time_travel")
    assert done.returncode == 1
    assert "none: unknown" in done.stdout


MISTAKES = [
    (["--manifest", "{}/m.json"], "Give --manifest"),
    (["--example", "--require", "streaming"], "--example has its own manifest and requirements"),
    (["--manifest", "{}/none.json", "--require", "streaming"], "none.json: No such file"),
    (["--manifest", "{}/m.json", "--require", "{}/none.json"], "none.json: No such file"),
    (["--manifest", "{}/m.json", "--require", "{}/broken.json"], "broken.json: expected JSON: "),
    (
        ["--manifest", "{}/m.json", "--require", "{}/wrong.json"],
        "wrong.json: expected CapabilityRequirements: required.0.min_support: ",
    ),
    (["--manifest", "{}/latin.json", "--require", "streaming"], "latin.json: byte 7: expected UTF-8 text"),
    (["--manifest", "{}", "--require", "streaming"], "is a directory; give a file"),
    (["--manifest", "gpt-none", "--require", "streaming"], "no facts about a model named"),
    (
        ["--manifest", "{}/m.json", "--require", "streaming=some"],
        '--require streaming=some: unknown level "some"; use native or emulated',
    ),
    (["--manifest", "{}/m.json", "--require", "streaming", "--override", "x"], "--override x: expected NAME=LEVEL"),
    (["--manifest", "openai/gpt-4oo", "--require", "vision"], "did you mean"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_gives_one_line_that_names_the_place(files: Path, arguments: list[str], message: str):
    done = accord("negotiate", *(argument.replace("{}", str(files)) for argument in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("accord: ")
    assert done.stderr.count("\n") == 1


def test_a_file_that_is_no_snapshot_is_named(files: Path):
    done = accord("models", "--snapshot", str(files / "m.json"))
    assert done.returncode == 2
    assert "m.json: " in done.stderr


def test_models_are_filtered_by_requirements():
    done = accord("models", "4o", "--require", "vision=native", "--json", "--limit", "3")
    result = json.loads(done.stdout)
    assert len(result) == 3
    assert all(model["facts"]["image_input"]["level"] == "native" for model in result)
    assert all("4o" in f"{model['provider']}/{model['model']}" for model in result)


def test_the_list_says_how_many_more_models_there_are():
    done = accord("models", "--limit", "2")
    assert done.returncode == 0
    assert "2 shown (--limit 0 for all)" in done.stdout


def test_an_unknown_model_gives_exit_status_1():
    done = accord("models", "no-such-model-anywhere")
    assert done.returncode == 1
    assert "0 models" in done.stdout


def test_json_output_relates_all_spellings_of_a_name():
    done = accord("negotiate", "--manifest", "openai/gpt-4o", "--require", "vision=native,time_travel", "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert result["compatible"] is False
    vision, unknown = result["requirements"]
    assert vision == {
        "capability": "vision",
        "canonical": "image_input",
        "report_name": "Vision",
        "evidence_name": "image_input",
        "min_support": "native",
        "support": "native",
        "how": None,
    }
    assert (unknown["evidence_name"], unknown["how"]) == (None, "not declared")
    for need in result["requirements"]:
        assert need["capability"] in result["result"]["native"] + result["result"]["unsupported"]
        assert need["report_name"] in [name for name, _ in result["report"]["details"]]
    assert result["evidence"]["image_input"]["canonical"] == "image_input"
    assert result["warnings"] == ['unknown capability "time_travel"; `accord capabilities` lists the known ones']
    assert f"accord: warning: {result['warnings'][0]}\n" == done.stderr


def test_a_custom_capability_that_the_manifest_declares_gives_no_warning(tmp_path: Path):
    (tmp_path / "m.json").write_text('{"time_travel": "native"}')
    done = accord("negotiate", "--manifest", str(tmp_path / "m.json"), "--require", "time_travel")
    assert (done.returncode, done.stderr) == (0, "")


MISSPELLED = [
    ("negotiate", "--manifest", "openai/gpt-4o", "--require", "vison"),
    ("negotiate", "--manifest", "openai/gpt-4o", "--require", "vision", "--override", "vison=native"),
    ("models", "--require", "vison"),
    ("models", "--capability", "vison"),
    ("ask", "hi", "--require", "vison"),
]


@pytest.mark.parametrize("arguments", MISSPELLED)
def test_a_misspelled_capability_is_refused_with_a_suggestion(arguments: tuple[str, ...]):
    done = accord(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'unknown capability "vison"; did you mean vision?' in done.stderr


def test_a_misspelled_capability_in_a_requirements_file_is_refused(tmp_path: Path):
    (tmp_path / "r.json").write_text('{"required": [{"capability": "vison", "min_support": "native"}]}')
    done = accord("negotiate", "--manifest", "openai/gpt-4o", "--require", str(tmp_path / "r.json"))
    assert done.returncode == 2
    assert 'r.json: unknown capability "vison"; did you mean vision?' in done.stderr


def test_a_misspelled_prompt_capability_is_refused(tmp_path: Path):
    (tmp_path / "p.json").write_text("[]")
    done = accord("validate", str(tmp_path / "p.json"), "--capabilities", "image,audoi")
    assert done.returncode == 2
    assert done.stderr == 'accord: --capabilities: unknown prompt capability "audoi"; did you mean audio?\n'


def test_an_exact_name_checks_that_model_only():
    done = accord("models", "gpt-4o", "--require", "vision,audio")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "accord: openai/gpt-4o lacks audio (declared unsupported)\n"
    done = accord("models", "gpt-4o", "--require", "vision")
    assert (done.returncode, done.stderr) == (0, "")
    assert "openai/gpt-4o " in done.stdout
    assert "\n1 model\n" in done.stdout


def test_an_alias_can_be_a_column():
    assert "yes" in accord("models", "gpt-4o", "--require", "vision", "--capability", "vision").stdout.splitlines()[1]


def test_the_known_capabilities_are_listed_as_json():
    result = {entry["name"]: entry for entry in json.loads(accord("capabilities", "--json").stdout)}
    assert result["vision"] == {
        "name": "vision",
        "meaning": "Reads images (the same as image_input)",
        "canonical": "image_input",
        "aliases": ["image_input"],
    }
    assert {"streaming", "file_input"} <= result.keys()


BLOCKS = [{"type": "text", "text": "hi"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]


@pytest.mark.parametrize(
    "wrapped", [BLOCKS, {"prompt": BLOCKS}, {"method": "session/prompt", "params": {"prompt": BLOCKS}}]
)
@pytest.mark.parametrize(("declared", "status"), [("image", 0), ("audio", 1), ("", 1), ('{"image": true}', 0)])
def test_a_prompt_is_checked(tmp_path: Path, wrapped: object, declared: str, status: int):
    (tmp_path / "p.json").write_text(json.dumps(wrapped))
    done = accord("validate", "--capabilities", declared, str(tmp_path / "p.json"))
    assert done.returncode == status, done.stderr
    assert "2 blocks" in done.stdout


def test_the_draft_declares_with_objects(tmp_path: Path):
    (tmp_path / "p.json").write_text(json.dumps(BLOCKS))
    answer: Any = {"result": {"protocolVersion": 2, "capabilities": {"session": {"prompt": {"image": {}}}}}}
    (tmp_path / "init.json").write_text(json.dumps(answer))
    done = accord(
        "validate",
        "--capabilities",
        str(tmp_path / "init.json"),
        "--protocol-version",
        "2",
        "--json",
        str(tmp_path / "p.json"),
    )
    assert json.loads(done.stdout) == {"valid": True, "results": [True, True], "error": None}


@pytest.mark.parametrize(("version", "status"), [("1", 0), ("2", 1)])
def test_an_empty_prompt_is_refused_with_its_reason_in_the_draft(tmp_path: Path, version: str, status: int):
    (tmp_path / "p.json").write_text("[]")
    done = accord("validate", str(tmp_path / "p.json"), "--protocol-version", version)
    assert done.returncode == status
    assert ("a prompt must have at least one content block" in done.stdout) is (status == 1)


def test_a_file_without_content_blocks_is_refused(tmp_path: Path):
    (tmp_path / "p.json").write_text("7")
    done = accord("validate", str(tmp_path / "p.json"))
    assert done.returncode == 2
    assert "expected an array of content blocks" in done.stderr


SPELLINGS = [
    ["--require", "vision=native,streaming"],
    ["--require", "vision=native", "--require", "streaming"],
    ["--require", "vision:native,streaming=emulated"],
    ["--require", "needs.json"],
    ["--require", "vision.json", "--require", "streaming"],
]
VISION = {"capability": "vision", "min_support": "native"}
STREAMING = {"capability": "streaming", "min_support": "emulated"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "streaming").mkdir()  # a capability is no file, even where there is one of this name
    (tmp_path / "needs.json").write_text(json.dumps({"required": [VISION, STREAMING]}))
    (tmp_path / "vision.json").write_text(json.dumps({"required": [VISION]}))
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("spelling", SPELLINGS, ids=" ".join)
def test_every_command_reads_require_in_the_same_way(spelling: list[str]):
    negotiated = json.loads(accord("negotiate", "--manifest", "openai/gpt-4o", *spelling, "--json").stdout)
    needs = [{name: need[name] for name in ("capability", "min_support")} for need in negotiated["requirements"]]
    assert needs == [VISION, STREAMING]
    assert accord("models", "gpt-4o", *spelling).returncode == (0 if negotiated["compatible"] else 1)
    asked = json.loads(accord("ask", "hi", *spelling, "--json").stdout)
    assert asked["error"]["code"] == "CAPABILITY_UNSUPPORTED"
    assert "vision" in asked["error"]["message"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "command",
    [
        ["negotiate", "--manifest", "openai/gpt-4o"],
        ["models", "gpt-4o"],
        ["ask", "hi"],
        ["backends", "probe", "local"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tool_use=nativ", '--require tool_use=nativ: unknown level "nativ"; use native or emulated'),
        ("tool_us", '--require tool_us: unknown capability "tool_us"; did you mean tool_use?'),
        ("none.json", "--require none.json: No such file; expected capabilities such as tool_use=native,streaming"),
        ("", '--require "": names no capability; expected capabilities such as tool_use=native,streaming'),
    ],
)
def test_every_command_explains_a_mistake_in_require_in_the_same_way(command: list[str], value: str, message: str):
    done = accord(*command, "--require", value)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: {message}")
