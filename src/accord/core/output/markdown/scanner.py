"""The input as normalised text, and the buffer under inline markdown with its bounded lookahead."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from accord.core.output.markdown.delimiters import Hold
from accord.core.output.markdown.lookahead import HOLD_LIMIT, Outcome
from accord.core.output.markdown.outlet import MOST_BREAKS, Outlet
from accord.core.output.markdown.profiles import Messages, Notebook, NoteKind, Profile

# Raw input as normalised text: one kind of line end, no halves of surrogate pairs, no NUL.
#
# Decides what a character is when the input was cut inside it. It must not know markdown.

ODD_CHARACTERS: Final = "\r\0\ud800-\udfff"
ODD: Final = re.compile("\r\n?|[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]|\0")
HIGH_SURROGATES: Final = ("\ud800", "\udbff")
REPLACEMENT: Final = "\ufffd"


class Source:
    """Normalises a stream; the notebook learns of every character that is folded away."""

    __slots__ = ("_after_return", "_half_pair", "_notebook", "_removed", "length")

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._half_pair: str = ""
        self._after_return: bool = False
        self._removed = 0
        self.length: int = 0

    @property
    def mid_character(self) -> bool:
        """What comes next may belong to the character before it."""
        return self._after_return or self._half_pair != ""

    def normalise(self, chunk: str) -> str:
        """The next piece of normalised text."""
        if self._after_return or self._half_pair or ODD.search(chunk):
            chunk = self._settle(chunk)
        self.length += len(chunk)
        return chunk

    def finish(self) -> str:
        """What is left when nothing more can come: half a pair is no character."""
        return REPLACEMENT if self._half_pair else ""

    def _settle(self, chunk: str) -> str:
        chunk = self._half_pair + chunk
        self._half_pair = ""
        if self._after_return and chunk[0] == "\n":
            self._notebook.fold(self.length - 1)
            chunk = chunk[1:]
        self._after_return = chunk.endswith("\r")
        if chunk and HIGH_SURROGATES[0] <= chunk[-1] <= HIGH_SURROGATES[1]:
            self._half_pair = chunk[-1]
            chunk = chunk[:-1]
        self._removed = 0
        return ODD.sub(self._settle_one, chunk)

    def _settle_one(self, match: re.Match[str]) -> str:
        source = match.group()
        if len(source) == 2:
            self._notebook.fold(self.length + match.start() - self._removed)
            self._removed += 1
        if source[0] == "\r":
            return "\n"
        return source.encode("utf-16", "surrogatepass").decode("utf-16") if len(source) == 2 else REPLACEMENT


# The stream under the inline markdown: a buffer, a place in it, and how far ahead anyone may look.
#
# Decides when text can be taken on, when a line with a pipe has to wait for the next one, and what happens to
# the rest of something decided early. It must not know what any character means: its heirs do.

SPECIAL: Final = re.compile(r"[\\*_~`\[\]<&$|]|!(?=\[|\Z)|(?<![A-Za-z0-9])(?:h(?=t|\Z)|w(?=w|\Z))")
LONGEST_ROW: Final = 1024
EVERYWHERE: Final = 1 << 62
SHIFTS_KEPT: Final = 1024

Find = Callable[..., Outcome]
Handler = Callable[[int, bool], int]
"""Reads the special character at an index; gives the index behind what it read, or -1 to wait for more."""


class Rest(NamedTuple):
    """The rest of something decided before it was seen whole: where it ends, and whether it is shown."""

    end: re.Pattern[str]
    eats_end: bool
    shown: bool
    partial: int = 0


class Scanner(ABC):
    """One block's inline text, in any number of pieces."""

    def __init__(self, profile: Profile, messages: Messages, outlet: Outlet, notebook: Notebook) -> None:
        self._aloud = profile is Profile.SPEECH
        self._messages = messages
        self._outlet = outlet
        self._notebook = notebook
        self._hold = Hold(outlet.write, self._note_unmatched, drop_unmatched=self._aloud)
        self._say = self._hold.say
        self._text = ""
        self._pos: int = 0
        self._origin: int = 0
        self._before = "\n"
        self._rest: Rest | None = None
        self._skips_blank = False
        self._skips_line_end = False
        self._pipes = False
        self._line_break = "\n"
        self.piped = False
        """Waits to be told whether a line with a pipe in it is a table's header."""
        self._pipes_free_until: int = 0
        self._shift: int = 0
        self._shifts: list[tuple[int, int]] = [(0, 0)]
        self._handlers: Mapping[str, Handler] = self._make_handlers()

    @abstractmethod
    def _make_handlers(self) -> Mapping[str, Handler]:
        """Who reads which special character."""

    @property
    def idle(self) -> bool:
        """Nothing is held back: prose may flow straight through."""
        return not self._text and self._rest is None and not self._skips_blank

    @property
    def before(self) -> str:
        """The character that stands before whatever comes next."""
        return self._text[-1] if self._text else self._before

    @property
    def headroom(self) -> int:
        """How much text without a special character may come before anything held back can be decided."""
        text = self._text
        if not text or self.piped or self._rest or self._skips_blank:
            return 0
        openers = self._hold.openers
        if self._pos == len(text) and openers:
            return openers[0].deadline - self._origin - len(text)
        if not openers and text[self._pos] == "`" != text[-1]:
            return self._pos + HOLD_LIMIT - len(text)
        return 0

    def start(self, *, pipes: bool = False, line_break: str = "\n") -> None:
        """A new block begins; with `pipes`, its lines may turn out to be table headers."""
        self._pipes = pipes
        self._line_break = line_break
        self._before = "\n"

    def feed(self, text: str, position: int) -> None:
        """More text of the block; `position` is where it stands in the source."""
        shift = position - self._origin
        if not self._text and self._rest is None and not self._skips_blank and SPECIAL.search(text) is None:
            self._outlet.write(text)
            self._origin += len(text)
            self._before = text[-1]
            return
        if self._text:
            self._drop_scanned()
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

    def flowed(self, length: int, last: str) -> None:
        """So much prose went out past us; only what it ends with matters."""
        self._origin += length
        self._before = last

    def end_line(self, position: int) -> None:
        """A line of the block ends; another may follow."""
        if self.idle:
            self._outlet.end_line(most=MOST_BREAKS)
            self._origin += 1
            self._before = "\n"
            return
        if self._pipes_free_until == EVERYWHERE:
            self._pipes_free_until = self._origin + len(self._text)
        self.feed("\n", position)

    def finish(self) -> None:
        """The block is over: everything is decided and released."""
        if self.idle:
            return
        if self.piped:
            self.refuse_table()
        self._scan(final=True)
        self._hold.end()
        self._origin += len(self._text)
        self._text = ""
        self._pos = 0
        self._rest = None
        self._skips_blank = self._skips_line_end = False

    def refuse_table(self) -> None:
        """The waiting line is no table header; its pipes are text."""
        line_end = self._text.find("\n", self._pos)
        self._pipes_free_until = EVERYWHERE if line_end < 0 else self._origin + line_end
        self.piped = False
        self._scan(final=False)

    def take_row(self) -> str:
        """The waiting line, from its first pipe on, is a table's header: hand it over unread."""
        row = self._text[self._pos :].rstrip("\n")
        self.piped = False
        self._pos = len(self._text)
        return row

    @property
    def waiting_row(self) -> str:
        """The line that waits, from its first pipe on."""
        return self._text[self._pos :].rstrip("\n")

    def _scan(self, *, final: bool) -> None:
        text, pos, size = self._text, self._pos, len(self._text)
        while pos < size:
            if self.piped:
                pos = self._still_piped(pos)
            elif self._rest is not None:
                pos = self._skip_rest(self._rest, pos, final=final)
            elif self._skips_blank:
                pos = self._skip_blank(pos)
            if self.piped or self._rest is not None or pos >= size:
                break
            special = SPECIAL.search(text, pos)
            if special is None:
                self._say(text[pos:] if pos else text)
                pos = size
                break
            at = special.start()
            if at > pos:
                self._say(text[pos:at])
            pos = self._handlers[text[at]](at, final)
            if pos < 0:
                pos = at
                break
        hold = self._hold
        if hold.openers:
            hold.expire(self._origin + pos)
        if pos == size and size and not hold.openers:
            self._before = text[-1]
            self._origin += size
            self._text = ""
            pos = 0
        self._pos = pos

    def _drop_scanned(self) -> None:
        keep = self._pos
        if self._hold.openers:
            keep = min(keep, self._hold.openers[0].at - self._origin)
        if keep > 0:
            self._before = self._text[keep - 1]
            self._text = self._text[keep:]
            self._origin += keep
            self._pos -= keep

    def _char_before(self, at: int) -> str:
        return self._text[at - 1] if at else self._before

    def _look(self, find: Find, at: int, *, final: bool) -> Outcome:
        """Ask a lookahead, but never past the limit: of its own, or of what has been waiting for longer."""
        text, size = self._text, len(self._text)
        self._hold.expire(self._origin + at)
        while True:
            stop = at + HOLD_LIMIT
            openers = self._hold.openers
            older = bool(openers) and openers[0].deadline - self._origin < stop
            if older:
                stop = openers[0].deadline - self._origin
            if stop > size:
                return find(text, at, size, final=final)
            outcome = find(text, at, stop, final=False)
            if outcome != "wait":
                return outcome
            if not older:
                return "long"
            self._hold.expire_first()

    def _pipe(self, at: int, final: bool) -> int:
        if final or not self._pipes or self._hold.openers or self._origin + at < self._pipes_free_until:
            self._say("|")
            return at + 1
        self.piped = True
        return self._still_piped(at)

    def _still_piped(self, at: int) -> int:
        line_end = self._text.find("\n", at)
        length = (len(self._text) if line_end < 0 else line_end) - at
        if length > LONGEST_ROW:
            self.piped = False
            self._pipes_free_until = EVERYWHERE if line_end < 0 else self._origin + line_end
        return at

    def _skip_rest(self, rest: Rest, pos: int, *, final: bool) -> int:
        text = self._text
        end = rest.end.search(text, pos)
        if end:
            stop, after = (
                end.start(),
                end.end() if rest.eats_end and end.group() in (")", "-->") else end.start(),
            )
            self._rest = None
        else:
            stop = after = max(pos, len(text) - (0 if final else rest.partial))
        if rest.shown:
            self._say(text[pos:stop])
        else:
            self._hold.postpone(after - pos)
        return after

    def _vanish(self, at: int, end: int) -> int:
        self._skips_blank = self._char_before(at).isspace()
        return end

    def _skip_blank(self, pos: int) -> int:
        text = self._text
        if not self._skips_line_end:
            self._skips_blank = False
            return pos + 1 if text[pos] == " " else pos
        while pos < len(text) and text[pos] == " ":
            pos += 1
        if pos < len(text):
            self._skips_blank = self._skips_line_end = False
            pos += text[pos] == "\n"
        return pos

    def _note(self, kind: NoteKind, at: int, marker: str = "") -> None:
        shift = next((shift for start, shift in reversed(self._shifts) if start <= at), self._shifts[0][1])
        self._notebook.add(kind, at + shift, marker)

    def _note_unmatched(self, marker: str, at: int) -> None:
        self._note(NoteKind.UNMATCHED_DELIMITER, at, marker)
