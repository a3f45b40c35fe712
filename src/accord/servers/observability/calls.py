"""What observers say of a turn or a model API call, from its receipt: names and counts, never text of anybody.

A field that the table does not list has a name that a client chose, so that all of these are called `other`. The names
of models come from clients and endpoints, and are cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from accord.apis.answer_table import ANSWER_TABLE
from accord.core.work.fields import TABLE

OTHER: Final = "other"
"""Stands for every name that is not listed, or that comes after too many others."""
MAX_NAME_CHARS: Final = 100
MAX_COUNT: Final = 2**53
"""The largest count that is believed: an endpoint reports its own usage."""

TOKEN_COUNTS: Final[Mapping[str, str]] = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cached_input_tokens",
}
"""The kinds of tokens, and their names in the usage of a call. Cached tokens are input tokens, too."""

_TOKEN_COUNTS: Final = tuple(TOKEN_COUNTS.items())
_PARTS: Final = frozenset(name for rows in ANSWER_TABLE.values() for name in rows)
_FIELDS: Final[Mapping[str, frozenset[str]]] = {api.value: frozenset(rows) for api, rows in TABLE.items()}


def count_tokens(work: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The tokens of all questions together by kind, as far as they are known."""
    counts: dict[str, int] = {}
    for each in work:
        usage: Mapping[str, Any] = each.get("usage") or {}
        for kind, name in _TOKEN_COUNTS:
            count = usage.get(name)
            if type(count) is int and count >= 0:
                counts[kind] = min(counts.get(kind, 0) + count, MAX_COUNT)
    return counts


def costs_of(receipt: Mapping[str, Any]) -> Mapping[str, Any]:
    """The members `key`, `cost_usd` and `estimated` of a turn or a call, as far as they are known, among others."""
    return receipt.get("call") or receipt


def field_label(api: str, field: str) -> str:
    """The name of a listed field, or `other`."""
    return field if field in _FIELDS[api] else OTHER


def list_dispositions(receipt: Mapping[str, Any]) -> list[str]:
    """What became of the fields that were not native, as `seed=dropped`; each once."""
    api = receipt["call"]["api"]
    records = [record for work in receipt["work"] if "dispositions" in work for record in work["dispositions"]]
    return [*dict.fromkeys([f"{field_label(api, each['field'])}={each['disposition']}" for each in records])]


def part_label(part: str) -> str:
    """The name of a part of an answer that a table has, or `other`."""
    return part if part in _PARTS else OTHER


def list_answer_parts(receipt: Mapping[str, Any]) -> list[str]:
    """What became of the parts of the answer that were not native, as `citations=lost`; each once."""
    records = [record for work in receipt["work"] if "answer" in work for record in work["answer"]]
    return [*dict.fromkeys([f"{part_label(each['part'])}={each['disposition']}" for each in records])]


def list_failed(work: Sequence[Mapping[str, Any]]) -> list[str]:
    """The backends that failed or were skipped, in order; each once, and not for a field that it refused."""
    names = [each["backend"] for one in work for each in one["fallbacks"] if "retried" not in each]
    return [*dict.fromkeys(names)] if names else names


def list_emulated(work: Sequence[Mapping[str, Any]]) -> list[str]:
    """The capabilities that Accord emulated."""
    names = [entry["capability"] for each in work if "emulations" in each for entry in each["emulations"]["emulated"]]
    return sorted(set(names)) if names else names


def cut_name(name: str) -> str:
    """The name of a model, not longer than a name should be."""
    return name[:MAX_NAME_CHARS]
