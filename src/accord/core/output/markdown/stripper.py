"""Markdown in, text out, while it streams: the public interface of this package."""

import re
from collections.abc import Callable
from typing import Final

from accord.core.output.markdown.blocks import Blocks, Lane
from accord.core.output.markdown.lines import MERE_TEXT
from accord.core.output.markdown.lookahead import HOLD_LIMIT
from accord.core.output.markdown.outlet import Outlet
from accord.core.output.markdown.profiles import ENGLISH, Messages, Note, Notebook, Profile
from accord.core.output.markdown.scanner import ODD_CHARACTERS, Source

# What may stand in prose and be read at a glance: code spans, strong words, line ends; and what may wait.
#
# Decides from one piece and the character before it. It knows only the plainest form of everything; whatever is
# less plain is left to `blocks` and `inline`, which would read the plain forms the same way.

PROSE: Final = rf"[^\\*_~`\[<&$|\n{ODD_CHARACTERS}]"
BRACKETED: Final = PROSE.replace("^", r"^\]", 1)
CODE: Final = rf"[^`\n{ODD_CHARACTERS}]"
NOT_PROSE: Final = re.compile(PROSE.replace("^", "", 1)).search
WAITS_FOR: Final = {
    "`": re.compile(CODE.replace("^", "", 1)).search,
    "*": NOT_PROSE,
    "[": re.compile(BRACKETED.replace("^", "", 1)).search,
}

LONGEST_SPAN: Final = HOLD_LIMIT - 16
SPAN: Final = re.compile(
    rf"`([^\s`{ODD_CHARACTERS}]{CODE}{{0,{LONGEST_SPAN}}})`(?=[^`])"
    rf"|(?<!\S)\*\*((?=\w){PROSE}{{1,{LONGEST_SPAN}}})(?:(?<=\w)\*\*(?=[\s.,:;!?)])|(?<=[:.!?)])\*\*(?=\s))"
    r"|(?<=[^\W_])(_{1,8})(?=[^\W_])"
    r"|(?<=[0-9])(\*{1,8})(?=[^\W_])"
    r"|(?<=\s)(\*{1,8}|_{1,8}|<[-=]*|&)(?=\s)"
    r"|(\$[0-9][0-9,.]*)(?=[\s)])"
    r"|(\\)(?=[A-Za-z0-9 ])"
    r"|(~)(?=[^~])"
    rf"|(?<!!)(\[(?!\^){BRACKETED}{{0,{LONGEST_SPAN}}}\])(?=[^\[(])"
).match
OPEN_SPAN: Final = re.compile(
    rf"`{CODE}*`?\Z|(?<!\S)\*\*\w{PROSE}*\*{{0,2}}\Z|(?<!!)\[(?!\^){BRACKETED}*\]?\Z"
    r"|[*_]{1,8}\Z|\$[0-9,.]*\Z|[<&~\\]\Z"
).match
LINE_TURN: Final = re.compile(
    r"\n(?P<blank> {0,8}\n)?(?P<indent> {0,64})"
    rf"(?:(?P<marker>[-+*]|[0-9]{{1,9}}[.)])(?P<padding> {{1,4}}))?(?={MERE_TEXT}|\*\*\w|`[^\s`])"
).match
OPEN_LINE: Final = re.compile(
    r"\n[\n ]*(?:(?:[-+*]|[0-9]{1,9}[.)]?)? {0,4}(?:`|\*\*?)?|`{1,3}[\w+#.-]*|-+|=+|#{1,6} ?)\Z"
).match
LONGEST_PAUSE: Final = HOLD_LIMIT // 2

URL: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:https?://|www\.|(?P<open>h(?:t(?:t(?:ps?(?::/?)?)?)?)?|ww?w?)\Z)|(?P<mark>!)\Z"
).search


def read_spans(piece: str, start: int, before: str) -> tuple[str, int]:
    """The text of prose, code spans and strong words from `start` on, and where something else begins."""
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


# Markdown in, text out, while it streams: the public face of this package.
#
# Decides which text needs no reading at all and lets it pass in a fast lane; everything else goes through
# `blocks`. It must not know markdown beyond which characters are harmless where.

NOT_CODE: Final = {stop: re.compile(f"[{stop}{ODD_CHARACTERS}]").search for stop in ("", "`", "~", "\n")}
NOT_LEAF: Final = NOT_CODE["\n"]
INDENTED_LINES: Final = re.compile(
    rf"[^\n{ODD_CHARACTERS}]*(?:\n+ {{4}} *[^\s{ODD_CHARACTERS}][^\n{ODD_CHARACTERS}]*)*\Z"
).match
Search = Callable[[str], re.Match[str] | None]
BLANK_OR_LINE_END: Final = " \t\n"


