"""Google's own API of the Gemini models (`generateContent`), as a pure `ModelApi`."""

from accord.backends.gemini.request import Gemini

__all__ = ["Gemini"]
