"""Prompts are injected into system messages, and withheld capabilities are not requested."""

import pytest

from accord.core.work.emulation.base import REQUEST_FIELDS, inject_prompt, withhold
from accord.wire.work import ToolChoice, ToolSpec, WorkOrder
from tests.core.work.emulation.scripted import HELLO, system_text

FULL = WorkOrder(
    conversation=HELLO,
    tools=[ToolSpec(name="t")],
    tool_choice=ToolChoice(mode="required"),
    parallel_tool_calls=False,
    response_schema={},
    json_mode=True,
    stop_sequences=["x"],
    stream=True,
    thinking=True,
)


@pytest.mark.parametrize("capability", [*REQUEST_FIELDS, "function_calling", "time_travel"])
def test_withholding_one_capability_clears_its_fields_and_no_other(capability: str):
    changed = withhold(FULL, capability)
    silent = WorkOrder()
    name = "tool_use" if capability == "function_calling" else capability
    for field in WorkOrder.model_fields:
        expected = silent if field in REQUEST_FIELDS.get(name, {}) else FULL
        assert getattr(changed, field) == getattr(expected, field)


def test_orders_do_not_share_cleared_fields():
    first, second = withhold(FULL, "tool_use"), withhold(FULL, "tool_use")
    assert first.tools is not second.tools


def test_decision_14_a_prompt_is_injected_into_a_copy():
    assert system_text(inject_prompt(FULL, "Be brief.")) == "Be brief."
    assert system_text(inject_prompt(inject_prompt(FULL, "Be brief."), "Be kind.")) == "Be brief.\nBe kind."
    assert FULL.conversation == HELLO
