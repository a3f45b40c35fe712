"""Which of the formats on offer a client wants (RFC 9110, proactive negotiation). Pure; knows no route."""

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite
from typing import Final

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
OFFERED: Final = (JSON, EVENT_STREAM)
"""What a turn can be answered as; the first is given to whoever does not mind."""

MAX_RANGES: Final = 64


@lru_cache(maxsize=256)
def choose_format(accept: str | None, offered: Sequence[str] = OFFERED) -> str | None:
    """The offer that the client likes best, the earlier of equals; None if it likes none of them."""
    if accept is None or not accept.strip():
        return offered[0]
    ranges = [_range(part) for part in accept.split(",")[:MAX_RANGES] if part.strip()]
    best = max(offered, key=lambda offer: _quality(offer, ranges))
    return best if _quality(best, ranges) > 0 else None


def _range(part: str) -> tuple[str, float]:
    """A media range and how much it is liked; parameters other than `q` do not matter here."""
    media, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return media, _number(value.strip())
    return media, 1.0


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return min(max(number, 0.0), 1.0) if isfinite(number) else 0.0  # NaN compares with nothing


def _quality(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    """What the most specific range that fits says of this offer."""
    kind = offer.partition("/")[0]
    for fitting in (offer, f"{kind}/*", "*/*"):
        said = [quality for media, quality in ranges if media == fitting]
        if said:
            return max(said)
    return 0.0
