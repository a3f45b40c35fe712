"""docs/diagrams/packet-order.svg: which packet may follow which, from the table that `PacketOrder` uses."""

from typing import Final

from scripts.docs.svg import Drawing

from accord.core.output.packets import NEXT_STAGE, StreamStage
from accord.wire.packet import StreamOpCode

WIDTH, HEIGHT = 840, 250
PLACES: Final = {StreamStage.OPEN: (150, 96), StreamStage.FAILED: (420, 96), StreamStage.CLOSED: (690, 96)}
"""The middle of the upper side of each stage."""
COLOURS: Final = {StreamStage.OPEN: "blue", StreamStage.FAILED: "red", StreamStage.CLOSED: "green"}
BOX: Final = (130, 56)


def page() -> str:
    """The picture."""
    arrows: dict[tuple[StreamStage, StreamStage], list[str]] = {}
    for (before, op), after in NEXT_STAGE.items():
        arrows.setdefault((before, after), []).append(op.value)
    listed = "; ".join(f"{before} to {after}: {', '.join(ops)}" for (before, after), ops in arrows.items())
    drawing = Drawing("The order of packets in a stream", f"From stage to stage by packet. {listed}.", WIDTH, HEIGHT)
    drawing.text(24, 34, "The order of packets in a stream", "title")
    width, height = BOX
    for (before, after), ops in arrows.items():
        x, y = PLACES[before]
        to_x, to_y = PLACES[after]
        label = " or ".join(ops)
        if before is after:  # a loop below
            low = y + height
            drawing.arrow(
                (x - 30, low), (x - 30, low + 34), (x + 30, low + 34), (x + 30, low), label=label, at=(x, low + 52)
            )
        elif to_x - x > 300:  # over the stage between
            drawing.arrow(
                (x, y), (x, y - 26), (to_x, to_y - 26), (to_x, to_y), label=label, at=((x + to_x) / 2, y - 32)
            )
        else:
            middle = y + height / 2
            start, end = x + width / 2, to_x - width / 2
            drawing.arrow((start, middle), (end, middle), label=label, at=((start + end) / 2, middle - 8))
    for stage, (x, y) in PLACES.items():
        drawing.box(x - width / 2, y, width, height, [stage.value], colour=COLOURS[stage])
    drawing.text(PLACES[StreamStage.CLOSED][0], 176, "no packet may follow", "small muted middle")
    wrong = {stage: [op for op in StreamOpCode if (stage, op) not in NEXT_STAGE] for stage in StreamStage}
    listed = "; ".join(f"once {stage}: {', '.join(ops)}" for stage, ops in wrong.items() if ops)
    drawing.text(24, HEIGHT - 18, f"An error of the agent: {listed}.", "small muted")
    return drawing.svg()
