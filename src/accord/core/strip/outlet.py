"""The last gate before the reader: white space between blocks, and escaping for SSML.

Decides which blanks and line breaks come out. It must not know markdown: it is told text and line ends.
"""

import re
from typing import Final

SENTENCE_END: Final = re.compile(r"[.!?…。!?][\"'”’»)\]」』]*\Z")
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

    __slots__ = ("_breaks", "_lead", "_parts", "_space", "_ssml", "_started", "tail")

    def __init__(self, *, ssml: bool) -> None:
        self._parts: list[str] = []
        self._ssml = ssml
        self._started = False
        self._breaks = 0
        self._space = ""
        self._lead = ""
        self.tail = ""

    def write(self, text: str) -> None:
        """Prose: blanks at line edges vanish, line breaks are kept, at most one empty line in a row."""
        if "\n" in text:
            first, *others = text.split("\n")
            self._write_line(first)
            for line in others:
                self.end_line(most=MOST_BREAKS)
                self._write_line(line)
        elif text:
            if self._breaks or self._space or self._lead or not self._started or text[-1] in BLANKS:
                self._write_line(text)
            else:
                self._parts.append(text)
                self.tail = text

    def write_verbatim(self, text: str) -> None:
        """Code: every blank counts."""
        if text:
            self._put(text)
            self._space = ""

    def write_lines(self, text: str) -> None:
        """Code in whole lines and parts of them; line ends wait until something stands behind them."""
        started = text.lstrip("\n")
        self._breaks += len(text) - len(started)
        body = started.rstrip("\n")
        if body:
            self._put(body)
            self._space = ""
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
        if self._space:
            text = self._space + text
            self._space = ""
        if text[-1] in BLANKS:
            body = text.rstrip(BLANKS)
            self._space = text[len(body) :]
            text = body
        if text:
            self.tail = text
        return escape_ssml(text) if self._ssml else text

    def turn(self, before: str, breaks: str, after: str) -> str:
        """The fast lane of prose around a line end."""
        self._write_line(before)
        self._breaks = min(self._breaks + len(breaks), MOST_BREAKS)
        self._space = ""
        self._write_line(after)
        return self.take()

    def end_line(self, *, most: int | None = None) -> None:
        """A line ends; `most` caps how many breaks may be waiting."""
        if most is None or self._breaks < most:
            self._breaks += 1
        self._space = ""

    def fresh_line(self) -> None:
        """What follows starts on a line of its own."""
        self._breaks = min(max(self._breaks, 1), MOST_BREAKS)
        self._space = self._lead = ""

    def lead_in(self, lead: str) -> None:
        """Text to put before whatever is written next on this line, if anything is."""
        self._lead = lead
        self._space = ""

    def take(self) -> str:
        """Everything released since the last call."""
        parts = self._parts
        if not parts:
            return ""
        text = parts[0] if len(parts) == 1 else "".join(parts)
        parts.clear()
        return escape_ssml(text) if self._ssml else text

    @property
    def mid_line(self) -> bool:
        """Something stands on the current line already."""
        return self._started and not self._breaks

    def ends_sentence(self, *, closed: bool) -> bool:
        """What was released ends with a sentence and white space; `closed` knows of white space to come."""
        if not self._started:
            return True
        return bool(closed or self._breaks or self._space) and SENTENCE_END.search(self.tail) is not None

    def _write_line(self, text: str) -> None:
        if self._breaks or self._lead or not self._started:
            text = text.lstrip(BLANKS)
        if not text:
            return
        if text[-1] not in BLANKS:
            self._put(text)
            self._space = ""
            return
        body = text.rstrip(BLANKS)
        if body:
            self._put(body)
            self._space = text[len(body) :]
        else:
            self._space += text

    def _put(self, text: str) -> None:
        if self._started:
            if self._breaks:
                self._parts.append("\n" * self._breaks)
            elif self._space:
                self._parts.append(self._space)
        if self._lead:
            self._parts.append(self._lead)
            self._lead = ""
        self._parts.append(text)
        self._breaks = 0
        self._started = True
        self.tail = text if len(text) <= TAIL_KEPT else text[-TAIL_KEPT:]
