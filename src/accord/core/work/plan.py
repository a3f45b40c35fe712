"""Plan one piece of work: which backend does it and how, or why none can. Read this file first.

    needs, stated and derived ──> one offer per candidate ──> the best offer, or a refusal with remedies

`negotiate.py` compares needs with a manifest. A capability that a backend lacks can then be emulated by Accord, if the
work accepts emulation and the operator configured a strategy that Accord can perform. A backend that is
refused here is never given the work.

This module is pure. It sees what backends declare, never a backend, and it sends nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final, cast

from accord.core.vocabulary import PROBED, unknown_name
from accord.core.work.derive import (
    PARAMETERS,
    PART_REASONS,
    SETTING_REASONS,
    capability_for_part,
    derive_extension_needs,
    derive_needs,
    derived_capabilities,
    setting_capabilities,
    stated_needs,
    work_contents,
)
from accord.core.work.emulation.base import printable_address, replace_messages, withhold
from accord.core.work.emulation.choose import (
    DEFAULT_SETTINGS,
    EMULATED_WORK,
    INJECTED_PROMPT,
    PRESET,
    build_emulation,
    emulated_work,
    injects_prompt,
)
from accord.core.work.emulation.engine import CONFIG_EXAMPLE, EmulationEngine
from accord.core.work.negotiate import MANIFEST_EXAMPLE, NOT_DECLARED, IdentityCache, compare, declared_level
from accord.errors import ErrorCode, UsageError
from accord.wire.capability import (
    ADDED_MEANINGS,
    ALIASES,
    FILE_INPUT,
    TOOL_RESULT_MEDIA,
    Capability,
    canonical_name,
    capability_names,
)
from accord.wire.conversation import ImagePart, MessagePart, ResourcePart, TextPart, ToolResultPart
from accord.wire.emulation import EmulationConfig
from accord.wire.manifest import (
    CapabilityManifest,
    CapabilityRequirement,
    CapabilityRequirements,
    MinSupport,
    NegotiationResult,
)
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
NO_EMULATION: Final = "cannot be emulated: the request has content that only an unchanged request can carry"

ORDER_EXAMPLE: Final = """{"conversation": {"messages": []}}"""
CANDIDATE_EXAMPLE: Final = """{"name": "local", "manifest": {"streaming": "native"}}"""
"""What a dict for each argument looks like, for the message of a wrong call."""

MAX_CACHED_REQUIREMENTS: Final = 64
"""Work that states more requirements is planned each time: cache keys stay small, whatever a peer sends."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend that could be given the work: its name, what it declares, and what experience says against that.

    `refused` is what its endpoint refused; `contradicted` is what it declares and its answers did not show; `history`
    says how often. `lacking` is what rules it out for this work, whatever its manifest says. Without `may_emulate`, it
    gets the work as it is or not at all.
    """

    name: str
    manifest: CapabilityManifest
    refused: frozenset[str] = frozenset()
    contradicted: frozenset[str] = frozenset()
    lacking: tuple[Shortfall, ...] = ()
    may_emulate: bool = True
    history: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        # Several are made for every question: what Accord makes itself is not checked again.
        if type(self.manifest) is not CapabilityManifest:
            object.__setattr__(
                self, "manifest", as_model(CapabilityManifest, self.manifest, "manifest", MANIFEST_EXAMPLE)
            )
        for name in ("refused", "contradicted"):
            if type(names := getattr(self, name)) is not frozenset:
                object.__setattr__(self, name, frozenset(capability_names(names)))


CANDIDATE_FIELDS: Final = frozenset(each.name for each in fields(Candidate))


@dataclass(frozen=True, slots=True)
class PlanConfig:
    """The operator's choices."""

    policy: WorkPolicy = WorkPolicy.STANDARD
    unknown: UnknownPolicy = UnknownPolicy.DENY
    emulation: EmulationConfig = field(default_factory=EmulationConfig)

    def __post_init__(self) -> None:
        for name, kind in (("policy", WorkPolicy), ("unknown", UnknownPolicy)):
            if (given := getattr(self, name)) not in tuple(kind):
                raise UsageError(f"{name}: {unknown_name('policy', str(given), kind)}")
            object.__setattr__(self, name, kind(given))
        object.__setattr__(self, "emulation", as_model(EmulationConfig, self.emulation, "emulation", CONFIG_EXAMPLE))


