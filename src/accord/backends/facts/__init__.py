"""What is known about models: facts with source and date, read from a snapshot that ships as data.

The face of the room. `find` and `all_models` look things up, `snapshot` tells where it all comes from,
`Catalogue` reads somebody's own snapshot. The file is read at the first look-up, not at import.
"""

from accord.backends.facts.catalogue import Catalogue, SnapshotError, all_models, find, shipped, snapshot
from accord.backends.facts.snapshot import Dispute, Fact, FactSource, Level, ModelFacts, Snapshot, UnknownModel

__all__ = [
    "Catalogue",
    "Dispute",
    "Fact",
    "FactSource",
    "Level",
    "ModelFacts",
    "Snapshot",
    "SnapshotError",
    "UnknownModel",
    "all_models",
    "find",
    "shipped",
    "snapshot",
]
