"""What was noticed about a message, for people and for the trace. Never a part of what the message carried."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Side(StrEnum):
    """Who said it; `accord` where the proxy speaks for itself."""

    EDITOR = "editor"
    AGENT = "agent"
    ACCORD = "accord"


class Severity(StrEnum):
    """How much it matters: an account of what was done, something odd, a broken contract."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was noticed: about which message of which side, on which clause it stands, in one sentence."""

    number: int
    side: Side
    severity: Severity
    clause: str
    sentence: str

    def dump(self) -> dict[str, Any]:
        """The finding as plain values; the message that it belongs to is told beside it."""
        return {"severity": self.severity.value, "clause": self.clause, "sentence": self.sentence}
