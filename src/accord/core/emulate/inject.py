"""Puts a prompt into a conversation, and takes from an order what the backend must not be asked for (decision 14).

It knows where system prompts go and which field of an order belongs to which capability, and no emulation.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any, Final

from accord.wire.capability import ALIASES, Capability
from accord.wire.chat import Role
from accord.wire.conversation import Conversation, ConversationMessage, TextPart
from accord.wire.work import WorkOrder

ASKED_BY: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        Capability.TOOL_USE: {"tools": []},
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: {"response_schema": None},
        Capability.JSON_MODE: {"json_mode": False},
        Capability.STOP_SEQUENCES: {"stop_sequences": []},
        Capability.STREAMING: {"stream": False},
        Capability.EXTENDED_THINKING: {"thinking": False},
    }
)
"""The fields by which an order asks for a capability, as they are when it does not."""


def with_prompt(messages: Sequence[ConversationMessage], prompt: str) -> list[ConversationMessage]:
    """The messages with this prompt in the first system message, which is put first if there is none."""
    for index, message in enumerate(messages):
        if message.role is Role.SYSTEM:
            longer = message.model_copy(update={"content": [*message.content, TextPart(text=f"\n{prompt}")]})
            return [*messages[:index], longer, *messages[index + 1 :]]
    return [ConversationMessage(role=Role.SYSTEM, content=[TextPart(text=prompt)]), *messages]


def prompted(order: WorkOrder, prompt: str) -> WorkOrder:
    """A copy of the order whose conversation carries this prompt."""
    return saying(order, with_prompt(order.conversation.messages, prompt))


def saying(order: WorkOrder, messages: Sequence[ConversationMessage]) -> WorkOrder:
    """A copy of the order with these messages."""
    return order.model_copy(update={"conversation": Conversation(messages=list(messages))})


def withheld(order: WorkOrder, capability: str) -> WorkOrder:
    """A copy of the order that no longer asks the backend for this capability."""
    asked = ASKED_BY.get(capability) or ASKED_BY.get(ALIASES.get(capability, ""), {})
    return order.model_copy(update={field: copy(value) for field, value in asked.items()})
