"""Passes the conversation to the negotiated backend, and its answer to the client."""

from collections.abc import AsyncIterator
from typing import Any, assert_never

from accord.agent import Agent, Turn, Yielded
from accord.wire.answer import EndPiece, TextPiece, ThinkingPiece, ToolCallPiece


def relay_with(**question: Any) -> Agent:
    """A relay that adds this to every question: a schema, a system message and the like."""

    async def relays(turn: Turn) -> AsyncIterator[Yielded]:
        async for piece in turn.ask(**question).pieces():
            match piece:
                case TextPiece():
                    yield piece.text
                case ThinkingPiece():
                    if piece.text:  # a seal alone is for the model, not for people
                        yield turn.thought(piece.text)
                case ToolCallPiece():
                    yield turn.user_error(f"The model asked for a tool that is not here: {piece.name}", domain="tool")
                case EndPiece():
                    return
                case _:
                    assert_never(piece)

    return Agent(relays, name="relay", accepts={"image": True, "audio": True, "embeddedContext": True})


relay = relay_with()
