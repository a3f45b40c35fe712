"""Anthropic's Messages API, spoken by pure functions."""

from accord.backends.models.anthropic.api import AnthropicMessages

__all__ = ["AnthropicMessages"]
