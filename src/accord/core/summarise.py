"""Summarise a receipt: which backend answered each question of the turn, which failed, what was emulated or lost.

The summary depends on the receipt alone, so it is the same while a turn is live and when it is read again. It is used
for `metrics` of a `ServiceResponse`, `accord ask` and `accord receipts show`. Empty members are left out.
"""

from collections.abc import Mapping
from typing import Any

from accord.wire.emulation import LOSSES


def response_metrics(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `metrics` of a `ServiceResponse`, from the plain members of its receipt (docs/http.md)."""
    adapted: Mapping[str, Any] = receipt.get("adaptation") or {"totals": {}}
    return {
        "duration_ms": receipt["timings"]["total_ms"],
        "adaptation": adapted["totals"],
        "work": [summarise_work(work) for work in receipt["work"]],
    }


def summarise_work(work: Mapping[str, Any]) -> dict[str, Any]:
    """Summarise one question, from the plain members of a `Work`.

    `backend` and `model` name the one that answered, and are absent if none did. `emulated` names for each capability
    whether Accord or the backend itself emulates it.
    """
    failed = [{"backend": each["backend"], "code": str(each["code"])} for each in work.get("fallbacks") or ()]
    summary: dict[str, Any] = {}
    party: Mapping[str, Any] | None = work.get("backend")
    if party is not None and party["name"] not in [each["backend"] for each in failed]:
        summary |= {"backend": party["name"], "model": party.get("model")}
        for candidate in work.get("candidates") or ():
            if candidate["backend"] == party["name"]:
                summary |= _compromises(candidate["offer"])
    emulations: Mapping[str, Any] = work.get("emulations") or {}
    lost = [
        {"capability": each["capability"], "reason": str(each["kind"]), "count": each.get("count", 1)}
        for each in emulations.get("effects") or ()
        if each["kind"] in LOSSES
    ]
    summary |= {"fallbacks": failed, "lost": [*summary.get("lost", ()), *lost], "usage": work.get("usage")}
    return {name: value for name, value in summary.items() if value}


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
    shortfalls = [*(offer.get("losses") or ()), *(offer.get("unmet") or ())]
    return {
        "emulated": [*by_accord, *by_backend],
        "tried": list(offer.get("tried") or ()),
        "lost": [{"capability": each["capability"], "reason": each["reason"]} for each in shortfalls],
    }
