"""Plan one piece of work: which backend does it and how, or why none can. Read this file first.

    needs, stated and derived ──> one offer per candidate ──> the best offer, or a refusal with remedies

`negotiate.py` compares needs with a manifest. A capability that a backend lacks can then be emulated by Accord, if the
work accepts emulation and the operator configured a strategy that Accord can perform (decision 12). A backend that is
refused here is never given the work.

This module is pure. It sees what backends declare, never a backend, and it sends nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from accord.core.vocabulary import PROBED
from accord.core.work.derive import (
    PARAMETERS,
    PART_REASONS,
    capability_for_part,
    derive_extension_needs,
    derive_needs,
    derived_capabilities,
    parameter_capabilities,
)
from accord.core.work.emulation.base import printable_address, replace_messages, withhold
from accord.core.work.emulation.choose import DEFAULT_SETTINGS, PRESET, build_emulation
from accord.core.work.emulation.engine import EmulationEngine
from accord.core.work.negotiate import NOT_DECLARED, IdentityCache, compare, declared_level
from accord.errors import ErrorCode, UsageError
from accord.wire.capability import ALIASES, FILE_INPUT, TOOL_RESULT_MEDIA, Capability, canonical_name
from accord.wire.conversation import ImagePart, MessagePart, ResourcePart, TextPart, ToolResultPart
from accord.wire.emulation import EmulationConfig
from accord.wire.manifest import CapabilityManifest, CapabilityRequirement, MinSupport, NegotiationResult
from accord.wire.message import as_model
from accord.wire.plan import (
    Need,
    Offer,
    Plan,
    Refusal,
    RejectedOffer,
    Remedy,
    Rescue,
    Shortfall,
    UnknownPolicy,
    WorkPolicy,
)
from accord.wire.work import WorkOrder

REFUSED_BEFORE: Final = "refused by the endpoint before"
CONTRADICTED: Final = "contradicted by its answers before"
"""Reasons for a shortfall that come from experience, not from the manifest."""

ORDER_EXAMPLE: Final = """{"conversation": {"messages": []}}"""
"""What a dict for `order` looks like, for the message of a wrong call."""

MAX_CACHED_REQUIREMENTS: Final = 64
"""Work that states more requirements is planned each time: cache keys stay small, whatever a peer sends."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend that could be given the work: its name, what it declares, and what experience says against that.

    `refused` is what its endpoint refused; `contradicted` is what it declares and its answers did not show.
    """

    name: str
    manifest: CapabilityManifest
    refused: frozenset[str] = frozenset()
    contradicted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PlanConfig:
    """The operator's choices."""

    policy: WorkPolicy = WorkPolicy.STANDARD
    unknown: UnknownPolicy = UnknownPolicy.DENY
    emulation: EmulationConfig = field(default_factory=EmulationConfig)


