"""Derives what a piece of work needs from what it carries, beside what it states.

A derived need accepts emulation: whoever insists on the real thing says so in the requirements. A capability that is
stated is not derived again, whatever its minimum, and aliases count as one.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from accord.wire.capability import ALIASES, FILE_INPUT, OWN_MEANINGS, REASONING_HISTORY, TOOL_RESULT_MEDIA, Capability
from accord.wire.conversation import (
    AudioPart,
    ImagePart,
    MessagePart,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
)
from accord.wire.manifest import CapabilityRequirement, MinSupport
from accord.wire.plan import Need
from accord.wire.work import WorkOrder

PDF: Final = "application/pdf"

PART_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.IMAGE_INPUT: "the conversation has an image",
        Capability.AUDIO: "the conversation has sound",
        Capability.PDF_INPUT: "the conversation has a PDF document",
        FILE_INPUT: "the conversation has a file that is not text",
        TOOL_RESULT_MEDIA: "a tool's result has an image, sound or file",
        REASONING_HISTORY: "the conversation has the model's earlier reasoning",
    }
)
"""What follows from the parts of a conversation."""

FIELD_REASONS: Final[tuple[tuple[Capability, str, Callable[[WorkOrder], bool]], ...]] = (
    (
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        "the answer must fit a schema",
        lambda order: order.response_schema is not None,
    ),
    (Capability.JSON_MODE, "the answer must be JSON", lambda order: order.json_mode and order.response_schema is None),
    (Capability.TOOL_USE, "tools are given", lambda order: bool(order.tools)),
    (Capability.STREAMING, "the answer is to be streamed", lambda order: order.stream),
    (Capability.STOP_SEQUENCES, "texts to stop at are given", lambda order: bool(order.stop_sequences)),
    (Capability.EXTENDED_THINKING, "thinking is asked for", lambda order: order.thinking),
)
"""What follows from the fields of an order."""

PARAMETERS: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        "temperature": Capability.TEMPERATURE,
        "top_p": Capability.TOP_P,
        "top_k": Capability.TOP_K,
        "max_tokens": Capability.MAX_TOKENS,
        "frequency_penalty": Capability.FREQUENCY_PENALTY,
        "presence_penalty": Capability.PRESENCE_PENALTY,
        "seed": Capability.SEED_DETERMINISM,
        "logprobs": Capability.LOGPROBS,
        "cache_control": Capability.CACHE_CONTROL,
    }
)
"""The parameters of an order that have one meaning everywhere. They are preferred: work goes on without them, and says
so. Whatever else is among the parameters is the operator's own word to an API, and passed on as it is."""

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {**PART_REASONS, **{capability: because for capability, because, _ in FIELD_REASONS}}
)
"""Why each capability is needed, in the order in which needs are told."""


def derive_needs(order: WorkOrder) -> list[Need]:
    """Everything this work needs or would like, stated first."""
    stated = [
        *(_stated(requirement, required=True) for requirement in order.requirements.required),
        *(_stated(requirement, required=False) for requirement in order.requirements.preferred),
    ]
    named = {name for need in stated if need.required for name in (need.capability, ALIASES.get(need.capability))}
    wished = {need.capability for need in stated}
    derived = [_derived(name) for name in derived_capabilities(order) if name not in named and name not in OWN_MEANINGS]
    set_up = [
        Need(capability=capability, min_support=MinSupport.EMULATED, required=False, because=f"{parameter} is set")
        for parameter, capability in PARAMETERS.items()
        if parameter in order.parameters and capability not in wished
    ]
    return [*stated, *derived, *set_up]


def derive_extension_needs(order: WorkOrder) -> list[Need]:
    """What this work needs of a backend whose manifest speaks of it; the manifests of others do not."""
    return [_derived(name) for name in derived_capabilities(order) if name in OWN_MEANINGS]


def _derived(name: str) -> Need:
    # A model that does not see its earlier reasoning answers all the same, so that is a wish, and told if not granted.
    is_required = name != REASONING_HISTORY
    return Need(capability=name, min_support=MinSupport.EMULATED, required=is_required, because=REASONS[name])


def parameter_capabilities(order: WorkOrder) -> tuple[Capability, ...]:
    """The capabilities that this order would like to have for the sake of its parameters."""
    return tuple(PARAMETERS[name] for name in order.parameters if name in PARAMETERS) if order.parameters else ()


def derived_capabilities(order: WorkOrder) -> tuple[str, ...]:
    """The capabilities that this order calls for by what it carries and asks for, whatever it states."""
    found: set[str] = {capability for capability, _, is_asked in FIELD_REASONS if is_asked(order)}
    for message in order.conversation.messages:
        for part in message.content:
            if part.__class__ is not TextPart:  # most parts by far, and no need follows from them
                _add_carried(part, found)
    return tuple(capability for capability in REASONS if capability in found)


def _add_carried(part: MessagePart, found: set[str]) -> None:
    if isinstance(part, ToolResultPart):
        for inner in part.content:
            if capability_for_part(inner) is not None:
                found.add(TOOL_RESULT_MEDIA)
            _add_carried(inner, found)
    elif isinstance(part, ThinkingPart):
        found.add(REASONING_HISTORY)
    elif (needed := capability_for_part(part)) is not None:
        found.add(needed)


def capability_for_part(part: MessagePart) -> str | None:
    """The capability that makes this part readable; text needs none."""
    if isinstance(part, ImagePart):
        return Capability.IMAGE_INPUT
    if isinstance(part, AudioPart):
        return Capability.AUDIO
    if isinstance(part, ResourcePart) and part.data is not None:
        return Capability.PDF_INPUT if part.media_type == PDF else FILE_INPUT
    return None


def _stated(requirement: CapabilityRequirement, *, required: bool) -> Need:
    return Need(
        capability=requirement.capability,
        min_support=requirement.min_support,
        required=required,
        because="required" if required else "preferred",
    )
