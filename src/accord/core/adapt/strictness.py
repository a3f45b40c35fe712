"""Says no for a client that asked for strictness: an event below `min_fidelity` is refused, with what was available.

Never refused are failures, which are always told; what the table drops for everyone; and what the client itself asked
for, such as smaller pictures. Ending the stream is the adapter's business.
"""

from collections.abc import Sequence
from typing import Final

from accord.core.adapt.place import Outcome
from accord.core.adapt.read import Item
from accord.core.profile import ClientProfile
from accord.errors import FACTS, ErrorCode
from accord.wire.adaptation import AdaptationReason as Reason
from accord.wire.adaptation import Rung
from accord.wire.client import MinFidelity
from accord.wire.packet import StreamError

LADDER: Final[Sequence[Rung]] = tuple(Rung)
NEVER_REFUSED: Final = frozenset(
    {Reason.SMALLER_IMAGE, Reason.TRANSIENT, Reason.PRIVATE, Reason.LOW_PRIORITY, Reason.EMPTY}
)


def refusal(item: Item, outcome: Outcome, minimum: MinFidelity, profile: ClientProfile) -> StreamError | None:
    """The error that ends the stream, if this outcome is below what the client takes."""
    if item.is_failure or outcome.reason in NEVER_REFUSED:
        return None
    if LADDER.index(outcome.rung) <= LADDER.index(Rung(minimum)):
        return None
    facts = FACTS[ErrorCode.FIDELITY_UNAVAILABLE]
    return StreamError(
        code=ErrorCode.FIDELITY_UNAVAILABLE,
        message=facts.title,
        severity=facts.severity,
        details={
            "id": item.id,
            "type": item.marker,
            "min_fidelity": str(minimum),
            "available": str(outcome.rung),
            "reason": str(outcome.reason),
            "supported_events": sorted(profile.events),
        },
    )