def plan(order: WorkOrder | Mapping[str, Any], candidates: Sequence[Candidate], config: PlanConfig) -> Plan | Refusal:
    """Choose the backend for this work, or refuse it. `candidates` are in the operator's order of preference.

    Outcomes are cached: work with the same needs may get the same object, whatever its conversation says.
    """
    order = as_model(WorkOrder, order, "order", ORDER_EXAMPLE)
    for candidate in candidates:
        if not isinstance(candidate, Candidate):  # pyright: ignore[reportUnnecessaryIsInstance] - see below
            given = type(candidate).__name__
            raise UsageError(f"candidates: expected Candidate(name, manifest) for each backend, not {given}")
    if not isinstance(config, PlanConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is checked
        raise UsageError(f"config: expected a PlanConfig such as PlanConfig(), not {type(config).__name__}")
    stated = order.requirements
    if len(stated.required) + len(stated.preferred) > MAX_CACHED_REQUIREMENTS:
        return _decide(order, candidates, config)
    return _OUTCOMES.get_or_compute(
        (config.emulation,),
        (config.emulation.strategies,),
        lambda: _decide(order, candidates, config),
        key=(_cache_key(order, candidates), config.policy, config.unknown),
    )


_OUTCOMES: Final = IdentityCache[Plan | Refusal]()


def _cache_key(order: WorkOrder, candidates: Sequence[Candidate]) -> tuple[Any, ...]:
    """All that the outcome depends on, by value: the needs, and what each candidate declares of just these."""
    derived, parameters = derived_capabilities(order), parameter_capabilities(order)
    required = tuple((need.capability, need.min_support) for need in order.requirements.required)
    preferred = tuple((need.capability, need.min_support) for need in order.requirements.preferred)
    names = [*derived, *(name for name, _ in required), *(name for name, _ in preferred)]
    names += [ALIASES[name] for name in names if name in ALIASES]  # a level may be declared under either name
    names += parameters
    declarations: list[tuple[Any, ...]] = []
    for candidate in candidates:
        manifest = candidate.manifest.root
        levels = tuple([None if (level := manifest.get(name)) is None else level.root for name in names])
        declarations.append((candidate.name, candidate.refused, candidate.contradicted, levels))
    return derived, parameters, required, preferred, tuple(declarations)


def _decide(order: WorkOrder, candidates: Sequence[Candidate], config: PlanConfig) -> Plan | Refusal:
    needs, extensions = derive_needs(order), derive_extension_needs(order)
    if config.policy is WorkPolicy.STRICT:
        natively = {"min_support": MinSupport.NATIVE}
        needs = [need.model_copy(update=natively) for need in needs]
        extensions = [need.model_copy(update=natively) for need in extensions]
    offers = [
        # Accord's own capabilities count only where a manifest mentions them: an ABP manifest cannot.
        _offer(candidate, [*needs, *(need for need in extensions if need.capability in candidate.manifest)], config)
        for candidate in candidates
    ]
    # The sort is stable: between equals the operator's order decides.
    acceptable = sorted((offer for offer in offers if offer.is_acceptable), key=_rank)
    if not acceptable:
        return _refuse(needs, offers, config.policy)
    best, *others = acceptable
    lost = [
        RejectedOffer(backend=offer.backend, why=_why_not_chosen(offer, best), offer=offer)
        for offer in offers
        if offer != best
    ]
    return Plan(backend=best.backend, policy=config.policy, needs=needs, offer=best, fallbacks=others, lost=lost)


def _offer(candidate: Candidate, needs: Sequence[Need], config: PlanConfig) -> Offer:
    """What this candidate can make of the work."""
    required = _settle(candidate, [need for need in needs if need.required], config)
    preferred = _settle(candidate, [need for need in needs if not need.required], config)
    is_permissive = config.policy is WorkPolicy.PERMISSIVE
    return Offer(
        backend=candidate.name,
        negotiation=required.negotiation,
        rescues=[*required.rescues, *preferred.rescues],
        tried=[*required.tried, *preferred.tried],
        losses=required.short if is_permissive else [],
        missing=[] if is_permissive else required.short,
        unmet=preferred.short,
    )


@dataclass(frozen=True, slots=True)
class _Settlement:
    """What becomes of needs at one candidate: negotiated, and what is unsupported is emulated, tried, or short."""

    negotiation: NegotiationResult
    rescues: list[Rescue] = field(default_factory=list[Rescue])
    tried: list[str] = field(default_factory=list[str])
    short: list[Shortfall] = field(default_factory=list[Shortfall])


def _settle(candidate: Candidate, needs: Sequence[Need], config: PlanConfig) -> _Settlement:
    manifest = candidate.manifest
    # By canonical names: an endpoint that refuses `image_input` has no `vision` either.
    refused = set(map(canonical_name, candidate.refused))
    contradicted = set(map(canonical_name, candidate.contradicted))
    lacking = refused | contradicted
    if lacking:  # experience outweighs the declaration
        kept = {name: level for name, level in manifest.items() if canonical_name(name) not in lacking}
        manifest = CapabilityManifest.model_construct(root=kept)
    negotiation = compare(
        manifest,
        [CapabilityRequirement.trusted(capability=need.capability, min_support=need.min_support) for need in needs],
    )
    settlement, engine = _Settlement(negotiation), EmulationEngine(config.emulation)
    may_try = config.unknown is UnknownPolicy.TRY and config.policy is not WorkPolicy.STRICT
    for name in dict.fromkeys(negotiation.unsupported):
        canonical = canonical_name(name)
        reason = CONTRADICTED if canonical in contradicted else negotiation.reasons[name]
        strategy = engine.resolve(name)
        # A capability can be stated more than once; all of its needs must accept emulation.
        accepts_emulation = all(need.min_support is MinSupport.EMULATED for need in needs if need.capability == name)
        if may_try and canonical not in lacking and declared_level(candidate.manifest, name) is None:
            settlement.tried.append(name)
        elif accepts_emulation and build_emulation(name, strategy, DEFAULT_SETTINGS) is not None:
            settlement.rescues.append(Rescue(capability=name, strategy=strategy, instead_of=reason))
        else:
            reason = REFUSED_BEFORE if canonical in refused else reason
            settlement.short.append(Shortfall(capability=name, reason=reason))
    return settlement


def _rank(offer: Offer) -> tuple[int, int]:
    """The fewest losses first, then the fewest compromises."""
    return len(offer.losses), offer.compromises


def _why_not_chosen(offer: Offer, best: Offer) -> str:
    if offer.missing:
        return _format_shortfalls(offer.missing)
    if _rank(offer) == _rank(best):
        return f"as good as {best.backend}, which the operator lists first"
    if len(offer.losses) > len(best.losses):
        return f"goes on without more: {_format_shortfalls(offer.losses)}"
    return f"{offer.compromises} compromises against {best.compromises} of {best.backend}"


def _format_shortfalls(shortfalls: Sequence[Shortfall]) -> str:
    return ", ".join(f"{shortfall.capability} ({shortfall.reason})" for shortfall in shortfalls)


def _refuse(needs: list[Need], offers: list[Offer], policy: WorkPolicy) -> Refusal:
    if not offers:
        return Refusal(
            code=ErrorCode.CAPABILITY_UNSUPPORTED,
            message="No backend can do this work: none is configured",
            needs=needs,
            remedies=[Remedy(change="add a backend to accord.toml; `accord backends` shows how")],
        )
    nearest = min(offers, key=lambda offer: (len(offer.missing), offer.compromises))
    shortfalls = _format_shortfalls(nearest.missing)
    remedies = [remedy for short in nearest.missing for remedy in _remedies_for(short, nearest.backend, needs, policy)]
    if policy is not WorkPolicy.PERMISSIVE:
        change = 'set policy = "permissive" at the top of accord.toml: work goes on, and what is missing is recorded'
        remedies.append(Remedy(change=change))
    return Refusal(
        code=ErrorCode.CAPABILITY_UNSUPPORTED,
        message=f"No backend can do this work; nearest is {nearest.backend}: {shortfalls}",
        needs=needs,
        offers=offers,
        nearest=nearest.backend,
        remedies=remedies,
    )


def _remedies_for(short: Shortfall, backend: str, needs: Sequence[Need], policy: WorkPolicy) -> list[Remedy]:
    """The changes that would remove this shortfall. Each names the key of accord.toml or the command."""
    name, canonical = short.capability, canonical_name(short.capability)
    if policy is WorkPolicy.STRICT:
        accept_emulated = f'set policy = "standard" in accord.toml, which accepts emulated support of {name}'
    else:
        accept_emulated = f"require {name} with min_support emulated instead of native"
    changes: list[str] = []
    if short.reason == NOT_DECLARED:
        if canonical in PROBED:
            changes.append(f"run `accord backends probe {backend} --write` to find out whether it has {name}")
        changes.append(f'if {backend} has it, set {name} = "native" in its [backends.overrides] in accord.toml')
        changes.append('set unknown = "try" at the top of accord.toml to try what is not declared')
    if short.reason.endswith("is below native"):
        changes.append(accept_emulated)
    elif canonical in PRESET:
        change = f"set {canonical} = true under [emulation.preset] in accord.toml to have Accord emulate it"
        needs_native = any(need.capability == name and need.min_support is MinSupport.NATIVE for need in needs)
        changes.append(f"{change}, and {accept_emulated}" if needs_native else change)
    changes.append(f"use a backend that has it; `accord models --require {name}` lists models")
    return [Remedy(capability=name, change=change) for change in changes]


PART_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.IMAGE_INPUT: "An image",
        Capability.AUDIO: "A sound",
        Capability.PDF_INPUT: "A PDF document",
        FILE_INPUT: "A file",
    }
)
"""What a removed part is called in the text that replaces it, by the capability that it needs."""


