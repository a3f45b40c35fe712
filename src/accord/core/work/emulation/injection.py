"""Emulate by prompt: any capability by injection, system messages, and extended thinking."""

from dataclasses import dataclass
from typing import Final

from accord.core.work.emulation.base import (
    Accepted,
    AnswerPieceReader,
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


@dataclass(frozen=True, slots=True)
class PromptInjection:
    """Requests a capability in the system prompt: what `system_prompt_injection` does for any capability.

    The answer is not checked.
    """

    capability: str
    strategy: SystemPromptInjection
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order with the prompt, and without the request for the capability."""
        effect = Effect(capability=self.capability, kind=EffectKind.PROMPT_INJECTED)
        return PreparedOrder(inject_prompt(withhold(order, self.capability), self.strategy.prompt), (effect,))

    def reader(self, order: WorkOrder) -> AnswerPieceReader:  # noqa: ARG002 - every answer is read alike
        """The answer is not changed."""
        return PassthroughReader()


HEADING: Final = "Instructions for this conversation:\n"
DIVIDER: Final = "\n\n"

_SYSTEM_LABEL = PostProcessing(detail="Fold system messages into the first user message")


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Folds system messages into the first user message, for a backend that takes none.

    Their parts come first, in order, under a heading; the user's parts follow unchanged. Without a user message the
    instructions become one. It must run after everything that injects prompts.
    """

    capability: str = Capability.SYSTEM_MESSAGE
    strategy: EmulationStrategy = _SYSTEM_LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order without system messages."""
        instructions = [message for message in order.conversation.messages if message.role is Role.SYSTEM]
        messages = [message for message in order.conversation.messages if message.role is not Role.SYSTEM]
        if not instructions:
            return PreparedOrder(order)
        parts: list[MessagePart] = [TextPart(text=HEADING)]
        for message in instructions:
            parts += [*message.content, TextPart(text=DIVIDER)]
        for index, message in enumerate(messages):
            if message.role is Role.USER:
                messages[index] = message.model_copy(update={"content": [*parts, *message.content]})
                break
        else:
            messages.insert(0, ConversationMessage(role=Role.USER, content=parts))
        effect = Effect(capability=self.capability, kind=EffectKind.SYSTEM_FOLDED, count=len(instructions))
        return PreparedOrder(replace_messages(order, messages), (effect,))

    def reader(self, order: WorkOrder) -> AnswerPieceReader:  # noqa: ARG002 - every answer is read alike
        """The answer is not changed."""
        return PassthroughReader()


OPENING, CLOSING = "<thinking>", "</thinking>"

_THINKING_LABEL = default_strategy(Capability.EXTENDED_THINKING)


@dataclass(frozen=True, slots=True)
class ExtendedThinking:
    """Injects its strategy's prompt, and separates thoughts from the answer.

    Text in <thinking>…</thinking> becomes thoughts; other text stays as it is. Thoughts that are still open at the end
    stay thoughts, and that is recorded.
    """

    strategy: EmulationStrategy = _THINKING_LABEL
    capability: str = Capability.EXTENDED_THINKING
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order with the prompt, and without the request for native thinking."""
        order = withhold(order, Capability.EXTENDED_THINKING)
        if not isinstance(self.strategy, SystemPromptInjection):
            return PreparedOrder(order)
        return PreparedOrder(inject_prompt(order, self.strategy.prompt), (_effect(EffectKind.PROMPT_INJECTED, 1),))

    def reader(self, order: WorkOrder) -> AnswerPieceReader:  # noqa: ARG002 - every answer is read alike
        """Separate thoughts from text."""
        return _ThoughtReader()


class _ThoughtReader:
    def __init__(self) -> None:
        self._thinking = False
        self._held = ""
        self._thought_chars = 0

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if not isinstance(piece, TextPiece):
            return [*self._flush(), piece]
        text, start = self._held + piece.text, 0
        pieces: list[AnyPiece] = []
        while (stop := text.find(self._tag, start)) >= 0:
            pieces += self._pieces(text[start:stop])
            start = stop + len(self._tag)
            self._thinking = not self._thinking
        keep = held_back(text[start:], (self._tag,))
        self._held = text[len(text) - keep :]
        return [*pieces, *self._pieces(text[start : len(text) - keep])]

    def finish(self, end: EndPiece) -> AnswerResult:
        last = tuple(self._flush())
        effects: list[Effect] = []
        if self._thought_chars:
            effects.append(_effect(EffectKind.THOUGHTS_SEPARATED, self._thought_chars))
        if self._thinking:
            effects.append(_effect(EffectKind.THOUGHTS_NOT_CLOSED, 1))
        return Accepted(end, last, tuple(effects))

    @property
    def _tag(self) -> str:
        return CLOSING if self._thinking else OPENING

    def _flush(self) -> list[AnyPiece]:
        held, self._held = self._held, ""
        return self._pieces(held)

    def _pieces(self, text: str) -> list[AnyPiece]:
        if not text:
            return []
        if not self._thinking:
            return [TextPiece(text=text)]
        self._thought_chars += len(text)
        return [ThinkingPiece(text=text)]


def _effect(kind: EffectKind, count: int) -> Effect:
    return Effect(capability=Capability.EXTENDED_THINKING, kind=kind, count=count)
