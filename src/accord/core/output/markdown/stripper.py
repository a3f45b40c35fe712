"""The stripper: markdown in, text out, while it streams. The public interface of this package.

Most pieces of an answer are plain: prose, code spans, strong words, line ends, list items, lines of code. They take a
fast path here and are not parsed; everything else goes through `blocks` and `inline`, which would read the plain forms
the same way (a law holds the two together). A fast path decides from one piece and the character before it.
"""

import re
from collections.abc import Callable
from typing import Final

from accord.core.output.markdown.blocks import BlockParser, FastPath
from accord.core.output.markdown.lines import TEXT_START
from accord.core.output.markdown.lookahead import HOLD_LIMIT
from accord.core.output.markdown.output_buffer import OutputBuffer
from accord.core.output.markdown.profiles import ENGLISH, Messages, Note, NoteLog, Profile
from accord.core.output.markdown.scanner import NO_LIMIT, ODD_CHARACTERS, InputNormalizer
from accord.core.output.markdown.shortcuts import ShortcutReferences, may_contain_reference

# Patterns of the fast path for prose. PROSE is a character that is text wherever it stands in a paragraph.

PROSE: Final = rf"[^\\*_~`\[<&$|\n{ODD_CHARACTERS}]"
BRACKETED: Final = PROSE.replace("^", r"^\]", 1)
CODE: Final = rf"[^`\n{ODD_CHARACTERS}]"
NOT_PROSE: Final = re.compile(PROSE.replace("^", "", 1)).search
ENDS_SPAN: Final = {
    "`": re.compile(CODE.replace("^", "", 1)).search,
    "*": NOT_PROSE,
    "[": re.compile(BRACKETED.replace("^", "", 1)).search,
}

MAX_SPAN_CHARS: Final = HOLD_LIMIT - 16

# A complete span that reads the same whatever follows; its last group is its text. OPEN_SPAN may still become one.
SPAN: Final = re.compile(
    rf"`([^\s`{ODD_CHARACTERS}]{CODE}{{0,{MAX_SPAN_CHARS}}})`(?=[^`])"
    rf"|(?<!\S)\*\*((?=\w){PROSE}{{1,{MAX_SPAN_CHARS}}})(?:(?<=\w)\*\*(?=[\s.,:;!?)])|(?<=[:.!?)])\*\*(?=\s))"
    r"|(?<=[^\W_])(_{1,8})(?=[^\W_])"
    r"|(?<=[0-9])(\*{1,8})(?=[^\W_])"
    r"|(?<=\s)(\*{1,8}|_{1,8}|<[-=]*|&)(?=\s)"
    r"|(\$[0-9][0-9,.]*)(?=[\s)])"
    r"|(\\)(?=[A-Za-z0-9 ])"
    r"|(~)(?=[^~])"
    rf"|(?<!!)(\[(?!\^){BRACKETED}{{0,{MAX_SPAN_CHARS}}}\])(?=[^\[(])"
).match
OPEN_SPAN: Final = re.compile(
    rf"`{CODE}*`?\Z|(?<!\S)\*\*\w{PROSE}*\*{{0,2}}\Z|(?<!!)\[(?!\^){BRACKETED}*\]?\Z"
    r"|[*_]{1,8}\Z|\$[0-9,.]*\Z|[<&~\\]\Z"
).match

# A line end and the start of the next line of text or list item. OPEN_LINE may still become one, or another block.
NEXT_LINE: Final = re.compile(
    r"\n(?P<blank> {0,8}\n)?(?P<indent> {0,64})"
    rf"(?:(?P<marker>[-+*]|[0-9]{{1,9}}[.)])(?P<padding> {{1,4}}))?(?={TEXT_START}|\*\*\w|`[^\s`])"
).match
PLAIN_LINE: Final = re.compile(rf"(?<![ \t])\n\n?(?={TEXT_START}){PROSE}*\Z").match
OPEN_LINE: Final = re.compile(
    r"\n[\n ]*(?:(?:[-+*]|[0-9]{1,9}[.)]?)? {0,4}(?:`|\*\*?)?|`{1,3}[\w+#.-]*|-+|=+|#{1,6} ?)\Z"
).match
MAX_WAIT_CHARS: Final = HOLD_LIMIT // 2

