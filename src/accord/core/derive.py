"""Derives what a piece of work needs from what it carries, beside what it states.

A derived need accepts emulation: whoever insists on the real thing says so in the requirements. A capability that is
stated is not derived again, whatever its minimum, and aliases count as one.
"""

from collections.abc import Callable, Iterator
from typing import Final

from accord.wire.capability import ALIASES, Capability
from accord.wire.conversation import AudioPart, Conversation, ImagePart, MessagePart, ResourcePart, ToolResultPart
from accord.wire.plan import Need
from accord.wire.requirement import CapabilityRequirement
from accord.wire.support import MinSupport
from accord.wire.work import WorkOrder

PDF: Final = "application/pdf"

DERIVED: Final[tuple[tuple[Capability, str, Callable[[WorkOrder], bool]], ...]] = (
    (Capability.IMAGE_INPUT, "the conversation has an image", lambda order: _carries(order, _is_image)),
    (Capability.AUDIO, "the conversation has sound", lambda order: _carries(order, _is_audio)),
    (Capability.PDF_INPUT, "the conversation has a PDF document", lambda order: _carries(order, _is_pdf)),
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
"""Which capability follows from what, in the order in which needs are told."""


def derive_needs(order: WorkOrder) -> list[Need]:
    """Everything this work needs or would like, stated first."""
    stated = [
        *(_stated(requirement, required=True) for requirement in order.requirements.required),
        *(_stated(requirement, required=False) for requirement in order.requirements.preferred),
    ]
    named = {name for need in stated if need.required for name in (need.capability, ALIASES.get(need.capability))}
    derived = [
        Need(capability=capability, min_support=MinSupport.EMULATED, required=True, because=because)
        for capability, because, follows in DERIVED
        if capability not in named and follows(order)
    ]
    return [*stated, *derived]


def _stated(requirement: CapabilityRequirement, *, required: bool) -> Need:
    return Need(
        capability=requirement.capability,
        min_support=requirement.min_support,
        required=required,
        because="required" if required else "preferred",
    )


def _carries(order: WorkOrder, is_such: Callable[[MessagePart], bool]) -> bool:
    return any(is_such(part) for part in _parts(order.conversation))


def _parts(conversation: Conversation) -> Iterator[MessagePart]:
    for message in conversation.messages:
        for part in message.content:
            yield part
            if isinstance(part, ToolResultPart):
                yield from part.content


def _is_image(part: MessagePart) -> bool:
    return isinstance(part, ImagePart)


def _is_audio(part: MessagePart) -> bool:
    return isinstance(part, AudioPart)


def _is_pdf(part: MessagePart) -> bool:
    return isinstance(part, ResourcePart) and part.media_type == PDF and part.data is not None
