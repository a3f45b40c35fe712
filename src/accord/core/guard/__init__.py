"""Between an editor and an agent, without I/O: what passes, what is refused, what is adapted, and what is noticed."""

from accord.core.guard.cut import Block, BlockCutter
from accord.core.guard.degrade import Save
from accord.core.guard.finding import Finding, Severity, Side
from accord.core.guard.guard import Guard, Look, Mode, Step
from accord.core.guard.record import MAX_MESSAGE_BYTES, plain_entries, trace_entry

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Block",
    "BlockCutter",
    "Finding",
    "Guard",
    "Look",
    "Mode",
    "Save",
    "Severity",
    "Side",
    "Step",
    "plain_entries",
    "trace_entry",
]