class TextStripper:
    """Turns markdown into text for a screen or a voice, in pieces of any size that never show in the output.

    With `ssml`, the output is escaped for SSML; the caller puts it between `<speak>` and `</speak>`.
    """

    def __init__(self, profile: Profile = Profile.PLAIN, ssml: bool = False, messages: Messages = ENGLISH) -> None:
        if ssml and profile is not Profile.SPEECH:
            raise ValueError("ssml is for the speech profile")
        self._notebook = Notebook()
        self._source = Source(self._notebook)
        self._outlet = Outlet(ssml=ssml)
        self._blocks = Blocks(profile, messages, self._outlet, self._notebook)
        self._shows_code = profile is Profile.PLAIN
        self._closed = False
        self._lane: Lane = ""
        self._fluent = False
        self._ends_code = NOT_CODE["\n"]
        self._indented = False
        self._flowed = 0
        self._lines = 0
        self._last = "\n"
        self._ends_wait: Search | None = None
        self._held = ""
        self._headroom = 0

    def feed(self, chunk: str) -> str:
        """Take more markdown; give whatever text may be released now."""
        if self._fluent and NOT_PROSE(chunk) is None and chunk:
            last = chunk[-1]
            if (last not in "hw!" and "ht" not in chunk and "ww" not in chunk) or self._find_url(chunk) is None:
                self._flowed += len(chunk)
                self._last = chunk
                outlet = self._outlet
                if outlet.blanks:
                    chunk = outlet.after_blanks(chunk)
                if last == " " or last == "\t":
                    return outlet.keep_blanks(chunk)
                outlet.tail = chunk
                return chunk
        lane = self._lane
        if lane == "code_line":
            if self._held:
                chunk = self._held + chunk
                self._held = ""
            if self._ends_code(chunk) is None and chunk and chunk[-1] not in BLANK_OR_LINE_END:
                self._flowed += len(chunk)
                return chunk if self._shows_code else self._count_lines(chunk)
            if (code := self._read_code(chunk)) is not None:
                return code
            self._leave_lane()
        elif lane == "prose":
            if self._held:
                if self._ends_wait and self._may_wait_on(chunk):
                    return ""
                chunk = self._held + chunk
                self._held = ""
            if chunk and (text := self._read_prose(chunk)) is not None:
                return text
            self._leave_lane()
        elif lane == "held":
            if len(chunk) < self._headroom and NOT_PROSE(chunk) is None:
                self._headroom -= len(chunk)
                self._held += chunk
                return ""
            chunk = self._held + chunk
            self._held = ""
        elif lane == "leaf":
            if NOT_LEAF(chunk) is None and chunk:
                self._source.length += len(chunk)
                self._blocks.flow_leaf(chunk)
                return self._outlet.take()
        elif lane == "code" and self._ends_code(chunk) is None and chunk:
            return self._flow_code(chunk)
        if self._closed:
            raise ValueError("feed() after close()")
        if not chunk:
            return ""
        self._blocks.feed(self._source.normalise(chunk))
        self._choose_lane()
        return self._outlet.take()

    def close(self) -> str:
        """Release everything that is left; a second call gives nothing."""
        if self._closed:
            return ""
        self._closed = True
        self._fluent = False
        self._leave_lane()
        self._lane = ""
        self._blocks.feed(self._held + self._source.finish())
        self._blocks.close()
        return self._outlet.take()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was not read out, dropped or rewritten so far."""
        return self._notebook.notes

    @property
    def unrecorded(self) -> int:
        """How many notes were made after the account was full."""
        return self._notebook.unrecorded

    @property
    def in_code(self) -> bool:
        """Inside a code block."""
        return self._blocks.in_code

    def _choose_lane(self) -> None:
        blocks = self._blocks
        lane = "" if self._source.mid_character else blocks.lane
        if lane == "prose":
            self._last = ""
        elif lane == "held":
            self._headroom = blocks.inline.headroom
        elif lane == "code":
            stop = blocks.code_stops_at
            self._ends_code = NOT_CODE[stop]
            mid_line = blocks.in_line and (self._outlet.mid_line or not self._shows_code)
            self._indented = mid_line and blocks.in_indented_code
            if not stop:
                lane = ""
            elif mid_line:
                lane = "code_line"
        self._lane = lane
        self._fluent = lane == "prose" and self._outlet.is_fluent

    def _may_wait_on(self, chunk: str) -> bool:
        """Inside a span: nothing in the piece can end it, and there is time."""
        if self._ends_wait is None or self._ends_wait(chunk) or len(self._held) + len(chunk) > LONGEST_SPAN:
            return False
        self._held += chunk
        return True

    def _read_prose(self, chunk: str) -> str | None:
        """The text of prose with something plain in it; `None` if it needs a closer look."""
        piece = chunk
        if ("ht" in chunk or "ww" in chunk or chunk[-1] in "hw!") and (url := self._find_url(chunk)):
            if url.lastgroup is None:
                return None
            piece = chunk[: url.start()]
        if "[" in piece and self._blocks.knows_labels:
            return None
        text, end = read_spans(piece, 0, self._before)
        turn = LINE_TURN(piece, end)
        after = ""
        if turn:
            after, end = read_spans(piece, turn.end(), "\n")
        if end < len(piece) and not self._may_wait(piece, end):
            return None
        if turn:
            blank, indent, marker, padding = turn.groups("")
            ordinal = self._blocks.turn_line(blank != "", len(indent), marker, len(padding))
            if ordinal is None:
                return None
            text = self._outlet.turn(text, 2 if blank else 1, ordinal + after)
        elif text:
            text = self._outlet.flow(text)
        self._held = chunk[end:]
        if end:
            self._flowed += end
            self._last = chunk[:end]
        self._fluent = end == len(chunk) and self._outlet.is_fluent
        return text

    @property
    def _before(self) -> str:
        """The character before the piece that is being read."""
        return self._last[-1] if self._last else self._blocks.inline.before

    def _find_url(self, chunk: str) -> re.Match[str] | None:
        url = URL(chunk)
        if url and url.start() == 0 and chunk[0] != "!" and self._before.isalnum():
            return URL(chunk, 1)
        return url

    def _may_wait(self, piece: str, start: int) -> bool:
        # A line's end and the sign of another block, or an open span, are not worth reading before what
        # follows them is there.
        self._ends_wait = None
        if piece[start] == "\n":
            return len(piece) - start < LONGEST_PAUSE and OPEN_LINE(piece, start) is not None
        if start == 0:
            piece = self._before + piece
            start = 1
        if len(piece) - start > LONGEST_SPAN or OPEN_SPAN(piece, start) is None:
            return False
        if piece[-1] not in "`*_]":
            self._ends_wait = WAITS_FOR.get(piece[start])
        return True

    def _read_code(self, chunk: str) -> str | None:
        """Code up to what may be its end; `None` if it needs a closer look."""
        if not chunk:
            return ""
        if self._ends_code(chunk) is None:
            body = chunk.rstrip(BLANK_OR_LINE_END)
            return self._flow_lines(body, chunk) if len(chunk) - len(body) < HOLD_LIMIT else self._flow_code(chunk)
        if self._indented:
            body = chunk.rstrip(BLANK_OR_LINE_END)
            if not INDENTED_LINES(body) or (not body and len(chunk) >= HOLD_LIMIT):
                return None
            return self._flow_lines(body, chunk).replace("\n    ", "\n")
        before_fence = chunk.rstrip("`~")
        body = before_fence.rstrip(BLANK_OR_LINE_END)
        if before_fence[-1:] != "\n" or len(chunk) - len(body) >= HOLD_LIMIT or self._ends_code(body):
            return None
        return self._flow_lines(body, chunk)

    def _flow_lines(self, body: str, chunk: str) -> str:
        self._held = chunk[len(body) :]
        self._flowed += len(body)
        return body if self._shows_code else self._count_lines(body)

    def _count_lines(self, code: str) -> str:
        self._lines += code.count("\n")
        return ""

    def _flow_code(self, chunk: str) -> str:
        self._leave_lane()
        self._source.length += len(chunk)
        self._blocks.flow_code(chunk)
        self._lane = "code_line" if self._blocks.in_line else "code"
        return self._outlet.take()

    def _leave_lane(self) -> None:
        if self._flowed:
            self._source.length += self._flowed
            if self._lane == "prose":
                self._blocks.prose_flowed(self._flowed, self._last[-1])
            else:
                self._blocks.code_flowed(self._flowed, self._lines)
                self._lines = 0
            self._flowed = 0


def strip(text: str, profile: Profile = Profile.PLAIN, *, ssml: bool = False, messages: Messages = ENGLISH) -> str:
    """The text of a whole markdown document."""
    stripper = TextStripper(profile, ssml, messages)
    return stripper.feed(text) + stripper.close()
