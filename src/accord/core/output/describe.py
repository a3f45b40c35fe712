"""Describe in words what a client cannot show: numbered sources, media by alt text, one line for an error."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, assert_never
from urllib.parse import urlsplit

from accord.core.output.event_parser import Item, sound_items, words_of
from accord.core.output.insertion import BlockTracker
from accord.core.output.markdown import ENGLISH as STRIPPER_ENGLISH
from accord.core.output.markdown import Profile, TextStripper
from accord.core.output.markdown.output_buffer import escape_ssml
from accord.core.output.profile import TextForm
from accord.errors import UsageError
from accord.wire.event import (
    CitationBlock,
    MarkdownBlock,
    MediaCarousel,
    PresentationEventType,
    ProgressUpdate,
    UserError,
    inline_media_type,
)

# The sentences that stand for what cannot be shown: ids, parameters and English; another catalogue may be handed in.
#
# Decides words only. A parameter is put in as it is, once: braces inside one are text, and nothing but a plain name
# between braces is ever looked up. When a sentence is used is not decided here.

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
        "deferred_full": "(More cannot be shown here, and no more can be kept.)",
        "deferred_full_spoken": "More cannot be shown here, and no more can be kept.",
    }
)

_PARAMETER: Final = re.compile(r"\{([a-z_]*)\}")


class Catalogue:
    """Every sentence by its id, in the language handed in where it has one, in English otherwise."""

    __slots__ = ("_texts", "for_stripper")

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        self._texts: Final = _merged(ENGLISH, overrides or {})
        self.for_stripper: Final = _merged(STRIPPER_ENGLISH, overrides or {})

    def tell(self, message: str, /, **parameters: str | int) -> str:
        """The sentence with its parameters in place."""
        return _PARAMETER.sub(lambda found: str(parameters.get(found[1], found[0])), self._texts[message])


def _merged(english: Mapping[str, str], overrides: Mapping[str, str]) -> Mapping[str, str]:
    merged = dict(english)
    for message, text in overrides.items():
        if message in english:
            _check(message, text, english[message])
            merged[message] = text
    return MappingProxyType(merged)


def _check(message: str, text: object, english: str) -> None:
    known = set(_PARAMETER.findall(english))
    if not isinstance(text, str) or set(_PARAMETER.findall(text)) - known:
        expected = ", ".join(sorted(known)) or "none"
        raise UsageError(f"The message '{message}' should be text; its parameters may be: {expected}")
    if set("{}") & set(_PARAMETER.sub("", text)):
        raise UsageError(f"The message '{message}' has a brace that is not part of a parameter")


IN_ENGLISH: Final = Catalogue()
"""What every client gets for whom no other language was handed in."""


# Writes what is told so that it fits the client's text: escaped for markdown, bare for a screen, fit for ears.
#
# Decides how foreign words are put into our sentences: on one line, without control characters, cut when long, never
# able to become markup, and without an address read aloud. What is told is not decided here.

MAX_QUOTED_CHARS: Final = 600
NAMED_ALOUD: Final = 3

_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]+")
_BLANKS: Final = re.compile(r"\s+")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MARKUP: Final = re.compile(r"[\\`*\[\]<>&~|$!#]|(?<!\w)_|_(?!\w)")
_ADDRESS: Final = re.compile(r"\b(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>\"']+", re.IGNORECASE)
_DOUBLE_STOP: Final = re.compile(r"([.!?…。！？][\"'”’)]*)\.$")


@dataclass(frozen=True, slots=True)
class Written:
    """A text ready for the delta channel, and what was done to the author's markdown on the way."""

    text: str
    changed: bool
    notes: dict[str, int]


