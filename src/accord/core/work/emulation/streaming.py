"""Emulate streaming for a backend that answers at once, and stop sequences for one that ignores them."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from accord.core.work.emulation.base import (
    Accepted,
    AnswerPieceReader,
    AnswerResult,
    MarkWatch,
    PassthroughReader,
    PreparedOrder,
    withhold,
)
from accord.errors import InvalidMessageError, Problem
from accord.wire.capability import Capability
from accord.wire.emulation import Effect, EffectKind, EmulationStrategy, PostProcessing
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkOrder

_STOP_LABEL = PostProcessing(detail="Cut the text response at the first stop sequence")


@dataclass(frozen=True, slots=True)
class StopSequences:
    """Cuts the answer where the backend should have stopped.

    The cut is right before the stop sequence that is complete first (see `MarkWatch`), where an API would stop that
    looks after every character. A sequence does not reach across a tool call or a thought. What comes after the cut is
    dropped and counted.
    """

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

    def reader(self, order: WorkOrder) -> AnswerPieceReader:
        """Watch for the order's stop sequences, if it has any."""
        return _StopReader(MarkWatch(order.stop_sequences)) if order.stop_sequences else PassthroughReader()


@dataclass(slots=True)
class _StopReader:
    watch: MarkWatch
    stopped: bool = False
    dropped_chars: int = 0
    dropped_calls: int = 0

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if self.stopped:
            # Text and thoughts can come in any number of pieces, so their length counts.
            if isinstance(piece, TextPiece | ThinkingPiece):
                self.dropped_chars += len(piece.text)
            else:
                self.dropped_calls += 1
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
        return Accepted(msgspec.structs.replace(end, reason="stop_sequence"), effects=effects)


def _text(text: str) -> list[AnyPiece]:
    return [TextPiece(text=text)] if text else []


PIECE_CHARS: Final = 48
"""The size of a piece: about half a line, which reads like a stream."""

JOINERS: Final = frozenset("\u200c\u200d\r")
"""The next character belongs to one of these."""

_STREAMING_LABEL = PostProcessing(detail="Split the full response into pieces")


@dataclass(frozen=True, slots=True)
class Streaming:
    """Cuts a whole answer into pieces, for a backend that answers all at once. Joined, the pieces are the text."""

    capability: str = Capability.STREAMING
    strategy: EmulationStrategy = _STREAMING_LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order without the request for a stream."""
        return PreparedOrder(withhold(order, Capability.STREAMING))

    def reader(self, order: WorkOrder) -> AnswerPieceReader:
        """Cut text if the order requests a stream."""
        return _PieceReader() if order.stream else PassthroughReader()


@dataclass(slots=True)
class _PieceReader:
    cut_chars: int = 0

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if not isinstance(piece, TextPiece):
            return [piece]
        self.cut_chars += len(piece.text)
        return [TextPiece(text=text) for text in cut_text(piece.text, PIECE_CHARS)]

    def finish(self, end: EndPiece) -> AnswerResult:
        if not self.cut_chars:
            return Accepted(end)
        effect = Effect(capability=Capability.STREAMING, kind=EffectKind.CUT_IN_PIECES, count=self.cut_chars)
        return Accepted(end, effects=(effect,))


def cut_text(text: str, piece_chars: int) -> Iterator[str]:
    """The text in pieces of at most `piece_chars`, cut after white space where possible.

    A longer word is cut between two characters that certainly stand apart; where there are none the piece is longer.
    """
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
    """Whether the characters on both sides certainly stand apart; False if in doubt."""
    before, after = text[index - 1], text[index]
    if before in JOINERS or after in JOINERS - {"\r"}:
        return False
    # A virama may bind the next letter; a prepended mark (category Cf) binds what follows it.
    if unicodedata.combining(before) == 9 or unicodedata.category(before) in ("Cf", "Cs"):
        return False
    # A mark, a skin tone, or the vowel or end of a Korean syllable belongs to what is before it.
    if (
        unicodedata.category(after) in ("Mn", "Mc", "Me", "Cf", "Cs")
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\u1160" <= after <= "\u11ff"
        or "\ud7b0" <= after <= "\ud7ff"
    ):
        return False
    is_leading_jamo = "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97f"
    return not (is_leading_jamo or (_is_regional(before) and _is_regional(after)))


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
