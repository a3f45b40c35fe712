"""The parts of `accord chat` that draw and read: each alone, with laws for what must hold for every text."""

import base64
import json
import re
import struct
import zlib
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import ConsoleDimensions

from accord.cli.chat.events import GIVE_TOKEN, GIVE_USER, error_lines
from accord.cli.chat.graphics import MAX_BYTES, GraphicsProtocol, draw_png, find_protocol, read_png
from accord.cli.chat.live_area import LiveArea
from accord.cli.chat.prompt import FILE_NAME, MAX_ENTRIES, LineEditor, read_prompt
from accord.cli.chat.screen import ScreenOutput, format_progress
from accord.console import Console
from accord.errors import AccordError, ConnectionFailedError, ErrorCode, ErrorSeverity, RefusedError
from accord.terminal import escape_controls
from accord.wire.event import MediaItem, ProgressUpdate
from accord.wire.packet import AnyPacket, DeltaPacket, EventPacket, StreamError
from tests.cli.test_terminal import FORBIDDEN, HOSTILE
from tests.core.output import MARKDOWN

ROWS = st.lists(st.sampled_from(["", "a", "b", "longer", "the longest"]), max_size=6)
OURS = re.compile(r"\r?\x1b\[(?:[0-9;]*m|\d*[AKJ])|\r(?=\x1b|[^\n])")
"""What the chat writes itself: colours, and the cursor of the rows that are drawn again."""


@given(updates=st.lists(st.tuples(ROWS, ROWS), max_size=8))
def test_the_terminal_shows_all_finished_rows_and_the_last_live_ones(updates: list[tuple[list[str], list[str]]]):
    screen, written, expected = pyte.Screen(20, 120), StringIO(), list[str]()
    area = LiveArea(written)
    for finished, rows in updates:
        area.update(finished, rows)
        expected += finished
        screen.reset()
        pyte.Stream(screen).feed(written.getvalue().replace("\n", "\r\n"))
        shown = [line.rstrip() for line in screen.display]
        assert shown == [*expected, *rows] + [""] * (120 - len(expected) - len(rows))
        assert screen.cursor.y == len(expected) + max(0, len(rows) - 1)


def test_rows_that_have_not_changed_are_not_written_again():
    written = StringIO()
    area = LiveArea(written)
    area.update([], ["first", "second"])
    written.truncate(0)
    area.update(["first"], ["second", "third"])
    assert "first" not in written.getvalue()
    assert "second" not in written.getvalue()
    assert "third" in written.getvalue()


def a_terminal(width: int, height: int = 24) -> tuple[ScreenOutput, StringIO]:
    written = StringIO()
    console = Console()
    console.file, console.size = written, ConsoleDimensions(width, height)
    return ScreenOutput(console), written


def drawn(packets: list[AnyPacket], width: int, *, is_markdown: bool = True) -> str:
    """What is in the terminal in the end: the text, without the control sequences of ours."""
    output, written = a_terminal(width)
    output.begin(is_markdown=is_markdown)
    for packet in packets:
        output.feed(packet)
        output.draw()  # after every packet, as if each came late
    output.end()
    screen = pyte.HistoryScreen(width, 24, history=20_000)
    pyte.Stream(screen).feed(written.getvalue().replace("\n", "\r\n"))
    lines = [*("".join(line[at].data for at in range(width)) for line in screen.history.top), *screen.display]
    return "\n".join(line.rstrip() for line in lines).rstrip()


def deltas(text: str, size: int = 7) -> list[AnyPacket]:
    return [DeltaPacket(p=text[start : start + size]) for start in range(0, len(text), size)]


ANSWER = """\
# Sales

They **grew** by `12 %`, see [the report](https://a.example/r) and <https://b.example>.
![A chart](https://a.example/c.png) <b>bold</b> &#27;[2J

1. first
   ```sh
   make all
   ```
   then this
2. second
   - nested

| quarter | a long name of a column |
|---|--:|
| one | 1 |

<div>
block
</div>

[ref]: https://c.example

> quoted
"""
AT_80 = """\
Sales

They grew by 12 %, see the report (https://a.example/r) and https://b.example.
[A chart] (https://a.example/c.png) <b>bold</b> �[2J

 1 first
   ```sh
   make all
   ```
   then this
 2 second
    • nested

 quarter  a long name of a column
 ────────────────────────────────
 one                            1

<div>
block
</div>

[ref]: https://c.example

▌ quoted"""
AT_20 = """\
Sales

They grew by 12 %,
see the report
(https://a.example/
r) and
https://b.example.
[A chart]
(https://a.example/
c.png) <b>bold</b>
�[2J

 1 first
   ```sh
   make all
   ```
   then this
 2 second
    • nested

            a long
           name of
 quarter  a column
 ─────────────────
 one             1

<div>
block
</div>

[ref]:
https://c.example

▌ quoted"""