class Pen:
    """Writes for one client."""

    __slots__ = ("_ssml", "catalogue", "form")

    def __init__(self, form: TextForm, catalogue: Catalogue, *, ssml: bool = False) -> None:
        self.form: Final = form
        self.catalogue: Final = catalogue
        self._ssml: Final = ssml

    @property
    def speaks(self) -> bool:
        """Whether the text is for ears."""
        return self.form is TextForm.SPEECH

    def tell(self, message: str, /, **parameters: str | int) -> str:
        """A sentence of the catalogue; the parameters are quoted already."""
        return self.catalogue.tell(message, **parameters)

    def quote(self, text: str) -> str:
        """Foreign words as a part of our sentence."""
        line = _BLANKS.sub(" ", _UNSEEN.sub(" ", text[: 4 * MAX_QUOTED_CHARS])).strip()
        if len(line) > MAX_QUOTED_CHARS:
            line = line[: MAX_QUOTED_CHARS - 1].rstrip() + "…"
        if self.form is TextForm.MARKDOWN:
            return _MARKUP.sub(lambda found: "\\" + found[0], line)
        return _ADDRESS.sub(self._aloud, line) if self.speaks else line

    def link(self, address: str) -> str:
        """An address to be seen; nobody writes one for ears."""
        if self.form is not TextForm.MARKDOWN:
            return address
        return "<" + address.replace(" ", "%20").replace("<", "%3C").replace(">", "%3E") + ">"

    def listed(self, names: list[str]) -> str:
        """Names as one phrase: a, b and c; or a, b and 3 more."""
        if len(names) > NAMED_ALOUD:
            kept = NAMED_ALOUD - 1
            names = [*names[:kept], self.tell("list_more", count=len(names) - kept)]
        phrase = names[0]
        for name in names[1:-1]:
            phrase = self.tell("list_comma", first=phrase, next=name)
        return self.tell("list_and", first=phrase, last=names[-1]) if len(names) > 1 else phrase

    def finish(self, text: str) -> str:
        """Our own sentence as it goes out."""
        text = self.one_stop(text)
        return escape_ssml(text) if self._ssml else text

    def one_stop(self, text: str) -> str:
        """A spoken sentence that ends once, also where the words it quotes end one themselves."""
        return _DOUBLE_STOP.sub(r"\1", text) if self.speaks else text

    def author(self, markdown: str) -> Written:
        """What the agent's author wrote, as a block of its own in the client's form."""
        markdown = _SURROGATE.sub("\ufffd", markdown)
        if self.form is TextForm.MARKDOWN:
            return Written(_with_closed_fence(markdown.strip("\n")), changed=False, notes={})
        stripper = self.stripper()
        text = (stripper.feed(markdown) + stripper.close()).strip("\n")
        return Written(text, text != markdown.strip(), counted(str(note.kind) for note in stripper.notes))

    def stripper(self) -> TextStripper:
        """A fresh transducer for this client's text."""
        profile = Profile.SPEECH if self.speaks else Profile.PLAIN
        return TextStripper(profile, ssml=self._ssml, messages=self.catalogue.for_stripper)

    def _aloud(self, found: re.Match[str]) -> str:
        address = found[0] if "://" in found[0] else "//" + found[0]
        try:
            host = urlsplit(address).hostname
        except ValueError:
            host = None
        link = self.catalogue.for_stripper["link"]
        return link.replace("{host}", host or "…")


def counted(kinds: Iterable[str]) -> dict[str, int]:
    """How often each kind occurs, in a fixed order."""
    return dict(sorted(Counter(kinds).items()))


def _with_closed_fence(markdown: str) -> str:
    """The block with its code closed: an open fence would swallow everything after it."""
    tracker = BlockTracker()
    tracker.read(markdown + "\n")
    return f"{markdown}\n{tracker.open_fence}" if tracker.open_fence else markdown


# Tells in words what a client cannot show: numbered sources, media by their alt text, one line for an error.
#
# The rows of the design's table, for a screen and by voice. Nothing is invented: a picture without alt text is told
# as such; a `data:` address is never written out, and no address is read aloud. Whether to tell at all is not decided
# here.

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
