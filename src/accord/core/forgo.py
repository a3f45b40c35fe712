"""Takes out of a piece of work what the plan goes on without, so that no backend is sent what it lacks.

That is what the permissive policy loses, and what was only preferred: the parameters that a backend does not have.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from accord.core.derive import CARRIED, PARAMETERS, needed_for
from accord.core.emulate.inject import saying, withheld
from accord.wire.capability import ALIASES, FILE_INPUT, TOOL_RESULT_MEDIA, Capability
from accord.wire.conversation import ConversationMessage, MessagePart, TextPart, ToolResultPart
from accord.wire.work import WorkOrder

CALLED: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.IMAGE_INPUT: "An image",
        Capability.AUDIO: "A sound",
        Capability.PDF_INPUT: "A PDF document",
        FILE_INPUT: "A file",
    }
)
"""What is said of a part that was taken out, by the capability that would make it readable."""


def forgo(order: WorkOrder, losses: Iterable[str], unmet: Iterable[str] = ()) -> WorkOrder:
    """The order without what is lost, and without parameters that were only preferred.

    Where a part was taken out, the conversation says so.
    """
    for name in losses:
        order = withheld(order, name)
        lost = name if name in CARRIED else ALIASES.get(name, "")
        if lost in CARRIED:
            order = saying(order, [_without(message, lost) for message in order.conversation.messages])
    return _without_parameters(order, frozenset(unmet)) if order.parameters else order


def _without_parameters(order: WorkOrder, unmet: frozenset[str]) -> WorkOrder:
    kept = {name: value for name, value in order.parameters.items() if PARAMETERS.get(name) not in unmet}
    return order if len(kept) == len(order.parameters) else order.model_copy(update={"parameters": kept})


def _without(message: ConversationMessage, lost: str) -> ConversationMessage:
    return message.model_copy(update={"content": [_kept(part, lost) for part in message.content]})


def _kept(part: MessagePart, lost: str) -> MessagePart:
    if isinstance(part, ToolResultPart):
        return part.model_copy(update={"content": [_kept_of_result(inner, lost) for inner in part.content]})
    return _taken_out(lost) if needed_for(part) == lost else part


def _kept_of_result(part: MessagePart, lost: str) -> MessagePart:
    if isinstance(part, ToolResultPart):
        return _kept(part, lost)
    needed = needed_for(part)
    return part if needed is None or lost not in (needed, TOOL_RESULT_MEDIA) else _taken_out(needed)


def _taken_out(needed: str) -> TextPart:
    return TextPart(text=f"[{CALLED[needed]} was sent that cannot be passed on]")
