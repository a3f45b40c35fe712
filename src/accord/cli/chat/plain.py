"""An answer as plain text, for pipes and files: it goes to standard output, everything else to standard error."""

import sys
from typing import assert_never

from accord.cli.chat.events import Described, Thought, error_lines, read_event
from accord.terminal import escape_line
from accord.wire.event import MarkdownBlock, ProgressUpdate
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, EventPacket


class PlainOutput:
    """Writes packets as text, as they arrive."""

    def __init__(self) -> None:
        # Those of the command: while a turn runs, both names stand for what an agent prints.
        self._out, self._err = sys.stdout, sys.stderr
        self._is_in_line = False
        self._thoughts: list[str] = []

    @property
    def wait_s(self) -> None:
        """No limit: there is nothing to draw."""

    def begin(self, *, is_markdown: bool) -> None:
        """Begin an answer; markdown is written as it came."""

    def feed(self, packet: AnyPacket) -> None:
        """Write a packet."""
        shown = read_event(packet.p) if isinstance(packet, EventPacket) else None
        if isinstance(shown, Thought):
            self._thoughts.append(shown.text)
            return
        self._end_thought()
        match packet:
            case DeltaPacket():
                self._write(packet.p)
            case EventPacket():
                self._write_event(shown)
            case ErrorPacket():
                for line in error_lines(packet.p):
                    self.note(line)
            case ClosePacket():
                pass
            case _:
                assert_never(packet)

    def _write_event(self, shown: Described | MarkdownBlock | ProgressUpdate | None) -> None:
        match shown:
            case Described():
                self._write_block(shown.text)
            case MarkdownBlock():
                self._write_block(shown.content)
            case ProgressUpdate():
                if shown.status == "failed":
                    self._write_block(f"Failed: {shown.label}")
            case None:
                pass
            case _:
                assert_never(shown)

    def end(self) -> None:
        """Finish the answer."""
        self._end_thought()
        self._end_line()

    def show_status(self, text: str) -> None:
        """Write nothing: there is no line that could be replaced."""

    def note(self, text: str, style: str = "") -> None:
        """Write a line to standard error."""
        del style
        print(escape_line(text), file=self._err, flush=True)

    def show_printed(self, text: str) -> None:
        """Write what an agent in this process printed to standard error."""
        self._err.write(text)
        self._err.flush()

    def go_on_below(self) -> None:
        """Do nothing: nothing is drawn again."""

    def draw(self) -> None:
        """Do nothing: everything is written at once."""

    def _end_thought(self) -> None:
        if self._thoughts:
            self.note(f"Thought: {''.join(self._thoughts)}")
            self._thoughts = []

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._is_in_line = not text.endswith("\n")

    def _write_block(self, text: str) -> None:
        self._end_line()
        self._write(f"{text.rstrip()}\n")

    def _end_line(self) -> None:
        if self._is_in_line:
            self._write("\n")
