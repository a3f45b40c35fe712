"""Finds what would make refused work possible, for the person who has to put it right."""

from collections.abc import Sequence

from accord.core.emulate.choose import PRESET
from accord.core.negotiate import NOT_DECLARED
from accord.wire.plan import Need, Offer, Remedy, Shortfall, WorkPolicy
from accord.wire.support import MinSupport


def find_remedies(nearest: Offer | None, needs: Sequence[Need], policy: WorkPolicy) -> list[Remedy]:
    """The changes that would let the nearest backend do the work, each on its own line."""
    if nearest is None:
        return [Remedy(change="configure a backend")]
    remedies = [remedy for short in nearest.missing for remedy in _remedies_for(short, nearest, needs, policy)]
    if policy is not WorkPolicy.PERMISSIVE:
        remedies.append(Remedy(change="use the permissive policy, which records what is missing and goes on"))
    return remedies


def _remedies_for(short: Shortfall, offer: Offer, needs: Sequence[Need], policy: WorkPolicy) -> list[Remedy]:
    name, changes = short.capability, list[str]()
    insists = any(need.capability == name and need.min_support is MinSupport.NATIVE for need in needs)
    if short.reason == NOT_DECLARED:
        changes.append(f"declare {name} in the manifest of {offer.backend}, if it has it")
        changes.append("let what a manifest is silent about be tried")
    if short.reason.endswith("is below native"):
        changes.append(_accept_emulated(name, policy))
    elif name in PRESET:
        switch = f"turn on Accord's own emulation of {name}"
        changes.append(f"{switch} and accept emulated support" if insists else switch)
    changes.append(f"use a backend that has {name}")
    return [Remedy(capability=name, change=change) for change in changes]


def _accept_emulated(name: str, policy: WorkPolicy) -> str:
    if policy is WorkPolicy.STRICT:
        return f"use the standard policy, which accepts emulated support of {name}"
    return f"accept emulated support of {name}"