@pytest.mark.parametrize(("width", "expected"), [(80, AT_80), (20, AT_20)])
def test_an_answer_is_drawn_in_full_at_every_width(width: int, expected: str):
    assert drawn(deltas(ANSWER), width) == expected


CONTROLS = st.lists(st.sampled_from(["a", "b ", "\x1b", "\x07", "\u202e", "&#8238;", "*", "`", "\n", "|", "- "])).map(
    "".join
)


@given(text=MARKDOWN | CONTROLS, width=st.integers(8, 90), size=st.integers(1, 40))
def test_what_is_drawn_does_not_depend_on_where_the_stream_was_cut_and_fits(text: str, width: int, size: int):
    whole = drawn([DeltaPacket(p=text)], width)
    assert drawn(deltas(text, size), width) == whole
    assert FORBIDDEN.search(whole) is None


WORDS = st.text("abcdefghij", min_size=1, max_size=30)
SHAPES = st.sampled_from(
    ["{} {}\n\n", "- {}\n- {}\n", "| {} | {} |\n|---|---|\n", "> {} {}\n\n", "<{}> {}\n\n", "```\n{}\t{}\n```\n"]
)


@given(shapes=st.lists(st.tuples(SHAPES, WORDS, WORDS), max_size=6), width=st.integers(12, 80))
def test_no_word_is_lost(shapes: list[tuple[str, str, str]], width: int):
    text = drawn(deltas("".join(shape.format(first, second) for shape, first, second in shapes)), width)
    words = "".join(first + second for _, first, second in shapes)
    assert sorted(re.sub(r"[^a-j]", "", text)) == sorted(words)  # in any order: columns are folded side by side


@given(text=st.text("ab \x1b\x07\x08\u202e", max_size=60), width=st.integers(12, 80), is_markdown=st.booleans())
def test_control_characters_are_written_out_and_nothing_is_cut_off(text: str, width: int, is_markdown: bool):
    shown = "".join(drawn(deltas(text), width, is_markdown=is_markdown).split())
    assert shown == "".join(escape_controls(text).split())


def test_text_that_is_no_markdown_is_drawn_as_it_is():
    text = "2 * 3 * 4\n# no heading\n\n- _x_\n"
    assert drawn(deltas(text), 40, is_markdown=False) == text.rstrip()


def event(kind: str, **data: object) -> EventPacket:
    return EventPacket(p={"type": kind, "data": data})


def test_events_are_drawn_between_blocks_and_thoughts_on_one_line():
    packets: list[AnyPacket] = [
        event("thought_trace", thought="First I\nthink, "),
        event("thought_trace", thought="and then I go on for longer than a line has columns."),
        *deltas("A sentence "),
        event("progress_indicator", label="Reading", status="running", progress_percent=0.5),
        event("citation_block", items=[{"source_id": "a", "uri": "https://a.example", "title": "A"}]),
        event("user_error", message="The tool failed", code=7),
        *deltas("goes on.\n\n```\ncode\n"),
        event("progress_indicator", label="Writing", status="failed"),
        event("media_carousel", items=[{"url": "https://a.example/i.png", "mime_type": "image/png", "alt_text": "An image"}]),
        event("markdown_block", content="> a quotation\n"),
        event("chess_board", position="e4"),
        *deltas("more\n```\nThe end."),
    ]  # fmt: skip
    assert (
        drawn(packets, 40)
        == """\
Thought: First I think… (67 characters)
A sentence goes on.

Sources:
1. A: https://a.example

Error 7: The tool failed

```
code
more
```

Failed: Writing

Image: An image (PNG)
https://a.example/i.png

▌ a quotation

[chess_board] {"position": "e4"}

The end."""
    )


