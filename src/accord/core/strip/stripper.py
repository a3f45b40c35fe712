"""Markdown in, text out, while it streams: the public face of this package.

Decides which text needs no reading at all and lets it pass in a fast lane; everything else goes through
`blocks`. It must not know markdown beyond which characters are harmless where.
"""

import re
from typing import Final

from accord.core.strip.blocks import Blocks, Lane
from accord.core.strip.lookahead import HOLD_LIMIT
from accord.core.strip.notes import Note, Notebook
from accord.core.strip.outlet import Outlet
from accord.core.strip.profiles import ENGLISH, Messages, Profile
from accord.core.strip.source import ODD_CHARACTERS, Source
from accord.core.strip.starts import MERE_TEXT

PROSE: Final = rf"[^\\*_~`\[<&$|\n{ODD_CHARACTERS}]"
NOT_PROSE: Final = re.compile(PROSE.replace("^", "", 1)).search
LINE_TURN: Final = re.compile(rf"({PROSE}*)(\n\n?)((?={MERE_TEXT}){PROSE}+)\Z").match
LINE_END: Final = re.compile(rf"({PROSE}*)(\n[\n ]*(?:[-+]|[0-9]{{1,9}}[.)]?)? ?)\Z").match
LONGEST_PAUSE: Final = 64
URL_OR_IMAGE: Final = re.compile(r"(?:^|[^A-Za-z0-9])(?:h(?:t|\Z)|w(?:w|\Z))|!\Z").search
NOT_CODE: Final = {stop: re.compile(f"[{stop}{ODD_CHARACTERS}]").search for stop in ("", "`", "~", "\n")}
INDENTED_LINES: Final = re.compile(
    rf"[^\n{ODD_CHARACTERS}]*(?:\n+ {{4}} *[^\s{ODD_CHARACTERS}][^\n{ODD_CHARACTERS}]*)*\Z"
).match
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
        self._ends_code = NOT_CODE["\n"]
        self._turns = False
        self._indented = False
        self._flowed = 0
        self._lines = 0
        self._last = ""
        self._held = ""
        self._headroom = 0

    def feed(self, chunk: str) -> str:
        """Take more markdown; give whatever text may be released now."""
        lane = self._lane
        if lane == "prose":
            if self._held:
                chunk = self._held + chunk
                self._held = ""
            if NOT_PROSE(chunk) is None and chunk:
                if ("ht" not in chunk and "ww" not in chunk and chunk[-1] not in "hw!") or URL_OR_IMAGE(chunk) is None:
                    self._flowed += len(chunk)
                    self._last = chunk
                    return self._outlet.flow(chunk)
            elif "\n" in chunk and URL_OR_IMAGE(chunk) is None:
                if self._turns and (turn := LINE_TURN(chunk)):
                    self._flowed += len(chunk)
                    self._last = chunk
                    return self._outlet.turn(*turn.groups())
                if (end := LINE_END(chunk)) and len(end[2]) < LONGEST_PAUSE:
                    return self._pause(*end.groups())
            self._leave_lane()
        elif lane == "held":
            if len(chunk) < self._headroom and NOT_PROSE(chunk) is None:
                self._headroom -= len(chunk)
                self._held += chunk
                return ""
            chunk = self._held + chunk
            self._held = ""
        elif lane:
            if self._held:
                chunk = self._held + chunk
                self._held = ""
            if self._ends_code(chunk) is None and chunk:
                if lane == "code_line":
                    if chunk[-1] not in BLANK_OR_LINE_END:
                        self._flowed += len(chunk)
                        return chunk if self._shows_code else self._count_lines(chunk)
                    if not chunk[-HOLD_LIMIT:].isspace() or len(chunk) < HOLD_LIMIT:
                        return self._hold_blanks(chunk)
                return self._flow_code(chunk)
            if self._indented and (body := chunk.rstrip(BLANK_OR_LINE_END)) and INDENTED_LINES(body):
                self._held = chunk[len(body) :]
                self._flowed += len(body)
                return body.replace("\n    ", "\n") if self._shows_code else self._count_lines(body)
            self._leave_lane()
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
    def at_boundary(self) -> bool:
        """The text released so far ends outside a sentence, code, a table and a list item."""
        return self._blocks.between_blocks and self._outlet.ends_sentence(closed=self._held != "")

    @property
    def in_code(self) -> bool:
        """Inside a code block."""
        return self._blocks.in_code

    def _choose_lane(self) -> None:
        blocks = self._blocks
        lane = "" if self._source.mid_character else blocks.lane
        if lane == "prose":
            self._turns = not blocks.in_container
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

    def _pause(self, before: str, pause: str) -> str:
        # A line's end and the sign of another block are not worth reading before what follows them is there.
        self._held = pause
        if not before:
            return ""
        self._flowed += len(before)
        self._last = before
        return self._outlet.flow(before)

    def _hold_blanks(self, chunk: str) -> str:
        body = chunk.rstrip(BLANK_OR_LINE_END)
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
