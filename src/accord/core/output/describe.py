"""Describe in words what a client cannot show: numbered sources, media by alt text, one line for an error.

Three parts: the catalogue of sentences (English, or other languages passed in), the formatter that fits text to the
client (markdown, plain, speech), and the descriptions of the events. Whether an event is described at all is decided in
`ladder`. Nothing is invented: an image without alt text is described as such. A `data:` URL is never written, and no
URL is spoken.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, assert_never
from urllib.parse import urlsplit

from accord.core.output.event_parser import ParsedEvent, find_item_texts, find_valid_items
from accord.core.output.insertion import BlockTracker
from accord.core.output.markdown import ENGLISH as STRIPPER_ENGLISH
from accord.core.output.markdown import Profile, TextStripper
from accord.core.output.markdown.output_buffer import escape_ssml
from accord.core.output.media import choose_image
from accord.core.output.profile import ImageResolution, TextForm
from accord.errors import UsageError
from accord.wire.event import (
    CitationBlock,
    MarkdownBlock,
    MediaCarousel,
    MediaItem,
    PresentationEventType,
    ProgressUpdate,
    UserError,
    inline_media_type,
)

ENGLISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sources": "Sources:",
        "source_line": "{number}. {title}: {url}",
        "source_line_without_url": "{number}. {title}",
        "sources_more": "({count} more)",
        "sources_spoken": "Sources: {list}.",
        "sources_spoken_one": "Source: {list}.",
        "source_untitled": "untitled",
        "media_line": "{kind}{place}: {alt}{format} {url}",
        "media_line_without_url": "{kind}{place}: {alt}{format}",
        "media_line_without_alt": "{kind}{place}{format} {url}",
        "media_line_bare": "{kind}{place}{format}",
        "media_place": " {number}/{total}",
        "media_format": " ({format})",
        "media_spoken_one": "{kind}: {list}.",
        "media_spoken": "{count} {kinds}: {list}.",
        "media_spoken_bare_one": "{kind} without a description.",
        "media_spoken_bare": "{count} {kinds} without descriptions.",
        "kind_image": "Image",
        "kind_audio": "Audio",
        "kind_video": "Video",
        "kind_other": "File",
        "kinds_image": "images",
        "kinds_audio": "audio recordings",
        "kinds_video": "videos",
        "kinds_other": "files",
        "failed": "Failed: {label}",
        "failed_spoken": "Failed: {label}.",
        "error": "Error: {message}",
        "error_spoken": "Error: {message}.",
        "error_with_code": "Error {code}: {message}",
        "error_unexplained": "Error: something went wrong.",
        "error_retry": "{error} Trying again may help.",
        "list_and": "{first} and {last}",
        "list_comma": "{first}, {next}",
        "list_more": "{count} more",
        "deferred": "(“{type}” cannot be shown here. It is kept as {id}.)",
        "deferred_spoken": "Something that cannot be shown here was kept for later.",
        "deferred_more": "(More cannot be shown here; the adaptation report lists it.)",
        "deferred_more_spoken": "More cannot be shown here.",
    }
)

_PARAMETER: Final = re.compile(r"\{([a-z_]*)\}")


class MessageCatalogue:
    """Every sentence by its id: those passed in, and English for the others.

    A parameter is a plain name between braces and is replaced once; braces inside its value are text.
    """

    __slots__ = ("_messages", "for_stripper")

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        self._messages: Final = _override(ENGLISH, overrides or {})
        self.for_stripper: Final = _override(STRIPPER_ENGLISH, overrides or {})

    def format(self, message: str, /, **parameters: str | int) -> str:
        """Return the sentence with its parameters."""
        return _PARAMETER.sub(lambda match: str(parameters.get(match[1], match[0])), self._messages[message])


def _override(english: Mapping[str, str], overrides: Mapping[str, object]) -> Mapping[str, str]:
    messages = dict(english)
    for message, text in overrides.items():
        if message not in english:
            continue
        parameters = set(_PARAMETER.findall(english[message]))
        if not isinstance(text, str) or set(_PARAMETER.findall(text)) - parameters:
            expected = ", ".join(sorted(parameters)) or "none"
            raise UsageError(f"The message '{message}' must be text; its parameters may be: {expected}")
        if set("{}") & set(_PARAMETER.sub("", text)):
            raise UsageError(f"The message '{message}' has a brace that is not part of a parameter; remove it")
        messages[message] = text
    return MappingProxyType(messages)


ENGLISH_CATALOGUE: Final = MessageCatalogue()

MAX_QUOTED_CHARS: Final = 600
MAX_SPOKEN_NAMES: Final = 3

# Control characters, and marks that change the direction of text and could make it read differently.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]+"
)
_BLANKS: Final = re.compile(r"\s+")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Characters that may be markup. An underscore inside a word is none.
_MARKUP: Final = re.compile(r"[\\`*\[\]<>&~|$!#]|(?<!\w)_|_(?!\w)")
_URL: Final = re.compile(r"\b(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>\"']+", re.IGNORECASE)
_DOUBLE_STOP: Final = re.compile(r"([.!?…。！？][\"'”’)]*)\.$")


@dataclass(frozen=True, slots=True)
class FormattedText:
    """An author's markdown in the client's form, and what was changed in it."""

    text: str
    changed: bool
    notes: dict[str, int]


class TextFormatter:
    """Fits text to one client: escaped for markdown, plain for a screen, without URLs for a voice."""

    __slots__ = ("_for_stripper", "_ssml", "form", "message")

    def __init__(self, form: TextForm, catalogue: MessageCatalogue, *, ssml: bool = False) -> None:
        self.form: Final = form
        self.message: Final = catalogue.format
        """Returns a sentence of the catalogue; the caller has quoted the parameters."""
        self._for_stripper: Final = catalogue.for_stripper
        self._ssml: Final = ssml

    @property
    def is_speech(self) -> bool:
        """Whether the text is spoken."""
        return self.form is TextForm.SPEECH

    def quote(self, text: str) -> str:
        """Return foreign text for use in a sentence: on one line, not too long, never markup, without spoken URLs."""
        line = _BLANKS.sub(" ", _INVISIBLE.sub(" ", text[: 4 * MAX_QUOTED_CHARS])).strip()
        if len(line) > MAX_QUOTED_CHARS:
            line = line[: MAX_QUOTED_CHARS - 1].rstrip() + "…"
        if self.form is TextForm.MARKDOWN:
            return _MARKUP.sub(lambda match: "\\" + match[0], line)
        return _URL.sub(self._name_host, line) if self.is_speech else line

    def _name_host(self, match: re.Match[str]) -> str:
        url = match[0] if "://" in match[0] else "//" + match[0]
        try:
            host = urlsplit(url).hostname
        except ValueError:
            host = None
        return self._for_stripper["link"].replace("{host}", host or "…")

    def format_url(self, url: str) -> str:
        """Return a URL as it is written in the client's text."""
        if self.form is not TextForm.MARKDOWN:
            return url
        return "<" + url.replace(" ", "%20").replace("<", "%3C").replace(">", "%3E") + ">"

    def join_names(self, names: list[str]) -> str:
        """Return names as one phrase: a, b and c; or a, b and 3 more."""
        if len(names) > MAX_SPOKEN_NAMES:
            kept = MAX_SPOKEN_NAMES - 1
            names = [*names[:kept], self.message("list_more", count=len(names) - kept)]
        phrase = names[0]
        for name in names[1:-1]:
            phrase = self.message("list_comma", first=phrase, next=name)
        return self.message("list_and", first=phrase, last=names[-1]) if len(names) > 1 else phrase

    def finish(self, text: str) -> str:
        """Return one of Accord's sentences as it is sent."""
        text = self.remove_double_stop(text)
        return escape_ssml(text) if self._ssml else text

    def remove_double_stop(self, text: str) -> str:
        """Return a spoken sentence that ends once, also if the text it quotes ends with a full stop."""
        return _DOUBLE_STOP.sub(r"\1", text) if self.is_speech else text

    def format_markdown(self, markdown: str) -> FormattedText:
        """Return an author's markdown as a block in the client's form."""
        markdown = _SURROGATE.sub("\ufffd", markdown)
        if self.form is TextForm.MARKDOWN:
            block = markdown.strip("\n")
            tracker = BlockTracker()
            tracker.read(block + "\n")
            if tracker.open_fence:  # an open fence would make everything after it code
                block = f"{block}\n{tracker.open_fence}"
            return FormattedText(block, changed=False, notes={})
        stripper = self.make_stripper()
        text = (stripper.feed(markdown) + stripper.close()).strip("\n")
        return FormattedText(text, text != markdown.strip(), count_sorted(str(note.kind) for note in stripper.notes))

    def make_stripper(self) -> TextStripper:
        """Return a new stripper for this client's text."""
        profile = Profile.SPEECH if self.is_speech else Profile.PLAIN
        return TextStripper(profile, ssml=self._ssml, messages=self._for_stripper)


