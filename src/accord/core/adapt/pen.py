"""Writes what is told so that it fits the client's text: escaped for markdown, bare for a screen, fit for ears.

Decides how foreign words are put into our sentences: on one line, without control characters, cut when long, never able
to become markup, and without an address read aloud. What is told is not decided here.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from accord.core.adapt.boundary import BlockTracker
from accord.core.adapt.messages import Catalogue
from accord.core.profile import TextForm
from accord.core.strip import Profile, TextStripper
from accord.core.strip.outlet import escape_ssml

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
