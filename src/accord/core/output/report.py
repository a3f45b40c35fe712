"""Writes the account: one entry for every packet that came in, and one for all the text together.

Totals count everything; entries are bounded. It must not know why anything was decided.
"""

from operator import itemgetter
from typing import Any, Final, NamedTuple

from accord.core.output.ladder import Outcome
from accord.core.output.text import TextChannel
from accord.wire.adaptation import AdaptationReason, Rung

TEXT_ID: Final = "text"
_NOTHING: Final = dict.fromkeys(map(str, Rung), 0)


class _Line(NamedTuple):
    position: int
    id: str
    type: str
    outcome: Outcome

    def entry(self) -> dict[str, Any]:
        outcome = self.outcome
        return {
            "position": self.position,
            "count": 1,
            "id": self.id,
            "type": self.type,
            "rung": str(outcome.rung),
            "reason": str(outcome.reason),
            "kept": list(outcome.kept),
            "lost": list(outcome.lost),
            "notes": dict(outcome.notes),
        }


class Ledger:
    """The account of one stream."""

    __slots__ = ("_first_delta", "_lines", "_max_entries", "_others", "_refused_deltas", "_totals")

    def __init__(self, max_entries: int) -> None:
        self._max_entries: Final = max_entries
        self._lines: list[_Line] = []
        self._totals: Final = _NOTHING.copy()
        self._others = 0
        self._first_delta: int | None = None
        self._refused_deltas = 0

    @property
    def ordinal(self) -> int:
        """The number of the packet being fed among those that are not text: it does not depend on how text is cut."""
        return self._others + 1

    def position(self, deltas: int) -> int:
        """The place in the stream of the packet that is being fed, after so many deltas."""
        return self._others + deltas

    def text_begins(self) -> None:
        """The first delta is being fed."""
        if self._first_delta is None:
            self._first_delta = self._others

    def refuse_delta(self) -> None:
        """A delta came after the stream had ended."""
        self.text_begins()
        self._refused_deltas += 1

    @property
    def refused_deltas(self) -> int:
        """How many deltas came after the end."""
        return self._refused_deltas

    def write(self, position: int, id: str, type: str, outcome: Outcome) -> int:
        """One entry; its number, by which it can be amended."""
        self._others += 1
        self._totals[str(outcome.rung)] += 1
        if len(self._lines) >= self._max_entries:
            return -1
        self._lines.append(_Line(position, id, type, outcome))
        return len(self._lines) - 1

    def amend(self, entry: int, outcome: Outcome, was: Rung) -> None:
        """What was decided turned out otherwise."""
        self._totals[str(was)] -= 1
        self._totals[str(outcome.rung)] += 1
        if entry >= 0:
            self._lines[entry] = self._lines[entry]._replace(outcome=outcome)

    def members(self, channel: TextChannel) -> dict[str, Any]:
        """The account as it stands: an `AdaptationReport` as plain JSON values, but for what is known of the client."""
        totals = self._totals.copy()
        text = self._text_entries(channel)
        for entry in text:
            totals[entry["rung"]] += entry["count"]
        entries = [*text, *(line.entry() for line in self._lines)]
        entries.sort(key=_position)
        return {"totals": totals, "entries": entries, "unlisted": self._others - len(self._lines)}

    def _text_entries(self, channel: TextChannel) -> list[dict[str, Any]]:
        if self._first_delta is None:
            return []
        notes = channel.notes
        same = channel.is_same and not notes
        rung = Rung.NATIVE if same else Rung.SIMPLIFIED
        reason = AdaptationReason.ALWAYS_DELIVERED if same else AdaptationReason.MARKUP_REMOVED
        told = [(channel.deltas, rung, reason, notes)]
        if self._refused_deltas:
            told.append((self._refused_deltas, Rung.REFUSED, AdaptationReason.STREAM_ENDED, {}))
        return [
            {
                "position": self._first_delta,
                "count": count,
                "id": TEXT_ID,
                "type": "delta",
                "rung": str(rung),
                "reason": str(reason),
                "kept": ["text"] if rung is not Rung.REFUSED else [],
                "lost": [] if rung is Rung.NATIVE else ["markup"] if rung is Rung.SIMPLIFIED else ["text"],
                "notes": notes,
            }
            for count, rung, reason, notes in told
            if count
        ]


_position: Final = itemgetter("position")
