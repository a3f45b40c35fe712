"""What an endpoint tells of its models before one is asked: the list of models, and Ollama's own account of one.

OpenAI's list tells that a model exists, nothing else. OpenRouter's entries tell what a model takes, and Ollama has a
path of its own for that, at the root of its server. What an endpoint does not speak of stays unknown.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from accord.backends.evidence import Evidence, Layer
from accord.backends.models.api import Asking, Broken
from accord.wire.support import SupportLevel

MODALITIES: Final[Mapping[str, str]] = MappingProxyType({"image": "image_input", "audio": "audio", "file": "pdf_input"})
PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools": "tool_use",
        "structured_outputs": "structured_output_json_schema",
        "response_format": "json_mode",
        "reasoning": "extended_thinking",
        "stop": "stop_sequences",
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "max_tokens": "max_tokens",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
    }
)
"""OpenRouter's names. It overlooks what is not on a model's list, so what is not there is missing."""
NOT_BY_ABSENCE: Final = frozenset({"pdf_input"})
"""OpenRouter reads PDFs out to models that do not take files."""
OLLAMA: Final[Mapping[str, str]] = MappingProxyType(
    {"vision": "image_input", "tools": "tool_use", "thinking": "extended_thinking"}
)
"""Ollama's names for what a model has; it lists all that it knows to ask about."""


class _Architecture(Struct):
    input_modalities: list[str] | None = None


class _Entry(Struct):
    id: str = ""
    architecture: _Architecture | None = None
    supported_parameters: list[str] | None = None


class _Told(Struct):
    data: list[_Entry] | None = None
    capabilities: list[str] | None = None


_decode: Final = msgspec.json.Decoder(_Told).decode


def look(model: str, *, ollama: bool = False) -> Asking:
    """The question that costs nothing."""
    if ollama:
        return Asking("/api/show", {"model": model}, at_root=True)
    return Asking("/models", method="GET")


def discovered(body: bytes, model: str) -> Layer:
    """What the answer tells of the model."""
    try:
        told = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Broken("the list of models cannot be read") from None
    if told.capabilities is not None:
        return _layer(told.capabilities, OLLAMA, "Ollama's account of the model")
    entry = next((entry for entry in told.data or () if entry.id == model), None)
    if entry is None:
        return {}
    source = "the endpoint's list of models"
    takes = entry.architecture.input_modalities if entry.architecture else None
    return {**_layer(takes, MODALITIES, source), **_layer(entry.supported_parameters, PARAMETERS, source)}


def _layer(listed: list[str] | None, names: Mapping[str, str], source: str) -> dict[str, Any]:
    if not listed:
        return {}
    return {
        capability: Evidence(SupportLevel.model_validate("native" if name in listed else "unsupported"), source)
        for name, capability in names.items()
        if name in listed or capability not in NOT_BY_ABSENCE
    }
