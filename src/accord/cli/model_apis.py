"""The model APIs by name, and where each is: the one table that a new one is put into. Loads none of them."""

from collections.abc import Mapping
from typing import Final

APIS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "openai": {
        "chat": ("accord.backends.models.openai.chat", "OpenAiChat"),
        "responses": ("accord.backends.models.openai.responses", "OpenAiResponses"),
    },
    "anthropic": {"messages": ("accord.backends.models.anthropic", "AnthropicMessages")},
    "gemini": {"generate": ("accord.backends.models.gemini", "Gemini")},
}
"""The APIs of each kind, the usual one first, and where each is spoken."""
