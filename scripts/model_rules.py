"""Which fields of the data sources say what about a model, and which of their entries are models that chat. Data only.

A rule names a field of one source, the capability that it is about, and which of its values to trust. A missing field
never means anything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class FieldRule:
    """One field of a source and the capability that it is about."""

    field: str
    capability: str
    item: str | None = None
    """For a list: the item whose presence means yes. None: the field itself is true or false."""
    trusted: Literal["both", "yes", "no"] = "both"


# Within one entry the first rule that gives a value decides its capability.
RULES: Final[Mapping[str, tuple[FieldRule, ...]]] = {
    "litellm": (
        FieldRule("supports_function_calling", "tool_use"),
        FieldRule("supports_vision", "image_input"),
        FieldRule("supports_image_input", "image_input"),
        FieldRule("supported_modalities", "image_input", item="image"),
        FieldRule("supports_pdf_input", "pdf_input"),
        FieldRule("supports_audio_input", "audio"),
        FieldRule("supported_modalities", "audio", item="audio"),
        FieldRule("supports_response_schema", "structured_output_json_schema"),
        FieldRule("supports_reasoning", "extended_thinking"),
        FieldRule("supports_prompt_caching", "cache_control"),
        FieldRule("supports_system_messages", "system_message"),
        FieldRule("supports_native_streaming", "streaming"),
        FieldRule("supports_web_search", "tool_web_search"),
        FieldRule("supports_url_context", "tool_web_fetch"),
        FieldRule("supported_output_modalities", "image_generation", item="image"),
        # The list holds endpoints that were tried; one that is not on it may exist.
        FieldRule("supported_endpoints", "batch_mode", item="/v1/batch", trusted="yes"),
        # Only false is ever written, for models that refuse all three parameters.
        FieldRule("supports_sampling_params", "temperature", trusted="no"),
        FieldRule("supports_sampling_params", "top_p", trusted="no"),
        FieldRule("supports_sampling_params", "top_k", trusted="no"),
    ),
    "models-dev": (
        FieldRule("tool_call", "tool_use"),
        FieldRule("reasoning", "extended_thinking"),
        FieldRule("structured_output", "structured_output_json_schema"),
        FieldRule("temperature", "temperature"),
        FieldRule("modalities.input", "image_input", item="image"),
        FieldRule("modalities.input", "audio", item="audio"),
        # The list often omits PDF: LiteLLM contradicts a third of the omissions, LangChain keeps only true.
        FieldRule("modalities.input", "pdf_input", item="pdf", trusted="yes"),
        FieldRule("modalities.output", "image_generation", item="image"),
    ),
    "langchain": (
        FieldRule("tool_calling", "tool_use"),
        FieldRule("reasoning_output", "extended_thinking"),
        FieldRule("structured_output", "structured_output_json_schema"),
        FieldRule("temperature", "temperature"),
        FieldRule("image_inputs", "image_input"),
        FieldRule("audio_inputs", "audio"),
        FieldRule("pdf_inputs", "pdf_input"),
        FieldRule("image_outputs", "image_generation"),
    ),
}

# The values of LiteLLM's `mode` for models that answer with text.
TEXT_MODES: Final = frozenset({"chat", "completion", "responses"})
# The other sources have no such field; these parts of a name mark models that are not for conversations.
NOT_CHAT: Final = re.compile(r"embed|rerank|bge-|melotts|moderation", re.IGNORECASE)
# Parts of a LiteLLM key that choose a region or a price, not a model; only these providers have them.
ROUTED: Final = frozenset({"amazon-bedrock", "azure", "bedrock-mantle"})
ROUTE: Final = re.compile(
    r"(us|eu|apac|global|global-standard|us-gov|\*|invoke|\d+-month-commitment|[a-z]{2}(-gov)?-[a-z]+-\d)"
)
