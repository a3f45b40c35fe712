"""Anthropic's Messages API."""

from accord.backends.anthropic.request import AnthropicMessages

__all__ = ["AnthropicMessages"]
