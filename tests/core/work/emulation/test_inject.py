"""Prompts go where system prompts go; what is withheld is no longer asked for."""

import pytest

from accord.core.work.emulation.base import ASKED_BY, prompted, withheld
from accord.wire.work import ToolSpec, WorkOrder
from tests.core.work.emulation.scripted import HELLO, system_text

FULL = WorkOrder(
    conversation=HELLO,
    tools=[ToolSpec(name="t")],
    response_schema={},
    json_mode=True,
    stop_sequences=["x"],
    stream=True,
    thinking=True,
)


@pytest.mark.parametrize("capability", [*ASKED_BY, "function_calling", "time_travel"])
def test_withholding_one_capability_clears_its_fields_and_no_other(capability: str):
    changed = withheld(FULL, capability)
    silent = WorkOrder()
    name = "tool_use" if capability == "function_calling" else capability
    for field in WorkOrder.model_fields:
        expected = silent if field in ASKED_BY.get(name, {}) else FULL
        assert getattr(changed, field) == getattr(expected, field)


def test_two_orders_never_share_what_was_cleared():
    first, second = withheld(FULL, "tool_use"), withheld(FULL, "tool_use")
    assert first.tools is not second.tools


def test_decision_14_a_prompt_is_injected_into_a_copy():
    assert system_text(prompted(FULL, "Be brief.")) == "Be brief."
    assert system_text(prompted(prompted(FULL, "Be brief."), "Be kind.")) == "Be brief.\nBe kind."
    assert FULL.conversation == HELLO
