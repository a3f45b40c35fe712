"""docs/diagrams/pipeline.svg: the stages of one turn. A test checks that each module imports what it uses."""

from dataclasses import dataclass
from typing import Final

from scripts.docs.svg import Drawing

TITLE: Final = "One turn, from bytes to bytes"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the pipeline: the module that does it, the modules that it uses for it, and its place in a grid."""

    name: str
    module: str
    uses: tuple[str, ...]
    does: tuple[str, str]
    column: int
    row: int


STAGES: Final = (
    Stage("parse", "servers.http.body", ("wire.request",), ("bytes become one", "ServiceRequest"), 1, 0),
    Stage(
        "admit",
        "run.admit",
        ("core.prompt", "core.work.plan"),
        ("content, requirements:", "run it or refuse it"),
        2,
        0,
    ),
    Stage("run agent", "run.run", ("agent", "run.admit"), ("what it yields", "becomes packets"), 3, 0),
    Stage("ask", "run.dispatch", ("core.work.plan", "ports"), ("plan, emulate, send,", "or fall back"), 4, 0),
    Stage("store", "run.packet_log", ("ports", "wire.session"), ("packets as made, then", "the receipt"), 3, 1),
    Stage("view", "run.views", ("core.output",), ("adapted to what this", "reader declared"), 2, 1),
)
"""The stages in their order."""

BOX, STEP, LEFT = (144, 90), 162, 24
ROWS: Final = (62, 206)


def page() -> str:
    """The picture."""
    listed = "; ".join(f"{stage.name} ({stage.module}): {' '.join(stage.does)}" for stage in STAGES)
    drawing = Drawing(TITLE, f"The stages in their order. {listed}.", 840, 322)
    drawing.text(24, 34, TITLE, "title")
    width, height = BOX
    for column, row, name, does in ((0, 0, "client", "sends a request"), (0, 1, "reader", "gets the answer")):
        drawing.box(_left(column), ROWS[row], width, height, [name, does], dashed=True)
    drawing.box(_left(4), ROWS[1], width, height, ["backend", "model or agent"], dashed=True)
    for stage in STAGES:
        lines = [stage.name, stage.module.replace(".", "/"), *stage.does]
        place = _left(stage.column), ROWS[stage.row]
        drawing.box(*place, width, height, lines, colour="blue", styles=["bold", "code", "small", "small"])
    for column in range(3):
        drawing.arrow((_left(column) + width, _middle(0)), (_left(column + 1), _middle(0)))
    for shift, ends in ((-8, (3, 4)), (8, (4, 3))):  # question and answer
        start, end = (_left(ends[0]) + width, _left(ends[1])) if shift < 0 else (_left(4), _left(3) + width)
        drawing.arrow((start, _middle(0) + shift), (end, _middle(0) + shift))
    for shift in (-8, 8):  # between ask and the backend
        x, ends = _left(4) + width / 2 + shift, (ROWS[0] + height, ROWS[1])
        drawing.arrow(*((x, y) for y in (ends if shift < 0 else ends[::-1])))
    x = _left(3) + width / 2
    drawing.arrow((x, ROWS[0] + height), (x, ROWS[1]), label="packets", at=(x + 28, ROWS[1] - 22))
    drawing.arrow((_left(3), _middle(1)), (_left(2) + width, _middle(1)))
    label_at = (_left(1) + width / 2, _middle(1) - 8)
    drawing.arrow((_left(2), _middle(1)), (_left(0) + width, _middle(1)), label="bytes", at=label_at)
    return drawing.svg()


def _left(column: int) -> int:
    return LEFT + column * STEP


def _middle(row: int) -> float:
    return ROWS[row] + BOX[1] / 2
