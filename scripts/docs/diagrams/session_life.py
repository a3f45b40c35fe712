"""docs/diagrams/session-life.svg: the states of a turn, and the calls of the store that lead from one to the next."""

from typing import Final

from scripts.docs.svg import Drawing

from accord.ports.stores import QueueStore, SessionStore
from accord.wire.session import StoredState

WIDTH, HEIGHT = 840, 338
TITLE: Final = "The life of a turn in the store"
REQUEST, WAITING = "request", "waiting"

STEPS: Final[tuple[tuple[str, str, str], ...]] = (
    (REQUEST, SessionStore.begin_turn.__name__, StoredState.RUNNING),
    (REQUEST, QueueStore.queue_turn.__name__, WAITING),
    (WAITING, QueueStore.claim.__name__, StoredState.RUNNING),
    (StoredState.RUNNING, QueueStore.queue_again.__name__, WAITING),
    (StoredState.RUNNING, SessionStore.take_over.__name__, StoredState.RUNNING),
    *(
        (StoredState.RUNNING, SessionStore.end_turn.__name__, end)
        for end in StoredState
        if end is not StoredState.RUNNING
    ),
)
"""From where, by which call, to where. A test makes each of these calls on a real store."""

ENDS: Final = {
    StoredState.DONE: ("the agent has finished", "green"),
    StoredState.REFUSED: ("not admitted: the agent never ran", "yellow"),
    StoredState.FAILED: ("an error, a time limit, or its process died", "red"),
    StoredState.CANCELLED: ("by the client, or it had no reader any more", "grey"),
}

BOX: Final = (120, 46)
PLACES: Final = {REQUEST: (24, 166), WAITING: (256, 60), StoredState.RUNNING: (256, 166)}
ENDS_LEFT, ENDS_TOP, ENDS_STEP = 516, 60, 66


def page() -> str:
    """The picture."""
    listed = "; ".join(f"{before} to {after} by {call}" for before, call, after in STEPS)
    drawing = Drawing(TITLE, f"{listed}.", WIDTH, HEIGHT)
    drawing.text(24, 34, TITLE, "title")
    width, height = BOX
    calls = {(before, after): call for before, call, after in STEPS}
    (request_x, request_y), (x, top), (_, low) = PLACES[REQUEST], PLACES[WAITING], PLACES[StoredState.RUNNING]
    middle = low + height / 2
    drawing.arrow((request_x + width, middle), (x, middle))
    drawing.text(request_x + width + 56, middle - 8, calls[REQUEST, StoredState.RUNNING], "code middle")
    drawing.arrow((request_x + width / 2, request_y), (request_x + width / 2, top + height / 2), (x, top + height / 2))
    drawing.text(request_x + width + 40, top + height / 2 - 8, calls[REQUEST, WAITING], "code middle")
    drawing.arrow((x + 36, top + height), (x + 36, low))
    drawing.text(x + 28, low - 26, calls[WAITING, StoredState.RUNNING], "code end")
    drawing.arrow((x + 84, low), (x + 84, top + height))
    drawing.text(x + 92, low - 32, calls[StoredState.RUNNING, WAITING], "code")
    drawing.text(x + 92, low - 17, "if it may be restarted", "small muted")
    bottom = low + height
    drawing.arrow((x + 36, bottom), (x + 36, bottom + 30), (x + 84, bottom + 30), (x + 84, bottom))
    drawing.text(x + width / 2, bottom + 48, calls[StoredState.RUNNING, StoredState.RUNNING], "code middle")
    drawing.text(x + width / 2, bottom + 65, "by another process, if its own died", "small muted middle")
    trunk = ENDS_LEFT - 40
    drawing.text((x + width + trunk) / 2, middle - 8, calls[StoredState.RUNNING, StoredState.DONE], "code middle")
    drawing.line((x + width, middle), (trunk, middle))
    for index, (end, (when, colour)) in enumerate(ENDS.items()):
        y = ENDS_TOP + index * ENDS_STEP
        drawing.arrow((trunk, middle), (trunk, y + height / 2), (ENDS_LEFT, y + height / 2))
        drawing.box(ENDS_LEFT, y, 300, height, [end.value, when], colour=colour)
    drawing.box(request_x, request_y, width, height, ["request"], dashed=True)
    drawing.box(x, top, width, height, ["waiting", "in the queue"], colour="plain")
    drawing.box(x, low, width, height, ["running"], colour="blue")
    return drawing.svg()
