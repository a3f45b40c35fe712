"""docs/diagrams/layers.svg: the layers of the package, from the import rules that import-linter checks."""

import re
import tomllib
from pathlib import Path
from typing import Final

from scripts.docs.svg import Drawing

PROJECT: Final = Path(__file__).parent.parent.parent.parent / "pyproject.toml"
TITLE: Final = "Imports point down only"
ROW, GAP, TOP = 34, 8, 56
LEFT, RIGHT = 64, 816


def page() -> str:
    """The picture."""
    layers, pure = read_layers()
    height = TOP + len(layers) * (ROW + GAP) + 30
    names = "; ".join(" and ".join(layer) for layer in layers)
    drawing = Drawing(TITLE, f"The layers of src/accord from top to bottom: {names}.", 840, height)
    drawing.text(24, 34, TITLE, "title")
    drawing.text(RIGHT, 34, "green: no I/O, no clock, no randomness", "small muted end")
    bottom = TOP + len(layers) * (ROW + GAP) - GAP
    drawing.arrow((36, TOP), (36, bottom))
    for row, layer in enumerate(layers):
        width = (RIGHT - LEFT - GAP * (len(layer) - 1)) / len(layer)
        for column, name in enumerate(layer):
            x = LEFT + column * (width + GAP)
            colour = "green" if name in pure else "plain"
            drawing.box(x, TOP + row * (ROW + GAP), width, ROW, [name], colour=colour, styles=["code"])
    drawing.text(
        LEFT,
        bottom + 26,
        "Parts of one row do not import each other, but acp and wire do: requests have ACP's content.",
        "small muted",
    )
    return drawing.svg()


def read_layers() -> tuple[list[list[str]], set[str]]:
    """The rows of the layers, the top one first, and the parts that do no I/O."""
    rules = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    pure = next(rule["source_modules"] for rule in rules if rule["type"] == "forbidden")
    return [re.split(" [|:] ", layer) for layer in layers], {name.removeprefix("accord.") for name in pure}
