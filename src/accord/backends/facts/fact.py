"""The values that model facts are made of.

A fact says what one source states about one capability of one provider's model. A capability without a
fact is *unknown*: whether that counts as a no is a policy, and policies do not live here. This module does
not know where facts come from, how they are stored or how a model is looked up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["native", "unsupported"]


@dataclass(frozen=True, slots=True)
class Fact:
    """What one source states: the level, who says so, and the day its data was made."""

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
        """The pair as one writes it: `provider/model`."""
        return f"{self.provider}/{self.model}"

    def manifest(self) -> dict[str, str]:
        """The known facts as a capability manifest; what is unknown is left out."""
        return {capability: fact.level for capability, fact in self.facts.items()}


@dataclass(frozen=True, slots=True)
class Unfound:
    """No model of that name: either several providers have it, or none has and these names come near."""

    asked: str
    candidates: tuple[str, ...]
    ambiguous: bool = False

    @property
    def message(self) -> str:
        """One line for a person."""
        shown = ", ".join(self.candidates[:8]) + (", …" if len(self.candidates) > 8 else "")
        if self.ambiguous:
            return f"{self.asked!r} is offered by {len(self.candidates)} providers, choose one: {shown}"
        return f"no facts about a model named {self.asked!r}" + (f"; did you mean {shown}?" if shown else "")


@dataclass(frozen=True, slots=True)
class Source:
    """One release of open data that was read, and how much of the snapshot rests on it."""

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
        """Name and version, as a fact cites it."""
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a catalogue holds, counted."""

    sources: tuple[Source, ...]
    capabilities: tuple[str, ...]
    models: int
    facts: int
    disputes: int