URL: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:https?://|www\.|(?P<open>h(?:t(?:t(?:ps?(?::/?)?)?)?)?|ww?w?)\Z)|(?P<mark>!)\Z"
).search


def read_spans(piece: str, start: int, before: str) -> tuple[str, int]:
    """Return the text of prose and complete spans from `start` on, and where something else begins."""
    text = ""
    while special := NOT_PROSE(piece, start):
        at = special.start()
        text += piece[start:at]
        if piece[at] == "\n":
            return text, at
        span = SPAN(piece, at) if at else SPAN(before + piece, 1)
        if span is None:
            return text, at
        text += span[span.lastindex or 0]
        start = span.end() if at else span.end() - 1
    return text + piece[start:], len(piece)


# Patterns of the fast path for code, by the character that may end it.

NOT_CODE: Final = {stop: re.compile(f"[{stop}{ODD_CHARACTERS}]").search for stop in ("", "`", "~", "\n")}
NOT_LEAF: Final = NOT_CODE["\n"]
INDENTED_LINES: Final = re.compile(
    rf"[^\n{ODD_CHARACTERS}]*(?:\n+ {{4}} *[^\s{ODD_CHARACTERS}][^\n{ODD_CHARACTERS}]*)*\Z"
).match
Search = Callable[[str], re.Match[str] | None]
BLANK_OR_LINE_END: Final = " \t\n"


