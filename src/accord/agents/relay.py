"""Passes the conversation to the negotiated backend, and its answer to the client."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, assert_never

from accord.agent import Agent, Turn, Yielded
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece


def relay_with(*, schema: Mapping[str, Any] | None = None, system: str | None = None) -> Agent:
    """A relay that adds a schema or a system message to every question."""

    async def relays(turn: Turn) -> AsyncIterator[Yielded]:
        async for piece in turn.ask(schema=schema, system=system).pieces():
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