def remove_unsupported(order: WorkOrder, losses: Iterable[str], unmet: Iterable[str] = ()) -> WorkOrder:
    """The order without what the plan goes on without, so that no backend is sent what it lacks.

    `losses` are the offer's losses under the permissive policy: what requests them is cleared, and parts that need them
    are replaced by a text that says so. `unmet` are preferences: parameters that ask for them are removed.
    """
    for name in losses:
        order = withhold(order, name)
        lost = canonical_name(name)
        if lost in PART_REASONS:
            messages = [
                message.model_copy(update={"content": [_replace_lost(part, lost) for part in message.content]})
                for message in order.conversation.messages
            ]
            order = replace_messages(order, messages)
    if order.parameters:
        without = frozenset(unmet)
        kept = {name: value for name, value in order.parameters.items() if PARAMETERS.get(name) not in without}
        if len(kept) < len(order.parameters):
            order = order.model_copy(update={"parameters": kept})
    return order


def _replace_lost(part: MessagePart, lost: str, *, in_result: bool = False) -> MessagePart:
    if isinstance(part, ToolResultPart):
        content = [_replace_lost(inner, lost, in_result=True) for inner in part.content]
        return part.model_copy(update={"content": content})
    needed = capability_for_part(part)
    if needed is None or (needed != lost and not (in_result and lost == TOOL_RESULT_MEDIA)):
        return part
    address = printable_address(part.uri) if isinstance(part, ImagePart | ResourcePart) else None
    where = f"; its address: {address}" if address else ""
    return TextPart(text=f"[{PART_NAMES[needed]} was sent that cannot be passed on{where}]")
