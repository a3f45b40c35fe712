"""Emulate streaming for a backend that answers at once, and stop sequences for one that ignores them."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from accord.core.work.emulation.base import Accepted, AnswerReader, AnswerResult, MarkWatch, PreparedOrder, withhold
from accord.errors import InvalidMessageError, Problem
from accord.wire.capability import Capability
from accord.wire.emulation import Effect, EffectKind, EmulationStrategy, PostProcessing
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkOrder

# Stops an answer at the texts that the caller names, for a backend that would talk on.
#
# The text is cut right before the stop sequence that is complete first; of several completed by the same character,
# the longest (see `watch.py`). That is where an API would have stopped that looks after every character. A sequence
# does not reach across a tool call or a thought. What comes after the cut is dropped, and counted.

_STOP_LABEL = PostProcessing(detail="Cut the text response at the first stop sequence")


@dataclass(frozen=True, slots=True)
class StopSequences:
    """Cuts the answer where the backend should have stopped."""

    capability: str = Capability.STOP_SEQUENCES
    strategy: EmulationStrategy = _STOP_LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order without its stop sequences."""
        empty = [index for index, stop in enumerate(order.stop_sequences) if not stop]
        if empty:
            raise InvalidMessageError(
                "WorkOrder", [Problem(f"stop_sequences.{index}", "should not be empty") for index in empty]
            )
        return PreparedOrder(withhold(order, Capability.STOP_SEQUENCES))

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

    def finish(self, end: EndPiece) -> AnswerResult:
        if not self.stopped:
            return Accepted(end, tuple(_text(self.watch.flush())))
        counts = {EffectKind.TEXT_AFTER_STOP: self.dropped_chars, EffectKind.CALLS_AFTER_STOP: self.dropped_calls}
        effects = tuple(
            Effect(capability=Capability.STOP_SEQUENCES, kind=kind, count=count)
            for kind, count in counts.items()
            if count
        )
        return Accepted(end.model_copy(update={"reason": "stop_sequence"}), effects=effects)

    def _drop(self, piece: AnyPiece) -> None:
        # Text and thoughts may come in any number of pieces; only their length says how much there was.
        if isinstance(piece, TextPiece | ThinkingPiece):
            self.dropped_chars += len(piece.text)
        else:
            self.dropped_calls += 1


def _text(text: str) -> list[AnyPiece]:
    return [TextPiece(text=text)] if text else []


# Gives a whole answer in pieces, for a backend that answers all at once.
#
# Text is cut after white space, into pieces of at most `piece_chars` characters; a longer word is cut where two
# characters certainly stand apart, and grows beyond the size where none do. Joined, the pieces are the text.

PIECE_CHARS: Final = 48

JOINERS: Final = frozenset("\u200c\u200d\r")
"""Whatever follows one of these belongs to it."""

_STREAMING_LABEL = PostProcessing(detail="Split the full response into pieces")


@dataclass(frozen=True, slots=True)
class Streaming:
    """Cuts text into pieces of a readable size."""

    piece_chars: int = PIECE_CHARS
    capability: str = Capability.STREAMING
    strategy: EmulationStrategy = _STREAMING_LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order without the wish for a stream."""
        return PreparedOrder(withhold(order, Capability.STREAMING))

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Cuts text if the order asked for a stream."""
        return _PieceReader(max(1, self.piece_chars)) if order.stream else _PieceReader(None)


@dataclass(slots=True)
class _PieceReader:
    piece_chars: int | None
    cut_chars: int = 0

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if self.piece_chars is None or not isinstance(piece, TextPiece):
            return [piece]
        self.cut_chars += len(piece.text)
        return [TextPiece(text=text) for text in cut_text(piece.text, self.piece_chars)]

    def finish(self, end: EndPiece) -> AnswerResult:
        if not self.cut_chars:
            return Accepted(end)
        effect = Effect(capability=Capability.STREAMING, kind=EffectKind.CUT_IN_PIECES, count=self.cut_chars)
        return Accepted(end, effects=(effect,))


def cut_text(text: str, piece_chars: int) -> Iterator[str]:
    """The text in pieces, cut after white space where possible and never inside what a reader sees as one character."""
    start = 0
    while len(text) - start > piece_chars:
        stop = _best_cut(text, start, start + piece_chars)
        yield text[start:stop]
        start = stop
    if start < len(text):
        yield text[start:]


def _best_cut(text: str, start: int, limit: int) -> int:
    for index in range(limit, start, -1):
        if text[index - 1].isspace() and may_cut(text, index):
            return index
    for index in range(limit, start, -1):
        if may_cut(text, index):
            return index
    return next((index for index in range(limit + 1, len(text)) if may_cut(text, index)), len(text))


def may_cut(text: str, index: int) -> bool:
    """Whether the characters before and after this place certainly stand apart; in doubt, no."""
    before, after = text[index - 1], text[index]
    if before in JOINERS or after in JOINERS - {"\r"}:
        return False
    # A virama may bind the next letter; a prepended mark (category Cf) binds what follows it.
    if unicodedata.combining(before) == 9 or unicodedata.category(before) in ("Cf", "Cs"):
        return False
    return not (_extends(after) or _leading_jamo(before) or (_regional(before) and _regional(after)))


def _extends(char: str) -> bool:
    if unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf", "Cs") or "\U0001f3fb" <= char <= "\U0001f3ff":
        return True
    return "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff"  # the vowels and ends of a Korean syllable


def _leading_jamo(char: str) -> bool:
    return "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97f"


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