def test_no_control_character_of_any_event_reaches_the_terminal():
    packets: list[AnyPacket] = [
        *deltas(HOSTILE, 1),
        event("thought_trace", thought=HOSTILE),
        event("citation_block", items=[{"source_id": "a", "uri": "https://a.example", "title": HOSTILE}]),
        event("media_carousel", items=[{"url": "https://a.example", "mime_type": "image/png", "alt_text": HOSTILE}]),
        event("progress_indicator", label=HOSTILE, status="running", progress_percent=0.5),
        event("user_error", message=HOSTILE),
        event("markdown_block", content=f"```\n{HOSTILE}\n```\n| {HOSTILE} |\n|---|\n"),
        event(HOSTILE, text=HOSTILE),
        *deltas(f"\n```{HOSTILE}\n{HOSTILE}\n```\n[{HOSTILE}](<https://a.example/{HOSTILE}> '{HOSTILE}')"),
    ]
    output, written = a_terminal(60)
    output.begin(is_markdown=True)
    for packet in packets:
        output.feed(packet)
        output.draw()
    output.note(HOSTILE)
    output.show_printed(f"{HOSTILE}\n")
    output.end()
    assert written.getvalue().count("owned") > 8
    assert FORBIDDEN.search(OURS.sub("", written.getvalue())) is None


def written_for(packets: list[AnyPacket]) -> int:
    output, written = a_terminal(80)
    output.begin(is_markdown=True)
    for packet in packets:
        output.feed(packet)
        output.draw()  # for each token: as slow as a model may be
    output.end()
    return len(written.getvalue())


@pytest.mark.parametrize(
    "block", ["words of a paragraph ", "- an item of a list\n", "| a | b |\n", "> a quotation\n", "x" * 30]
)
def test_the_characters_that_are_written_grow_no_faster_than_the_answer(block: str):
    start = "| a | b |\n|---|---|\n" if block.startswith("|") else ""
    short, long = (written_for(deltas(start + block * count, 20)) for count in (400, 800))
    assert long < 2.5 * short


def test_a_long_code_block_is_written_once():
    code = "".join(f"line {number}\n" for number in range(5_000))
    assert written_for([DeltaPacket(p="```\n"), *deltas(code, 40)]) < 4 * len(code)


@pytest.mark.parametrize(
    ("share", "line"),
    [(None, "Reading …"), (0.0, "╌" * 20 + " 0% Reading"), (0.5, "━" * 10 + "╌" * 10 + " 50% Reading"), (1.0, "━" * 20 + " 100% Reading")],
)  # fmt: skip
def test_progress_is_a_bar(share: float | None, line: str):
    assert format_progress(ProgressUpdate(label="Reading", status="running", progress_percent=share)) == line


ENVIRONMENTS: list[tuple[dict[str, str], GraphicsProtocol | None]] = [
    ({"TERM": "xterm-kitty"}, GraphicsProtocol.KITTY),
    ({"TERM": "xterm-ghostty"}, GraphicsProtocol.KITTY),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, GraphicsProtocol.ITERM),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, GraphicsProtocol.ITERM),
    ({"TERM": "xterm-kitty", "TMUX": "1"}, None),
    ({"TERM": "screen-256color", "TERM_PROGRAM": "iTerm.app"}, None),
    ({"TERM": "xterm-256color"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("environ", "protocol"), ENVIRONMENTS)
def test_images_are_drawn_where_the_terminal_says_that_it_can(
    environ: dict[str, str], protocol: GraphicsProtocol | None
):
    assert find_protocol(environ) is protocol


def a_png(width: int = 300, height: int = 2, padding: int = 0) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 1) * min(height, 10)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows + bytes(padding)) + chunk(b"IEND", b"")


def as_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def test_only_small_images_that_are_png_are_drawn():
    rows: list[tuple[str, str, bool]] = [
        (as_url(a_png()), "image/png", True),
        (as_url(a_png(), "image/gif"), "image/gif", False),
        (as_url(b"GIF89a" + a_png()), "image/png", False),
        (as_url(a_png(5_000)), "image/png", False),
        (as_url(a_png(0)), "image/png", False),
        (as_url(a_png(padding=MAX_BYTES)), "image/png", False),
        ("data:image/png;base64,%%%", "image/png", False),
        ("https://a.example/i.png", "image/png", False),
    ]
    for url, kind, is_drawn in rows:
        assert (read_png(MediaItem(url=url, mime_type=kind)) is not None) is is_drawn, url[:60]


