"""Which backends a model name of a request means, and which of them is tried first. Pure: randomness is passed in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from accord.core.vocabulary import unknown_name
from accord.wire.plan import Offer

AUTO: Final = "auto"
"""Every backend, in the operator's order."""


@dataclass(frozen=True, slots=True)
class BackendGroup:
    """Backends in their order of fallback. With weights, the first one is drawn among those that have one."""

    backends: tuple[str, ...]
    weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType(dict[str, float]()))


@dataclass(frozen=True, slots=True)
class UnresolvedModel:
    """No backend, group or model has this name."""

    name: str
    message: str


def resolve_model(
    name: str, models: Mapping[str, str | None], groups: Mapping[str, BackendGroup]
) -> BackendGroup | UnresolvedModel:
    """Return the backends that a model name means: a backend, a group, `auto`, or the id of a model that some have.

    `models` is the model of each backend, in the operator's order. A group called `auto` replaces the built-in one.
    """
    if name in models:
        return BackendGroup((name,))
    if name in groups:
        return groups[name]
    if name == AUTO:
        return BackendGroup(tuple(models))
    if found := tuple(backend for backend, model in models.items() if model == name):
        return BackendGroup(found)
    return UnresolvedModel(name, unknown_name("model", name, model_names(models, groups)))


def model_names(models: Mapping[str, str | None], groups: Mapping[str, BackendGroup]) -> list[str]:
    """Return every name that `resolve_model` knows: groups, backends, their models, `auto`."""
    return list(dict.fromkeys([*groups, *models, *(model for model in models.values() if model), AUTO]))


def count_equal(offers: Sequence[Offer]) -> int:
    """Return how many offers at the beginning are as good as the first."""
    ranks = [(len(offer.losses), offer.compromises) for offer in offers]
    return next((place for place, rank in enumerate(ranks) if rank != ranks[0]), len(ranks))


def draw_first(names: Sequence[str], weights: Mapping[str, float], draw: Callable[[], float]) -> tuple[str, ...]:
    """Return the names with one drawn by weight at the front; the others stay in their order.

    `draw` returns a number from 0 up to, but not including, 1, as `random.random` does.
    """
    total = sum(weights.get(name, 0.0) for name in names)
    if total <= 0.0:
        return tuple(names)
    left, first = draw() * total, None
    for name in names:
        weight = weights.get(name, 0.0)
        if weight > 0.0:
            first = name  # the last one with a weight, if rounding leaves a rest
            left -= weight
            if left < 0.0:
                break
    return tuple(names) if first is None else (first, *(name for name in names if name != first))
