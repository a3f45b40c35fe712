"""A small SVG writer for the diagrams: boxes, arrows and text, in light and in dark mode, with fonts of the system."""

from collections.abc import Sequence
from html import escape
from typing import Final

FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
MONO: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LINE: Final = 17
"""The height of a line of text."""

# Of each kind of box: fill, border and text, first in light, then in dark mode.
COLOURS: Final = {
    "plain": ("#f6f8fa #d0d7de #1f2328", "#161b22 #3d444d #e6edf3"),
    "green": ("#dafbe1 #4ac26b #0f5323", "#12261e #2ea043 #7ee787"),
    "blue": ("#ddf4ff #54aeff #0a3069", "#121d2f #388bfd #a5d6ff"),
    "yellow": ("#fff8c5 #d4a72c #633c01", "#272115 #bb8009 #e3b341"),
    "orange": ("#fff1e5 #fb8f44 #762c00", "#2b1b12 #db6d28 #ffb77c"),
    "red": ("#ffebe9 #ff8182 #82071e", "#25171c #f85149 #ffa198"),
    "grey": ("#eaeef2 #afb8c1 #424a53", "#21262d #484f58 #b1bac4"),
}
STYLE: Final = f"""
text {{ font: 13px {FONT}; fill: var(--ink) }}
.title {{ font-size: 15px; font-weight: 600 }}
.bold {{ font-weight: 600 }}
.small {{ font-size: 11.5px }}
.muted {{ fill: var(--muted) }}
.code {{ font-family: {MONO}; font-size: 11.5px }}
.middle {{ text-anchor: middle }}
.end {{ text-anchor: end }}
.line {{ fill: none; stroke: var(--line); stroke-width: 1.4 }}
.dashed {{ stroke-dasharray: 5 4 }}
.head {{ fill: var(--line) }}
.paper {{ fill: var(--paper) }}
svg .filled {{ stroke: none }}
"""
LIGHT: Final = "--paper: #ffffff; --ink: #1f2328; --muted: #59636e; --line: #6e7781"
DARK: Final = "--paper: #0d1117; --ink: #e6edf3; --muted: #9198a1; --line: #8b949e"


class Drawing:
    """A picture that is filled from the top left, with a title and a description for those who cannot see it."""

    def __init__(self, title: str, description: str, width: int, height: int) -> None:
        self._title: Final = title
        self._description: Final = description
        self._size: Final = (width, height)
        self._parts: Final[list[str]] = []

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        """Write one line of text on this base line."""
        named = f' class="{style}"' if style else ""
        self._parts.append(f'<text x="{x:g}" y="{y:g}"{named}>{escape(text)}</text>')

    def box(  # noqa: PLR0913 - a place, a size, and what is in it
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        lines: Sequence[str] = (),
        *,
        colour: str = "plain",
        styles: Sequence[str] = ("bold", "small", "small", "small"),
        radius: int = 6,
        dashed: bool = False,
        outlined: bool = True,
    ) -> None:
        """Draw a box with centred lines of text, each in its style."""
        classes = f"b-{colour}{' dashed' * dashed}{' filled' * (not outlined)}"
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" class="{classes}"/>'
        )
        top = y + height / 2 - (len(lines) - 1) * LINE / 2 + 4.5
        for index, line in enumerate(lines):
            self.text(x + width / 2, top + index * LINE, line, f"t-{colour} middle {styles[index]}")

    def arrow(
        self, *points: tuple[float, float], label: str = "", at: tuple[float, float] | None = None, dashed: bool = False
    ) -> None:
        """Draw a line through these points with a head at its end, and its label at a place."""
        self.line(*points, dashed=dashed)
        (before_x, before_y), (x, y) = points[-2:]
        length = ((x - before_x) ** 2 + (y - before_y) ** 2) ** 0.5
        along = ((x - before_x) / length, (y - before_y) / length)
        back_x, back_y = x - 8 * along[0], y - 8 * along[1]
        corners = (
            (x, y),
            (back_x - 4 * along[1], back_y + 4 * along[0]),
            (back_x + 4 * along[1], back_y - 4 * along[0]),
        )
        self._parts.append(f'<polygon points="{" ".join(f"{a:g},{b:g}" for a, b in corners)}" class="head"/>')
        if label and at:
            self.text(*at, label, "small muted middle")

    def line(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """Draw a line through these points."""
        classes = "line dashed" if dashed else "line"
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" class="{classes}"/>')

    def svg(self) -> str:
        """The picture as a file."""
        width, height = self._size
        light, dark = (_colours(index) for index in (0, 1))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-labelledby="title description">\n'
            f'<title id="title">{escape(self._title)}</title>\n'
            f'<desc id="description">{escape(self._description)}</desc>\n'
            f"<style>{STYLE}svg {{ {LIGHT} }}\n{light}\n"
            f"@media (prefers-color-scheme: dark) {{\nsvg {{ {DARK} }}\n{dark}\n}}\n</style>\n"
            f'<rect width="100%" height="100%" rx="8" class="paper"/>\n' + "\n".join(self._parts) + "\n</svg>\n"
        )


def _colours(mode: int) -> str:
    rules: list[str] = []
    for name, modes in COLOURS.items():
        fill, border, ink = modes[mode].split()
        rules.append(f".b-{name} {{ fill: {fill}; stroke: {border} }} .t-{name} {{ fill: {ink} }}")
    return "\n".join(rules)
