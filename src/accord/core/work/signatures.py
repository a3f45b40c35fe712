"""Signatures on reasoning and on calls: only models of the API that made one accept it, so its origin is marked. Pure.

A client keeps what it gets and sends it back, perhaps when another backend answers. In a translated answer, a signature
begins with the name of the API that its model has; one without a mark is of the client's own API. On the way back, a
signature goes only to a backend of its origin, without the mark; any other is removed, and what it signed stays.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from accord.core.work.emulation.base import replace_messages
from accord.core.work.fields import TABLE, ModelRequest
from accord.wire.capability import REASONING_HISTORY
from accord.wire.conversation import ConversationMessage, MessagePart, ThinkingPart, ToolUsePart
from accord.wire.disposition import Api
from accord.wire.work import AnyPiece, ThinkingPiece, ToolCallPiece, WorkOrder

_MARK: Final = re.compile(rf"accord-({'|'.join(Api)})\.")

SIGNED_FIELDS: Final = frozenset(
    row.name
    for rows in TABLE.values()
    for row in rows.values()
    if row.capability == REASONING_HISTORY or row.name.endswith(".signature")
)
"""Fields whose values may be signed."""


def mark_signature(piece: AnyPiece, origin: Api) -> AnyPiece:
    """The piece with the origin of its signature, if it has one."""
    if isinstance(piece, ThinkingPiece | ToolCallPiece) and piece.signature is not None:
        return msgspec.structs.replace(piece, signature=f"accord-{origin.value}.{piece.signature}")
    return piece


def signed_fields(request: ModelRequest) -> list[str]:
    """The fields of this request that may be signed."""
    return [name for name in request.fields if name in SIGNED_FIELDS]


def has_marks(order: WorkOrder) -> bool:
    """Whether a signature in this order has a mark, so that no endpoint would accept it as it is."""
    return any(_MARK.match(part.signature) for part in _signed(order) if part.signature)


def own_signatures(order: WorkOrder, api: str, kind: Api) -> tuple[WorkOrder, bool]:
    """The order with only those signatures that a backend of this kind accepts, and whether others were removed.

    `api` is the API of the client that sent it.
    """
    if not any(True for _ in _signed(order)):
        return order, False
    lost = False
    messages: list[ConversationMessage] = []
    for message in order.conversation.messages:
        content: list[MessagePart] = []
        for part in message.content:
            kept = _own(part, api, kind)
            lost = lost or (kept is not part and (kept is None or getattr(kept, "signature", None) is None))
            if kept is not None:
                content.append(kept)
        messages.append(message.model_copy(update={"content": content}))
    return replace_messages(order, messages), lost


def _own(part: MessagePart, api: str, kind: Api) -> MessagePart | None:
    """The part with its signature for this kind of backend, or without; None if nothing would be left of it."""
    if not isinstance(part, ThinkingPart | ToolUsePart) or part.signature is None:
        return part
    marked = _MARK.match(part.signature)
    if (marked[1] if marked else api) == kind.value:
        return part.model_copy(update={"signature": part.signature[marked.end() :]}) if marked else part
    if isinstance(part, ThinkingPart) and not part.text:
        return None
    return part.model_copy(update={"signature": None})


def _signed(order: WorkOrder) -> Iterator[ThinkingPart | ToolUsePart]:
    for message in order.conversation.messages:
        for part in message.content:
            if isinstance(part, ThinkingPart | ToolUsePart) and part.signature is not None:
                yield part
