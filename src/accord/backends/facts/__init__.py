"""What open data says about models: facts with source and date, read from a snapshot that ships with the package.

`find_model` looks a model up, `shipped_catalogue` has them all, `Catalogue` reads another snapshot. The file is read at
the first look-up, not at import.
"""

from accord.backends.facts.catalogue import Catalogue, find_model, shipped_catalogue
from accord.backends.facts.snapshot import Dispute, Fact, FactSource, Level, ModelFacts, SnapshotError, UnknownModel

__all__ = [
    "Catalogue",
    "Dispute",
    "Fact",
    "FactSource",
    "Level",
    "ModelFacts",
    "SnapshotError",
    "UnknownModel",
    "find_model",
    "shipped_catalogue",
]
