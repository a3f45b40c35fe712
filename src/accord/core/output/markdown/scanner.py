"""Normalised input, and the scanner for inline text: a buffer with bounded lookahead.

The scanner decides when text can be released, when a line with a pipe waits for the next line (it may be a table's
header), and where an overlong construct ends. What the special characters mean is known by `inline.InlineParser`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from accord.core.output.markdown.delimiters import REMOVED, DelimiterStack
from accord.core.output.markdown.lookahead import HOLD_LIMIT, Lookup
from accord.core.output.markdown.output_buffer import BLANKS, MAX_BREAKS, OutputBuffer
from accord.core.output.markdown.profiles import Messages, NoteKind, NoteLog, Profile

ODD_CHARACTERS: Final = "\r\0\ud800-\udfff"
ODD: Final = re.compile("\r\n?|[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]|\0")
# The input is a Python string, which may be cut between the halves of a surrogate pair (from JSON escapes).
HIGH_SURROGATES: Final = ("\ud800", "\udbff")
REPLACEMENT: Final = "\ufffd"


class InputNormalizer:
    """Normalises a stream that may be cut anywhere: one kind of line end, no halves of surrogate pairs, no NUL."""

    __slots__ = ("_after_return", "_half_pair", "_note_log", "_removed", "length")

    def __init__(self, note_log: NoteLog) -> None:
        self._note_log = note_log
        self._half_pair: str = ""
        self._after_return: bool = False
        self._removed = 0
        self.length: int = 0

    @property
    def mid_character(self) -> bool:
        """Whether the next piece may belong to the last character of this one."""
        return self._after_return or self._half_pair != ""

    def normalise(self, chunk: str) -> str:
        """Return the next piece of normalised text."""
        if self._after_return or self._half_pair or ODD.search(chunk):
            chunk = self._half_pair + chunk
            self._half_pair = ""
            if self._after_return and chunk[0] == "\n":
                self._note_log.fold(self.length - 1)
                chunk = chunk[1:]
            self._after_return = chunk.endswith("\r")
            if chunk and HIGH_SURROGATES[0] <= chunk[-1] <= HIGH_SURROGATES[1]:
                self._half_pair = chunk[-1]
                chunk = chunk[:-1]
            self._removed = 0
            chunk = ODD.sub(self._replace, chunk)
        self.length += len(chunk)
        return chunk

    def finish(self) -> str:
        """Return what is left at the end of the input: half a surrogate pair is no character."""
        return REPLACEMENT if self._half_pair else ""

    def _replace(self, match: re.Match[str]) -> str:
        source = match.group()
        if len(source) == 2:
            self._note_log.fold(self.length + match.start() - self._removed)
            self._removed += 1
        if source[0] == "\r":
            return "\n"
        return source.encode("utf-16", "surrogatepass").decode("utf-16") if len(source) == 2 else REPLACEMENT


# The characters that may begin inline markup; `h` and `w` may begin a URL.
SPECIAL: Final = re.compile(r"[\\*_~`\[\]<&$|]|!(?=\[|\Z)|(?<![A-Za-z0-9])(?:h(?=t|\Z)|w(?=w|\Z))")
MAX_ROW_CHARS: Final = 1024  # a longer line with a pipe is text: a table header must be kept back whole
NO_LIMIT: Final = 1 << 62
SENTENCE_ENDS: Final = frozenset(".!?…。！？")
SHIFTS_KEPT: Final = 1024  # a block quote of a million lines must not keep a million positions

Find = Callable[..., Lookup]
Handler = Callable[[int, bool], int]
"""Reads the special character at an index; returns the index after what it read, or -1 to wait for more text."""


Gap = Literal["", "break", "removed"]
"""What the text before ended with, if white space after it is left out: `<br>`, or something that was removed."""


class OverlongTail(NamedTuple):
    """The rest of a construct that was decided before its end arrived: where it ends, and whether it is written."""

    end: re.Pattern[str]
    eats_end: bool  # whether the end belongs to the construct
    is_written: bool
    partial: int = 0  # how many characters may be the beginning of the end


class Scanner(ABC):
    """Reads the inline text of one block after the other, in any number of pieces."""

    def __init__(self, profile: Profile, messages: Messages, buffer: OutputBuffer, note_log: NoteLog) -> None:
        self._speech = profile is Profile.SPEECH
        self._messages = messages
        self._buffer = buffer
        self._note_log = note_log
        self._stack = DelimiterStack(self._release, self._note_unmatched, drop_unmatched=self._speech)
        self._write = self._stack.write
        self._text = ""  # undecided text
        self._pos: int = 0  # how much of it was read
        self._origin: int = 0  # its position in the text of all blocks
        self._before = "\n"  # the character before it
        self._tail: OverlongTail | None = None
        self._gap: Gap = ""
        self._rows_possible = False
        self._line_break = "\n"
        self.has_waiting_row = False
        """Whether a line with a pipe waits until the next line shows whether it is a table's header."""
        self._no_rows_before: int = 0
        """Pipes before this position are text."""
        self._shift: int = 0
        """The position in the input minus the position in this text, which has no line prefixes."""
        self._shifts: list[tuple[int, int]] = [(0, 0)]
        self.is_cut_off = False
        """Whether the stream ends here, for a voice: markup that is still open loses its marks."""
        self._handlers: Mapping[str, Handler] = self._make_handlers()

    @abstractmethod
    def _make_handlers(self) -> Mapping[str, Handler]:
        """Return the handler of each special character."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is undecided, so that prose can be written directly."""
        return not (self._text or self._gap) and self._tail is None

    @property
    def before(self) -> str:
        """The last character that was read."""
        return self._text[-1] if self._text else self._before

    @property
    def headroom(self) -> int:
        """How many ordinary characters may follow before anything that is kept back must be decided."""
        text = self._text
        if not text or self.has_waiting_row or self._tail or self._gap:
            return 0
        openers = self._stack.openers
        if self._pos == len(text) and openers:
            return openers[0].deadline - self._origin - len(text)
        if not openers and text[self._pos] == "`" != text[-1]:
            return self._pos + HOLD_LIMIT - len(text)
        return 0

    def start(self, *, rows_possible: bool = False, line_break: str = "\n") -> None:
        """Begin a new block; with `rows_possible`, a line with a pipe may be a table's header."""
        self._rows_possible = rows_possible
        self._line_break = line_break
        self._before = "\n"

    def feed(self, text: str, position: int) -> None:
        """Read more text of the block, at this position of the input."""
        shift = position - self._origin
        if not (self._text or self._gap) and self._tail is None and SPECIAL.search(text) is None:
            self._buffer.write(text)
            self._origin += len(text)
            self._before = text[-1]
            return
        if self._text:
            # Drop what was read, but keep it from the oldest opener on: a link's label may be needed.
            keep = self._pos
            if self._stack.openers:
                keep = min(keep, self._stack.openers[0].at - self._origin)
            if keep > 0:
                self._before = self._text[keep - 1]
                self._text = self._text[keep:]
                self._origin += keep
                self._pos -= keep
            shift = position - self._origin - len(self._text)
            self._text += text
        else:
            self._text = text
        if shift != self._shift:
            self._shift = shift
            self._shifts.append((position - shift, shift))
            if len(self._shifts) > 2 * SHIFTS_KEPT:
                del self._shifts[:SHIFTS_KEPT]
        self._scan(final=False)

    def skip(self, length: int, last: str) -> None:
        """Count prose that took the fast path; `last` is its last character."""
        self._origin += length
        self._before = last

    def end_line(self, position: int) -> None:
        """End a line of the block; another may follow."""
        if self.is_idle:
            self._buffer.end_line(most=MAX_BREAKS)
            self._origin += 1
            self._before = "\n"
            return
        if self._no_rows_before == NO_LIMIT:
            self._no_rows_before = self._origin + len(self._text)
        self.feed("\n", position)

    def finish(self) -> None:
        """End the block: decide and release everything."""
        if self.is_idle:
            return
        if self.has_waiting_row:
            self.reject_table()
        self._scan(final=True)
        dropped = ""
        if self.is_cut_off:
            # A complete sentence was hardly cut off, and names begin with `_`: "Call _reset first."
            dropped = "[!*~" if self._text.rstrip()[-1:] in SENTENCE_ENDS else "[!*~_"
        self._stack.end(dropped)
        self._origin += len(self._text)
        self._text = ""
        self._pos = 0
        self._tail = None
        self._gap = ""

    def reject_table(self) -> None:
        """Read the waiting line as text: it is no table header."""
        line_end = self._text.find("\n", self._pos)
        self._no_rows_before = NO_LIMIT if line_end < 0 else self._origin + line_end
        self.has_waiting_row = False
        self._scan(final=False)

    def take_row(self) -> str:
        """Return the waiting line, which is a table's header, from its first pipe on, and remove it."""
        row = self._text[self._pos :].rstrip("\n")
        self.has_waiting_row = False
        self._pos = len(self._text)
        return row

    @property
    def waiting_row(self) -> str:
        """The waiting line, from its first pipe on."""
        return self._text[self._pos :].rstrip("\n")

    def _scan(self, *, final: bool) -> None:
        text, pos, size = self._text, self._pos, len(self._text)
        while pos < size:
            if self.has_waiting_row:
                self._check_waiting_row(pos)
            elif self._tail is not None:
                pos = self._skip_tail(self._tail, pos, final=final)
            elif self._gap == "break":
                pos = self._skip_line_end(pos)
            if self.has_waiting_row or self._tail is not None or pos >= size:
                break
            special = SPECIAL.search(text, pos)
            if special is None:
                self._write(text[pos:] if pos else text)
                pos = size
                break
            at = special.start()
            if at > pos:
                self._write(text[pos:at])
            pos = self._handlers[text[at]](at, final)
            if pos < 0:
                pos = at
                break
        stack = self._stack
        if stack.openers:
            stack.expire(self._origin + pos)
        if pos == size and size and not stack.openers:
            self._before = text[-1]
            self._origin += size
            self._text = ""
            pos = 0
        self._pos = pos

    def _char_before(self, at: int) -> str:
        return self._text[at - 1] if at else self._before

    def _look_ahead(self, find: Find, at: int, *, final: bool) -> Lookup:
        """Find a construct within `HOLD_LIMIT` characters, and before the deadline of the oldest opener."""
        text, size = self._text, len(self._text)
        self._stack.expire(self._origin + at)
        while True:
            stop = at + HOLD_LIMIT
            openers = self._stack.openers
            older = bool(openers) and openers[0].deadline - self._origin < stop
            if older:
                stop = openers[0].deadline - self._origin
            if stop > size:
                return find(text, at, size, final=final)
            found = find(text, at, stop, final=False)
            if found != "wait":
                return found
            if not older:
                return "long"
            self._stack.expire_first()

    def _is_unfinished(self, find: Find, at: int, *, final: bool) -> bool:
        """Whether the stream was cut off inside this construct."""
        return final and self.is_cut_off and find(self._text, at, len(self._text), final=False) == "wait"

    def _read_pipe(self, at: int, final: bool) -> int:
        if final or not self._rows_possible or self._stack.openers or self._origin + at < self._no_rows_before:
            self._write("|")
            return at + 1
        self.has_waiting_row = True
        self._check_waiting_row(at)
        return at

    def _check_waiting_row(self, at: int) -> None:
        """Stop waiting if the line with a pipe is too long for a table's header."""
        line_end = self._text.find("\n", at)
        length = (len(self._text) if line_end < 0 else line_end) - at
        if length > MAX_ROW_CHARS:
            self.has_waiting_row = False
            self._no_rows_before = NO_LIMIT if line_end < 0 else self._origin + line_end

    def _skip_tail(self, tail: OverlongTail, pos: int, *, final: bool) -> int:
        """Read the rest of an overlong construct; return the position after what was read."""
        text = self._text
        end = tail.end.search(text, pos)
        if end:
            stop = end.start()
            after = end.end() if tail.eats_end and end.group() in (")", "-->") else stop
            self._tail = None
        else:
            stop = after = max(pos, len(text) - (0 if final else tail.partial))
        if tail.is_written:
            self._write(text[pos:stop])
        else:
            self._stack.extend_deadlines(after - pos)
        return after

    def _skip_line_end(self, pos: int) -> int:
        """Skip blanks and a line end after `<br>`."""
        text = self._text
        while pos < len(text) and text[pos] == " ":
            pos += 1
        if pos < len(text):
            self._gap = ""
            pos += text[pos] == "\n"
        return pos

    def _release(self, text: str) -> None:
        """Write text; where something was removed between two blanks, or on a line of its own, close the gap."""
        buffer = self._buffer
        if self._gap == "removed":
            text = REMOVED + text
            self._gap = ""
        elif REMOVED not in text:
            buffer.write(text)
            return
        first, *others = text.split(REMOVED)
        buffer.write(first)
        for part in others:
            rest = part if buffer.mid_line and not buffer.blanks else part.lstrip(BLANKS)
            self._gap = "" if rest else "removed"
            buffer.write(rest if buffer.mid_line else rest.removeprefix("\n"))

    def _position(self, at: int) -> int:
        """Return the position in the input of a position in the text of all blocks."""
        return at + next((shift for start, shift in reversed(self._shifts) if start <= at), self._shifts[0][1])

    def _note(self, kind: NoteKind, at: int, marker: str = "") -> None:
        self._note_log.add(kind, self._position(at), marker)

    def _note_unmatched(self, marker: str, at: int) -> None:
        self._note(NoteKind.UNMATCHED_DELIMITER, at, marker)
