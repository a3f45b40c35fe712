"""The shape of the snapshot file, written and read in one place.

JSON, one model a line, so that a refresh can be reviewed as a diff. A model is a list of statements, one for
each source that speaks: `"litellm +tool_use -audio"` is LiteLLM's yes and no, and a statement that begins
with `!` was overruled by another. This module does not know where the file lies or how a model is found.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Final, TypeAlias

from accord.backends.facts.fact import Dispute, Fact, Level, ModelFacts, Source

FORMAT: Final = 1
SIGNS: Final[Mapping[Level, str]] = {"native": "+", "unsupported": "-"}
LEVELS: Final[Mapping[str, Level]] = {sign: level for level, sign in SIGNS.items()}

Statements: TypeAlias = Sequence[str]


class SnapshotError(ValueError):
    """A snapshot file that is not what this module writes."""


@dataclass(frozen=True, slots=True)
class Document:
    """A snapshot as it lies in the file: models are kept as statements until somebody asks."""

    sources: tuple[Source, ...]
    models: Mapping[str, Mapping[str, Statements]]

    def facts(self, provider: str, model: str) -> ModelFacts:
        """The statements about one pair, spelled out."""
        try:
            return self._spelled_out(provider, model)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            problem = f"the snapshot's statements about {provider}/{model} cannot be read: {error!r}"
            raise SnapshotError(problem) from error

    def _spelled_out(self, provider: str, model: str) -> ModelFacts:
        sources = {source.name: source for source in self.sources}
        facts: dict[str, Fact] = {}
        overruled: defaultdict[str, list[Fact]] = defaultdict(list)
        for statement in self.models[provider][model]:
            who, *said = statement.removeprefix("!").split()
            source = sources[who]
            for word in said:
                fact = _fact(LEVELS[word[0]], source)
                if statement.startswith("!"):
                    overruled[word[1:]].append(fact)
                else:
                    facts[word[1:]] = fact
        disputed = tuple(Dispute(name, facts[name], tuple(overruled[name])) for name in sorted(overruled))
        return ModelFacts(provider, model, {name: facts[name] for name in sorted(facts)}, disputed)


def read(content: bytes | str) -> Document:
    """A snapshot's text, checked in its outline."""
    try:
        outline = json.loads(content)
        version = outline["format"]
        sources = tuple(Source(**source) for source in outline["sources"])
        models = {provider: dict(models) for provider, models in outline["models"].items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        problem = f"not a snapshot of model facts; expected JSON as `make models` writes it: {error}"
        raise SnapshotError(problem) from error
    if version != FORMAT:
        problem = f"the snapshot has format {version!r}, expected {FORMAT}"
        raise SnapshotError(problem)
    return Document(sources, models)


def write(models: Iterable[ModelFacts], sources: Sequence[Source]) -> str:
    """The snapshot's text; the same models and sources give the same text."""
    names = {source.label: source.name for source in sources}
    providers: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for model in models:
        providers[model.provider][model.model] = _statements(model, names)
    blocks = ",\n".join(f"{json.dumps(name)}:{{\n{_lines(providers[name])}\n}}" for name in sorted(providers))
    told = ",\n".join(json.dumps(asdict(source)) for source in sources)
    return f'{{"format":{FORMAT},\n"sources":[\n{told}\n],\n"models":{{\n{blocks}\n}}}}\n'


def _lines(models: Mapping[str, Statements]) -> str:
    return ",\n".join(
        f"{json.dumps(name, ensure_ascii=False)}:{json.dumps(models[name], separators=(',', ':'))}"
        for name in sorted(models)
    )


def _statements(model: ModelFacts, names: Mapping[str, str]) -> list[str]:
    said: defaultdict[tuple[bool, str], list[str]] = defaultdict(list)
    for capability in sorted(model.facts):
        fact = model.facts[capability]
        said[False, names[fact.source]].append(SIGNS[fact.level] + capability)
    for dispute in model.disputed:
        for fact in dispute.overruled:
            said[True, names[fact.source]].append(SIGNS[fact.level] + dispute.capability)
    return [f"{'!' * lost}{who} {' '.join(said[lost, who])}" for lost, who in sorted(said)]


@cache
def _fact(level: Level, source: Source) -> Fact:
    return Fact(level, source.label, source.date)
