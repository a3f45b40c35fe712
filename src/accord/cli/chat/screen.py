"""An answer on a terminal: finished blocks are drawn once, only the block that still grows is drawn again in place.

The cost of a draw is bounded by the size of a block, and draws are limited in number per second, so that a long answer
costs as much per token as a short one. Everything goes through the console, which escapes what peers wrote, except for
the pictures of `graphics.py`.
"""

import re
from time import monotonic
from typing import Final, assert_never

from rich.cells import chop_cells
from rich.console import RenderableType
from rich.padding import Padding

from accord.cli.chat.answer_markdown import CODE_STYLE, AnswerMarkdown
from accord.cli.chat.events import Described, Thought, error_lines, read_event
from accord.cli.chat.graphics import GraphicsProtocol, draw_png, read_png
from accord.cli.chat.live_area import LiveArea
from accord.console import Console, styled, styled_line
from accord.core.output.markdown_splitter import MarkdownSplitter, SourceBlock, SourceKind
from accord.terminal import escape_controls
from accord.wire.event import MarkdownBlock, ProgressUpdate
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, EventPacket

WAITING: Final = "Waiting for the answer; Ctrl-C stops it"
DRAW_EVERY_S: Final = 0.05
DRAW_SHARE: Final = 4
"""The time between two draws is at least this many times what the last one took."""
POLL_S: Final = 0.25
"""How often the size of the terminal is read. SIGWINCH belongs to readline, which would not get it any more."""
BAR: Final = 20
THOUGHT_CHARS: Final = 400
"""How much is kept of the beginning and of the end of a thought: one line is shown."""

_BLANKS: Final = re.compile(r"(?:\x1b\[[\d;]*m *\x1b\[0m| )+$|(?<! ) +(?=\x1b\[0m$)")
"""Blanks at the end of a row, with which rich fills it up."""
_BLANK_END: Final = re.compile(r"(?:^|\n)[ \t\r]*\n$")


