"""Puts together what is known of a model behind an API: whose word counts before whose, and what an API adds.

The operator first; then what the API cannot carry, which no fact about a model changes; then what the endpoint tells,
what it was seen to do, the shipped facts; and last what the API itself has, whatever the model.
"""

from accord.backends.evidence import Evidence, Layer
from accord.backends.models.api import ModelApi
from accord.wire.support import SupportLevel


def layers(api: ModelApi, declared: Layer, discovered: Layer, facts: Layer) -> tuple[Layer, ...]:
    """All that is said of a model, the first word first."""
    lacks = {name: Evidence(SupportLevel.model_validate("unsupported"), api.name) for name in api.lacks}
    gives = {name: Evidence(SupportLevel.model_validate(level), api.name) for name, level in api.gives.items()}
    return declared, lacks, discovered, facts, gives