def count_sorted(kinds: Iterable[str]) -> dict[str, int]:
    """Return how often each kind occurs, sorted by kind."""
    return dict(sorted(Counter(kinds).items()))


MAX_LINES: Final = 50  # of sources or media; the rest is counted
MAX_FORMAT_CHARS: Final = 12
KINDS: Final = ("image", "audio", "video")


@dataclass(frozen=True, slots=True)
class Description:
    """The text that describes an event, the fields that it contains and the fields that it does not."""

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
        return name.removeprefix("x-").upper()[:MAX_FORMAT_CHARS]

    @property
    def visible_url(self) -> str:
        """The URL, unless it is the medium itself (`data:`)."""
        return "" if inline_media_type(self.url) else self.url


def _medium(item: MediaItem, resolution: ImageResolution | None) -> _Medium:
    chosen = choose_image(item, resolution)
    if inline_media_type(chosen.url):  # it has no URL that could be written; the item itself may have one
        return _Medium(item.mime_type, item.alt_text or "", item.url)
    return _Medium(chosen.mime_type, item.alt_text or "", chosen.url)


def describe(
    event: ParsedEvent, formatter: TextFormatter, resolution: ImageResolution | None = None
) -> Description | None:
    """Return the description of an event; `None` if there is nothing that can safely be described.

    Of an image with variants, the one for this resolution is named.
    """
    payload = event.payload or find_valid_items(event)[1]
    match payload:
        case CitationBlock(items=items):
            has_snippets = any(item.snippet for item in items)
            return _describe_sources([(item.title, item.uri) for item in items], formatter, has_snippets=has_snippets)
        case MediaCarousel(items=items):
            return _describe_media([_medium(item, resolution) for item in items], formatter)
        case ProgressUpdate(label=label, status=status):
            return _describe_failure(label, formatter) if status == "failed" else None
        case MarkdownBlock(content=content):
            written = formatter.format_markdown(content)
            if not written.text.strip():
                return None
            return Description(written.text, ("content",), ("markup",) if written.changed else (), written.notes)
        case UserError():
            return _describe_error(payload, formatter)
        case None:
            return _describe_malformed(event, formatter)
        case _:
            assert_never(payload)


