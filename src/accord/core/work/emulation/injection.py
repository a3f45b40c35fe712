"""Emulations by prompt: injection, folded system messages, and extended thinking."""

from dataclasses import dataclass
from typing import Final

from accord.core.work.emulation.base import (
    Accepted,
    AnswerReader,
    AnswerResult,
    PassthroughReader,
    PreparedOrder,
    held_back,
    inject_prompt,
    replace_messages,
    withhold,
)
from accord.core.work.emulation.engine import default_strategy
from accord.wire.capability import Capability
from accord.wire.conversation import ConversationMessage, MessagePart, Role, TextPart
from accord.wire.emulation import Effect, EffectKind, EmulationStrategy, PostProcessing, SystemPromptInjection
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkOrder

# Stands in by a prompt alone: what an operator's `system_prompt_injection` does for any capability.
#
# The answer is given on as it is: nobody checks whether the model did what it was asked.


@dataclass(frozen=True, slots=True)
class PromptInjection:
    """Asks for a capability in the system prompt."""

    capability: str
    strategy: SystemPromptInjection
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order with the prompt, and without what the backend cannot do."""
        effect = Effect(capability=self.capability, kind=EffectKind.PROMPT_INJECTED)
        return PreparedOrder(inject_prompt(withhold(order, self.capability), self.strategy.prompt), (effect,))

    def reader(self, order: WorkOrder) -> AnswerReader:  # noqa: ARG002 - every answer is read alike
        """The answer needs nothing."""
        return PassthroughReader()


# Folds system messages into the first user message, for a backend that takes none.
#
# Their parts come first, in order, under a heading that says what they are; the user's own parts follow untouched.
# Without a user message the instructions become one. It must run after everything that injects prompts.

HEADING: Final = "Instructions for this conversation:\n"
DIVIDER: Final = "\n\n"

_SYSTEM_LABEL = PostProcessing(detail="Fold system messages into the first user message")


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Says in the user's first message what a system message would have said."""

    capability: str = Capability.SYSTEM_MESSAGE
    strategy: EmulationStrategy = _SYSTEM_LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order without system messages."""
        messages = order.conversation.messages
        instructions = [message for message in messages if message.role is Role.SYSTEM]
        if not instructions:
            return PreparedOrder(order)
        others = [message for message in messages if message.role is not Role.SYSTEM]
        effect = Effect(capability=self.capability, kind=EffectKind.SYSTEM_FOLDED, count=len(instructions))
        return PreparedOrder(replace_messages(order, _folded(_parts(instructions), others)), (effect,))

    def reader(self, order: WorkOrder) -> AnswerReader:  # noqa: ARG002 - every answer is read alike
        """The answer needs nothing."""
        return PassthroughReader()


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


# Asks a model to think before it answers, and keeps its thoughts apart from its answer.
#
# The prompt is the specification's (decision 13). A model that wraps its thoughts in <thinking>…</thinking> has them
# given on as thoughts; one that does not is left as it is. Thoughts left open at the end stay thoughts, and it is
# recorded.

OPENING, CLOSING = "<thinking>", "</thinking>"

_THINKING_LABEL = default_strategy(Capability.EXTENDED_THINKING)


@dataclass(frozen=True, slots=True)
class ExtendedThinking:
    """Injects its strategy's prompt and reads thoughts out of the text."""

    strategy: EmulationStrategy = _THINKING_LABEL
    capability: str = Capability.EXTENDED_THINKING
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order with the prompt, and without the wish for native thinking."""
        order = withhold(order, Capability.EXTENDED_THINKING)
        if not isinstance(self.strategy, SystemPromptInjection):
            return PreparedOrder(order)
        return PreparedOrder(inject_prompt(order, self.strategy.prompt), (_effect(EffectKind.PROMPT_INJECTED, 1),))

    def reader(self, order: WorkOrder) -> AnswerReader:  # noqa: ARG002 - every answer is read alike
        """Separates thoughts from text."""
        return _ThoughtReader()


class _ThoughtReader:
    def __init__(self) -> None:
        self._thinking = False
        self._held = ""
        self._thought_chars = 0

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if not isinstance(piece, TextPiece):
            return [*self._flushed(), piece]
        text, start = self._held + piece.text, 0
        pieces: list[AnyPiece] = []
        while (stop := text.find(self._tag, start)) >= 0:
            pieces += self._told(text[start:stop])
            start = stop + len(self._tag)
            self._thinking = not self._thinking
        keep = held_back(text[start:], (self._tag,))
        self._held = text[len(text) - keep :]
        return [*pieces, *self._told(text[start : len(text) - keep])]

    def finish(self, end: EndPiece) -> AnswerResult:
        last = tuple(self._flushed())
        effects: list[Effect] = []
        if self._thought_chars:
            effects.append(_effect(EffectKind.THOUGHTS_SEPARATED, self._thought_chars))
        if self._thinking:
            effects.append(_effect(EffectKind.THOUGHTS_NOT_CLOSED, 1))
        return Accepted(end, last, tuple(effects))

    @property
    def _tag(self) -> str:
        return CLOSING if self._thinking else OPENING

    def _flushed(self) -> list[AnyPiece]:
        held, self._held = self._held, ""
        return self._told(held)

    def _told(self, text: str) -> list[AnyPiece]:
        if not text:
            return []
        if not self._thinking:
            return [TextPiece(text=text)]
        self._thought_chars += len(text)
        return [ThinkingPiece(text=text)]


def _effect(kind: EffectKind, count: int) -> Effect:
    return Effect(capability=Capability.EXTENDED_THINKING, kind=kind, count=count)
