"""What a terminal shows of an event: a description, markdown, progress, a thought, images. Nothing is drawn here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from accord.core.output.describe import ENGLISH_CATALOGUE, TextFormatter, describe
from accord.core.output.event_parser import ParsedEvent, parse_event
from accord.core.output.profile import TextForm
from accord.errors import AccordError, ConnectionFailedError, ErrorCode
from accord.wire.event import MarkdownBlock, MediaCarousel, MediaItem, PresentationEventType, ProgressUpdate
from accord.wire.packet import StreamError

MAX_CHARS: Final = 1_000
PLAIN: Final = TextFormatter(TextForm.PLAIN, ENGLISH_CATALOGUE)


@dataclass(frozen=True, slots=True)
class Described:
    """Text for an event, and the media in it."""

    text: str
    is_failure: bool = False
    media: tuple[MediaItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of reasoning."""

    text: str


ShownEvent = Described | MarkdownBlock | ProgressUpdate | Thought


def read_event(event: dict[str, Any]) -> ShownEvent | None:
    """Return what is shown of an event; None if there is nothing to show."""
    parsed = parse_event(event, 0)
    if parsed.known_type is PresentationEventType.THOUGHT_TRACE:
        return Thought(_thought_text(parsed.data))
    match parsed.payload:
        case MarkdownBlock() | ProgressUpdate() as payload:
            return payload
        case MediaCarousel(items=items):
            return Described(_description(parsed), media=tuple(items))
        case _:
            text = _description(parsed)
            return Described(text, is_failure=parsed.is_failure) if text else None


def _thought_text(data: Mapping[str, Any]) -> str:
    text = data.get("thought")
    return text if isinstance(text, str) else json.dumps(data, ensure_ascii=False)


def _description(event: ParsedEvent) -> str:
    if described := describe(event, PLAIN):
        return described.text
    if event.known_type is not None:
        return ""
    content = event.hooks.fallback_text or json.dumps(event.data or event.event, ensure_ascii=False)[:MAX_CHARS]
    return f"[{event.type_label}] {content}"


GIVE_TOKEN: Final = "Put the token into the variable ACCORD_TOKEN, or enter it when `accord chat` asks for it"  # noqa: S105
GIVE_USER: Final = "Start with --user NAME, where NAME is the user of the token"


def error_lines(error: AccordError | StreamError) -> list[str]:
    """The lines for an error: its message, what would make refused work possible, and what the user can do."""
    message, details = error.message, error.details or {}
    if isinstance(error, ConnectionFailedError):
        message = message.partition("; with retry_connect")[0]  # an option of the Python client
    given = details.get("remedies")
    remedies = cast("list[Any]", given) if isinstance(given, list) else []
    changes: list[Any] = [each["change"] for each in remedies if isinstance(each, dict) and "change" in each]
    lines = [f"{error.code}: {message}", *(f"would help: {change}" for change in changes)]
    if error.code == ErrorCode.UNAUTHENTICATED:
        lines.append(GIVE_TOKEN)
    if details.get("field") == "context.user.id":
        lines.append(GIVE_USER)
    return lines
