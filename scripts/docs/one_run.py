"""docs/one-run.svg: one run as three clients get it, side by side, from the packets in docs/one-run.jsonl.

Nothing in the picture is made up: each column is what `ClientAdapter` gave for that client's declaration.
"""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.docs.svg import Drawing

from accord.core.output import ClientAdapter
from accord.wire.packet import DeltaPacket, EventPacket, StreamPacket
from accord.wire.request import ClientCapabilities

PACKETS: Final = Path(__file__).parent.parent.parent / "docs" / "one-run.jsonl"
TITLE: Final = "One run as seen by a web page, a terminal and a speaker"
CLIENTS: Final[tuple[tuple[str, str, ClientCapabilities | None], ...]] = (
    ("Web", "declares nothing: the standard client", None),
    ("Terminal", "markdown and progress", ClientCapabilities(supported_events=["PROGRESS_INDICATOR"])),
    ("Speaker", "no events, no markdown", ClientCapabilities(supported_events=[], prefers_markdown=False)),
)
COLUMN_CHARS: Final = 34
CHAR, LINE, GAP, TOP = 6.95, 17, 16, 58
WIDTH: Final = (840 - 4 * GAP) / 3


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a column; a card is what the client was given as an event of its own."""

    text: str
    is_card: bool = False


def page() -> str:
    """The picture."""
    packets = [StreamPacket.parse(line) for line in PACKETS.read_text(encoding="utf-8").splitlines()]
    columns = [(name, declares, [*seen(declared, packets)]) for name, declares, declared in CLIENTS]
    height = TOP + max(len(lines) for _, _, lines in columns) * LINE + 36
    described = " ".join(f"{name}: {' '.join(line.text.strip() for line in lines)}" for name, _, lines in columns)
    drawing = Drawing(TITLE, described, 840, height)
    for index, (name, declares, lines) in enumerate(columns):
        left = GAP + index * (WIDTH + GAP)
        drawing.text(left, 26, name, "title")
        drawing.text(left, 44, declares, "small muted")
        drawing.box(left, TOP, WIDTH, height - TOP - 12)
        for row, line in enumerate(lines):
            y = TOP + 8 + row * LINE
            if line.is_card:
                drawing.box(left + 5, y, WIDTH - 10, LINE, colour="blue", radius=0, outlined=False)
            indent = len(line.text) - len(line.text.lstrip())
            colour = "t-blue" if line.is_card else "t-plain"
            drawing.text(left + 10 + indent * CHAR, y + 12.5, line.text.strip(), f"code {colour}")
    return drawing.svg()


def seen(declared: ClientCapabilities | None, packets: Iterable[StreamPacket]) -> Iterator[Line]:
    """What this client gets, as lines."""
    adapter = ClientAdapter(declared)
    text = ""
    for packet in (out for sent in packets for out in adapter.feed(sent)):
        if isinstance(packet, DeltaPacket):
            text += packet.p
        elif isinstance(packet, EventPacket):
            yield from wrapped(text)
            text = ""
            yield from card(packet.p)
    yield from wrapped(text)


def card(event: dict[str, Any]) -> Iterator[Line]:
    """An event that the client shows in its own way."""
    data = event["data"]
    texts = [item.get("title") or item.get("alt_text") for item in data.get("items", [])]
    texts += [str(data[key]) for key in ("label", "message", "thought", "progress_percent") if key in data]
    yield Line(event["type"], is_card=True)
    for entry in texts:
        for line in textwrap.wrap(f"{entry}", COLUMN_CHARS - 4):
            yield Line(f"  {line}", is_card=True)


def wrapped(text: str) -> Iterator[Line]:
    """Text in lines that fit the column."""
    for line in text.strip("\n").splitlines():
        yield from (Line(part) for part in textwrap.wrap(line, COLUMN_CHARS) or [""])
    if text.strip():
        yield Line("")
