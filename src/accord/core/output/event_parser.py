"""Parse an event: its type, its id, its payload if that is valid, and the hooks of its author.

Every JSON object can be parsed; nothing depends on what the client can show. An event of a known type with an invalid
payload has no payload here; only its safe parts can be read: the valid items of a list, a title without its address.

Hooks (`fallback`, `fallback_text`, `spoken`, `priority`) may be at the top of an event or inside its `data`; the top
wins. A hook of the wrong type is ignored.
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

MAX_LABEL_CHARS: Final = 64
MAX_ITEMS_READ: Final = 200  # of an invalid list: each item is validated by itself, which is slow

Payload = CitationBlock | MediaCarousel | ProgressUpdate | MarkdownBlock | UserError

PAYLOADS: Final[Mapping[PresentationEventType, type[Payload] | None]] = MappingProxyType(
    {
        PresentationEventType.CITATION_BLOCK: CitationBlock,
        PresentationEventType.MEDIA_CAROUSEL: MediaCarousel,
        PresentationEventType.PROGRESS_INDICATOR: ProgressUpdate,
        PresentationEventType.MARKDOWN_BLOCK: MarkdownBlock,
        PresentationEventType.USER_ERROR: UserError,
        PresentationEventType.THOUGHT_TRACE: None,  # private: its content is never read
    }
)


class Priority(StrEnum):
    """How important the author considers an event: `low` may be dropped, `high` goes before what is queued."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class AuthorHooks:
    """What the author of an event wants a client to get that cannot show it."""

    fallback: dict[str, Any] | None = None
    fallback_text: str | None = None
    spoken: str | None = None
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class ParsedEvent:
    """One event as it was sent, and what could be parsed of it."""

    event: dict[str, Any]
    id: str
    type: str | None
    known_type: PresentationEventType | None
    payload: Payload | None
    hooks: AuthorHooks
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_malformed(self) -> bool:
        """Whether the type is missing, or requires a payload that is not there."""
        if self.known_type is PresentationEventType.THOUGHT_TRACE:
            return not isinstance(self.event.get("data"), dict)
        return self.type is None or (self.known_type is not None and self.payload is None)

    @property
    def is_failure(self) -> bool:
        """Whether the event reports that something failed; such an event is never dropped or refused."""
        if self.known_type is PresentationEventType.PROGRESS_INDICATOR:
            return self.data.get("status") == "failed"
        return self.known_type is PresentationEventType.USER_ERROR

    @property
    def type_label(self) -> str:
        """The type, short enough for a report."""
        return make_label(self.type or "(none)")


def parse_event(event: dict[str, Any], ordinal: int) -> ParsedEvent:
    """Parse any JSON object as an event; one without an id gets its number in the stream."""
    event_type, data = event.get("type"), event.get("data")
    if not isinstance(event_type, str) or not event_type.strip():
        event_type = None
    try:
        known_type = PresentationEventType(event_type.lower()) if event_type else None
    except ValueError:
        known_type = None
    model = PAYLOADS[known_type] if known_type else None
    return ParsedEvent(
        event=event,
        id=event_id(event, ordinal),
        type=event_type,
        known_type=known_type,
        payload=cast("Payload | None", _validate(model, data)) if model else None,
        hooks=_read_hooks((event, cast("dict[str, Any]", data)) if isinstance(data, dict) else (event,)),
        data=cast("dict[str, Any]", data) if isinstance(data, dict) else {},
    )


def event_id(event: Mapping[str, Any], ordinal: int) -> str:
    """Return the id under which reports and notices name an event; without one of its own, it is numbered."""
    given = event.get("id")
    return make_label(given) if isinstance(given, str) and given.strip() else f"event-{ordinal}"


def find_valid_items(event: ParsedEvent) -> tuple[list[int], CitationBlock | MediaCarousel | None]:
    """Return the indexes of the valid items in an invalid list of sources or media, and a payload of these items."""
    sent = event.data.get("items")
    model = {
        PresentationEventType.CITATION_BLOCK: CitationItem,
        PresentationEventType.MEDIA_CAROUSEL: MediaItem,
    }.get(event.known_type or PresentationEventType.USER_ERROR)
    if model is None or not isinstance(sent, list):
        return [], None
    items = [_validate(model, item) for item in cast("list[Any]", sent)[:MAX_ITEMS_READ]]
    indexes = [index for index, item in enumerate(items) if item is not None]
    sources = [item for item in items if isinstance(item, CitationItem)]
    media = [item for item in items if isinstance(item, MediaItem)]
    if sources:
        return indexes, CitationBlock(items=sources)
    return indexes, MediaCarousel(items=media) if media else None


def find_item_texts(event: ParsedEvent, name: str) -> list[str]:
    """Return the texts of this name in the items of an invalid list; they are safe though their addresses are not."""
    sent = event.data.get("items")
    if not isinstance(sent, list):
        return []
    texts = [
        cast("dict[str, Any]", item).get(name) if isinstance(item, dict) else None
        for item in cast("list[Any]", sent)[:MAX_ITEMS_READ]
    ]
    return [text for text in texts if isinstance(text, str) and text.strip()]


def make_label(text: str) -> str:
    """Shorten text and replace unprintable characters, for a report."""
    short = text[:MAX_LABEL_CHARS]
    return short if short.isprintable() else "".join(char if char.isprintable() else "?" for char in short)


def _validate(model: type[Message], value: Any) -> Message | None:
    try:
        return model.model_validate(value)
    except (ValidationError, RecursionError):
        return None


def _read_hooks(objects: Sequence[Mapping[str, Any]]) -> AuthorHooks:
    """Read the hooks from the first object that has each of them."""

    def first_text(name: str) -> str | None:
        return next((one[name] for one in objects if isinstance(one.get(name), str) and one[name].strip()), None)

    fallback = next((one["fallback"] for one in objects if isinstance(one.get("fallback"), dict)), None)
    level = first_text("priority")
    try:
        priority = Priority(level.lower()) if level else Priority.NORMAL
    except ValueError:
        priority = Priority.NORMAL
    return AuthorHooks(fallback, first_text("fallback_text"), first_text("spoken"), priority)
