"""What the core gets from a configuration."""

import pytest

from accord.assembly.parts import content_limits, emulation_settings, plan_config
from accord.config import Config, read_config
from accord.config.model import BackendConfig
from accord.core.prompt.rules import ContentLimits
from accord.core.work.emulation.choose import PRESET, EmulationSettings
from accord.core.work.plan import PlanConfig
from accord.wire.emulation import Disabled


def test_the_defaults_are_those_of_core():
    assert plan_config(Config()) == PlanConfig()
    assert content_limits(Config()) == ContentLimits()
    assert emulation_settings(Config()) == EmulationSettings()


def test_policies_limits_and_retries_are_passed_on():
    config = read_config('policy="strict"\nunknown="try"\nlimits.max_blocks=7\nemulation.max_retries=5').config
    assert (plan_config(config).policy, plan_config(config).unknown) == ("strict", "try")
    assert content_limits(config) == ContentLimits(max_blocks=7)
    assert emulation_settings(config).max_retries == 5


def test_the_backend_that_describes_images_is_passed_on():
    text = "emulation.describe_images_with = 'viewer'\n[[backends]]\nname = 'viewer'\nkind = 'x'"
    assert emulation_settings(read_config(text).config).describe_images_with == "viewer"


PRESETS = [
    ("preset = true", set(map(str, PRESET))),
    ("preset = false", set[str]()),
    ("preset = { tool_use = true, vision = true }", {"tool_use", "vision"}),
]


@pytest.mark.parametrize(("line", "names"), PRESETS)
def test_the_preset_is_on_as_a_whole_or_one_by_one(line: str, names: set[str]):
    strategies = plan_config(read_config(f"[emulation]\n{line}").config).emulation.strategies
    assert set(strategies) == names
    assert not any(isinstance(strategy, Disabled) for strategy in strategies.values())


def test_a_preset_that_is_off_disables_even_a_standard_emulation():
    config = read_config("emulation.preset.structured_output_json_schema = false").config
    assert plan_config(config).emulation.strategies == {
        "structured_output_json_schema": Disabled(reason="Turned off in the configuration")
    }


def test_a_strategy_given_in_full_overrides_the_preset():
    text = "[emulation]\npreset = true\nstrategies.tool_use = { type = 'disabled', reason = 'No tools' }"
    assert plan_config(read_config(text).config).emulation.strategies["tool_use"] == Disabled(reason="No tools")


KEYS: list[tuple[dict[str, str], str | None]] = [
    ({}, None),
    ({"MY_KEY": "b"}, "b"),
    ({"MY_KEY": "b", "ACCORD_KEY_MY_LOCAL_1": "a"}, "a"),
    ({"MY_KEY": "b", "ACCORD_KEY_MY_LOCAL_1": ""}, "b"),
]


@pytest.mark.parametrize(("environ", "key"), KEYS)
def test_a_key_comes_from_the_environment(environ: dict[str, str], key: str | None):
    assert BackendConfig(name="my-local.1", kind="x", key_env="MY_KEY").key(environ) == key


def test_a_manifest_is_a_file_unless_it_is_one_of_the_two_words():
    files = [
        BackendConfig(name="a", kind="x", manifest=manifest).manifest_file
        for manifest in ("facts", "declared", "m.json")
    ]
    assert files == [None, None, "m.json"]
