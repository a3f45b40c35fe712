"""Evidence of a capability: a level of support, with its source and date. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from accord.wire.manifest import SupportLevel


@dataclass(frozen=True, slots=True)
class Evidence:
    """A level of support, its source, and the date of the source if it has one."""

    level: SupportLevel
    source: str
    date: str | None = None


Layer = Mapping[str, Evidence]
"""What one source says, by capability."""
