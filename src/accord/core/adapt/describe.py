"""Tells in words what a client cannot show: numbered sources, media by their alt text, one line for an error.

The rows of the design's table, for a screen and by voice. Nothing is invented: a picture without alt text is told as
such; a `data:` address is never written out, and no address is read aloud. Whether to tell at all is not decided here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from accord.core.adapt.pen import Pen
from accord.core.adapt.read import Item, sound_items, words_of
from accord.wire.event import (
    CitationBlock,
    MarkdownBlock,
    MediaCarousel,
    PresentationEventType,
    ProgressUpdate,
    UserError,
)
from accord.wire.url import inline_media_type

MAX_LINES: Final = 50
FORMAT_CHARS: Final = 12
KINDS: Final = ("image", "audio", "video")


@dataclass(frozen=True, slots=True)
class Told:
    """Words for an item, the fields they carry and the fields they do not."""

    text: str
    kept: Sequence[str] = ()
    lost: Sequence[str] = ()
    notes: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class _Medium:
    mime_type: str
    alt: str = ""
    url: str = ""

    @property
    def kind(self) -> str:
        kind = self.mime_type.partition("/")[0].strip().lower()
        return kind if kind in KINDS else "other"

    @property
    def format(self) -> str:
        name = self.mime_type.partition("/")[2].partition(";")[0].partition("+")[0].strip()
        return name.removeprefix("x-").upper()[:FORMAT_CHARS]


def describe(item: Item, pen: Pen) -> Told | None:
    """The words for an event, or nothing if there is nothing safe to tell."""
    payload = item.payload or sound_items(item)[1]
    match payload:
        case CitationBlock(items=items):
            return _sources([(one.title, one.uri) for one in items], pen, snippets=any(one.snippet for one in items))
        case MediaCarousel(items=items):
            return _media([_Medium(one.mime_type, one.alt_text or "", one.url) for one in items], pen)
        case ProgressUpdate(label=label, status=status):
            return _failure(label, pen) if status == "failed" else None
        case MarkdownBlock(content=content):
            return _block(content, pen)
        case UserError():
            return _error(payload, pen)
        case None:
            return _safe_words(item, pen)
        case _:
            assert_never(payload)


def _safe_words(item: Item, pen: Pen) -> Told | None:
    """What can be told of a broken payload: words without their addresses."""
    match item.known:
        case PresentationEventType.CITATION_BLOCK:
            return _sources([(title, "") for title in words_of(item, "title")], pen, snippets=True)
        case PresentationEventType.MEDIA_CAROUSEL:
            return _media([_Medium("", alt) for alt in words_of(item, "alt_text")], pen)
        case PresentationEventType.PROGRESS_INDICATOR:
            label = item.data.get("label")
            return _failure(label, pen) if item.is_failure and isinstance(label, str) else None
        case PresentationEventType.USER_ERROR:
            message = item.data.get("message")
            line = _error_line(message if isinstance(message, str) else "", "", pen)
            return Told(pen.finish(line), kept=("message",) if isinstance(message, str) else ())
        case _:
            return None


def _sources(sources: Sequence[tuple[str, str]], pen: Pen, *, snippets: bool) -> Told | None:
    if not sources:
        return None
    lost = ["items.source_id", *(["items.snippet"] if snippets else [])]
    titles = [pen.quote(title) or pen.tell("source_untitled") for title, _ in sources]
    if pen.speaks:
        message = "sources_spoken" if len(titles) > 1 else "sources_spoken_one"
        return Told(pen.finish(pen.tell(message, list=pen.listed(titles))), ("items.title",), [*lost, "items.uri"])
    lines = [pen.tell("sources")]
    for number, ((_, url), title) in enumerate(zip(sources[:MAX_LINES], titles, strict=False), 1):
        message = "source_line" if url else "source_line_without_url"
        lines.append(pen.tell(message, number=number, title=title, url=pen.link(url)))
    if len(sources) > MAX_LINES:
        lines.append(pen.tell("sources_more", count=len(sources) - MAX_LINES))
        lost.append(f"items.{MAX_LINES}+")
    with_url = any(url for _, url in sources)
    return Told("\n".join(lines), ("items.title", "items.uri") if with_url else ("items.title",), lost)


def _media(media: Sequence[_Medium], pen: Pen) -> Told | None:
    if not media:
        return None
    if pen.speaks:
        return Told(pen.finish(_media_aloud(media, pen)), ("items.alt_text",), ("items.url", "items.mime_type"))
    shown = media[:MAX_LINES]
    lines = [_media_line(one, number, len(media), pen) for number, one in enumerate(shown, 1)]
    lost = [f"items.{place}.url" for place, one in enumerate(shown) if not _open_url(one)]
    if len(media) > MAX_LINES:
        lines.append(pen.tell("sources_more", count=len(media) - MAX_LINES))
        lost.append(f"items.{MAX_LINES}+")
    # Two blanks at a line's end keep markdown from joining the lines; elsewhere nobody sees them.
    glue = "  \n" if pen.form == "markdown" else "\n"
    return Told(glue.join(lines), ("items.alt_text", "items.mime_type", "items.url"), lost)


def _media_line(medium: _Medium, number: int, total: int, pen: Pen) -> str:
    alt, url = pen.quote(medium.alt), _open_url(medium)
    shape = {
        (True, True): "media_line",
        (True, False): "media_line_without_url",
        (False, True): "media_line_without_alt",
        (False, False): "media_line_bare",
    }[bool(alt), bool(url)]
    return pen.tell(
        shape,
        kind=pen.tell(f"kind_{medium.kind}"),
        place=pen.tell("media_place", number=number, total=total) if total > 1 else "",
        alt=alt,
        format=pen.tell("media_format", format=pen.quote(medium.format)) if medium.format else "",
        url=pen.link(url),
    )


def _media_aloud(media: Sequence[_Medium], pen: Pen) -> str:
    kinds = {one.kind for one in media}
    kind = kinds.pop() if len(kinds) == 1 else "other"
    alts = [alt for one in media if (alt := pen.quote(one.alt))]
    shape = "media_spoken" if alts else "media_spoken_bare"
    return pen.tell(
        shape if len(media) > 1 else f"{shape}_one",
        kind=pen.tell(f"kind_{kind}"),
        kinds=pen.tell(f"kinds_{kind}"),
        count=len(media),
        list=pen.listed(alts) if alts else "",
    )


def _open_url(medium: _Medium) -> str:
    """An address worth writing down: the medium itself as text is not."""
    return "" if inline_media_type(medium.url) else medium.url


def _failure(label: str, pen: Pen) -> Told:
    message = "failed_spoken" if pen.speaks else "failed"
    return Told(pen.finish(pen.tell(message, label=pen.quote(label))), ("label", "status"))


def _block(content: str, pen: Pen) -> Told | None:
    written = pen.author(content)
    if not written.text.strip():
        return None
    return Told(written.text, ("content",), ("markup",) if written.changed else (), written.notes)


def _error(error: UserError, pen: Pen) -> Told:
    code = "" if error.code is None else pen.quote(str(error.code))
    line = _error_line(error.message, "" if pen.speaks else code, pen)
    if error.retryable:
        line = pen.tell("error_retry", error=line if line.endswith((".", "!", "?", "…")) else line + ".")
    lost = ("domain", "code") if code and pen.speaks else ("domain",)
    return Told(pen.finish(line), ("message", "retryable", *(("code",) if code and not pen.speaks else ())), lost)


def _error_line(message: str, code: str, pen: Pen) -> str:
    told = pen.quote(message)
    if not told:
        return pen.tell("error_unexplained")
    if code:
        return pen.tell("error_with_code", code=code, message=told)
    return pen.one_stop(pen.tell("error_spoken", message=told)) if pen.speaks else pen.tell("error", message=told)
