"""The build engineer: a pipeline that fails if a model, a prompt or an agent lacks a capability."""

import json
from xml.etree import ElementTree as ET

import pytest

from tests.roles.user import User

MANIFEST = {"streaming": "native", "tool_use": "emulated", "tool_bash": {"restricted": {"reason": "sandbox only"}}}
PROMPT = [{"type": "text", "text": "What is this?"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]


@pytest.fixture(autouse=True)
def _files(user: User) -> None:  # pyright: ignore[reportUnusedFunction]
    user.write_json("manifest.json", MANIFEST)
    user.write_json("met.json", {"required": [{"capability": "streaming", "min_support": "native"}]})
    user.write_json("unmet.json", {"required": [{"capability": "tool_use", "min_support": "native"}]})
    user.write("broken.json", '{"required": [')
    user.write_json("prompt.json", PROMPT)


@pytest.mark.parametrize(
    ("status", "arguments", "expected"),
    [
        (0, "negotiate --manifest manifest.json --require met.json", "1 native, 0 emulatable, 0 unsupported"),
        (1, "negotiate --manifest manifest.json --require unmet.json", "emulated is below native"),
        (2, "negotiate --manifest manifest.json --require broken.json", "broken.json: expected JSON"),
        (2, "negotiate --manifest missing.json --require met.json", "missing.json"),
        (0, "negotiate --manifest openai/gpt-4o --require vision=native,tool_use", "fully compatible"),
        (0, "models claude --require vision,tool_use", "claude"),
        (1, "models no-such-model", "0 models"),
        (0, "validate --capabilities image prompt.json", "2 blocks, 0 refused"),
        (1, "validate prompt.json", "1 refused"),
        (2, "validate broken.json", "broken.json: expected JSON"),
    ],
)
def test_each_check_has_its_exit_status_and_a_reason(user: User, status: int, arguments: str, expected: str):
    done = user.accord(*arguments.split(), status=status)
    assert expected in (done.stderr if status == 2 else done.stdout)


def test_results_are_available_as_json(user: User):
    done = user.accord("negotiate", "--manifest", "manifest.json", "--require", "unmet.json", "--json", status=1)
    result = json.loads(done.stdout)
    assert result["result"]["unsupported"] == ["tool_use"]
    assert result["evidence"]["tool_use"]["level"] == "emulated"
    verdict = json.loads(user.accord("validate", "prompt.json", "--json", status=1).stdout)
    assert verdict["results"] == [True, False]
    assert verdict["error"]["data"]["required"] == "promptCapabilities.image"
    [model] = json.loads(user.accord("models", "openai/gpt-4o-mini", "--limit", "1", "--json").stdout)
    assert model["facts"]["tool_use"]["level"] == "native"


def test_an_inspection_is_a_junit_report(user: User):
    user.accord(
        "inspect", "--only", "handshake", "--only", "undeclared-image", "--junit", "acp.xml", "--", "accord", "acp"
    )
    suite = ET.parse(user.folder / "acp.xml").getroot()  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")
    user.accord("inspect", "--only", "handshake", "--junit", "cat.xml", "--", "cat", status=1)
    assert ET.parse(user.folder / "cat.xml").getroot().get("failures") == "1"  # noqa: S314
