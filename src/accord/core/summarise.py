"""Sums up a receipt: who answered each question of the turn, who failed before, what was emulated or lost.

Made of the receipt alone, so that it is the same while a turn is live and when it is read again. `metrics` of a
`ServiceResponse`, `accord ask` and `accord receipts show` use it. Members that would be empty are left out.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from accord.core.recall import Recall
from accord.wire.attempt import LOSSES

ReadT = TypeVar("ReadT")


def response_metrics(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The `metrics` of a `ServiceResponse`, from the plain members of its receipt (docs/http.md)."""
    adapted: Mapping[str, Any] = receipt.get("adaptation") or {"totals": {}}
    return {
        "duration_ms": receipt["timings"]["total_ms"],
        "adaptation": adapted["totals"],
        "work": [summarise_work(work) for work in receipt["work"]],
    }


def summarise_work(work: Mapping[str, Any]) -> dict[str, Any]:
    """What became of one question, from the plain members of a `Work`; some of them may be JSON text still.

    `backend` and `model` are who answered; nobody did where they are absent. `emulated` says for each capability
    whether Accord or the backend itself stands in for it.
    """
    failed = [{"backend": each["backend"], "code": str(each["code"])} for each in work.get("fallbacks") or ()]
    named = _read(party, _NAMED, _named) if (party := work.get("backend")) is not None else {}
    told: dict[str, Any] = {"fallbacks": failed}
    if named and named["backend"] not in [each["backend"] for each in failed]:
        offers = _read(work.get("candidates") or [], _OFFERED, _offered)
        told = {**named, **told, **offers.get(named["backend"], {})}
    lost = _lost_by_emulation(work.get("emulations"))
    told |= {"lost": [*told.get("lost", ()), *lost], "usage": work.get("usage")}
    return {name: value for name, value in told.items() if value}


def _read(value: Any, known: Recall[ReadT], read: Callable[[Any], ReadT]) -> ReadT:
    # The same text is in the receipts of many turns: it is decoded once.
    if isinstance(value, msgspec.Raw):
        return known.answer((value,), (), lambda: read(msgspec.json.decode(value)))
    return read(value)


def _named(party: Mapping[str, Any]) -> dict[str, Any]:
    return {"backend": party["name"], "model": party.get("model")}


def _offered(candidates: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the work had to do without or in another way, by the backend that would do it."""
    return {each["backend"]: _compromises(each["offer"]) for each in candidates}


def _compromises(offer: Mapping[str, Any]) -> dict[str, Any]:
    negotiated = offer["negotiation"]
    strategies: Mapping[str, Any] = negotiated.get("strategies") or {}
    by_accord = [
        {
            "capability": rescue["capability"],
            "by": "accord",
            "strategy": rescue["strategy"]["type"],
            "reason": rescue["instead_of"],
        }
        for rescue in offer.get("rescues") or ()
    ]
    by_backend = [
        {"capability": name, "by": "backend", "strategy": strategies.get(name, "adapter")}
        for name in dict.fromkeys(negotiated.get("emulatable") or ())
    ]
    short = [*(offer.get("losses") or ()), *(offer.get("unmet") or ())]
    return {
        "emulated": [*by_accord, *by_backend],
        "tried": list(offer.get("tried") or ()),
        "lost": [{"capability": each["capability"], "reason": each["reason"]} for each in short],
    }


def _lost_by_emulation(record: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    effects = (record or {}).get("effects") or ()
    return [
        {"capability": each["capability"], "reason": str(each["kind"]), "count": each.get("count", 1)}
        for each in effects
        if each["kind"] in LOSSES
    ]


_NAMED: Final = Recall[dict[str, Any]]()
_OFFERED: Final = Recall[dict[str, dict[str, Any]]]()
