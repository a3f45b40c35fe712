"""Build the adaptation report: one entry for every packet, and one for all the text together.

Totals count everything; the number of entries is limited. Why anything was decided is not known here.
"""

from operator import itemgetter
from typing import Any, Final, NamedTuple

from accord.core.output.ladder import Adaptation
from accord.core.output.text import TextChannel
from accord.wire.adaptation import AdaptationReason, Rung

TEXT_ID: Final = "text"
_ZERO_TOTALS: Final = dict.fromkeys(map(str, Rung), 0)
_TEXT_SENT: Final = Adaptation(Rung.NATIVE, AdaptationReason.ALWAYS_DELIVERED, kept=("text",))
_TEXT_REFUSED: Final = Adaptation(Rung.REFUSED, AdaptationReason.STREAM_ENDED, lost=("text",))


class _Entry(NamedTuple):
    position: int
    id: str
    type: str
    adaptation: Adaptation

    def to_json(self, count: int = 1) -> dict[str, Any]:
        adaptation = self.adaptation
        return {
            "position": self.position,
            "count": count,
            "id": self.id,
            "type": self.type,
            "rung": str(adaptation.rung),
            "reason": str(adaptation.reason),
            "kept": list(adaptation.kept),
            "lost": list(adaptation.lost),
            "notes": dict(adaptation.notes),
        }


def report_on_text(deltas: int, end: Adaptation) -> dict[str, Any]:
    """What a builder says of so many deltas that were sent as they are, and the close after them."""
    entries = [_Entry(0, TEXT_ID, "delta", _TEXT_SENT).to_json(deltas)] if deltas else []
    entries.append(_Entry(deltas, "close", "close", end).to_json())
    return {"totals": {**_ZERO_TOTALS, str(Rung.NATIVE): deltas + 1}, "entries": entries, "unlisted": 0}


class ReportBuilder:
    """The report on one stream, while it is fed."""

    __slots__ = ("_channel", "_entries", "_first_delta", "_max_entries", "_others", "_refused_deltas", "_totals")

    def __init__(self, channel: TextChannel, max_entries: int) -> None:
        self._channel: Final = channel
        self._max_entries: Final = max_entries
        self._entries: list[_Entry] = []
        self._totals: Final = _ZERO_TOTALS.copy()
        self._others = 0
        self._first_delta: int | None = None
        self._refused_deltas = 0

    @property
    def ordinal(self) -> int:
        """The number of the current packet among those that are not text; it does not depend on how text is cut."""
        return self._others + 1

    def begin_text(self) -> None:
        """Record the position of the first delta."""
        if self._first_delta is None:
            self._first_delta = self._others

    def refuse_delta(self) -> None:
        """Count a delta that came after the stream had ended."""
        self.begin_text()
        self._refused_deltas += 1

    def add(self, packet_id: str, packet_type: str, adaptation: Adaptation) -> int:
        """Add the entry of the current packet; return its number for `amend`."""
        position = self._others + self._channel.deltas + self._refused_deltas
        self._others += 1
        self._totals[str(adaptation.rung)] += 1
        if len(self._entries) >= self._max_entries:
            return -1
        self._entries.append(_Entry(position, packet_id, packet_type, adaptation))
        return len(self._entries) - 1

    def amend(self, number: int, adaptation: Adaptation, previous: Rung) -> None:
        """Replace the adaptation of an entry."""
        self._totals[str(previous)] -= 1
        self._totals[str(adaptation.rung)] += 1
        if number >= 0:
            self._entries[number] = self._entries[number]._replace(adaptation=adaptation)

    def to_json(self) -> dict[str, Any]:
        """Return the totals and entries so far, as an `AdaptationReport` has them."""
        totals = self._totals.copy()
        text = self._text_entries()
        for entry in text:
            totals[entry["rung"]] += entry["count"]
        entries = [*text, *(entry.to_json() for entry in self._entries)]
        entries.sort(key=itemgetter("position"))
        return {"totals": totals, "entries": entries, "unlisted": self._others - len(self._entries)}

    def _text_entries(self) -> list[dict[str, Any]]:
        """Return at most two entries: the text that was sent, and the text that was refused."""
        if self._first_delta is None:
            return []
        notes = self._channel.notes
        if self._channel.is_unchanged and not notes:
            sent = _TEXT_SENT
        else:
            sent = Adaptation(
                Rung.SIMPLIFIED, AdaptationReason.MARKUP_REMOVED, kept=("text",), lost=("markup",), notes=notes
            )
        return [
            _Entry(self._first_delta, TEXT_ID, "delta", adaptation).to_json(count)
            for count, adaptation in ((self._channel.deltas, sent), (self._refused_deltas, _TEXT_REFUSED))
            if count
        ]
