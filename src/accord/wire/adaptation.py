"""The adaptation report: what one client was shown of each item, and why. Totals add up.

It quotes nothing that a user or an agent wrote: an entry names the item, its rung on the ladder, a reason from a closed
set, and which fields were kept and lost.
"""

from enum import StrEnum

from pydantic import Field

from accord.wire.message import Message
from accord.wire.request import ClientCapabilities


class Rung(StrEnum):
    """The degradation ladder, best first; `refused` is for clients that set a minimum fidelity."""

    NATIVE = "native"
    SIMPLIFIED = "simplified"
    SUBSTITUTED = "substituted"
    DESCRIBED = "described"
    DEFERRED = "deferred"
    DROPPED = "dropped"
    REFUSED = "refused"


class AdaptationReason(StrEnum):
    """Why an item is on its rung."""

    SUPPORTED = "supported"
    ALWAYS_DELIVERED = "always_delivered"
    MARKUP_REMOVED = "markup_removed"
    COALESCED = "coalesced"
    SMALLER_IMAGE = "smaller_image"
    IMAGE_NOT_REDUCED = "image_not_reduced"  # it is larger than the client's resolution and could not be reduced
    IMAGE_SIZE_UNKNOWN = "image_size_unknown"  # it may be larger: remote without variants, or nothing can decode it
    AUTHOR_FALLBACK = "author_fallback"
    AUTHOR_TEXT = "author_text"
    NOT_DECLARED = "not_declared"
    UNKNOWN_TYPE = "unknown_type"
    MALFORMED = "malformed"
    EMPTY = "empty"
    TRANSIENT = "transient"
    PRIVATE = "private"
    LOW_PRIORITY = "low_priority"
    LIMIT_REACHED = "limit_reached"
    BELOW_MIN_FIDELITY = "below_min_fidelity"
    STREAM_ENDED = "stream_ended"


class AdaptationEntry(Message, frozen=True):
    """The outcome of one item, or of all the text deltas of the stream, which are one item with a count."""

    position: int = Field(description="The index of the packet in the stream, from 0; of the first one, if several.")
    count: int = Field(default=1, description="How many packets this entry covers.")
    id: str = Field(description="The id of the event; without one of its own it is numbered.")
    type: str = Field(description="The event's type; for other packets the op: delta, error, close.")
    rung: Rung = Field(description="The rung on which the client got it.")
    reason: AdaptationReason = Field(description="Why it is on this rung.")
    kept: list[str] = Field(default_factory=list, description="Fields that reached the client.")
    lost: list[str] = Field(default_factory=list, description="Fields that did not.")
    notes: dict[str, int] = Field(
        default_factory=dict,
        description="Changes of the text, counted by kind; images not within the client's resolution, by reason.",
    )


class AdaptationReport(Message, frozen=True):
    """How one stream was adapted for one client."""

    declared: ClientCapabilities | None = Field(default=None, description="What the client declared, if anything.")
    assumed: list[str] = Field(default_factory=list, description="What had to be assumed about the client.")
    totals: dict[Rung, int] = Field(description="How many packets are on each rung.")
    entries: list[AdaptationEntry] = Field(description="One entry for each item, in their order.")
    unlisted: int = Field(
        default=0, description="Packets that are counted in the totals but have no entry of their own."
    )

    def total(self) -> int:
        """The number of packets of the stream."""
        return sum(self.totals.values())
