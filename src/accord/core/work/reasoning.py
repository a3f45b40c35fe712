"""What an order says of reasoning, and the one table of what each word for an effort is in tokens. Pure.

Some APIs take a word and some a number of tokens. Reasoning that was not requested is never added.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from accord.wire.work import Reasoning, WorkOrder


class EffortRow(NamedTuple):
    """A word, the tokens that it stands for, and the largest number of tokens that becomes this word, if any does."""

    word: str
    tokens: int
    upto: float | None = None


EFFORTS: Final = (
    EffortRow("none", 0),
    EffortRow("minimal", 1_024),
    EffortRow("low", 1_024, 4_096),
    EffortRow("medium", 8_192, 16_384),
    EffortRow("high", 24_576, float("inf")),  # the most that every model takes that takes a number
    EffortRow("xhigh", 24_576),
    EffortRow("max", 24_576),
)
"""Every model that takes a word takes those that numbers become."""

NOT_REQUESTED: Final = Reasoning()
_TOKENS: Final = {row.word: row.tokens for row in EFFORTS}
_MOST_TOKENS: Final = max(_TOKENS.values())


def tokens_for(effort: str | None, most: int = _MOST_TOKENS) -> int | None:
    """The tokens that this word stands for, of at most so many; None for a word that is not in the table."""
    tokens = _TOKENS.get(effort or "")
    return None if tokens is None else tokens * most // _MOST_TOKENS


def effort_for(tokens: int) -> str:
    """The word for a number of tokens."""
    return next(row.word for row in EFFORTS if row.upto is not None and tokens <= row.upto)


def requested_reasoning(order: WorkOrder) -> Reasoning:
    """What the order says of reasoning; `thinking` calls for it, whatever the settings say."""
    reasoning = order.reasoning or NOT_REQUESTED
    return replace(reasoning, enabled=True) if order.thinking else reasoning