def plan(
    order: WorkOrder | Mapping[str, Any],
    candidates: Iterable[Candidate | Mapping[str, Any]],
    config: PlanConfig | None = None,
) -> Plan | Refusal:
    """Choose the backend for this work, or refuse it. `candidates` are in the operator's order of preference.

    The result belongs to the caller alone, who may change it.
    """
    order = as_model(WorkOrder, order, "order", ORDER_EXAMPLE)
    if config is None:
        config = PlanConfig()
    elif not isinstance(config, PlanConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is checked
        raise UsageError(f"config: expected a PlanConfig such as PlanConfig(), not {type(config).__name__}")
    if not isinstance(candidates, Iterable) or isinstance(candidates, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        given = cast("object", candidates).__class__.__name__
        raise UsageError(f"candidates: expected a list of {CANDIDATE_EXAMPLE}, not {given}")
    return deepcopy(shared_plan(order, [_as_candidate(each) for each in candidates], config))


def _as_candidate(given: Candidate | Mapping[str, Any]) -> Candidate:
    if isinstance(given, Candidate):
        return given
    if not isinstance(given, Mapping) or not {"name", "manifest"} <= given.keys() <= CANDIDATE_FIELDS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"candidates: expected Candidate(name, manifest) or {CANDIDATE_EXAMPLE}, not {given!r:.80}")
    return Candidate(**given)


def shared_plan(order: WorkOrder, candidates: Sequence[Candidate], config: PlanConfig) -> Plan | Refusal:
    """What `plan` returns, without a copy: work with the same needs gets the same object, which must not be changed.

    A copy costs ten times as much as finding the outcome again, and receipts are cached by the identity of the outcome.
    """
    stated = order.requirements
    count = len(stated.required) + len(stated.preferred)
    # Whatever is derived has something to work on; only what is stated may lack it.
    contents = work_contents(order) if count else None
    if count > MAX_CACHED_REQUIREMENTS:
        return _decide(order, contents, candidates, config)
    return _OUTCOMES.get_or_compute(
        (config.emulation,),
        (config.emulation.strategies,),
        lambda: _decide(order, contents, candidates, config),
        key=(_cache_key(order, candidates), contents, config.policy, config.unknown),
    )


def check_requirements(
    requirements: CapabilityRequirements, candidates: Sequence[Candidate], config: PlanConfig
) -> Refusal | None:
    """Refuse stated requirements that no single backend can meet, whatever the work is; None if one can.

    This is for a request before any work order exists. An emulation counts if it could be performed on fitting work, so
    whatever is refused here is refused by `plan` too, for every order that states these requirements. The refusal is
    shared between calls and must not be changed.
    """
    required = requirements.required
    if not required:
        return None

    def check() -> Refusal | None:
        outcome = plan_requirements(CapabilityRequirements(required=required), candidates, config)
        return outcome if isinstance(outcome, Refusal) else None

    if len(required) > MAX_CACHED_REQUIREMENTS:
        return check()
    levels = tuple((need.capability, need.min_support) for need in required)
    declared = _declarations([name for name, _ in levels], (), candidates)
    key = (levels, declared, config.policy, config.unknown)
    return _CHECKED.get_or_compute((config.emulation,), (config.emulation.strategies,), check, key=key)


def plan_requirements(
    requirements: CapabilityRequirements, candidates: Sequence[Candidate], config: PlanConfig
) -> Plan | Refusal:
    """What `plan` decides for these requirements alone, if the work has all that emulations work on."""
    needs = _raise_to_policy(stated_needs(requirements), config.policy)
    return _choose(needs, [_offer(candidate, needs, config, None) for candidate in candidates], config.policy)


_OUTCOMES: Final = IdentityCache[Plan | Refusal]()
_CHECKED: Final = IdentityCache[Refusal | None]()


def _cache_key(order: WorkOrder, candidates: Sequence[Candidate]) -> tuple[Any, ...]:
    """The needs by value, and what each candidate declares of just these."""
    derived, parameters = derived_capabilities(order), setting_capabilities(order)
    required = tuple((need.capability, need.min_support) for need in order.requirements.required)
    preferred = tuple((need.capability, need.min_support) for need in order.requirements.preferred)
    names = [*derived, *(name for name, _ in required), *(name for name, _ in preferred)]
    return derived, parameters, required, preferred, _declarations(names, parameters, candidates)


def _declarations(
    names: Sequence[str], parameters: Sequence[str], candidates: Sequence[Candidate]
) -> tuple[tuple[Any, ...], ...]:
    """What each candidate declares of these capabilities, and what experience says of it."""
    # A level may be declared under either name; parameters have no alias.
    names = [*names, *(ALIASES[name] for name in names if name in ALIASES), *parameters]
    declarations: list[tuple[Any, ...]] = []
    for candidate in candidates:
        manifest = candidate.manifest.root
        levels = tuple([None if (level := manifest.get(name)) is None else level.root for name in names])
        lacking = tuple([(short.capability, short.reason) for short in candidate.lacking])
        experience = (candidate.refused, candidate.contradicted, candidate.history, candidate.may_emulate)
        declarations.append((candidate.name, *experience, lacking, levels))
    return tuple(declarations)


def _raise_to_policy(needs: list[Need], policy: WorkPolicy) -> list[Need]:
    """The needs as the policy takes them: the strict one accepts native support only."""
    if policy is not WorkPolicy.STRICT:
        return needs
    return [replace(need, min_support=MinSupport.NATIVE) for need in needs]


def _decide(
    order: WorkOrder, contents: frozenset[str] | None, candidates: Sequence[Candidate], config: PlanConfig
) -> Plan | Refusal:
    needs = _raise_to_policy(derive_needs(order), config.policy)
    extensions = _raise_to_policy(derive_extension_needs(order), config.policy)
    offers = [
        # Accord's own capabilities count only where a manifest mentions them: an ABP manifest cannot.
        _offer(
            candidate,
            [*needs, *(need for need in extensions if need.capability in candidate.manifest)],
            config,
            contents,
        )
        for candidate in candidates
    ]
    return _choose(needs, offers, config.policy)


def _choose(needs: list[Need], offers: list[Offer], policy: WorkPolicy) -> Plan | Refusal:
    """The plan with the best of these offers; a refusal if none is acceptable."""
    # The sort is stable: between equals the operator's order decides.
    acceptable = sorted((offer for offer in offers if offer.is_acceptable), key=_rank)
    if not acceptable:
        return _refuse(needs, offers, policy)
    best, *others = acceptable
    lost = [
        RejectedOffer(backend=offer.backend, why=_why_not_chosen(offer, best), offer=offer)
        for offer in offers
        if offer != best
    ]
    return Plan(backend=best.backend, policy=policy, needs=needs, offer=best, fallbacks=others, lost=lost)


def offer_for(candidate: Candidate, needs: Sequence[Need], config: PlanConfig) -> Offer:
    """What this candidate makes of work with just these needs, which has all that emulations work on."""
    # As for a whole order, Accord's own capabilities count only where the manifest mentions them.
    counted = [need for need in needs if need.capability not in ADDED_MEANINGS or need.capability in candidate.manifest]
    return _offer(candidate, _raise_to_policy(counted, config.policy), config, None)


def _offer(candidate: Candidate, needs: Sequence[Need], config: PlanConfig, contents: frozenset[str] | None) -> Offer:
    """What this candidate can make of the work; without `contents`, of work that has all that emulations work on."""
    required = _settle(candidate, [need for need in needs if need.required], config)
    preferred = _settle(candidate, [need for need in needs if not need.required], config)
    unused = [] if contents is None else _remove_idle(required, preferred, contents)
    if candidate.lacking or not candidate.may_emulate:
        # What the backend lacks for this work says more than that its manifest does not have it.
        lacking = {each.capability for each in candidate.lacking}
        required.short[:] = [each for each in required.short if each.capability not in lacking]
        required.short.extend(candidate.lacking)
        for settlement in () if candidate.may_emulate else (required, preferred):
            settlement.short.extend(
                Shortfall(capability=each.capability, reason=NO_EMULATION) for each in settlement.rescues
            )
            settlement.rescues.clear()
    is_permissive = config.policy is WorkPolicy.PERMISSIVE
    return Offer(
        backend=candidate.name,
        negotiation=required.negotiation,
        rescues=[*required.rescues, *preferred.rescues],
        tried=[*required.tried, *preferred.tried],
        unused=unused or None,
        losses=[short for short in required.short if short not in candidate.lacking] if is_permissive else [],
        missing=[*candidate.lacking] if is_permissive else required.short,
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
    contradicted = set(map(canonical_name, candidate.contradicted))
    lacking = contradicted.union(map(canonical_name, candidate.refused))
    if lacking:  # experience outweighs the declaration
        kept = {name: level for name, level in manifest.items() if canonical_name(name) not in lacking}
        manifest = CapabilityManifest.model_construct(root=kept)
    negotiation = compare(
        manifest,
        [CapabilityRequirement(capability=need.capability, min_support=need.min_support) for need in needs],
    )
    settlement, engine = _Settlement(negotiation), EmulationEngine(config.emulation)
    # A capability can be stated more than once; all of its needs must accept emulation.
    native_only = {
        need.capability for need in needs if need.min_support is MinSupport.NATIVE or need.because in SETTING_REASONS
    }
    history = {canonical_name(name): f" ({text})" for name, text in candidate.history}
    may_try = config.unknown is UnknownPolicy.TRY and config.policy is not WorkPolicy.STRICT
    for name in dict.fromkeys(negotiation.unsupported):
        canonical = canonical_name(name)
        experience = CONTRADICTED if canonical in contradicted else REFUSED_BEFORE
        reason = experience + history.get(canonical, "") if canonical in lacking else negotiation.reasons[name]
        strategy = engine.resolve(name)
        if may_try and canonical not in lacking and declared_level(candidate.manifest, name) is None:
            settlement.tried.append(name)
        elif name not in native_only and build_emulation(name, strategy, DEFAULT_SETTINGS) is not None:
            settlement.rescues.append(Rescue(capability=name, strategy=strategy, instead_of=reason))
        else:
            settlement.short.append(Shortfall(capability=name, reason=reason))
    return settlement


def _remove_idle(required: _Settlement, preferred: _Settlement, contents: frozenset[str]) -> list[str]:
    """Remove rescues without anything to perform, so that none is recorded as done.

    Returns those that the work does not use; those without which the answer would not be what was required are short.
    """
    # What the work goes on without is removed from it before anything is emulated.
    contents -= {canonical_name(short.capability) for short in required.short}
    rescues = [*required.rescues, *preferred.rescues]
    if any(injects_prompt(rescue.capability, rescue.strategy, contents) for rescue in rescues):
        contents |= {INJECTED_PROMPT}
    unused: list[str] = []
    for settlement in (required, preferred):
        for rescue in [*settlement.rescues]:
            work = emulated_work(rescue.capability, rescue.strategy)
            if work is None or not contents.isdisjoint(work.contents):
                continue
            settlement.rescues.remove(rescue)
            if work.refusal:
                settlement.short.append(Shortfall(capability=rescue.capability, reason=work.refusal))
            else:
                unused.append(rescue.capability)
    return unused


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
    work = EMULATED_WORK.get(canonical)
    lacks_work = work is not None and short.reason == work.refusal
    if work is not None and lacks_work:
        changes.append(work.remedy)
    if short.reason == NOT_DECLARED:
        if canonical in PROBED:
            changes.append(f"run `accord backends probe {backend} --write` to find out whether it has {name}")
        changes.append(f'if {backend} has it, set {name} = "native" in its [backends.overrides] in accord.toml')
        changes.append('set unknown = "try" at the top of accord.toml to try what is not declared')
    if short.reason.endswith("is below native"):
        changes.append(accept_emulated)
    elif canonical in PRESET and not lacks_work:
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
    without = frozenset(unmet)
    if order.reasoning is not None and Capability.EXTENDED_THINKING in without:
        order = order.model_copy(update={"reasoning": None})
    if order.parameters:
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
