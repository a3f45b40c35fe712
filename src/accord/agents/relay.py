"""An agent that passes the conversation to the negotiated backend, and its answer to the client."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, assert_never

from accord.agent import Agent, Turn, Yielded
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece


def relay_with(*, schema: Mapping[str, Any] | None = None, system: str | None = None) -> Agent:
    """A relay agent that adds a schema or a system message to every question."""

    async def relay_turn(turn: Turn) -> AsyncIterator[Yielded]:
        async for piece in turn.ask(schema=schema, system=system).pieces():
            if (item := _item_for(turn, piece)) is not None:
                yield item

    return Agent(relay_turn, name="relay", accepts={"image": True, "audio": True, "embeddedContext": True})


def _item_for(turn: Turn, piece: AnyPiece) -> Yielded | None:
    """The item that the client gets for this piece, if any."""
    match piece:
        case TextPiece():
            return piece.text
        case ThinkingPiece():
            return turn.thought(piece.text) if piece.text else None  # a signature alone is for the model only
        case ToolCallPiece():
            return turn.user_error(f"The model asked for a tool that is not here: {piece.name}", domain="tool")
        case WorkPiece():
            return turn.work(piece)
        case EndPiece():
            return None
        case _:
            assert_never(piece)


relay = relay_with()
