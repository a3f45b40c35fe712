"""Find what would make refused work possible. Each remedy names the key of accord.toml or the command that does it."""

from collections.abc import Sequence

from accord.core.emulate.choose import PRESET
from accord.core.negotiate import NOT_DECLARED
from accord.core.vocabulary import PROBED
from accord.wire.capability import canonical_name
from accord.wire.plan import Need, Offer, Remedy, Shortfall, WorkPolicy
from accord.wire.support import MinSupport


def find_remedies(nearest: Offer | None, needs: Sequence[Need], policy: WorkPolicy) -> list[Remedy]:
    """The changes that would let the nearest backend do the work, each on its own line."""
    if nearest is None:
        return [Remedy(change="add a backend to accord.toml; `accord backends` shows how")]
    remedies = [remedy for short in nearest.missing for remedy in _remedies_for(short, nearest, needs, policy)]
    if policy is not WorkPolicy.PERMISSIVE:
        change = 'set policy = "permissive" at the top of accord.toml: work goes on, and what is missing is recorded'
        remedies.append(Remedy(change=change))
    return remedies


def _remedies_for(short: Shortfall, offer: Offer, needs: Sequence[Need], policy: WorkPolicy) -> list[Remedy]:
    name, changes = short.capability, list[str]()
    insists = any(need.capability == name and need.min_support is MinSupport.NATIVE for need in needs)
    if short.reason == NOT_DECLARED:
        if canonical_name(name) in PROBED:
            changes.append(f"run `accord backends probe {offer.backend} --write` to find out whether it has {name}")
        changes.append(f'if {offer.backend} has it, set {name} = "native" in its [backends.overrides] in accord.toml')
        changes.append('set unknown = "try" at the top of accord.toml to try what is not declared')
    if short.reason.endswith("is below native"):
        changes.append(_accept_emulated(name, policy))
    elif canonical_name(name) in PRESET:
        switch = f"set {canonical_name(name)} = true under [emulation.preset] in accord.toml to have Accord emulate it"
        changes.append(f"{switch}, and {_accept_emulated(name, policy)}" if insists else switch)
    changes.append(f"use a backend that has it; `accord models --require {name}` lists models")
    return [Remedy(capability=name, change=change) for change in changes]


def _accept_emulated(name: str, policy: WorkPolicy) -> str:
    if policy is WorkPolicy.STRICT:
        return f'set policy = "standard" in accord.toml, which accepts emulated support of {name}'
    return f"require {name} with min_support emulated instead of native"
