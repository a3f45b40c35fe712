"""Adapting a stream to one client: what it can show as it is, what stands for the rest, and the account of it."""

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
