"""ABP's emulation engine: strategies, injection and the report, to the letter."""

from typing import Any

import pytest

from accord.core.work.emulation.engine import EmulationEngine, apply_emulation, can_emulate, default_strategy
from accord.errors import InvalidMessageError
from accord.wire.capability import Capability, pascal_case
from accord.wire.conversation import Conversation
from accord.wire.emulation import Disabled, EmulationConfig, EmulationReport, PostProcessing, SystemPromptInjection
from tests.core.work.emulation.scripted import talk
from tests.vectors import read_vectors

VECTORS = [line for line in read_vectors("negotiation.jsonl") if line["op"] == "emulate"]


@pytest.mark.parametrize("line", VECTORS, ids=lambda line: line["id"])
def test_each_emulate_vector_gives_its_report_and_its_conversation(line: dict[str, Any]):
    conversation = Conversation.model_validate(line["input"]["conversation"])
    report = apply_emulation(line["input"]["config"], line["input"]["capabilities"], conversation)
    assert report.dump() == line["expected"]["report"]
    assert conversation.dump() == line["expected"]["conversation"]
    assert report.is_empty() is line["expected"]["is_empty"]
    assert report.has_unemulatable() is line["expected"]["has_unemulatable"]


@pytest.mark.parametrize(
    ("capability", "strategy"),
    [
        ("extended_thinking", SystemPromptInjection(prompt="Think step by step before answering.")),
        ("structured_output_json_schema", PostProcessing(detail="Parse and validate JSON from text response")),
        ("code_execution", Disabled(reason="Cannot safely emulate sandboxed code execution")),
        (Capability.TOOL_READ, Disabled(reason="No emulation available for ToolRead")),
        ("time_travel", Disabled(reason="No emulation available for TimeTravel")),
    ],
)
def test_decision_13_each_capability_has_the_default_of_the_specification(capability: str, strategy: Any):
    assert default_strategy(capability) == strategy
    assert EmulationEngine.with_defaults().resolve(capability) == strategy
    assert can_emulate(capability) is not isinstance(strategy, Disabled)


def test_decision_13_only_two_capabilities_are_emulated_by_default():
    assert [name for name in Capability if can_emulate(name)] == ["structured_output_json_schema", "extended_thinking"]
    for name in Capability:
        strategy = default_strategy(name)
        assert name == "code_execution" or not isinstance(strategy, Disabled) or pascal_case(name) in strategy.reason


def test_decision_14_the_first_system_message_gains_a_block_wherever_it_is():
    conversation = talk(("user", "a"), ("system", "b"), ("system", "c"))
    EmulationEngine.with_defaults().apply(["extended_thinking"], conversation)
    assert [[part.dump()["text"] for part in message.content] for message in conversation.messages] == [
        ["a"],
        ["b", "\nThink step by step before answering."],
        ["c"],
    ]


def test_decision_14_only_the_conversation_itself_is_changed():
    conversation = talk(("system", "s"))
    system = conversation.messages[0]
    EmulationEngine.with_defaults().apply([Capability.EXTENDED_THINKING], conversation)
    assert system == talk(("system", "s")).messages[0]
    assert len(conversation.messages[0].content) == 2


def test_decision_14_order_and_duplicates_are_kept():
    report = EmulationEngine.with_defaults().apply(["tool_read", "extended_thinking", "tool_read"], talk())
    assert [entry.capability for entry in report.applied] == ["extended_thinking"]
    assert report.warnings == ["Capability ToolRead not emulated: No emulation available for ToolRead"] * 2


def test_a_strategy_that_is_set_later_applies_from_then_on():
    config = EmulationConfig()
    engine = EmulationEngine(config)
    config.set("logprobs", PostProcessing(detail="guess"))
    assert engine.resolve("logprobs") == PostProcessing(detail="guess")


def test_a_capability_can_be_disabled():
    report = apply_emulation(
        {"strategies": {"extended_thinking": Disabled(reason="no")}}, ["extended_thinking"], talk()
    )
    assert report.warnings == ["Capability ExtendedThinking not emulated: no"]


def test_decision_15_a_strategy_also_applies_to_the_alias_unless_that_has_its_own():
    engine = EmulationEngine({"strategies": {"vision": {"type": "post_processing", "detail": "look"}}})
    assert engine.resolve("image_input") == PostProcessing(detail="look")
    engine.config.set("image_input", Disabled(reason="blind"))
    assert engine.resolve("image_input") == Disabled(reason="blind")


def test_an_invalid_config_is_refused_by_name():
    with pytest.raises(InvalidMessageError, match=r"Not a valid EmulationConfig: strategies\.streaming"):
        EmulationEngine({"strategies": {"streaming": {"type": "magic"}}})


def test_a_report_round_trips_through_json():
    report = EmulationEngine.with_defaults().apply([*Capability], talk(("user", "hi")))
    assert EmulationReport.parse(report.to_json()) == report
