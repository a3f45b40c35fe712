"""Passes the conversation to the negotiated backend, and its answer to the client."""

from collections.abc import AsyncIterator
from typing import Any, assert_never

from accord.agent import Agent, Turn, Yielded
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece


def relay_with(**question: Any) -> Agent:
    """A relay that adds this to every question: a schema, a system message and the like."""

    async def relays(turn: Turn) -> AsyncIterator[Yielded]:
        async for piece in turn.ask(**question).pieces():
            if (shown := _shown(turn, piece)) is not None:
                yield shown

    return Agent(relays, name="relay", accepts={"image": True, "audio": True, "embeddedContext": True})


def _shown(turn: Turn, piece: AnyPiece) -> Yielded | None:
    """What the user gets to see of this piece."""
    match piece:
        case TextPiece():
            return piece.text
        case ThinkingPiece():
            return turn.thought(piece.text) if piece.text else None  # a seal alone is for the model, not for people
        case ToolCallPiece():
            return turn.user_error(f"The model asked for a tool that is not here: {piece.name}", domain="tool")
        case WorkPiece():
            return turn.work(piece)
        case EndPiece():
            return None
        case _:
            assert_never(piece)


relay = relay_with()
