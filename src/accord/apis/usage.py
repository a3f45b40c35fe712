"""What answers say of their cost: the usage by a table of names, nested ones with a dot, and the service tier. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from accord.core.work.fields import OPENAI
from accord.wire.disposition import Api
from accord.wire.work import EndPiece

PLAIN_TIERS: Final = frozenset({"default", "standard"})
"""What OpenAI's APIs and all others call the tier without priority."""


def read_counts(usage: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """The counts of this usage under the names that backends use; what is not a whole number is left out."""
    counts: dict[str, int] = {}
    for name, ours in names.items():
        outer, _, inner = name.partition(".")
        value: Any = usage.get(outer)
        if inner and isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(inner)
        if isinstance(value, int) and not isinstance(value, bool):
            counts[ours] = value
    return counts


def sum_counts(ends: Iterable[EndPiece]) -> dict[str, int]:
    """The counts of all these answers together."""
    counts: dict[str, int] = {}
    for end in ends:
        for name, count in (end.usage or {}).items():
            if isinstance(count, int):
                counts[name] = counts.get(name, 0) + count
    return counts


def tier_member(api: Api, ends: Iterable[EndPiece], name: str = "service_tier") -> dict[str, Any]:
    """The member with the tier that the first of these answers names, in the word of this API; empty without one."""
    tier = next((end.service_tier for end in ends if end.service_tier), None)
    if tier in PLAIN_TIERS:
        tier = "default" if api in OPENAI else "standard"
    return {} if tier is None else {name: tier}
