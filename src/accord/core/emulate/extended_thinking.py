"""Asks a model to think before it answers, and keeps its thoughts apart from its answer.

The prompt is the specification's (decision 13). A model that wraps its thoughts in <thinking>…</thinking> has them
given on as thoughts; one that does not is left as it is. Thoughts left open at the end stay thoughts, and it is
recorded.
"""

from dataclasses import dataclass

from accord.core.emulate.engine import default_strategy
from accord.core.emulate.inject import prompted, withheld
from accord.core.emulate.shape import AnswerReader, Done, Prepared, Verdict
from accord.core.emulate.watch import held_back
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece
from accord.wire.attempt import Effect, EffectKind
from accord.wire.capability import Capability
from accord.wire.emulation import EmulationStrategy, SystemPromptInjection
from accord.wire.work import WorkOrder

OPENING, CLOSING = "<thinking>", "</thinking>"

_LABEL = default_strategy(Capability.EXTENDED_THINKING)


@dataclass(frozen=True, slots=True)
class ExtendedThinking:
    """Injects its strategy's prompt and reads thoughts out of the text."""

    strategy: EmulationStrategy = _LABEL
    capability: str = Capability.EXTENDED_THINKING
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order with the prompt, and without the wish for native thinking."""
        order = withheld(order, Capability.EXTENDED_THINKING)
        if not isinstance(self.strategy, SystemPromptInjection):
            return Prepared(order)
        return Prepared(prompted(order, self.strategy.prompt), (_effect(EffectKind.PROMPT_INJECTED, 1),))

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

    def finish(self, end: EndPiece) -> Verdict:
        last = tuple(self._flushed())
        effects: list[Effect] = []
        if self._thought_chars:
            effects.append(_effect(EffectKind.THOUGHTS_SEPARATED, self._thought_chars))
        if self._thinking:
            effects.append(_effect(EffectKind.THOUGHTS_NOT_CLOSED, 1))
        return Done(end, last, tuple(effects))

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
