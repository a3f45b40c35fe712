"""Sums up a receipt: who answered each question of the turn, who failed before, what was emulated or lost.

Made of the receipt alone, so that it is the same while a turn is live and when it is read again. `metrics` of a
`ServiceResponse`, `accord ask` and `accord receipts show` use it. Members that would be empty are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from accord.wire.emulation import LOSSES


def response_metrics(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The `metrics` of a `ServiceResponse`, from the plain members of its receipt (docs/http.md)."""
    adapted: Mapping[str, Any] = receipt.get("adaptation") or {"totals": {}}
    return {
        "duration_ms": receipt["timings"]["total_ms"],
        "adaptation": adapted["totals"],
        "work": [summarise_work(work) for work in receipt["work"]],
    }


def summarise_work(work: Mapping[str, Any]) -> dict[str, Any]:
    """What became of one question, from the plain members of a `Work`.

    `backend` and `model` are who answered; nobody did where they are absent. `emulated` says for each capability
    whether Accord or the backend itself stands in for it.
    """
    failed = [{"backend": each["backend"], "code": str(each["code"])} for each in work.get("fallbacks") or ()]
    lost = _lost_by_emulation(work.get("emulations"))
    party: Mapping[str, Any] | None = work.get("backend")
    if party is None or party["name"] in [each["backend"] for each in failed]:
        answered: Mapping[str, Any] = {}
    else:
        answered = _described(party, work.get("candidates") or ())
    summary: dict[str, Any] = {
        **answered,
        "fallbacks": failed,
        "lost": [*answered.get("lost", ()), *lost],
        "usage": work.get("usage"),
    }
    return {name: value for name, value in summary.items() if value}


def _described(party: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    name = party["name"]
    described: dict[str, Any] = {"backend": name, "model": party.get("model")}
    for candidate in candidates:
        if candidate["backend"] == name:
            described |= _compromises(candidate["offer"])
    return described


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
