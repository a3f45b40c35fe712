"""An agent that passes the conversation to the negotiated backend, and its answer to the client."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, assert_never

from pydantic import ValidationError

from accord.agent import Agent, Turn, Yielded
from accord.wire.event import CitationItem
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkPiece,
)


def relay_with(*, schema: Mapping[str, Any] | None = None, system: str | None = None) -> Agent:
    """A relay agent that adds a schema or a system message to every question."""

    async def relay_turn(turn: Turn) -> AsyncIterator[Yielded]:
        sources: dict[str, CitationItem] = {}
        async for piece in turn.ask(schema=schema, system=system).pieces():
            if isinstance(piece, TextPiece):
                yield piece.text
            elif isinstance(piece, CitationPiece) and (source := _source(piece)) is not None:
                sources.setdefault(source.uri, source)
            elif (item := _item_for(turn, piece)) is not None:
                yield item
        if sources:
            yield turn.citation(*(source.dump() for source in sources.values()))

    return Agent(relay_turn, name="relay", accepts={"image": True, "audio": True, "embeddedContext": True})


def _item_for(turn: Turn, piece: AnyPiece) -> Yielded | None:
    """The item that the client gets for this piece, which is no text, if any."""
    match piece:
        case ThinkingPiece():
            return turn.thought(piece.text) if piece.text else None  # a signature alone is for the model only
        case ToolCallPiece():
            return turn.user_error(f"The model asked for a tool that is not here: {piece.name}", domain="tool")
        case WorkPiece():
            return turn.work(piece)
        case MediaPiece():
            return _medium(turn, piece)
        case TextPiece() | ToolCallDelta() | CitationPiece() | EndPiece():
            return None
        case _:
            assert_never(piece)


def _source(piece: CitationPiece) -> CitationItem | None:
    """The source that a citation names; None without an address that a client may open."""
    title = piece.title or piece.url
    try:
        return CitationItem.model_validate(
            {"source_id": piece.url, "uri": piece.url, "title": title, "snippet": piece.quote}
        )
    except ValidationError:
        return None


def _medium(turn: Turn, piece: MediaPiece) -> Yielded | None:
    """What shows an image or a sound; None if it is neither data nor at an address that a client may open."""
    url = f"data:{piece.media_type};base64,{piece.data}" if piece.data else piece.uri
    members = {"url": url, "mime_type": piece.media_type}
    try:
        return turn.media(members if piece.transcript is None else {**members, "alt_text": piece.transcript})
    except ValidationError:
        return None


relay = relay_with()
