"""Folds system messages into the first user message, for a backend that takes none.

Their parts come first, in order, under a heading that says what they are; the user's own parts follow untouched.
Without a user message the instructions become one. It must run after everything that injects prompts.
"""

from dataclasses import dataclass
from typing import Final

from accord.core.emulate.inject import saying
from accord.core.emulate.shape import AnswerReader, PassingReader, Prepared
from accord.wire.attempt import Effect, EffectKind
from accord.wire.capability import Capability
from accord.wire.chat import Role
from accord.wire.conversation import ConversationMessage, MessagePart, TextPart
from accord.wire.emulation import EmulationStrategy, PostProcessing
from accord.wire.work import WorkOrder

HEADING: Final = "Instructions for this conversation:\n"
DIVIDER: Final = "\n\n"

_LABEL = PostProcessing(detail="Fold system messages into the first user message")


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Says in the user's first message what a system message would have said."""

    capability: str = Capability.SYSTEM_MESSAGE
    strategy: EmulationStrategy = _LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order without system messages."""
        messages = order.conversation.messages
        instructions = [message for message in messages if message.role is Role.SYSTEM]
        if not instructions:
            return Prepared(order)
        others = [message for message in messages if message.role is not Role.SYSTEM]
        effect = Effect(capability=self.capability, kind=EffectKind.SYSTEM_FOLDED, count=len(instructions))
        return Prepared(saying(order, _folded(_parts(instructions), others)), (effect,))

    def reader(self, order: WorkOrder) -> AnswerReader:  # noqa: ARG002 - every answer is read alike
        """The answer needs nothing."""
        return PassingReader()


def _parts(instructions: list[ConversationMessage]) -> list[MessagePart]:
    parts: list[MessagePart] = [TextPart(text=HEADING)]
    for message in instructions:
        parts += [*message.content, TextPart(text=DIVIDER)]
    return parts


def _folded(parts: list[MessagePart], others: list[ConversationMessage]) -> list[ConversationMessage]:
    for index, message in enumerate(others):
        if message.role is Role.USER:
            longer = message.model_copy(update={"content": [*parts, *message.content]})
            return [*others[:index], longer, *others[index + 1 :]]
    return [ConversationMessage(role=Role.USER, content=parts), *others]
