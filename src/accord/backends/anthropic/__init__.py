"""Anthropic's Messages API, spoken by pure functions."""

from accord.backends.anthropic.request import AnthropicMessages

__all__ = ["AnthropicMessages"]
