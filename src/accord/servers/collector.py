"""Has Python look for circles of garbage less often, in a process that only serves. Knows nothing of what is served."""

import gc
from typing import Final

NEW_OBJECTS: Final = 50_000
"""How many objects may come to be, and stay, before circles among them are looked for."""


def spare_the_collector() -> None:
    """Look for garbage in circles less often: a turn leaves none, and what was loaded so far stays anyway.

    With Python's own threshold a third of a turn's time goes into looking.
    """
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
