"""The states of a run, and the table of its transitions.

    admitted ─┬─► running ─┬─► ending ─┬─► ended
              │            │           ├─► refused
              │            │           └─► lost ─┬─► ended
              │            └─► released          └─► refused
              ├─► ending
              └─► released

The state in the store is another one (`StoredState`): it says how a turn ended, and only once the store has its end.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class RunState(StrEnum):
    """What a run does now, or how it is over."""

    ADMITTED = "admitted"
    """Its agent has not begun; the agent of a request that may not run never will."""
    RUNNING = "running"
    """Its agent runs; what it yields counts."""
    ENDING = "ending"
    """Every packet is made, and the end is being written. An agent that goes on is ignored."""
    ENDED = "ended"
    """The store has its end; without a store, its stream is closed."""
    REFUSED = "refused"
    """The store has its refusal."""
    RELEASED = "released"
    """Stopped without an end: another process runs it again. What was not stored yet, no client has seen."""
    LOST = "lost"
    """The store does not have its end, or has the end that another process has written."""


MAKING: Final = (RunState.ADMITTED, RunState.RUNNING)
"""The states in which packets are made; it can be cancelled and released."""
OVER: Final = (RunState.ENDED, RunState.REFUSED, RunState.RELEASED, RunState.LOST)
"""The states in which this process is done with it, but for an end that the store may take later."""

TRANSITIONS: Final[Mapping[tuple[RunState, RunState], str]] = MappingProxyType(
    {
        (RunState.ADMITTED, RunState.RUNNING): "the agent begins",
        (RunState.ADMITTED, RunState.ENDING): "the request may not run",
        (RunState.ADMITTED, RunState.RELEASED): "the process stops",
        (RunState.RUNNING, RunState.ENDING): "every packet is made",
        (RunState.RUNNING, RunState.RELEASED): "the process stops",
        (RunState.ENDING, RunState.ENDED): "the end is stored",
        (RunState.ENDING, RunState.REFUSED): "the refusal is stored",
        (RunState.ENDING, RunState.LOST): "the store fails, or another process was faster",
        (RunState.LOST, RunState.ENDED): "the end is stored",
        (RunState.LOST, RunState.REFUSED): "the refusal is stored",
    }
)
"""Every transition, and when it happens. Any other one does not: a run that is ending can no longer be released."""
