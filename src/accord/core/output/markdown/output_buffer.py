"""The output of the stripper: white space between blocks, and escaping for SSML. Knows no markdown."""

import re
from typing import Final

# Characters that XML 1.0 does not allow. In the text of the parser, halves of surrogate pairs are marks of its own.
NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NOT_XML_NOR_MARK: Final = re.compile("[^\t\n\r\u0020-\ufffd\U00010000-\U0010ffff]")
BLANKS: Final = " \t"
MAX_BREAKS: Final = 2  # one empty line
TAIL_KEPT: Final = 8  # enough to see whether a sentence ended


def escape_ssml(text: str, invalid: re.Pattern[str] = NOT_XML) -> str:
    """Escape text so that it is well formed inside `<speak>` and inside a quoted attribute."""
    text = invalid.sub("\ufffd", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&apos;")


class OutputBuffer:
    """Collects released text; blanks and line breaks are kept back until text follows them."""

    __slots__ = ("_breaks", "_lead", "_parts", "_ssml", "_started", "blanks", "tail")

    def __init__(self, *, ssml: bool) -> None:
        self._parts: list[str] = []
        self._ssml = ssml
        self._started = False
        self._breaks = 0  # line breaks to write before the next text
        self.blanks: list[str] = []
        """Blanks to write if text follows on the same line; a list, because joining each time would be quadratic."""
        self._lead = ""  # text to write before the next text on this line
        self.tail = ""
        """The end of the text that was released last."""

    def write(self, text: str) -> None:
        """Write prose: blanks at line edges are removed, at most one empty line in a row is kept."""
        if "\n" in text:
            first, *others = text.split("\n")
            self._write_line(first)
            for line in others:
                self.end_line(most=MAX_BREAKS)
                self._write_line(line)
        elif text:
            if self._breaks or self.blanks or self._lead or not self._started or text[-1] in BLANKS:
                self._write_line(text)
            else:
                self._parts.append(text)
                self.tail = text

    def write_verbatim(self, text: str) -> None:
        """Write part of a line of code, with every blank."""
        if text:
            self._put(text)
            self.blanks.clear()

    def write_lines(self, text: str) -> None:
        """Write lines of code; line ends are kept back until text follows them."""
        started = text.lstrip("\n")
        self._breaks += len(text) - len(started)
        body = started.rstrip("\n")
        if body:
            self._put(body)
            self.blanks.clear()
        self._breaks += len(started) - len(body)

    def append_text(self, text: str) -> None:
        """Write text directly after the last text, even if a line end has been read since."""
        if self._started:
            self._parts.append(text)
            self.tail = text[-TAIL_KEPT:]

    def pass_prose(self, text: str) -> str:
        """Return what to send for prose without line ends (fast path)."""
        if self._breaks or not self._started:
            self._write_line(text)
            return self.take()
        if self.blanks:
            text = self.flush_blanks(text)
        text = self.hold_blanks(text)
        return escape_ssml(text, NOT_XML_NOR_MARK) if self._ssml else text

    def flush_blanks(self, text: str) -> str:
        """Return the blanks kept back and the text; "" if the text is blank as well and is kept back."""
        if not text.strip(BLANKS):
            self.blanks.append(text)
            return ""
        self.blanks.append(text)
        text = "".join(self.blanks)
        self.blanks.clear()
        return text

    def hold_blanks(self, text: str) -> str:
        """Return the text without the blanks at its end, which are kept back."""
        if text and text[-1] in BLANKS:
            body = text.rstrip(BLANKS)
            self.blanks.append(text[len(body) :])
            text = body
        if text:
            self.tail = text
        return text

    def pass_lines(self, before: str, breaks: int, after: str) -> str:
        """Return what to send for prose around line ends (fast path)."""
        if self.passes_prose and after and after[0] not in BLANKS:
            before = before.rstrip(BLANKS)
            before = self.flush_blanks(before) if before and self.blanks else before
            self.blanks.clear()
            return before + "\n" * breaks + self.hold_blanks(after)
        if before:
            self._write_line(before)
        self._breaks = min(self._breaks + breaks, MAX_BREAKS)
        self.blanks.clear()
        self._write_line(after)
        return self.take()

    def end_line(self, *, most: int | None = None) -> None:
        """End a line; at most `most` line breaks in a row are kept."""
        if most is None or self._breaks < most:
            self._breaks += 1
        self.blanks.clear()

    def start_new_line(self) -> None:
        """Begin a new line before the next text."""
        self._breaks = min(max(self._breaks, 1), MAX_BREAKS)
        self._lead = ""
        self.blanks.clear()

    def set_lead_in(self, lead: str) -> None:
        """Set text to write before the next text on this line, if any follows."""
        self._lead = lead
        self.blanks.clear()

    def take(self) -> str:
        """Return everything released since the last call."""
        parts = self._parts
        if not parts:
            return ""
        text = parts[0] if len(parts) == 1 else "".join(parts)
        parts.clear()
        return escape_ssml(text, NOT_XML_NOR_MARK) if self._ssml else text

    @property
    def passes_prose(self) -> bool:
        """Whether prose can be sent as it is, except for blanks at its end."""
        return self._started and not (self._breaks or self._lead or self._ssml)

    @property
    def mid_line(self) -> bool:
        """Whether the current line has text already."""
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
