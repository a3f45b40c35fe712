"""Plan one piece of work: a `Plan` or a `Refusal`, before anything is sent. Read this file first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from accord.core.prompt import ContentValidator
from accord.core.prompt.verdict import Declared
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
from accord.core.work.emulation.base import saying, withheld
from accord.core.work.emulation.choose import DEFAULT_SETTINGS, PRESET, emulation_for
from accord.core.work.emulation.engine import EmulationEngine
from accord.core.work.negotiate import NOT_DECLARED, IdentityCache, compare, declared_level
from accord.errors import ErrorCode, UsageError
from accord.wire.capability import ALIASES, FILE_INPUT, TOOL_RESULT_MEDIA, Capability, canonical_name
from accord.wire.conversation import ConversationMessage, MessagePart, TextPart, ToolResultPart
from accord.wire.emulation import EmulationConfig
from accord.wire.manifest import CapabilityManifest, CapabilityRequirement, MinSupport, NegotiationResult
from accord.wire.message import as_model
from accord.wire.plan import Defeat, Need, Offer, Plan, Refusal, Remedy, Rescue, Shortfall, UnknownPolicy, WorkPolicy
from accord.wire.work import WorkOrder

# Find what would make refused work possible. Each remedy names the key of accord.toml or the command that does it.


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


# Takes out of a piece of work what the plan goes on without, so that no backend is sent what it lacks.
#
# That is what the permissive policy loses, and what was only preferred: the parameters that a backend does not have.

CALLED: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.IMAGE_INPUT: "An image",
        Capability.AUDIO: "A sound",
        Capability.PDF_INPUT: "A PDF document",
        FILE_INPUT: "A file",
    }
)
"""What is said of a part that was taken out, by the capability that would make it readable."""


def remove_unsupported(order: WorkOrder, losses: Iterable[str], unmet: Iterable[str] = ()) -> WorkOrder:
    """The order without what is lost, and without parameters that were only preferred.

    Where a part was taken out, the conversation says so.
    """
    for name in losses:
        order = withheld(order, name)
        lost = name if name in PART_REASONS else ALIASES.get(name, "")
        if lost in PART_REASONS:
            order = saying(order, [_without(message, lost) for message in order.conversation.messages])
    return _without_parameters(order, frozenset(unmet)) if order.parameters else order


def _without_parameters(order: WorkOrder, unmet: frozenset[str]) -> WorkOrder:
    kept = {name: value for name, value in order.parameters.items() if PARAMETERS.get(name) not in unmet}
    return order if len(kept) == len(order.parameters) else order.model_copy(update={"parameters": kept})


def _without(message: ConversationMessage, lost: str) -> ConversationMessage:
    return message.model_copy(update={"content": [_kept(part, lost) for part in message.content]})


def _kept(part: MessagePart, lost: str) -> MessagePart:
    if isinstance(part, ToolResultPart):
        return part.model_copy(update={"content": [_kept_of_result(inner, lost) for inner in part.content]})
    return _taken_out(lost) if capability_for_part(part) == lost else part


def _kept_of_result(part: MessagePart, lost: str) -> MessagePart:
    if isinstance(part, ToolResultPart):
        return _kept(part, lost)
    needed = capability_for_part(part)
    return part if needed is None or lost not in (needed, TOOL_RESULT_MEDIA) else _taken_out(needed)


def _taken_out(needed: str) -> TextPart:
    return TextPart(text=f"[{CALLED[needed]} was sent that cannot be passed on]")


# The file to read first: one piece of work in, a `Plan` or a `Refusal` out, before anything is sent.
#
#     content check ──> needs: stated and derived ──> an offer of every candidate ──> the best, or why none
#
# Decision 12: `negotiate` looks at a manifest; what a backend lacks may then be rescued by an emulation of Accord's
# own,
# if the work accepts that and the operator has a strategy for it that Accord really performs. One verdict for
# everyone:
# a backend that this refuses is never chosen. Pure: it knows no backend, only what was declared.

REFUSED_BEFORE: Final = "refused by the endpoint before"
ORDER: Final = """{"conversation": {"messages": []}}"""
CONTRADICTED: Final = "contradicted by its answers before"

MAX_RECALLED: Final = 64
"""Work that states more than this is planned anew each time: what is remembered stays small, whatever a peer sends."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend that could be given the work: its name, what it declares, and what experience says against that.

    `refused` is what its endpoint refused; `contradicted` what it declares and its answers showed it not to do.
    """

    name: str
    manifest: CapabilityManifest
    refused: frozenset[str] = frozenset()
    contradicted: frozenset[str] = frozenset()

    @property
    def lacking(self) -> frozenset[str]:
        """What it does not have, whatever it declares."""
        return self.refused | self.contradicted


@dataclass(frozen=True, slots=True)
class PlanConfig:
    """The operator's choices."""

    policy: WorkPolicy = WorkPolicy.STANDARD
    unknown: UnknownPolicy = UnknownPolicy.DENY
    emulation: EmulationConfig = field(default_factory=EmulationConfig)


