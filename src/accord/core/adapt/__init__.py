"""Adapting a stream to one client: what it can show as it is, what stands for the rest, and the account of it."""

from accord.core.adapt.adapter import ClientAdapter
from accord.core.adapt.media import LIMITS, ImageLimits, ShrinkRefusal, Shrinks, Shrunk
from accord.core.adapt.messages import ENGLISH
from accord.core.adapt.waiting import AdaptLimits

__all__ = ["ENGLISH", "LIMITS", "AdaptLimits", "ClientAdapter", "ImageLimits", "ShrinkRefusal", "Shrinks", "Shrunk"]
