"""docs/one-run.svg: one run as three clients get it, side by side, from the packets in docs/one-run.jsonl.

Nothing in the picture is made up: each column is what `ClientAdapter` gave for that client's declaration.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from accord.core.output import ClientAdapter
from accord.wire.packet import StreamPacket
from accord.wire.request import ClientCapabilities

PACKETS: Final = Path(__file__).parent.parent.parent / "docs" / "one-run.jsonl"
CLIENTS: Final[tuple[tuple[str, str, ClientCapabilities | None], ...]] = (
    ("Web", "declares nothing: the standard client", None),
    ("Terminal", "markdown and progress", ClientCapabilities(supported_events=["PROGRESS_INDICATOR"])),
    ("Speaker", "no events, no markdown", ClientCapabilities(supported_events=[], prefers_markdown=False)),
)
COLUMN: Final = 46
CHAR_PX: Final = 7.3
LINE_PX: Final = 18
GAP_PX: Final = 24
WIDTH_PX: Final = int(COLUMN * CHAR_PX) + 24


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a column; a card is what the client was given as an event of its own."""

    text: str
    is_card: bool = False


def page() -> str:
    """The picture."""
    packets = [StreamPacket.parse(line) for line in PACKETS.read_text(encoding="utf-8").splitlines()]
    return draw([(name, declares, list(seen(declared, packets))) for name, declares, declared in CLIENTS])


def seen(declared: ClientCapabilities | None, packets: list[StreamPacket]) -> Iterator[Line]:
    """What this client gets, as lines."""
    adapter = ClientAdapter(declared)
    text = ""
    for packet in (out for sent in packets for out in adapter.feed(sent)):
        if isinstance(packet.p, str):
            text += packet.p
        elif isinstance(packet.p, dict):
            yield from wrapped(text)
            text = ""
            yield from card(packet.p)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    yield from wrapped(text)


def card(event: dict[str, Any]) -> Iterator[Line]:
    """An event that the client shows in its own way."""
    data = event["data"]
    texts = [item.get("title") or item.get("alt_text") for item in data.get("items", [])]
    texts += [str(data[key]) for key in ("label", "message", "thought", "progress_percent") if key in data]
    yield Line(event["type"], is_card=True)
    for entry in texts:
        for line in textwrap.wrap(f"{entry}", COLUMN - 4):
            yield Line(f"  {line}", is_card=True)


def wrapped(text: str) -> Iterator[Line]:
    """Text in lines that fit the column."""
    for line in text.strip("\n").splitlines():
        yield from (Line(part) for part in textwrap.wrap(line, COLUMN, drop_whitespace=False) or [""])
    if text.strip():
        yield Line("")


def draw(columns: list[tuple[str, str, list[Line]]]) -> str:
    """The picture as SVG, with no font and no address from elsewhere."""
    height = max(len(lines) for _, _, lines in columns) * LINE_PX + 90
    width = len(columns) * (WIDTH_PX + GAP_PX) + GAP_PX
    body = "".join(column(index, *drawn, height=height) for index, drawn in enumerate(columns))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="One run as seen by a web page, a terminal and a speaker" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{body}</svg>\n'
    )


def column(index: int, name: str, declares: str, lines: list[Line], *, height: int) -> str:
    """One client's side of the picture."""
    left = GAP_PX + index * (WIDTH_PX + GAP_PX)
    parts = [
        f'<rect x="{left}" y="48" width="{WIDTH_PX}" height="{height - 64}" rx="8" fill="#f6f8fa" stroke="#d0d7de"/>',
        f'<text x="{left}" y="24" font-size="16" font-weight="bold" fill="#1f2328">{escape(name)}</text>',
        f'<text x="{left}" y="41" fill="#656d76">{escape(declares)}</text>',
    ]
    for row, line in enumerate(lines):
        top = 58 + row * LINE_PX
        if line.is_card:
            parts.append(f'<rect x="{left + 6}" y="{top}" width="{WIDTH_PX - 12}" height="{LINE_PX}" fill="#ddf4ff"/>')
        colour = "#0550ae" if line.is_card else "#1f2328"
        parts.append(
            f'<text x="{left + 12}" y="{top + 13}" fill="{colour}" xml:space="preserve">{escape(line.text)}</text>'
        )
    return "".join(parts)
