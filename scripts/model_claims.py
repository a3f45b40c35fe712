"""Reads what data sources claim about models, and settles which claim is kept. Pure: no files, wheels or network.

A missing field is never read as a no. Where sources contradict each other about a model:

1. models.dev and LangChain's profiles count before LiteLLM: they are maintained as explicit yes *and* no about every
   model, while LiteLLM records what its own adapter supports.
2. Between those two the later date counts: LangChain's profiles are a copy of models.dev with corrections.
3. Within one source the no counts: a refusal before dispatch costs less than a failed call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from scripts.model_rules import NOT_CHAT, ROUTE, ROUTED, RULES, TEXT_MODES, FieldRule

from accord.backends.facts.providers import provider_name
from accord.backends.facts.snapshot import Dispute, Fact, FactSource, Level, ModelFacts

Entry: TypeAlias = Mapping[str, object]

RANK: Final[Mapping[str, int]] = {"models-dev": 0, "langchain": 0, "litellm": 1}


@dataclass(frozen=True, slots=True)
class Claim:
    """One source's yes or no about one capability of one model."""

    provider: str
    model: str
    capability: str
    level: Level
    source: FactSource


def family(source: FactSource) -> str:
    """Return the key of a source in `RULES`: LangChain's packages are one family."""
    return "langchain" if source.name.startswith("langchain-") else source.name


def table(value: object) -> Entry:
    """Return a JSON object; an empty one in place of anything else."""
    return cast("Entry", value) if isinstance(value, Mapping) else {}


def read_litellm(data: Entry, source: FactSource) -> Iterator[Claim]:
    """Yield the claims in LiteLLM's table of models."""
    for key, value in data.items():
        entry = table(value)
        provider = provider_name(str(entry.get("litellm_provider", "")))
        if provider and entry.get("mode") in TEXT_MODES:
            yield from _claims(provider, _litellm_model(key, provider), entry, source)


def read_models_dev(data: Entry, source: FactSource) -> Iterator[Claim]:
    """Yield the claims in models.dev's tree of providers and models."""
    for provider, value in data.items():
        for model, raw in table(table(value).get("models")).items():
            entry = table(raw)
            if _has(entry, "modalities.input", "text") and _has(entry, "modalities.output", "text"):
                yield from _claims(provider_name(provider), model, entry, source)


def read_langchain(profiles: Entry, overrides: Entry, provider: str, source: FactSource) -> Iterator[Claim]:
    """Yield the claims in one LangChain package.

    An override for a whole provider is about its API, not about a model, and is left out; those for one model count.
    """
    blanket = {field for field, value in overrides.items() if not isinstance(value, Mapping)}
    for model, value in profiles.items():
        overridden = table(overrides.get(model))
        entry = {field: given for field, given in table(value).items() if field not in blanket or field in overridden}
        if entry.get("text_inputs") is not False and entry.get("text_outputs") is not False:
            yield from _claims(provider_name(provider), model, entry, source)


def settle(claims: Iterable[Claim]) -> list[ModelFacts]:
    """Return every model with claims, with one fact for each capability; sorted."""
    pairs: dict[tuple[str, str], dict[str, list[Claim]]] = {}
    for claim in claims:
        claimed = pairs.setdefault((claim.provider, claim.model), {})
        claimed.setdefault(claim.capability, []).append(claim)
    return [_settle_model(provider, model, pairs[provider, model]) for provider, model in sorted(pairs)]


def _settle_model(provider: str, model: str, claims: Mapping[str, Sequence[Claim]]) -> ModelFacts:
    facts: dict[str, Fact] = {}
    disputed: list[Dispute] = []
    for capability in sorted(claims):
        kept, *others = (_fact(claim) for claim in _by_precedence(claims[capability]))
        facts[capability] = kept
        if overruled := {fact for fact in others if fact.level != kept.level}:
            by_source = sorted(overruled, key=lambda fact: fact.source)
            disputed.append(Dispute(capability, kept, tuple(by_source)))
    return ModelFacts(provider, model, facts, tuple(disputed))


def _by_precedence(claims: Sequence[Claim]) -> list[Claim]:
    cautious = sorted(claims, key=lambda claim: (claim.level != "unsupported", claim.source.label))
    youngest = sorted(cautious, key=lambda claim: claim.source.date, reverse=True)
    return sorted(youngest, key=lambda claim: RANK[family(claim.source)])


def _fact(claim: Claim) -> Fact:
    return Fact(claim.level, claim.source.label, claim.source.date)


def _claims(provider: str, model: str, entry: Entry, source: FactSource) -> Iterator[Claim]:
    if NOT_CHAT.search(model):
        return
    answered: set[str] = set()
    for rule in RULES[family(source)]:
        level = None if rule.capability in answered else _answer(entry, rule)
        if level is not None:
            answered.add(rule.capability)
            yield Claim(provider, model, rule.capability, level, source)


def _answer(entry: Entry, rule: FieldRule) -> Level | None:
    value = _field(entry, rule.field)
    answer = _contains(value, rule.item) if rule.item is not None else value
    if not isinstance(answer, bool) or (rule.trusted == "yes" and not answer) or (rule.trusted == "no" and answer):
        return None
    return "native" if answer else "unsupported"


def _field(entry: Entry, path: str) -> object:
    *outer, last = path.split(".")
    for step in outer:
        entry = table(entry.get(step))
    return entry.get(last)


def _contains(value: object, item: str) -> bool | None:
    # An empty list is one that was not filled in.
    return item in cast("list[object]", value) if isinstance(value, list) and value else None


def _has(entry: Entry, path: str, item: str) -> bool:
    return _contains(_field(entry, path), item) is True


def _litellm_model(key: str, provider: str) -> str:
    first, slash, rest = key.partition("/")
    model = rest if slash and provider_name(first) == provider else key
    while provider in ROUTED and ROUTE.fullmatch(model.partition("/")[0]) and "/" in model:
        model = model.partition("/")[2]
    return model
