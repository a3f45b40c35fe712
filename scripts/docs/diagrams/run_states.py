"""docs/diagrams/run-states.svg: the states of a run, and every transition, from the table that runs use."""

from typing import Final

from scripts.docs.svg import Drawing

from accord.run.states import TRANSITIONS, RunState

TITLE: Final = "The states of a run in its process"
WIDTH, HEIGHT = 840, 324
BOX: Final = (120, 46)
PLACES: Final = {
    RunState.ADMITTED: (24, 60),
    RunState.RUNNING: (256, 60),
    RunState.RELEASED: (256, 166),
    RunState.ENDING: (488, 60),
    RunState.ENDED: (696, 60),
    RunState.LOST: (488, 166),
    RunState.REFUSED: (696, 166),
}
"""The upper left corner of each state."""
COLOURS: Final = {
    RunState.RUNNING: "blue",
    RunState.ENDED: "green",
    RunState.REFUSED: "yellow",
    RunState.LOST: "red",
    RunState.RELEASED: "grey",
}


def page() -> str:
    """The picture."""
    listed = "; ".join(f"{before} to {after}: {why}" for (before, after), why in TRANSITIONS.items())
    drawing = Drawing(TITLE, f"{listed}.", WIDTH, HEIGHT)
    drawing.text(24, 34, TITLE, "title")
    numbers = {whys: number for number, whys in enumerate(dict.fromkeys(TRANSITIONS.values()), start=1)}
    for (before, after), why in TRANSITIONS.items():
        _draw(drawing, before, after, str(numbers[why]))
    for state, (x, y) in PLACES.items():
        drawing.box(x, y, *BOX, [state.value], colour=COLOURS.get(state, "plain"))
    for index, (why, number) in enumerate(numbers.items()):
        column, row = divmod(index, 4)
        drawing.text(24 + 400 * column, 250 + 18 * row, f"{number}  {why}", "small muted")
    return drawing.svg()


def _draw(drawing: Drawing, before: RunState, after: RunState, label: str) -> None:
    """An arrow from one state to another, beside or below it, or around the state between."""
    (x, y), (to_x, to_y), (width, height) = PLACES[before], PLACES[after], BOX
    middle, to_middle = y + height / 2, to_y + height / 2
    if before is RunState.ADMITTED and after is RunState.ENDING:  # over the state between
        points = [(x + 60, y), (x + 60, y - 14), (to_x + 60, y - 14), (to_x + 60, y)]
        at = ((x + to_x) / 2 + 60, y - 18)
    elif y == to_y:
        points, at = [(x + width, middle), (to_x, middle)], ((x + width + to_x) / 2, middle - 8)
    elif x == to_x:
        points, at = [(x + 60, y + height), (x + 60, to_y)], (x + 70, (y + height + to_y) / 2 + 4)
    else:
        points = [(x + width, middle), (to_x, to_middle)]
        # Not in the middle, where two of them cross.
        at = (x + width + (to_x - x - width) / 4 + 8, middle + (to_middle - middle) / 4)
    drawing.arrow(*points, label=label, at=at)
