"""Turns the pieces of an answer into the message that they were, so that the model can be given it again.

Seals on reasoning and on calls stay with what they seal: a model that gets its reasoning back without them refuses it.
"""

from collections.abc import Iterable

from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece
from accord.wire.chat import Role
from accord.wire.conversation import (
    ConversationMessage,
    MessagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)


def message_of(pieces: Iterable[AnyPiece]) -> ConversationMessage:
    """What the assistant said, in the order in which it said it."""
    writing = _Writing()
    for piece in pieces:
        writing.take(piece)
    return ConversationMessage(role=Role.ASSISTANT, content=writing.finish())


def result_of(
    call: ToolCallPiece, content: str | Iterable[MessagePart], *, is_error: bool = False
) -> ConversationMessage:
    """What a tool answered to this call."""
    parts: list[MessagePart] = [TextPart(text=content)] if isinstance(content, str) else list(content)
    result = ToolResultPart(tool_use_id=call.id, content=parts, is_error=is_error)
    return ConversationMessage(role=Role.TOOL, content=[result])


class _Writing:
    """A message while it is put together."""

    def __init__(self) -> None:
        self._parts: list[MessagePart] = []
        self._text: list[str] = []
        self._thoughts: list[str] = []

    def take(self, piece: AnyPiece) -> None:
        match piece:
            case TextPiece():
                self._end_thought()
                self._text.append(piece.text)
            case ThinkingPiece():
                self._end_text()
                self._take_thought(piece)
            case ToolCallPiece():
                self.finish()
                self._parts.append(
                    ToolUsePart(id=piece.id, name=piece.name, input=piece.input, signature=piece.signature)
                )
            case WorkPiece() | EndPiece():
                pass

    def finish(self) -> list[MessagePart]:
        self._end_thought()
        self._end_text()
        return self._parts

    def _take_thought(self, piece: ThinkingPiece) -> None:
        if piece.redacted:
            self._end_thought()
            self._parts.append(ThinkingPart(text=piece.text, signature=piece.signature, redacted=True))
            return
        self._thoughts.append(piece.text)
        if piece.signature is not None:
            self._end_thought(piece.signature)

    def _end_thought(self, signature: str | None = None) -> None:
        if self._thoughts:
            self._parts.append(ThinkingPart(text="".join(self._thoughts), signature=signature))
            self._thoughts = []

    def _end_text(self) -> None:
        if text := "".join(self._text):
            self._parts.append(TextPart(text=text))
        self._text = []
