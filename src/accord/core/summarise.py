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
    tokens = [count for work in receipt["work"] if (count := count_tokens(work)) is not None]
    return {
        "duration_ms": receipt["timings"]["total_ms"],
        **({"tokens": sum(tokens)} if tokens else {}),
        "adaptation": adapted["totals"],
        "work": [summarise_work(work) for work in receipt["work"]],
    }


def count_tokens(work: Mapping[str, Any]) -> int | None:
    """Return the tokens that one question used, from the plain members of a `Work`; None if nothing was reported.

    All attempts of all backends count, also those that failed, and backends that described images for another one.
    """
    emulations: Mapping[str, Any] = work.get("emulations") or {}
    reported = [work.get("usage"), *(effect.get("usage") for effect in emulations.get("effects") or ())]
    counts = [count for usage in reported if usage and (count := _total_tokens(usage)) is not None]
    return sum(counts) if counts else None


def _total_tokens(usage: Mapping[str, Any]) -> int | None:
    """Return the total; a sum over several answers may have it for some of them only."""
    given = {
        name: count
        for name in ("total_tokens", "input_tokens", "output_tokens")
        if isinstance(count := usage.get(name), int) and not isinstance(count, bool)
    }
    if not given:
        return None
    return max(given.get("total_tokens", 0), given.get("input_tokens", 0) + given.get("output_tokens", 0))


def summarise_work(work: Mapping[str, Any]) -> dict[str, Any]:
    """Summarise one question, from the plain members of a `Work`.

    `backend` and `model` name the one that answered, and are absent if none did. `emulated` names for each capability
    whether Accord or the backend itself emulates it.
    """
    fallbacks: list[Mapping[str, Any]] = work.get("fallbacks") or []
    failed = [{"backend": each["backend"], "code": str(each["code"])} for each in fallbacks]
    summary: dict[str, Any] = {}
    party: Mapping[str, Any] | None = work.get("backend")
    # One that was skipped may have been tried after all, once the others had failed.
    if party is not None and party["name"] not in [
        each["backend"] for each in fallbacks if not (each.get("skipped") or each.get("retried"))
    ]:
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
