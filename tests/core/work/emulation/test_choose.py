"""A strategy has an emulation that performs it, or it is a warning."""

from typing import Any

import pytest

from accord.core.work.emulation.choose import EMULATIONS, PRESET, EmulationSettings, choose_emulations, preset_config
from accord.core.work.emulation.engine import default_strategy
from accord.core.work.emulation.image_input import ImageDescription, ImageInput
from accord.core.work.emulation.injection import ExtendedThinking, PromptInjection
from accord.core.work.emulation.structured_output import StructuredOutput
from accord.core.work.emulation.tool_use import ToolUse
from accord.wire.emulation import EmulationConfig, EmulationReport

INJECT = {"type": "system_prompt_injection", "prompt": "Pretend."}
PROCESS = {"type": "post_processing", "detail": "magic"}


def test_decision_13_without_the_preset_only_the_defaults_of_the_specification_apply():
    chosen = choose_emulations(EmulationConfig(), EMULATIONS)
    assert sorted(emulation.capability for emulation in chosen.emulations) == [
        "extended_thinking",
        "structured_output_json_schema",
    ]
    assert len(chosen.report.warnings) == len(EMULATIONS) - 2


def test_decision_13_the_preset_has_every_emulation_and_keeps_the_default_strategies():
    chosen = choose_emulations(preset_config(), EMULATIONS)
    assert [emulation.capability for emulation in chosen.emulations] == list(EMULATIONS)
    assert chosen.report.warnings == []
    for name in ("extended_thinking", "structured_output_json_schema"):
        assert PRESET[name] == default_strategy(name)


def test_an_operator_can_choose_a_part_of_the_preset():
    assert set(preset_config(["stop_sequences", "vision"]).strategies) == {"stop_sequences", "vision"}
    chosen = choose_emulations(preset_config(["stop_sequences"]), ["stop_sequences", "tool_use"])
    assert [emulation.capability for emulation in chosen.emulations] == ["stop_sequences"]
    assert chosen.report.warnings == ["Capability ToolUse not emulated: No emulation available for ToolUse"]


@pytest.mark.parametrize(
    ("capability", "strategy", "kind"),
    [
        ("code_execution", INJECT, PromptInjection),
        ("tool_use", INJECT, PromptInjection),
        ("extended_thinking", INJECT, ExtendedThinking),
        ("tool_use", PROCESS, ToolUse),
        ("function_calling", PROCESS, ToolUse),
        ("vision", PROCESS, ImageInput),
    ],
)
def test_each_strategy_has_its_emulation(capability: str, strategy: dict[str, str], kind: type[Any]):
    chosen = choose_emulations({"strategies": {capability: strategy}}, [capability])
    assert [type(emulation) for emulation in chosen.emulations] == [kind]
    assert chosen.report.applied[0].dump() == {"capability": capability, "strategy": strategy}


def test_post_processing_that_no_emulation_performs_is_a_warning():
    chosen = choose_emulations({"strategies": {"logprobs": PROCESS}}, ["logprobs"])
    assert chosen.emulations == ()
    assert chosen.report.warnings == ["Capability Logprobs not emulated: Nothing performs this post-processing"]


def test_a_capability_that_is_listed_twice_is_emulated_once():
    chosen = choose_emulations(preset_config(), ["tool_use", "function_calling", "tool_use"])
    assert len(chosen.emulations) == 1
    assert len(chosen.report.applied) == 3


def test_settings_reach_the_emulations():
    descriptions = {1: ImageDescription("a cat", by="seer")}
    settings = EmulationSettings(max_retries=7, image_descriptions=descriptions)
    names = ["structured_output_json_schema", "image_input"]
    output, images = choose_emulations(preset_config(), names, settings).emulations
    assert isinstance(output, StructuredOutput)
    assert output.max_retries == 7
    assert isinstance(images, ImageInput)
    assert images.descriptions == descriptions


def test_the_report_round_trips_through_json():
    report = choose_emulations(preset_config(), [*EMULATIONS, "logprobs"]).report
    assert EmulationReport.parse(report.to_json()) == report