def _describe_malformed(event: ParsedEvent, formatter: TextFormatter) -> Description | None:
    """Describe what is safe of an invalid payload: texts without their URLs."""
    match event.known_type:
        case PresentationEventType.CITATION_BLOCK:
            titles = find_item_texts(event, "title")
            return _describe_sources([(title, "") for title in titles], formatter, has_snippets=True)
        case PresentationEventType.MEDIA_CAROUSEL:
            return _describe_media([_Medium("", alt) for alt in find_item_texts(event, "alt_text")], formatter)
        case PresentationEventType.PROGRESS_INDICATOR:
            label = event.data.get("label")
            return _describe_failure(label, formatter) if event.is_failure and isinstance(label, str) else None
        case PresentationEventType.USER_ERROR:
            message = event.data.get("message")
            line = _error_line(message if isinstance(message, str) else "", "", formatter)
            return Description(formatter.finish(line), kept=("message",) if isinstance(message, str) else ())
        case _:
            return None


def _describe_sources(
    sources: Sequence[tuple[str, str]], formatter: TextFormatter, *, has_snippets: bool
) -> Description | None:
    if not sources:
        return None
    lost = ["items.source_id", *(["items.snippet"] if has_snippets else [])]
    titles = [formatter.quote(title) or formatter.message("source_untitled") for title, _ in sources]
    if formatter.is_speech:
        message = "sources_spoken" if len(titles) > 1 else "sources_spoken_one"
        text = formatter.finish(formatter.message(message, list=formatter.join_names(titles)))
        return Description(text, ("items.title",), [*lost, "items.uri"])
    lines = [formatter.message("sources")]
    for number, ((_, url), title) in enumerate(zip(sources[:MAX_LINES], titles, strict=False), 1):
        message = "source_line" if url else "source_line_without_url"
        lines.append(formatter.message(message, number=number, title=title, url=formatter.format_url(url)))
    if len(sources) > MAX_LINES:
        lines.append(formatter.message("sources_more", count=len(sources) - MAX_LINES))
        lost.append(f"items.{MAX_LINES}+")
    has_urls = any(url for _, url in sources)
    return Description("\n".join(lines), ("items.title", "items.uri") if has_urls else ("items.title",), lost)


