"""Derives what a piece of work needs from what it carries, beside what it states.

A derived need accepts emulation: whoever insists on the real thing says so in the requirements. A capability that is
stated is not derived again, whatever its minimum, and aliases count as one.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from accord.wire.capability import ALIASES, Capability
from accord.wire.conversation import AudioPart, ImagePart, MessagePart, ResourcePart, TextPart, ToolResultPart
from accord.wire.plan import Need
from accord.wire.requirement import CapabilityRequirement
from accord.wire.support import MinSupport
from accord.wire.work import WorkOrder

PDF: Final = "application/pdf"

CARRIED: Final[Mapping[Capability, str]] = MappingProxyType(
    {
        Capability.IMAGE_INPUT: "the conversation has an image",
        Capability.AUDIO: "the conversation has sound",
        Capability.PDF_INPUT: "the conversation has a PDF document",
    }
)
"""What follows from the parts of a conversation."""

ASKED: Final[tuple[tuple[Capability, str, Callable[[WorkOrder], bool]], ...]] = (
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

BECAUSE: Final[Mapping[Capability, str]] = MappingProxyType(
    {**CARRIED, **{capability: because for capability, because, _ in ASKED}}
)
"""Why each capability is needed, in the order in which needs are told."""


def derive_needs(order: WorkOrder) -> list[Need]:
    """Everything this work needs or would like, stated first."""
    stated = [
        *(_stated(requirement, required=True) for requirement in order.requirements.required),
        *(_stated(requirement, required=False) for requirement in order.requirements.preferred),
    ]
    named = {name for need in stated if need.required for name in (need.capability, ALIASES.get(need.capability))}
    derived = [
        Need(capability=capability, min_support=MinSupport.EMULATED, required=True, because=BECAUSE[capability])
        for capability in follows_from(order)
        if capability not in named
    ]
    return [*stated, *derived]


def follows_from(order: WorkOrder) -> tuple[Capability, ...]:
    """The capabilities that this order calls for by what it carries and asks for, whatever it states."""
    found = {capability for capability, _, is_asked in ASKED if is_asked(order)}
    for message in order.conversation.messages:
        for part in message.content:
            if part.__class__ is not TextPart:  # most parts by far, and no need follows from them
                _add_carried(part, found)
    return tuple(capability for capability in BECAUSE if capability in found)


def _add_carried(part: MessagePart, found: set[Capability]) -> None:
    if isinstance(part, ImagePart):
        found.add(Capability.IMAGE_INPUT)
    elif isinstance(part, AudioPart):
        found.add(Capability.AUDIO)
    elif isinstance(part, ResourcePart):
        if part.media_type == PDF and part.data is not None:
            found.add(Capability.PDF_INPUT)
    elif isinstance(part, ToolResultPart):
        for inner in part.content:
            _add_carried(inner, found)


def _stated(requirement: CapabilityRequirement, *, required: bool) -> Need:
    return Need(
        capability=requirement.capability,
        min_support=requirement.min_support,
        required=required,
        because="required" if required else "preferred",
    )
