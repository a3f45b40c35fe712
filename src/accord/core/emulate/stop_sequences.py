"""Stops an answer at the texts that the caller names, for a backend that would talk on.

The text is cut right before the stop sequence that is complete first; of several completed by the same character, the
longest (see `watch.py`). That is where an API would have stopped that looks after every character. A sequence does not
reach across a tool call or a thought. What comes after the cut is dropped, and counted.
"""

from dataclasses import dataclass

from accord.core.emulate.inject import withheld
from accord.core.emulate.shape import AnswerReader, Done, Prepared, Verdict
from accord.core.emulate.watch import MarkWatch
from accord.errors import InvalidMessageError, Problem
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece
from accord.wire.attempt import Effect, EffectKind
from accord.wire.capability import Capability
from accord.wire.emulation import EmulationStrategy, PostProcessing
from accord.wire.work import WorkOrder

_LABEL = PostProcessing(detail="Cut the text response at the first stop sequence")


@dataclass(frozen=True, slots=True)
class StopSequences:
    """Cuts the answer where the backend should have stopped."""

    capability: str = Capability.STOP_SEQUENCES
    strategy: EmulationStrategy = _LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order without its stop sequences."""
        empty = [index for index, stop in enumerate(order.stop_sequences) if not stop]
        if empty:
            raise InvalidMessageError(
                "WorkOrder", [Problem(f"stop_sequences.{index}", "should not be empty") for index in empty]
            )
        return Prepared(withheld(order, Capability.STOP_SEQUENCES))

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Watches for the order's stop sequences."""
        return _StopReader(MarkWatch(order.stop_sequences))


@dataclass(slots=True)
class _StopReader:
    watch: MarkWatch
    stopped: bool = False
    dropped_chars: int = 0
    dropped_calls: int = 0

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if self.stopped:
            self._drop(piece)
            return []
        if not isinstance(piece, TextPiece):
            return [*_text(self.watch.flush()), piece]
        text, found = self.watch.feed(piece.text)
        if found:
            self.stopped = True
            self.dropped_chars = len(found.after)
        return _text(text)

    def finish(self, end: EndPiece) -> Verdict:
        if not self.stopped:
            return Done(end, tuple(_text(self.watch.flush())))
        counts = {EffectKind.TEXT_AFTER_STOP: self.dropped_chars, EffectKind.CALLS_AFTER_STOP: self.dropped_calls}
        effects = tuple(
            Effect(capability=Capability.STOP_SEQUENCES, kind=kind, count=count)
            for kind, count in counts.items()
            if count
        )
        return Done(end.model_copy(update={"reason": "stop_sequence"}), effects=effects)

    def _drop(self, piece: AnyPiece) -> None:
        # Text and thoughts may come in any number of pieces; only their length says how much there was.
        if isinstance(piece, TextPiece | ThinkingPiece):
            self.dropped_chars += len(piece.text)
        else:
            self.dropped_calls += 1


def _text(text: str) -> list[AnyPiece]:
    return [TextPiece(text=text)] if text else []
