"""Takes out of a piece of work what the permissive policy goes on without, so that no backend is sent what it lacks."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from accord.core.emulate.inject import saying, withheld
from accord.wire.capability import ALIASES, Capability
from accord.wire.conversation import AudioPart, ConversationMessage, ImagePart, MessagePart, TextPart, ToolResultPart
from accord.wire.work import WorkOrder

CARRIED_BY: Final[Mapping[str, type[MessagePart]]] = MappingProxyType(
    {Capability.IMAGE_INPUT: ImagePart, Capability.AUDIO: AudioPart}
)
"""The parts that only a capability makes readable."""


def forgo(order: WorkOrder, losses: Iterable[str]) -> WorkOrder:
    """The order without what is lost; where a part was taken out, the conversation says so."""
    for name in losses:
        order = withheld(order, name)
        part = CARRIED_BY.get(name) or CARRIED_BY.get(ALIASES.get(name, ""))
        if part is not None:
            order = saying(order, [_without(message, part) for message in order.conversation.messages])
    return order


def _without(message: ConversationMessage, kind: type[MessagePart]) -> ConversationMessage:
    return message.model_copy(update={"content": [_kept(part, kind) for part in message.content]})


def _kept(part: MessagePart, kind: type[MessagePart]) -> MessagePart:
    if isinstance(part, kind):
        what = "An image" if kind is ImagePart else "A sound"
        return TextPart(text=f"[{what} was sent that cannot be passed on]")
    if isinstance(part, ToolResultPart):
        return part.model_copy(update={"content": [_kept(inner, kind) for inner in part.content]})
    return part
