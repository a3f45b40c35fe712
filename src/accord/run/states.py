"""The states of a run, and the table of its transitions.

    admitted ─┬─► running ─┬─► ending ─┬─► ended
              │            │           ├─► refused
              │            │           └─► lost ─┬─► ended
              │            └─► released          └─► refused
              ├─► ending
              └─► released

The state in the store is another one (`TurnState`): it says how a turn ended, and only once the store has its end.
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

    @property
    def can_stop(self) -> bool:
        """Whether it can be cancelled or released: its packets are not all made."""
        return self is RunState.ADMITTED or self is RunState.RUNNING

    @property
    def is_over(self) -> bool:
        """Whether this process is done with it, but for an end that the store may take later."""
        return not self.can_stop and self is not RunState.ENDING


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
        (RunState.LOST, RunState.ENDED): "the end is stored after all",
        (RunState.LOST, RunState.REFUSED): "the refusal is stored after all",
    }
)
"""Every transition, and when it happens. Any other one does not: a run that is ending can no longer be released."""
