"""Looks up a model by name: which pair of provider and model a name means, and what to suggest when it means none.

It does not know how facts were gathered, and an unknown capability stays unknown.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache, cached_property
from pkgutil import get_data
from typing import Final

from accord.backends.facts.providers import maker, provider_name
from accord.backends.facts.snapshot import Document, FactSource, ModelFacts, UnknownModel, read_document

SHIPPED: Final = "snapshot.json"
MAX_SUGGESTIONS: Final = 5


class Catalogue:
    """One snapshot, ready for look-ups."""

    def __init__(self, document: Document) -> None:
        self._document = document

    @classmethod
    def read(cls, content: bytes | str) -> "Catalogue":
        """Return the catalogue in a snapshot's text; raise `SnapshotError` if it is not one."""
        return cls(read_document(content))

    def find(self, name: str) -> ModelFacts | UnknownModel:
        """Return the model that a name means.

        `provider/model` is that pair, under any of the provider's known names. A plain model name is that of the only
        provider that has it, else of the model's maker. Letter case counts only where it makes a difference.
        """
        head, _, model = name.strip().partition("/")
        provider = provider_name(head)
        if model in self._document.models.get(provider, {}):
            return self._document.facts(provider, model)
        pairs = self._pairs.get(name.strip().lower(), ())
        if not pairs:
            return UnknownModel(name, self._suggestions(name.strip(), provider))
        chosen = _choose(name.strip(), pairs)
        if chosen is None:
            return UnknownModel(name, tuple("/".join(pair) for pair in pairs), ambiguous=True)
        return self._document.facts(*chosen)

    def all_models(self) -> Iterator[ModelFacts]:
        """Yield every model, sorted by provider and name."""
        for provider in sorted(self._document.models):
            for model in sorted(self._document.models[provider]):
                yield self._document.facts(provider, model)

    @property
    def sources(self) -> tuple[FactSource, ...]:
        """The releases of open data that the facts come from."""
        return self._document.sources

    @cached_property
    def _pairs(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Pairs of provider and model by their names in lower case, with the provider and without."""
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for provider in sorted(self._document.models):
            for model in sorted(self._document.models[provider]):
                found[model.lower()].append((provider, model))
                found[f"{provider}/{model}".lower()].append((provider, model))
        return {name: tuple(pairs) for name, pairs in found.items()}

    def _suggestions(self, name: str, provider: str) -> tuple[str, ...]:
        wanted = name.lower()
        if models := self._document.models.get(provider):
            names = {model.lower(): f"{provider}/{model}" for model in models}
            wanted = wanted.partition("/")[2]
        else:
            names = {known: "/".join(_choose(known, pairs) or pairs[0]) for known, pairs in self._pairs.items()}
        close = get_close_matches(wanted, names, n=MAX_SUGGESTIONS)
        return tuple(dict.fromkeys(names[known] for known in close))


def _choose(name: str, pairs: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    exact = tuple(pair for pair in pairs if name in (pair[1], "/".join(pair))) or pairs
    if len(exact) == 1:
        return exact[0]
    return next((pair for pair in exact if pair[0] == maker(pair[1])), None)


@cache
def shipped_catalogue() -> Catalogue:
    """Return the catalogue that ships with the package, read at the first call."""
    return Catalogue.read(get_data(__name__, SHIPPED) or b"")


def find_model(name: str) -> ModelFacts | UnknownModel:
    """Return the model that a name means in the shipped catalogue."""
    return shipped_catalogue().find(name)
