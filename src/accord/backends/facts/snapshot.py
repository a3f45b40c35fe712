"""Model facts, and the format of the snapshot file that stores them.

A fact is what one source states about one capability of one provider's model. A capability without a fact is *unknown*:
whether that counts as unsupported is a policy of plans.

The file is JSON with one model a line, so that a refresh can be reviewed as a diff. A model is a list of statements,
one for each source: `"litellm +tool_use -audio"` are LiteLLM's yes and no, and a statement that begins with `!` was
overruled by another source. Where the file is, and how a model is found, is in `catalogue.py`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal["native", "unsupported"]


@dataclass(frozen=True, slots=True)
class Fact:
    """What one source states: the level, the source, and the date of its data."""

    level: Level
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Dispute:
    """A capability on which sources contradict each other: the fact that was kept and those overruled."""

    capability: str
    kept: Fact
    overruled: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Everything known about one model at one provider."""

    provider: str
    model: str
    facts: Mapping[str, Fact]
    disputed: tuple[Dispute, ...] = ()

    @property
    def name(self) -> str:
        """The pair in the form `provider/model`."""
        return f"{self.provider}/{self.model}"

    def manifest(self) -> dict[str, str]:
        """The known facts as a capability manifest; what is unknown is left out."""
        return {capability: fact.level for capability, fact in self.facts.items()}


@dataclass(frozen=True, slots=True)
class UnknownModel:
    """A name that means no single model: several providers have it, or none has and these names are similar."""

    name: str
    candidates: tuple[str, ...]
    ambiguous: bool = False

    @property
    def message(self) -> str:
        """One line for a person."""
        listed = ", ".join(self.candidates[:8]) + (", …" if len(self.candidates) > 8 else "")
        if self.ambiguous:
            return f"{self.name!r} is offered by {len(self.candidates)} providers, choose one: {listed}"
        return f"no facts about a model named {self.name!r}" + (f"; did you mean {listed}?" if listed else "")


@dataclass(frozen=True, slots=True)
class FactSource:
    """One release of open data, and how much of the snapshot comes from it."""

    name: str
    version: str
    date: str
    dated_by: str
    licence: str
    copyright: str
    models: int = 0
    facts: int = 0

    @property
    def label(self) -> str:
        """Name and version, as facts cite them."""
        return f"{self.name} {self.version}"


FORMAT: Final = 1
SIGNS: Final[Mapping[Level, str]] = {"native": "+", "unsupported": "-"}
LEVELS: Final[Mapping[str, Level]] = {sign: level for level, sign in SIGNS.items()}

Statements: TypeAlias = Sequence[str]


class SnapshotError(ValueError):
    """A snapshot file that does not have this module's format."""


@dataclass(frozen=True, slots=True)
class Document:
    """The contents of a snapshot file; statements are parsed when a model is looked up."""

    sources: tuple[FactSource, ...]
    models: Mapping[str, Mapping[str, Statements]]

    def facts(self, provider: str, model: str) -> ModelFacts:
        """Return the parsed statements about one model."""
        try:
            return self._parse(provider, model)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            problem = f"the snapshot's statements about {provider}/{model} cannot be read: {error!r}"
            raise SnapshotError(problem) from error

    def _parse(self, provider: str, model: str) -> ModelFacts:
        sources = {source.name: source for source in self.sources}
        facts: dict[str, Fact] = {}
        overruled: defaultdict[str, list[Fact]] = defaultdict(list)
        for statement in self.models[provider][model]:
            name, *words = statement.removeprefix("!").split()
            source = sources[name]
            for word in words:
                fact = _fact(LEVELS[word[0]], source)
                if statement.startswith("!"):
                    overruled[word[1:]].append(fact)
                else:
                    facts[word[1:]] = fact
        disputed = tuple(Dispute(name, facts[name], tuple(overruled[name])) for name in sorted(overruled))
        return ModelFacts(provider, model, {name: facts[name] for name in sorted(facts)}, disputed)


def read_document(content: bytes | str) -> Document:
    """Parse a snapshot's text; the statements are checked later."""
    try:
        outline = json.loads(content)
        version = outline["format"]
        sources = tuple(FactSource(**source) for source in outline["sources"])
        models = {provider: dict(models) for provider, models in outline["models"].items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        problem = f"not a snapshot of model facts; expected JSON as `make models` writes it: {error}"
        raise SnapshotError(problem) from error
    if version != FORMAT:
        problem = f"the snapshot has format {version!r}, expected {FORMAT}"
        raise SnapshotError(problem)
    return Document(sources, models)


def write_document(models: Iterable[ModelFacts], sources: Sequence[FactSource]) -> str:
    """Return the snapshot's text; the same models and sources give the same text."""
    names = {source.label: source.name for source in sources}
    providers: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for model in models:
        providers[model.provider][model.model] = _statements(model, names)
    blocks = ",\n".join(f"{json.dumps(name)}:{{\n{_lines(providers[name])}\n}}" for name in sorted(providers))
    listed = ",\n".join(json.dumps(asdict(source)) for source in sources)
    return f'{{"format":{FORMAT},\n"sources":[\n{listed}\n],\n"models":{{\n{blocks}\n}}}}\n'


def _lines(models: Mapping[str, Statements]) -> str:
    return ",\n".join(
        f"{json.dumps(name, ensure_ascii=False)}:{json.dumps(models[name], separators=(',', ':'))}"
        for name in sorted(models)
    )


def _statements(model: ModelFacts, names: Mapping[str, str]) -> list[str]:
    words: defaultdict[tuple[bool, str], list[str]] = defaultdict(list)
    for capability in sorted(model.facts):
        fact = model.facts[capability]
        words[False, names[fact.source]].append(SIGNS[fact.level] + capability)
    for dispute in model.disputed:
        for fact in dispute.overruled:
            words[True, names[fact.source]].append(SIGNS[fact.level] + dispute.capability)
    return [f"{'!' * lost}{name} {' '.join(words[lost, name])}" for lost, name in sorted(words)]


@cache
def _fact(level: Level, source: FactSource) -> Fact:
    return Fact(level, source.label, source.date)
