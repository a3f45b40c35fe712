"""The last gate before the reader: white space between blocks, and escaping for SSML.

Decides which blanks and line breaks come out. It must not know markdown: it is told text and line ends.
"""

import re
from typing import Final

NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
BLANKS: Final = " \t"
MOST_BREAKS: Final = 2
TAIL_KEPT: Final = 8


def escape_ssml(text: str) -> str:
    """Text that is well formed between `<speak>` and `</speak>`, and inside a quoted attribute."""
    text = NOT_XML.sub("\ufffd", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&apos;")


class Outlet:
    """Collects what may be released; blanks and breaks wait until something stands behind them."""

    __slots__ = ("_breaks", "_lead", "_parts", "_ssml", "_started", "blanks", "tail")

    def __init__(self, *, ssml: bool) -> None:
        self._parts: list[str] = []
        self._ssml = ssml
        self._started = False
        self._breaks = 0
        self.blanks: list[str] = []
        """Blanks that come out if something follows them on their line. As they came: joining each time adds up."""
        self._lead = ""
        self.tail = ""
        """What was released last, or its end."""

    def write(self, text: str) -> None:
        """Prose: blanks at line edges vanish, line breaks are kept, at most one empty line in a row."""
        if "\n" in text:
            first, *others = text.split("\n")
            self._write_line(first)
            for line in others:
                self.end_line(most=MOST_BREAKS)
                self._write_line(line)
        elif text:
            if self._breaks or self.blanks or self._lead or not self._started or text[-1] in BLANKS:
                self._write_line(text)
            else:
                self._parts.append(text)
                self.tail = text

    def write_verbatim(self, text: str) -> None:
        """Code: every blank counts."""
        if text:
            self._put(text)
            self.blanks.clear()

    def write_lines(self, text: str) -> None:
        """Code in whole lines and parts of them; line ends wait until something stands behind them."""
        started = text.lstrip("\n")
        self._breaks += len(text) - len(started)
        body = started.rstrip("\n")
        if body:
            self._put(body)
            self.blanks.clear()
        self._breaks += len(started) - len(body)

    def trail(self, text: str) -> None:
        """Text that belongs right behind what was written last, even if a line end is waiting already."""
        if self._started:
            self._parts.append(text)
            self.tail = text[-TAIL_KEPT:]

    def flow(self, text: str) -> str:
        """The fast lane: prose in the middle of a line, straight through."""
        if self._breaks or not self._started:
            self._write_line(text)
            return self.take()
        if self.blanks:
            text = self.after_blanks(text)
        text = self.keep_blanks(text)
        return escape_ssml(text) if self._ssml else text

    def after_blanks(self, text: str) -> str:
        """The text behind the blanks that waited for it; nothing if it is blank itself and waits as well."""
        if not text.strip(BLANKS):
            self.blanks.append(text)
            return ""
        self.blanks.append(text)
        text = "".join(self.blanks)
        self.blanks.clear()
        return text

    def keep_blanks(self, text: str) -> str:
        """The text without the blanks at its end, which wait."""
        if text and text[-1] in BLANKS:
            body = text.rstrip(BLANKS)
            self.blanks.append(text[len(body) :])
            text = body
        if text:
            self.tail = text
        return text

    def turn(self, before: str, breaks: int, after: str) -> str:
        """The fast lane of prose around line ends."""
        if self.is_fluent and after and after[0] not in BLANKS:
            before = before.rstrip(BLANKS)
            before = self.after_blanks(before) if before and self.blanks else before
            self.blanks.clear()
            return before + "\n" * breaks + self.keep_blanks(after)
        if before:
            self._write_line(before)
        self._breaks = min(self._breaks + breaks, MOST_BREAKS)
        self.blanks.clear()
        self._write_line(after)
        return self.take()

    def end_line(self, *, most: int | None = None) -> None:
        """A line ends; `most` caps how many breaks may be waiting."""
        if most is None or self._breaks < most:
            self._breaks += 1
        self.blanks.clear()

    def fresh_line(self) -> None:
        """What follows starts on a line of its own."""
        self._breaks = min(max(self._breaks, 1), MOST_BREAKS)
        self._lead = ""
        self.blanks.clear()

    def lead_in(self, lead: str) -> None:
        """Text to put before whatever is written next on this line, if anything is."""
        self._lead = lead
        self.blanks.clear()

    def take(self) -> str:
        """Everything released since the last call."""
        parts = self._parts
        if not parts:
            return ""
        text = parts[0] if len(parts) == 1 else "".join(parts)
        parts.clear()
        return escape_ssml(text) if self._ssml else text

    @property
    def is_fluent(self) -> bool:
        """Prose may go out as it comes, but for blanks at its end."""
        return self._started and not (self._breaks or self._lead or self._ssml)

    @property
    def mid_line(self) -> bool:
        """Something stands on the current line already."""
        return self._started and not self._breaks

    def _write_line(self, text: str) -> None:
        if self._breaks or self._lead or not self._started:
            text = text.lstrip(BLANKS)
        if not text:
            return
        if text[-1] not in BLANKS:
            self._put(text)
            self.blanks.clear()
            return
        body = text.rstrip(BLANKS)
        if body:
            self._put(body)
            self.blanks.clear()
            self.blanks.append(text[len(body) :])
        else:
            self.blanks.append(text)

    def _put(self, text: str) -> None:
        if self._started:
            if self._breaks:
                self._parts.append("\n" * self._breaks)
            else:
                self._parts.extend(self.blanks)
        if self._lead:
            self._parts.append(self._lead)
            self._lead = ""
        self._parts.append(text)
        self._breaks = 0
        self._started = True
        self.tail = text if len(text) <= TAIL_KEPT else text[-TAIL_KEPT:]