class ScreenOutput:
    """Shows packets on a terminal."""

    def __init__(self, console: Console, graphics: GraphicsProtocol | None = None) -> None:
        self._console: Final = console
        self._graphics: Final = graphics
        self._area: Final = LiveArea(console.file)
        self._printed = ""
        self._width, self._drawn_at, self._took_s = console.width, 0.0, 0.0
        self._is_dirty = False
        self._begin(is_markdown=True, status="")

    def begin(self, *, is_markdown: bool) -> None:
        """Begin an answer, whose text is markdown or not."""
        self._begin(is_markdown=is_markdown, status=WAITING)
        self._draw_now()

    def _begin(self, *, is_markdown: bool, status: str) -> None:
        self._splitter = MarkdownSplitter(is_markdown=is_markdown)
        self._is_in_code = False
        self._waiting: list[Described | MarkdownBlock] = []
        self._finished: list[str] = []
        self._status = status
        self._thought_start = self._thought_end = ""
        self._thought_chars = 0
        self._owes_blank = self._has_rows = False

    def feed(self, packet: AnyPacket) -> None:
        """Show a packet, at the latest with the next draw."""
        if self._status == WAITING:
            self._status = ""
        match packet:
            case DeltaPacket():
                self._end_thought()
                for block in self._splitter.feed(packet.p):
                    self._finish_block(block)
            case EventPacket():
                self._feed_event(packet)
            case ErrorPacket():
                self._close_text()
                self._add_block(error_lines(packet.p), "red")
            case ClosePacket():
                pass
            case _:
                assert_never(packet)
        self._is_dirty = True
        if self.wait_s <= 0:
            self.draw()

    def end(self) -> None:
        """Finish the answer: nothing of it is drawn again."""
        self._close_text()
        self._status = ""
        self._draw_now()

    def show_status(self, text: str) -> None:
        """Show this in the last line, until something else takes its place."""
        self._status = text
        self._draw_now()

    def note(self, text: str, style: str = "dim") -> None:
        """Print a line for the user, above what is still drawn again."""
        self._finished += self._rows(styled(text, style))
        self._draw_now()

    def go_on_below(self) -> None:
        """Draw below what another program has written, which ran while this one was suspended."""
        self._area.forget()
        self._draw_now()

    def show_printed(self, text: str) -> None:
        """Print what an agent in this process printed, line by line."""
        *lines, self._printed = (self._printed + text).split("\n")
        for line in lines:
            self.note(line)

    @property
    def wait_s(self) -> float:
        """The seconds until `draw` is to be called."""
        if not self._is_dirty:
            return POLL_S
        return max(0.0, max(DRAW_EVERY_S, DRAW_SHARE * self._took_s) - (monotonic() - self._drawn_at))

    def draw(self) -> None:
        """Draw what has changed, also because the terminal has another width."""
        is_resized = self._console.width != self._width
        if not (self._is_dirty or is_resized):
            return
        began = monotonic()
        self._width = self._console.width
        rows = self._rows_of(self._splitter.tail)
        if rows and self._owes_blank:
            rows.insert(0, "")
        rows += self._rows(self._cut(f"Thinking: …{self._thought_end[-self._width :]}")) if self._thought_chars else []
        rows += self._rows(self._cut(self._status)) if self._status else []
        # What does not fit is drawn when its block is finished.
        self._area.update(self._finished, rows[-max(1, self._console.height - 1) :])
        self._finished = []
        self._is_dirty = False
        self._drawn_at = monotonic()
        self._took_s = self._drawn_at - began

    def _draw_now(self) -> None:
        self._is_dirty = True
        self.draw()

    def _feed_event(self, packet: EventPacket) -> None:
        shown = read_event(packet.p)
        if isinstance(shown, Thought):
            self._thought_start = (self._thought_start + shown.text)[:THOUGHT_CHARS]
            self._thought_end = (self._thought_end + shown.text)[-THOUGHT_CHARS:]
            self._thought_chars += len(shown.text)
            return
        self._end_thought()
        match shown:
            case None:
                pass
            case ProgressUpdate():
                self._status = format_progress(shown) if shown.status == "running" else ""
                if shown.status == "failed":
                    self._show_between_blocks(Described(f"Failed: {shown.label}", is_failure=True))
            case Described() | MarkdownBlock():
                self._show_between_blocks(shown)
            case _:
                assert_never(shown)

    def _show_between_blocks(self, shown: Described | MarkdownBlock) -> None:
        self._waiting.append(shown)
        if not self._is_in_code and not self._splitter.tail.text.strip():
            self._show_waiting()

    def _show_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for shown in waiting:
            if isinstance(shown, MarkdownBlock):
                splitter, self._owes_blank = MarkdownSplitter(), True
                for block in (*splitter.feed(shown.content), *splitter.close()):
                    self._add_source(block)
                self._owes_blank = True
                continue
            self._add_block(shown.text.split("\n"), "red" if shown.is_failure else "")
            for item in shown.media if self._graphics else ():
                if self._graphics and (data := read_png(item)):
                    self._finished.append(draw_png(data, self._graphics, self._width - 2))

    def _finish_block(self, block: SourceBlock) -> None:
        self._add_source(block)
        self._is_in_code ^= block.kind is SourceKind.FENCE
        if self._waiting and not self._is_in_code:
            self._show_waiting()

    def _close_text(self) -> None:
        self._end_thought()
        for block in self._splitter.close():
            self._finish_block(block)
        self._is_in_code = False
        self._show_waiting()
        if self._printed:
            self.show_printed("\n")

    def _end_thought(self) -> None:
        if self._thought_chars:
            count = f" ({self._thought_chars} characters)" if self._thought_chars > self._width else ""
            self._add_rows(self._rows(self._cut(f"Thought: {self._thought_start}", count)))
            self._thought_start, self._thought_end, self._thought_chars = "", "", 0

    def _add_source(self, block: SourceBlock) -> None:
        self._add_rows(self._rows_of(block))
        is_code = block.kind in (SourceKind.CODE, SourceKind.FENCE)
        if not is_code and _BLANK_END.search(block.text):
            self._owes_blank = True

    def _add_block(self, lines: list[str], style: str) -> None:
        """Add lines with a blank one before and after them."""
        self._owes_blank = True
        for line in lines:
            self._add_rows(self._rows(styled(line, style)))
        self._owes_blank = True

    def _add_rows(self, rows: list[str]) -> None:
        if not rows:
            return
        if self._owes_blank and self._has_rows:
            self._finished.append("")
        self._finished += rows
        self._owes_blank, self._has_rows = False, True

    def _rows_of(self, block: SourceBlock) -> list[str]:
        text = block.text.replace("\r\n", "\n")
        if block.kind in (SourceKind.CODE, SourceKind.FENCE):
            style = "dim" if block.kind is SourceKind.FENCE else CODE_STYLE
            line = escape_controls(text.rstrip("\n")).expandtabs()
            return [row for part in chop_cells(line, self._columns) or [""] for row in self._rows(styled(part, style))]
        if not text.strip():
            return []
        if block.kind is SourceKind.MARKDOWN:
            indent = min(block.indent, self._columns // 2)
            source = block.before + "\n".join(_dedent(line, block.indent) for line in text.split("\n"))
            rows = self._rows(Padding(AnswerMarkdown(source), (0, 0, 0, indent)))
            if any(rows):
                # A table begins with an empty row; what is between blocks is decided here.
                return rows[next(number for number, row in enumerate(rows) if row) :]
        # No markdown, or nothing that is drawn, such as the definition of a link.
        return self._rows(styled(text.rstrip("\n")))

    @property
    def _columns(self) -> int:
        """The width of a row: less than that of the terminal, whose cursor then never stands beyond its last column."""
        return max(1, self._width - 1)

    def _cut(self, text: str, end: str = "") -> RenderableType:
        """A dim line that is cut off where the terminal ends."""
        line = styled_line(" ".join(text[:THOUGHT_CHARS].split()), "dim")
        line.truncate(max(1, self._columns - len(end)), overflow="ellipsis")
        return line + end

    def _rows(self, renderable: RenderableType) -> list[str]:
        with self._console.capture() as capture:
            self._console.print(renderable, width=self._columns, overflow="fold")
        rows = [_BLANKS.sub("", row) for row in capture.get().split("\n")]
        while len(rows) > 1 and not rows[-1]:
            rows.pop()
        return rows


def format_progress(update: ProgressUpdate) -> str:
    """The line for a task that is running."""
    if update.progress_percent is None:
        return f"{update.label} …"
    full = round(update.progress_percent * BAR)
    return f"{'━' * full}{'╌' * (BAR - full)} {update.progress_percent:.0%} {update.label}"


def _dedent(line: str, columns: int) -> str:
    """The line without so many columns of its indentation."""
    blanks = line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4)
    return blanks[columns:] + line.lstrip(" \t")
