"""Derive what a piece of work needs from what it contains, in addition to what it states.

A derived need accepts emulation; work that must have native support states that in its requirements. A capability that
is stated is not derived again, whatever its minimum, and aliases count as one.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from accord.wire.capability import (
    ADDED_MEANINGS,
    ALIASES,
    FILE_INPUT,
    IMAGE_URL,
    REASONING_HISTORY,
    TOOL_RESULT_MEDIA,
    Capability,
)
from accord.wire.conversation import (
    AudioPart,
    ImagePart,
    MessagePart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.manifest import CapabilityRequirements, MinSupport
from accord.wire.plan import Need
from accord.wire.work import REASONING, WorkOrder

PDF: Final = "application/pdf"

PART_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.IMAGE_INPUT: "the conversation has an image",
        Capability.AUDIO: "the conversation has audio",
        Capability.PDF_INPUT: "the conversation has a PDF document",
        FILE_INPUT: "the conversation has a file that is not text",
        TOOL_RESULT_MEDIA: "a tool result has an image, audio or a file",
        REASONING_HISTORY: "the conversation has the model's earlier reasoning",
        IMAGE_URL: "the conversation has an image by its address",
    }
)
"""The capabilities that parts of a conversation call for, and why."""

FIELD_REASONS: Final[tuple[tuple[Capability, str, Callable[[WorkOrder], bool]], ...]] = (
    (
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        "the answer must match a schema",
        lambda order: order.response_schema is not None,
    ),
    (Capability.JSON_MODE, "the answer must be JSON", lambda order: order.json_mode and order.response_schema is None),
    (Capability.TOOL_USE, "tools are given", lambda order: bool(order.tools)),
    (Capability.STREAMING, "streaming is requested", lambda order: order.stream),
    (Capability.STOP_SEQUENCES, "stop sequences are given", lambda order: bool(order.stop_sequences)),
    (Capability.EXTENDED_THINKING, "thinking is requested", lambda order: order.thinking),
)
"""The capabilities that fields of an order call for, why, and when."""

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {**PART_REASONS, **{capability: reason for capability, reason, _ in FIELD_REASONS}}
)
"""Why each capability is derived, in the order in which derived needs are listed."""

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
"""The parameters that mean the same to every API. Any other is passed to the backend's API as it is."""

SETTINGS: Final[Mapping[str, Capability]] = MappingProxyType({**PARAMETERS, REASONING: Capability.EXTENDED_THINKING})
"""These parameters, and `reasoning`. They are preferences: work goes on without them, and the plan lists them as unmet;
nothing is emulated for them."""

SETTING_REASONS: Final[Mapping[str, str]] = MappingProxyType({f"{name} is set": name for name in SETTINGS})
"""Why the capability of each setting is preferred, with its name."""


def stated_needs(requirements: CapabilityRequirements) -> list[Need]:
    """The needs that these requirements state, the required ones first."""
    return [
        Need(
            capability=requirement.capability,
            min_support=requirement.min_support,
            required=is_required,
            because="required" if is_required else "preferred",
        )
        for is_required, listed in ((True, requirements.required), (False, requirements.preferred))
        for requirement in listed
    ]


def derive_needs(order: WorkOrder) -> list[Need]:
    """Everything this work requires or prefers, stated needs first."""
    stated = stated_needs(order.requirements)
    stated_names = {need.capability for need in stated}
    required_names = {
        name for need in stated if need.required for name in (need.capability, ALIASES.get(need.capability))
    }
    derived = [
        _derived_need(name)
        for name in derived_capabilities(order)
        if name not in required_names and name not in ADDED_MEANINGS
    ]
    settings = [_setting_need(name) for name in _settings(order) if SETTINGS[name] not in stated_names]
    return [*stated, *derived, *settings]


def derive_extension_needs(order: WorkOrder) -> list[Need]:
    """The needs among Accord's additions to ABP; they apply only to a backend whose manifest mentions them."""
    return [_derived_need(name) for name in derived_capabilities(order) if name in ADDED_MEANINGS]


def _derived_need(name: str) -> Need:
    # A model that does not get its earlier reasoning back can still answer, so that is a preference.
    is_required = name != REASONING_HISTORY
    return Need(capability=name, min_support=MinSupport.EMULATED, required=is_required, because=REASONS[name])


def _setting_need(name: str) -> Need:
    return Need(capability=SETTINGS[name], min_support=MinSupport.EMULATED, required=False, because=f"{name} is set")


def need_for(capability: str) -> Need:
    """The need that work with this capability would have; raises `KeyError` if it is never derived."""
    for name, named in SETTINGS.items():
        if named == capability:
            return _setting_need(name)
    return _derived_need(capability)


def _settings(order: WorkOrder) -> tuple[str, ...]:
    """The settings that this order has, in the order of the table."""
    if not order.parameters and order.reasoning is None:
        return ()
    return tuple(name for name in SETTINGS if name in order.parameters or (name == REASONING and order.reasoning))


def setting_capabilities(order: WorkOrder) -> tuple[Capability, ...]:
    """The capabilities that this order prefers because of its settings."""
    return tuple(SETTINGS[name] for name in _settings(order))


def derived_capabilities(order: WorkOrder) -> tuple[str, ...]:
    """The capabilities that the fields and the conversation of this order call for, whatever it states."""
    found: set[str] = {capability for capability, _, applies in FIELD_REASONS if applies(order)}
    for message in order.conversation.messages:
        for part in message.content:
            if part.__class__ is not TextPart:  # most parts by far are text, which needs nothing
                _add_capabilities(part, found)
    return tuple(capability for capability in REASONS if capability in found)


TOOL_HISTORY: Final = "tool_history"
"""The conversation has earlier tool calls or their results, which is no capability of its own."""


def work_contents(order: WorkOrder) -> frozenset[str]:
    """What the order contains for an emulation to work on: what its needs are derived from, and two things more."""
    contents = set(derived_capabilities(order))
    for message in order.conversation.messages:
        if message.role is Role.SYSTEM:
            contents.add(Capability.SYSTEM_MESSAGE)
        if any(isinstance(part, ToolUsePart | ToolResultPart) for part in message.content):
            contents.add(TOOL_HISTORY)
    return frozenset(contents)


def _add_capabilities(part: MessagePart, found: set[str]) -> None:
    if isinstance(part, ToolResultPart):
        for inner in part.content:
            if capability_for_part(inner) is not None:
                found.add(TOOL_RESULT_MEDIA)
            _add_capabilities(inner, found)
    elif isinstance(part, ThinkingPart):
        found.add(REASONING_HISTORY)
    elif (capability := capability_for_part(part)) is not None:
        found.add(capability)
        if isinstance(part, ImagePart) and not part.data and part.uri:
            found.add(IMAGE_URL)


def capability_for_part(part: MessagePart) -> str | None:
    """The capability that a backend needs to read this part; text needs none."""
    if isinstance(part, ImagePart):
        return Capability.IMAGE_INPUT
    if isinstance(part, AudioPart):
        return Capability.AUDIO
    if isinstance(part, ResourcePart) and part.data is not None:
        return Capability.PDF_INPUT if part.media_type == PDF else FILE_INPUT
    return None