class TextStripper:
    """Turns markdown into text for a screen or a voice. Where the input is cut does not change the output.

    With `ssml`, the output is escaped for SSML; the caller puts it between `<speak>` and `</speak>`.
    """

    def __init__(self, profile: Profile = Profile.PLAIN, ssml: bool = False, messages: Messages = ENGLISH) -> None:
        if ssml and profile is not Profile.SPEECH:
            raise ValueError("ssml=True needs profile=Profile.SPEECH")
        self._note_log = NoteLog()
        self._normalizer = InputNormalizer(self._note_log)
        self._buffer = OutputBuffer(ssml=ssml)
        self._shortcuts = ShortcutReferences(self._note_log)
        self._blocks = BlockParser(profile, messages, self._buffer, self._note_log, self._shortcuts)
        self._shows_code = profile is Profile.PLAIN
        self._closed = False
        self._fast_path: FastPath = ""
        self._passes_prose = False
        self._passes_lines = False
        self._blanks = self._buffer.blanks
        self._ends_code = NOT_CODE["\n"]
        self._indented = False
        self._skipped = 0  # characters on the fast path that the parser does not know of yet
        self._lines = 0  # line ends among them
        self._last = "\n"  # the last piece of prose on the fast path
        self._ends_wait: Search | None = None  # finds what may end the open span in `_held`
        self._held = ""  # input that is kept back
        self._headroom = 0

    def feed(self, chunk: str) -> str:
        """Take more markdown; return the text that can be released."""
        if self._passes_prose and chunk:
            special = NOT_PROSE(chunk)
            # A line end between two lines of text is text as well.
            if special is None or (self._passes_lines and PLAIN_LINE(chunk, special.start())):
                last = chunk[-1]
                if (last not in "hw!" and "ht" not in chunk and "ww" not in chunk) or self._find_url(chunk) is None:
                    self._skipped += len(chunk)
                    self._last = chunk
                    if self._blanks:
                        if special is not None and special.start() == 0:
                            self._blanks.clear()
                        elif len(self._blanks) == 1 and not chunk.isspace():
                            chunk = self._blanks.pop() + chunk
                        else:
                            chunk = self._buffer.flush_blanks(chunk)
                    if last == " " or last == "\t":
                        return self._buffer.hold_blanks(chunk)
                    self._buffer.tail = chunk
                    return chunk
            if (text := self._read_prose(chunk)) is not None:
                return text
            self._leave_fast_path()
            return self._parse(chunk)
        fast_path = self._fast_path
        if fast_path == "code_line":
            if self._held:
                chunk = self._held + chunk
                self._held = ""
            if self._ends_code(chunk) is None and chunk and chunk[-1] not in BLANK_OR_LINE_END:
                self._skipped += len(chunk)
                return chunk if self._shows_code else self._count_lines(chunk)
            if (code := self._read_code(chunk)) is not None:
                return code
            self._leave_fast_path()
        elif fast_path == "prose":
            if self._held:
                is_inside_span = self._ends_wait and not self._ends_wait(chunk)
                if is_inside_span and len(self._held) + len(chunk) <= MAX_SPAN_CHARS:
                    self._held += chunk
                    return ""
                chunk = self._held + chunk
                self._held = ""
            if chunk and (text := self._read_prose(chunk)) is not None:
                return text
            self._leave_fast_path()
        elif fast_path == "held":
            if len(chunk) < self._headroom and NOT_PROSE(chunk) is None:
                self._headroom -= len(chunk)
                self._held += chunk
                return ""
            chunk = self._held + chunk
            self._held = ""
        elif fast_path == "leaf":
            if NOT_LEAF(chunk) is None and chunk:
                self._normalizer.length += len(chunk)
                self._blocks.feed_leaf(chunk)
                return self._buffer.take()
        elif fast_path == "code" and self._ends_code(chunk) is None and chunk:
            return self._feed_code(chunk)
        return self._parse(chunk)

    def _parse(self, chunk: str) -> str:
        """Take text that no fast path reads."""
        if self._closed:
            raise ValueError("feed() after close()")
        if not chunk:
            return ""
        self._blocks.feed(self._normalizer.normalise(chunk))
        self._choose_fast_path()
        text = self._buffer.take()
        return self._release_decided(text) if self._shortcuts.pending else text

    def close(self) -> str:
        """Release everything that is left; a second call returns nothing."""
        if self._closed:
            return ""
        self._closed = True
        self._passes_prose = False
        self._leave_fast_path()
        self._fast_path = ""
        self._blocks.feed(self._held + self._normalizer.finish())
        self._blocks.close()
        return self._shortcuts.release(self._buffer.take(), NO_LIMIT)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was removed or rewritten so far."""
        return self._note_log.notes

    @property
    def keeps_back(self) -> bool:
        """Whether text before the last line end is kept back."""
        return bool(self._shortcuts.pending)

    @property
    def in_code(self) -> bool:
        """Whether the text is inside a code block."""
        return self._blocks.in_code

    def _release_decided(self, text: str) -> str:
        """Return the output up to the first bracket that may still become a reference."""
        blanks = len(self._held) if self._held.isspace() else 0
        return self._shortcuts.release(text, self._blocks.position + self._skipped + blanks)

    def _choose_fast_path(self) -> None:
        """Set the fast path for the next piece, after one that was parsed."""
        blocks = self._blocks
        fast_path = "" if self._normalizer.mid_character else blocks.fast_path
        if fast_path == "prose":
            self._last = ""
        elif fast_path == "held":
            self._headroom = blocks.inline.headroom
        elif fast_path == "code":
            stop = blocks.code_stops_at
            self._ends_code = NOT_CODE[stop]
            mid_line = blocks.in_line and (self._buffer.mid_line or not self._shows_code)
            self._indented = mid_line and blocks.in_indented_code
            if not stop:
                fast_path = ""
            elif mid_line:
                fast_path = "code_line"
        if self._shortcuts.pending and fast_path != "prose" and fast_path != "held":
            fast_path = ""  # the other fast paths do not keep text back
        self._fast_path = fast_path
        self._passes_prose = fast_path == "prose" and self._buffer.passes_prose and not self._shortcuts.pending
        self._passes_lines = self._passes_prose and blocks.in_plain_paragraph

    def _read_prose(self, chunk: str) -> str | None:
        """Return the text of prose with complete spans and line ends; `None` if it must be parsed."""
        piece = chunk
        if ("ht" in chunk or "ww" in chunk or chunk[-1] in "hw!") and (url := self._find_url(chunk)):
            if url.lastgroup is None:
                return None
            piece = chunk[: url.start()]
        if "[" in piece and (self._blocks.has_labels or may_contain_reference(piece)):
            return None
        text, end = read_spans(piece, 0, self._last[-1] if self._last else self._blocks.inline.before)
        after, next_line = "", None
        if end < len(piece):
            if next_line := NEXT_LINE(piece, end):
                after, end = read_spans(piece, next_line.end(), "\n")
            if end < len(piece) and not self._can_wait(piece, end):
                return None
        if next_line:
            blank, indent, marker, padding = next_line.groups("")
            ordinal = self._blocks.begin_prose_line(blank != "", len(indent), marker, len(padding))
            if ordinal is None:
                return None
            text = self._buffer.pass_lines(text, 2 if blank else 1, ordinal + after)
        elif text:
            text = self._buffer.pass_prose(text)
        self._held = chunk[end:]
        if end:
            self._skipped += end
            self._last = chunk[:end]
        if self._shortcuts.pending:
            return self._release_decided(text)
        self._passes_prose = end == len(chunk) and self._buffer.passes_prose
        self._passes_lines = self._passes_prose and self._blocks.in_plain_paragraph
        return text

    @property
    def _before(self) -> str:
        """The character before the piece that is read."""
        return self._last[-1] if self._last else self._blocks.inline.before

    def _find_url(self, chunk: str) -> re.Match[str] | None:
        url = URL(chunk)
        if url and url.start() == 0 and chunk[0] != "!" and self._before.isalnum():
            return URL(chunk, 1)
        return url

    def _can_wait(self, piece: str, start: int) -> bool:
        """Whether to keep back an open span, or a line end and the start of the next line, until more text arrives."""
        self._ends_wait = None
        if piece[start] == "\n":
            return len(piece) - start < MAX_WAIT_CHARS and OPEN_LINE(piece, start) is not None
        if start == 0:
            piece = self._before + piece
            start = 1
        if len(piece) - start > MAX_SPAN_CHARS or OPEN_SPAN(piece, start) is None:
            return False
        if piece[-1] not in "`*_]":
            self._ends_wait = ENDS_SPAN.get(piece[start])
        return True

    def _read_code(self, chunk: str) -> str | None:
        """Return code up to what may be its end; `None` if it must be parsed."""
        if not chunk:
            return ""
        if self._ends_code(chunk) is None:
            body = chunk.rstrip(BLANK_OR_LINE_END)
            return self._pass_code(body, chunk) if len(chunk) - len(body) < HOLD_LIMIT else self._feed_code(chunk)
        if self._indented:
            body = chunk.rstrip(BLANK_OR_LINE_END)
            if not INDENTED_LINES(body) or (not body and len(chunk) >= HOLD_LIMIT):
                return None
            return self._pass_code(body, chunk).replace("\n    ", "\n")
        before_fence = chunk.rstrip("`~")
        body = before_fence.rstrip(BLANK_OR_LINE_END)
        if before_fence[-1:] != "\n" or len(chunk) - len(body) >= HOLD_LIMIT or self._ends_code(body):
            return None
        return self._pass_code(body, chunk)

    def _pass_code(self, body: str, chunk: str) -> str:
        self._held = chunk[len(body) :]
        self._skipped += len(body)
        return body if self._shows_code else self._count_lines(body)

    def _count_lines(self, code: str) -> str:
        self._lines += code.count("\n")
        return ""

    def _feed_code(self, chunk: str) -> str:
        self._leave_fast_path()
        self._normalizer.length += len(chunk)
        self._blocks.feed_code(chunk)
        self._fast_path = "code_line" if self._blocks.in_line else "code"
        return self._buffer.take()

    def _leave_fast_path(self) -> None:
        """Tell the parser what took the fast path since it was last fed."""
        if self._skipped:
            self._normalizer.length += self._skipped
            if self._fast_path == "prose":
                self._blocks.skip_prose(self._skipped, self._last[-1])
            else:
                self._blocks.skip_code(self._skipped, self._lines)
                self._lines = 0
            self._skipped = 0


def strip(text: str, profile: Profile = Profile.PLAIN, *, ssml: bool = False, messages: Messages = ENGLISH) -> str:
    """Return the text of a whole markdown document."""
    stripper = TextStripper(profile, ssml, messages)
    return stripper.feed(text) + stripper.close()