def _describe_media(media: Sequence[_Medium], formatter: TextFormatter) -> Description | None:
    if not media:
        return None
    if formatter.is_speech:
        text = formatter.finish(_spoken_media(media, formatter))
        return Description(text, ("items.alt_text",), ("items.url", "items.mime_type"))
    listed = media[:MAX_LINES]
    lines = [_media_line(medium, number, len(media), formatter) for number, medium in enumerate(listed, 1)]
    lost = [f"items.{index}.url" for index, medium in enumerate(listed) if not medium.visible_url]
    if len(media) > MAX_LINES:
        lines.append(formatter.message("sources_more", count=len(media) - MAX_LINES))
        lost.append(f"items.{MAX_LINES}+")
    # In markdown, two blanks at the end of a line are a line break; without them the lines would be joined.
    separator = "  \n" if formatter.form == "markdown" else "\n"
    return Description(separator.join(lines), ("items.alt_text", "items.mime_type", "items.url"), lost)


def _media_line(medium: _Medium, number: int, total: int, formatter: TextFormatter) -> str:
    alt, url = formatter.quote(medium.alt), medium.visible_url
    message = {
        (True, True): "media_line",
        (True, False): "media_line_without_url",
        (False, True): "media_line_without_alt",
        (False, False): "media_line_bare",
    }[bool(alt), bool(url)]
    return formatter.message(
        message,
        kind=formatter.message(f"kind_{medium.kind}"),
        place=formatter.message("media_place", number=number, total=total) if total > 1 else "",
        alt=alt,
        format=formatter.message("media_format", format=formatter.quote(medium.format)) if medium.format else "",
        url=formatter.format_url(url),
    )


def _spoken_media(media: Sequence[_Medium], formatter: TextFormatter) -> str:
    kinds = {medium.kind for medium in media}
    kind = kinds.pop() if len(kinds) == 1 else "other"
    alts = [alt for medium in media if (alt := formatter.quote(medium.alt))]
    message = "media_spoken" if alts else "media_spoken_bare"
    return formatter.message(
        message if len(media) > 1 else f"{message}_one",
        kind=formatter.message(f"kind_{kind}"),
        kinds=formatter.message(f"kinds_{kind}"),
        count=len(media),
        list=formatter.join_names(alts) if alts else "",
    )


def _describe_failure(label: str, formatter: TextFormatter) -> Description:
    message = "failed_spoken" if formatter.is_speech else "failed"
    text = formatter.finish(formatter.message(message, label=formatter.quote(label)))
    return Description(text, ("label", "status"))


def _describe_error(error: UserError, formatter: TextFormatter) -> Description:
    code = "" if error.code is None else formatter.quote(str(error.code))
    line = _error_line(error.message, "" if formatter.is_speech else code, formatter)
    if error.retryable:
        line = formatter.message("error_retry", error=line if line.endswith((".", "!", "?", "…")) else line + ".")
    kept, lost = ["message", "retryable"], ["domain"]
    if code:
        (lost if formatter.is_speech else kept).append("code")
    return Description(formatter.finish(line), kept, lost)


def _error_line(message: str, code: str, formatter: TextFormatter) -> str:
    text = formatter.quote(message)
    if not text:
        return formatter.message("error_unexplained")
    if code:
        return formatter.message("error_with_code", code=code, message=text)
    if formatter.is_speech:
        return formatter.remove_double_stop(formatter.message("error_spoken", message=text))
    return formatter.message("error", message=text)
