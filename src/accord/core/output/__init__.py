"""Edge 3: adapt a stream to what one client can show, and report what was changed.

The path of one packet: `adapter` (when to send) → `event_parser` → `ladder` (which rung; `describe` and `media` do the
work) → `report`. Text goes through `text` and, for a client without markdown, `markdown`.
"""

from accord.core.output.adapter import ClientAdapter
from accord.core.output.describe import ENGLISH
from accord.core.output.insertion import AdaptLimits
from accord.core.output.media import LIMITS, ImageLimits, ImageShrinker, ShrinkRefusal, ShrunkImage

__all__ = [
    "ENGLISH",
    "LIMITS",
    "AdaptLimits",
    "ClientAdapter",
    "ImageLimits",
    "ImageShrinker",
    "ShrinkRefusal",
    "ShrunkImage",
]
