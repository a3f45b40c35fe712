"""Gives a whole answer in pieces, for a backend that answers all at once.

Text is cut after white space, into pieces of at most `piece_chars` characters; a longer word is cut where two
characters certainly stand apart, and grows beyond the size where none do. Joined, the pieces are the text.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from accord.core.emulate.inject import withheld
from accord.core.emulate.shape import AnswerReader, Done, Prepared, Verdict
from accord.wire.answer import AnyPiece, EndPiece, TextPiece
from accord.wire.attempt import Effect, EffectKind
from accord.wire.capability import Capability
from accord.wire.emulation import EmulationStrategy, PostProcessing
from accord.wire.work import WorkOrder

PIECE_CHARS: Final = 48

JOINERS: Final = frozenset("\u200c\u200d\r")
"""Whatever follows one of these belongs to it."""

_LABEL = PostProcessing(detail="Split the full response into pieces")


@dataclass(frozen=True, slots=True)
class Streaming:
    """Cuts text into pieces of a readable size."""

    piece_chars: int = PIECE_CHARS
    capability: str = Capability.STREAMING
    strategy: EmulationStrategy = _LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order without the wish for a stream."""
        return Prepared(withheld(order, Capability.STREAMING))

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

    def finish(self, end: EndPiece) -> Verdict:
        if not self.cut_chars:
            return Done(end)
        effect = Effect(capability=Capability.STREAMING, kind=EffectKind.CUT_IN_PIECES, count=self.cut_chars)
        return Done(end, effects=(effect,))


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
