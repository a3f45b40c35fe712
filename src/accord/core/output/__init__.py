"""Adapting a stream to one client: what it can show as it is, what stands for the rest, and the account of it."""

from accord.core.output.adapter import ClientAdapter
from accord.core.output.boundaries import AdaptLimits
from accord.core.output.describe import ENGLISH
from accord.core.output.media import LIMITS, ImageLimits, ShrinkRefusal, Shrinks, Shrunk

__all__ = ["ENGLISH", "LIMITS", "AdaptLimits", "ClientAdapter", "ImageLimits", "ShrinkRefusal", "Shrinks", "Shrunk"]
