"""Stands in by a prompt alone: what an operator's `system_prompt_injection` does for any capability.

The answer is given on as it is: nobody checks whether the model did what it was asked.
"""

from dataclasses import dataclass

from accord.core.emulate.inject import prompted, withheld
from accord.core.emulate.shape import AnswerReader, PassingReader, Prepared
from accord.wire.attempt import Effect, EffectKind
from accord.wire.emulation import SystemPromptInjection
from accord.wire.work import WorkOrder


@dataclass(frozen=True, slots=True)
class Injected:
    """Asks for a capability in the system prompt."""

    capability: str
    strategy: SystemPromptInjection
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order with the prompt, and without what the backend cannot do."""
        effect = Effect(capability=self.capability, kind=EffectKind.PROMPT_INJECTED)
        return Prepared(prompted(withheld(order, self.capability), self.strategy.prompt), (effect,))

    def reader(self, order: WorkOrder) -> AnswerReader:  # noqa: ARG002 - every answer is read alike
        """The answer needs nothing."""
        return PassingReader()
