"""A capability is requested by a prompt, and the answer is not checked."""

from accord.core.work.emulation.injection import PromptInjection
from accord.wire.emulation import SystemPromptInjection
from accord.wire.work import ToolSpec, WorkOrder
from tests.core.work.emulation.scripted import HELLO, pieces, read, system_text


def test_the_prompt_is_injected_and_the_capability_is_not_requested():
    order = WorkOrder(conversation=HELLO, tools=[ToolSpec(name="t")])
    emulation = PromptInjection("tool_use", SystemPromptInjection(prompt="Pretend."))
    prepared = emulation.prepare(order)
    assert system_text(prepared.order) == "Pretend."
    assert prepared.order.tools == []
    assert [(effect.capability, effect.kind) for effect in prepared.effects] == [("tool_use", "prompt_injected")]
    assert read(emulation, order, pieces("anything")).out == pieces("anything")
