"""OpenAI's two APIs, for OpenAI and every endpoint that is compatible with it."""

from accord.backends.openai.chat import OpenAiChat, max_tokens_field
from accord.backends.openai.responses import OpenAiResponses

__all__ = ["OpenAiChat", "OpenAiResponses", "max_tokens_field"]
