"""Google's API for Gemini models (`generateContent`)."""

from accord.backends.gemini.request import Gemini

__all__ = ["Gemini"]