def test_an_image_is_sent_in_the_form_of_the_terminal():
    data = a_png(padding=5_000)
    encoded = base64.b64encode(data).decode()
    assert draw_png(data, GraphicsProtocol.ITERM, 20) == (
        f"\x1b]1337;File=inline=1;size={len(data)};width=20:{encoded}\x07"
    )
    first, second, end = draw_png(data, GraphicsProtocol.KITTY, 80).split("\x1b\\")
    assert first.startswith("\x1b_Ga=T,f=100,q=2,c=30,m=1;")
    assert second.startswith("\x1b_Gm=0;")
    assert (first.partition(";")[2] + second.partition(";")[2], end) == (encoded, "")


def test_an_image_is_drawn_after_its_description():
    console = Console()
    written = console.file = StringIO()
    output = ScreenOutput(console, GraphicsProtocol.ITERM)
    item = {"url": as_url(a_png()), "mime_type": "image/png", "alt_text": "A chart"}
    output.begin(is_markdown=True)
    output.feed(event("media_carousel", items=[item]))
    output.end()
    text = written.getvalue()
    assert text.index("Image: A chart (PNG)") < text.index("\x1b]1337;File=")


def lines_of(*lines: str) -> Iterator[str | None]:
    yield from lines
    while True:
        yield None


@pytest.mark.parametrize(
    ("lines", "prompts"),
    [
        ((), []),
        (("a", "b"), ["a", "b"]),
        (("a\\", "b\\", "c", "d"), ["a\nb\nc", "d"]),
        (("a\\",), ["a"]),
        (("\udcff",), ["?"]),
    ],
)
def test_a_line_that_ends_with_a_backslash_goes_on(lines: tuple[str, ...], prompts: list[str]):
    left, seen = lines_of(*lines), list[str]()
    while (prompt := read_prompt(lambda shown: seen.append(shown) or next(left))) is not None:
        prompts_read = prompt
        assert prompts_read == prompts.pop(0)
    assert prompts == []


def test_the_history_is_kept_in_a_private_file_and_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACCORD_STATE_DIR", str(tmp_path / "state"))
    editor = LineEditor([])
    for entry in ("first", "two\nlines", "ü"):
        editor.remember(entry)
    file = tmp_path / "state" / FILE_NAME
    assert [json.loads(line) for line in file.read_text().splitlines()] == ["first", "two\nlines", "ü"]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("".join(f'"{number}"\n' for number in range(3 * MAX_ENTRIES)) + '"cut')
    LineEditor([])
    assert len(file.read_text().splitlines()) == MAX_ENTRIES


def refused(code: ErrorCode = ErrorCode.CAPABILITY_UNSUPPORTED, **details: Any) -> RefusedError:
    return RefusedError("No", code, details)


ERRORS: list[tuple[AccordError | StreamError, list[str]]] = [
    (refused(remedies=[{"change": "add a backend"}]), ["CAPABILITY_UNSUPPORTED: No", "would help: add a backend"]),
    (refused(remedies="what a peer sent"), ["CAPABILITY_UNSUPPORTED: No"]),
    (refused(remedies=[7, {}]), ["CAPABILITY_UNSUPPORTED: No"]),
    (refused(ErrorCode.UNAUTHENTICATED), ["unauthenticated: No", GIVE_TOKEN]),
    (refused(ErrorCode.FORBIDDEN, field="context.user.id"), ["forbidden: No", GIVE_USER]),
    (refused(ErrorCode.FORBIDDEN), ["forbidden: No"]),
    (ConnectionFailedError("Gone; with retry_connect=True the client keeps trying"), ["unavailable: Gone"]),
    (StreamError(code="mine", message="Oh", severity=ErrorSeverity.FATAL), ["mine: Oh"]),
]


@pytest.mark.parametrize(("error", "lines"), ERRORS)
def test_an_error_is_explained_with_what_would_help(error: AccordError | StreamError, lines: list[str]):
    assert error_lines(error) == lines