def plan(
    order: WorkOrder | Mapping[str, Any],
    declared: Declared | ContentValidator,
    candidates: Sequence[Candidate],
    config: PlanConfig,
) -> Plan | Refusal:
    """Who should do this work, and how; or why nobody can. `candidates` are in the operator's order.

    Asking again for work with the same needs is quick, whatever it says, and may give the very same outcome.
    """
    order = as_model(WorkOrder, order, "order", ORDER)
    for candidate in candidates:
        if not isinstance(candidate, Candidate):  # pyright: ignore[reportUnnecessaryIsInstance] - see below
            given = type(candidate).__name__
            raise UsageError(f"candidates: expected Candidate(name, manifest) for each backend, not {given}")
    if not isinstance(config, PlanConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is checked
        raise UsageError(f"config: expected a PlanConfig such as PlanConfig(), not {type(config).__name__}")
    if order.prompt and (refusal := _refuse_content(order, declared)):
        return refusal
    stated = order.requirements
    if len(stated.required) + len(stated.preferred) > MAX_RECALLED:
        return _decide(order, candidates, config)
    return _PLANNED.get_or_compute(
        (config.emulation,),
        (config.emulation.strategies,),
        lambda: _decide(order, candidates, config),
        key=(_essence(order, candidates), config.policy, config.unknown),
    )


def _essence(order: WorkOrder, candidates: Sequence[Candidate]) -> tuple[Any, ...]:
    """All that the outcome depends on, by value: what is needed, and what each candidate says of just that."""
    follow = derived_capabilities(order)
    required = tuple((need.capability, need.min_support) for need in order.requirements.required)
    preferred = tuple((need.capability, need.min_support) for need in order.requirements.preferred)
    names = [*follow, *(name for name, _ in required), *(name for name, _ in preferred)]
    names += [ALIASES[name] for name in names if name in ALIASES]
    wished = parameter_capabilities(order)
    names += wished
    return (
        follow,
        wished,
        required,
        preferred,
        tuple((one.name, one.refused, one.contradicted, _said_of(names, one)) for one in candidates),
    )


def _said_of(names: Sequence[str], candidate: Candidate) -> tuple[Any, ...]:
    levels = map(candidate.manifest.root.get, names)
    return tuple([None if level is None else level.root for level in levels])


def _decide(order: WorkOrder, candidates: Sequence[Candidate], config: PlanConfig) -> Plan | Refusal:
    needs = _under_policy(derive_needs(order), config.policy)
    own = _under_policy(derive_extension_needs(order), config.policy)
    offers = [
        _offer(one, [*needs, *(need for need in own if need.capability in one.manifest)], config) for one in candidates
    ]
    acceptable = sorted((offer for offer in offers if offer.is_acceptable), key=_compromise)
    if not acceptable:
        return _refuse_work(needs, offers, config)
    best, *others = acceptable
    lost = [Defeat(backend=offer.backend, why=_why_lost(offer, best), offer=offer) for offer in offers if offer != best]
    return Plan(backend=best.backend, policy=config.policy, needs=needs, offer=best, fallbacks=others, lost=lost)


def _refuse_content(order: WorkOrder, declared: Declared | ContentValidator) -> Refusal | None:
    validator = declared if isinstance(declared, ContentValidator) else ContentValidator(declared)
    verdict = validator.validate(order.prompt)
    if verdict.error is None or verdict.code is None:
        return None
    return Refusal(code=verdict.code, message=verdict.error["message"], content=verdict.error)


def _under_policy(needs: list[Need], policy: WorkPolicy) -> list[Need]:
    if policy is not WorkPolicy.STRICT:
        return needs
    return [need.model_copy(update={"min_support": MinSupport.NATIVE}) for need in needs]


def _offer(candidate: Candidate, needs: Sequence[Need], config: PlanConfig) -> Offer:
    seen = _seen(candidate)
    negotiated = compare(seen, _requirements(needs, required=True))
    preferred = compare(seen, _requirements(needs, required=False))
    required = _Settlement(candidate, config).settle(negotiated, needs, required=True)
    welcome = _Settlement(candidate, config).settle(preferred, needs, required=False)
    permissive = config.policy is WorkPolicy.PERMISSIVE
    return Offer(
        backend=candidate.name,
        negotiation=negotiated,
        rescues=[*required.rescues, *welcome.rescues],
        tried=[*required.tried, *welcome.tried],
        losses=required.short if permissive else [],
        missing=[] if permissive else required.short,
        unmet=welcome.short,
    )


def _requirements(needs: Sequence[Need], *, required: bool) -> list[CapabilityRequirement]:
    return [
        CapabilityRequirement.trusted(capability=need.capability, min_support=need.min_support)
        for need in needs
        if need.required is required
    ]


def _seen(candidate: Candidate) -> CapabilityManifest:
    """The manifest as experience corrects it."""
    if not candidate.lacking:
        return candidate.manifest
    kept = {name: level for name, level in candidate.manifest.items() if name not in candidate.lacking}
    return CapabilityManifest.model_construct(root=kept)


class _Settlement:
    """What becomes of the capabilities that negotiation found unsupported: rescued, tried, or short."""

    def __init__(self, candidate: Candidate, config: PlanConfig) -> None:
        self.rescues: list[Rescue] = []
        self.tried: list[str] = []
        self.short: list[Shortfall] = []
        self._candidate = candidate
        self._config = config
        self._engine = EmulationEngine(config.emulation)

    def settle(self, result: NegotiationResult, needs: Sequence[Need], *, required: bool) -> "_Settlement":
        """Sort every unsupported capability; each need of it must be content."""
        for name in dict.fromkeys(result.unsupported):
            asked = [need for need in needs if need.required is required and need.capability == name]
            accepts_emulation = all(need.min_support is MinSupport.EMULATED for need in asked)
            self._settle_one(name, result.reasons[name], accepts_emulation=accepts_emulation)
        return self

    def _settle_one(self, name: str, reason: str, *, accepts_emulation: bool) -> None:
        lacking = name in self._candidate.lacking
        if name in self._candidate.contradicted:
            reason = CONTRADICTED
        silent = declared_level(self._candidate.manifest, name) is None
        strategy = self._engine.resolve(name)
        performer = emulation_for(name, strategy, DEFAULT_SETTINGS) if accepts_emulation else None
        if silent and not lacking and self._may_try():
            self.tried.append(name)
        elif performer is not None:
            self.rescues.append(Rescue(capability=name, strategy=strategy, instead_of=reason))
        else:
            if name in self._candidate.refused:
                reason = REFUSED_BEFORE
            self.short.append(Shortfall(capability=name, reason=reason))

    def _may_try(self) -> bool:
        return self._config.unknown is UnknownPolicy.TRY and self._config.policy is not WorkPolicy.STRICT


def _compromise(offer: Offer) -> tuple[int, int]:
    """Fewest losses first, then fewest compromises; the operator's order decides between equals."""
    return len(offer.losses), offer.compromises


def _why_lost(offer: Offer, best: Offer) -> str:
    if offer.missing:
        return _told(offer.missing)
    if _compromise(offer) == _compromise(best):
        return f"as good as {best.backend}, which the operator lists first"
    if len(offer.losses) > len(best.losses):
        return f"goes on without more: {_told(offer.losses)}"
    return f"{offer.compromises} compromises against {best.compromises} of {best.backend}"


def _refuse_work(needs: list[Need], offers: list[Offer], config: PlanConfig) -> Refusal:
    nearest = min(offers, key=lambda offer: (len(offer.missing), offer.compromises), default=None)
    if nearest is None:
        message = "No backend can do this work: none is configured"
    else:
        message = f"No backend can do this work; nearest is {nearest.backend}: {_told(nearest.missing)}"
    return Refusal(
        code=ErrorCode.CAPABILITY_UNSUPPORTED,
        message=message,
        needs=needs,
        offers=offers,
        nearest=nearest.backend if nearest else None,
        remedies=find_remedies(nearest, needs, config.policy),
    )


def _told(shortfalls: Sequence[Shortfall]) -> str:
    return ", ".join(f"{shortfall.capability} ({shortfall.reason})" for shortfall in shortfalls)


_PLANNED: Final = IdentityCache[Plan | Refusal]()
