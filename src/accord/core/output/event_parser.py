"""Reads an event as it was sent: its type, its name, its payload if that is sound, and the hooks its author left.

Any JSON object at all can be read; nothing is judged by what the client shows. A known type with a broken payload has
no payload here, and only what is safe of it is saved: sound items of a list, a title without its address.

Hooks (`fallback`, `fallback_text`, `spoken`, `priority`) may stand at the top of an event or inside its `data`; the
top wins. A hook of the wrong shape is as good as none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import ValidationError

from accord.wire.event import (
    CitationBlock,
    CitationItem,
    MarkdownBlock,
    MediaCarousel,
    MediaItem,
    PresentationEventType,
    ProgressUpdate,
    UserError,
)
from accord.wire.message import Message

MARKER_CHARS: Final = 64
MAX_ITEMS_SAVED: Final = 200

Payload = CitationBlock | MediaCarousel | ProgressUpdate | MarkdownBlock | UserError

PAYLOADS: Final[Mapping[PresentationEventType, type[Payload] | None]] = MappingProxyType(
    {
        PresentationEventType.CITATION_BLOCK: CitationBlock,
        PresentationEventType.MEDIA_CAROUSEL: MediaCarousel,
        PresentationEventType.PROGRESS_INDICATOR: ProgressUpdate,
        PresentationEventType.MARKDOWN_BLOCK: MarkdownBlock,
        PresentationEventType.USER_ERROR: UserError,
        PresentationEventType.THOUGHT_TRACE: None,  # whatever it is, it is not ours to read
    }
)


class Priority(StrEnum):
    """How much its author cares: `low` may be dropped instead of told, `high` is told before what waits."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the author of an event wants shown instead."""

    fallback: dict[str, Any] | None = None
    fallback_text: str | None = None
    spoken: str | None = None
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Item:
    """One event as it was sent."""

    event: dict[str, Any]
    id: str
    type: str | None
    known: PresentationEventType | None
    payload: Payload | None
    hooks: Hooks
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_malformed(self) -> bool:
        """Whether its type promises a payload that is not there."""
        if self.known is PresentationEventType.THOUGHT_TRACE:
            return not isinstance(self.event.get("data"), dict)
        return self.type is None or (self.known is not None and self.payload is None)

    @property
    def is_failure(self) -> bool:
        """Whether it tells that something went wrong: always told, never dropped or refused."""
        if self.known is PresentationEventType.PROGRESS_INDICATOR:
            return self.data.get("status") == "failed"
        return self.known is PresentationEventType.USER_ERROR

    @property
    def marker(self) -> str:
        """Its type, short enough for a report."""
        return marker(self.type or "(none)")


def read_event(event: dict[str, Any], ordinal: int) -> Item:
    """The event, whatever it looks like; without a name of its own it is called by its number in the stream."""
    named = event.get("type")
    name = named if isinstance(named, str) and named.strip() else None
    known = _known(name)
    data = event.get("data")
    return Item(
        event=event,
        id=_id(event.get("id"), ordinal),
        type=name,
        known=known,
        payload=_payload(known, data),
        hooks=_hooks(event, data),
        data=cast("dict[str, Any]", data) if isinstance(data, dict) else {},
    )


def sound_items(item: Item) -> tuple[list[int], CitationBlock | MediaCarousel | None]:
    """What is left of a broken list of sources or media: the places of the sound items, and a payload of them alone."""
    sent = item.data.get("items")
    kind = {
        PresentationEventType.CITATION_BLOCK: CitationItem,
        PresentationEventType.MEDIA_CAROUSEL: MediaItem,
    }.get(item.known or PresentationEventType.USER_ERROR)
    if kind is None or not isinstance(sent, list):
        return [], None
    read = [_read(kind, one) for one in cast("list[Any]", sent)[:MAX_ITEMS_SAVED]]
    places = [place for place, one in enumerate(read) if one is not None]
    sources = [one for one in read if isinstance(one, CitationItem)]
    media = [one for one in read if isinstance(one, MediaItem)]
    if sources:
        return places, CitationBlock(items=sources)
    return places, MediaCarousel(items=media) if media else None


def words_of(item: Item, name: str) -> list[str]:
    """The texts of this name in the items of a broken list, which can be told though their addresses cannot."""
    sent = item.data.get("items")
    if not isinstance(sent, list):
        return []
    found = [
        cast("dict[str, Any]", one).get(name) if isinstance(one, dict) else None
        for one in cast("list[Any]", sent)[:MAX_ITEMS_SAVED]
    ]
    return [text for text in found if isinstance(text, str) and text.strip()]


def marker(text: str) -> str:
    """Text cut and cleaned for a report: it names, it does not quote."""
    short = text[:MARKER_CHARS]
    return short if short.isprintable() else "".join(char if char.isprintable() else "?" for char in short)


def _known(name: str | None) -> PresentationEventType | None:
    try:
        return PresentationEventType(name.lower()) if name else None
    except ValueError:
        return None


def _id(sent: Any, ordinal: int) -> str:
    return marker(sent) if isinstance(sent, str) and sent.strip() else f"event-{ordinal}"


def _payload(known: PresentationEventType | None, data: Any) -> Payload | None:
    model = PAYLOADS[known] if known else None
    return cast("Payload | None", _read(model, data)) if model else None


def _read(model: type[Message], value: Any) -> Message | None:
    try:
        return model.model_validate(value)
    except (ValidationError, RecursionError):
        return None


def _hooks(event: Mapping[str, Any], data: Any) -> Hooks:
    rooms: Sequence[Mapping[str, Any]] = (
        (event, cast("Mapping[str, Any]", data)) if isinstance(data, dict) else (event,)
    )
    fallback = next((room["fallback"] for room in rooms if isinstance(room.get("fallback"), dict)), None)
    return Hooks(fallback, _text(rooms, "fallback_text"), _text(rooms, "spoken"), _priority(rooms))


def _text(rooms: Sequence[Mapping[str, Any]], name: str) -> str | None:
    return next((room[name] for room in rooms if isinstance(room.get(name), str) and room[name].strip()), None)


def _priority(rooms: Sequence[Mapping[str, Any]]) -> Priority:
    said = _text(rooms, "priority")
    try:
        return Priority(said.lower()) if said else Priority.NORMAL
    except ValueError:
        return Priority.NORMAL
