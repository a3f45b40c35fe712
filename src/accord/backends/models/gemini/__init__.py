"""Google's own API of the Gemini models (`generateContent`), as a pure `ModelApi`."""

from accord.backends.models.gemini.api import Gemini

__all__ = ["Gemini"]
