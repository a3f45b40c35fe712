"""The options of a backend of kind `acp`."""

from typing import Any

import pytest

from accord.backends.acp.options import acp_backend
from accord.config import BackendConfig
from accord.errors import UsageError
from accord.wire.manifest import CapabilityManifest

NOTHING = CapabilityManifest({})


def config(**options: Any) -> BackendConfig:
    return BackendConfig(name="a", kind="acp", options=options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, 'options.command should be a list of strings, such as ["my-agent", "--acp"]'),
        ({"command": "agent"}, "options.command should be a list of strings"),
        ({"command": [1]}, "options.command should be a list of strings"),
        (
            {"command": ["a"], "cwd": "here"},
            "options.cwd should be the absolute path of a folder that exists, not 'here'",
        ),
        ({"command": ["a"], "environ": "KEY"}, "options.environ should be a list of strings"),
        ({"command": ["a"], "permission": "maybe"}, "options.permission should be one of deny, allow, not 'maybe'"),
        (
            {"command": ["a"], "read_files": ["here"]},
            "options.read_files should be a list of absolute paths; 'here' is a relative one",
        ),
        ({"command": ["a"], "colour": 1}, 'unknown option "colour"; known are command, cwd'),
    ],
)
def test_each_wrong_option_has_its_error(options: dict[str, Any], sentence: str):
    with pytest.raises(UsageError) as caught:
        acp_backend(config(**options), NOTHING)
    assert f"backends.a: {sentence}" in str(caught.value)


def test_before_discovery_the_manifest_is_the_operators_and_that_of_every_agent():
    declared = CapabilityManifest.model_validate({"image_input": "native"})
    backend = acp_backend(config(command=["a"]), declared)
    levels = [backend.manifest[name].kind for name in ("streaming", "image_input", "audio")]
    assert levels == ["native", "native", "unsupported"]


def test_an_agent_gets_named_variables_and_those_every_program_needs():
    environ = {"PATH": "/bin", "WANTED": "1", "SECRET": "2"}
    backend = acp_backend(config(command=["a"], environ=["WANTED", "UNSET"]), NOTHING, environ)
    assert backend.launch.environ == {"PATH": "/bin", "WANTED": "1"}
