"""Bar charts as SVG: no library, no font from elsewhere, readable on a light and on a dark page."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 760
LABEL: Final = 170
VALUE: Final = 110
BAR: Final = 16
GAP: Final = 14
TOP: Final = 64
LEGEND: Final = 24
CHAR: Final = 7.2
"""About the width of one character of the legend."""
STYLE: Final = """
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.note { fill: #59636e }
.ours { font-weight: 600 }
.back { fill: #ffffff }
.axis { stroke: #d1d9e0 }
.s0 { fill: #0969da } .s1 { fill: #54aeff } .s2 { fill: #b6e3ff }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .note { fill: #9198a1 } .back { fill: #0d1117 } .axis { stroke: #3d444d }
.s0 { fill: #58a6ff } .s1 { fill: #1f6feb } .s2 { fill: #0c4a9e }
}
"""


@dataclass(frozen=True, slots=True)
class Bars:
    """One row of a chart: a label and one value for each series; None where it could not be measured."""

    label: str
    values: Sequence[float | None]
    is_ours: bool = False


def draw_bars(title: str, note: str, series: Sequence[str], rows: Sequence[Bars], digits: int) -> str:
    """Horizontal bars on one linear scale, each with its value."""
    top = TOP + (LEGEND if len(series) > 1 else 0)
    row_height = BAR * len(series) + GAP
    height = top + row_height * len(rows) + 8
    highest = max((value for row in rows for value in row.values if value is not None), default=1.0) or 1.0
    scale = (WIDTH - LABEL - VALUE) / highest
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f'<style>{STYLE}</style><rect class="back" width="100%" height="100%"/>',
        f'<text class="title" x="16" y="26">{escape(title)}</text>',
        f'<text class="note" x="16" y="46">{escape(note)}</text>',
    ]
    if len(series) > 1:
        parts.append(draw_legend(series))
    parts.append(f'<line class="axis" x1="{LABEL}" y1="{top - 4}" x2="{LABEL}" y2="{height - 8}"/>')
    for index, row in enumerate(rows):
        parts.append(draw_row(row, top + index * row_height, scale, digits))
    return "".join(parts) + "</svg>\n"


def draw_legend(series: Sequence[str]) -> str:
    """The names of the series with their colours."""
    parts: list[str] = []
    left = float(LABEL)
    for index, name in enumerate(series):
        parts.append(f'<rect class="s{index}" x="{left:.0f}" y="{TOP - 6}" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="{left + 18:.0f}" y="{TOP + 4}">{escape(name)}</text>')
        left += 18 + len(name) * CHAR + 18
    return "".join(parts)


def draw_row(row: Bars, top: int, scale: float, digits: int) -> str:
    """The label and the bars of one row."""
    middle = top + BAR * len(row.values) / 2 + 4
    kind = ' class="ours"' if row.is_ours else ""
    parts = [f'<text{kind} x="{LABEL - 10}" y="{middle:.0f}" text-anchor="end">{escape(row.label)}</text>']
    for index, value in enumerate(row.values):
        y = top + index * BAR
        if value is None:
            parts.append(f'<text class="note" x="{LABEL + 6}" y="{y + 12}">not measured</text>')
            continue
        width = max(value * scale, 1.5)
        parts.append(f'<rect class="s{index}" x="{LABEL}" y="{y + 1}" width="{width:.1f}" height="{BAR - 2}" rx="2"/>')
        parts.append(f'<text{kind} x="{LABEL + width + 6:.1f}" y="{y + 12}">{value:,.{digits}f}</text>')
    return "".join(parts)
