"""The interface of a model API: what `ModelBackend` needs to know to speak it. Pure: bytes and values."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from accord.backends.evidence import Evidence, Layer
from accord.backends.failure import Explained
from accord.core.sse import ServerEvent
from accord.wire.conversation import MessagePart, ResourceLinkPart, ResourcePart, TextPart
from accord.wire.manifest import SupportLevel
from accord.wire.work import AnyPiece, WorkOrder

# Writes documents as text for APIs that have no place of their own for them. One form for all of them.
#
# Also reads it back, so that a conversation survives the way there and back. Knows no API.

_DOCUMENT: Final = re.compile(r"<document (\{.*\})>\n(.*)\n</document>", re.DOTALL)
_LINK: Final = re.compile(r"<link (\{.*\})/>")


def document_text(part: ResourcePart) -> str:
    """A document that is text, with its address."""
    return f"<document {_facts(uri=part.uri, media_type=part.media_type)}>\n{part.text or ''}\n</document>"


def link_text(part: ResourceLinkPart) -> str:
    """A document that is elsewhere: no API fetches it, but a model with tools may."""
    told = _facts(uri=part.uri, name=part.name, media_type=part.media_type, description=part.description)
    return f"<link {told}/>"


def part_of_text(text: str) -> MessagePart:
    """The part that was written as this text."""
    if found := _DOCUMENT.fullmatch(text):
        return ResourcePart(**json.loads(found[1]), text=found[2])
    if found := _LINK.fullmatch(text):
        return ResourceLinkPart(**json.loads(found[1]))
    return TextPart(text=text)


def _facts(**told: str | None) -> str:
    return json.dumps({name: value for name, value in told.items() if value is not None}, ensure_ascii=False)


# What a model API has to tell the one backend that speaks them all. Pure: bytes and values, no I/O, no clock.
#
# An API carries a work order or says what it cannot: `gives` is what it has whatever the model, `lacks` is what no
# model can be asked for through it. Both are evidence for a manifest, so that what would be lost is in the plan
# beforehand.


@dataclass(frozen=True, slots=True)
class Asking:
    """One request to an API: the path behind the base URL, or behind the server's root, and a JSON body or none."""

    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    method: str = "POST"
    at_root: bool = False


class Reading(Protocol):
    """One streamed answer while it is read."""

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """The pieces that this event completes.

        Raises `Broken` for what cannot be understood, and `Told` for an error that the endpoint tells in its stream.
        """
        ...

    def finish(self) -> Sequence[AnyPiece]:
        """The last pieces, an `EndPiece` last if none was given; raises `Broken` if the answer is not complete."""
        ...


class ModelApi(Protocol):
    """One API of models."""

    @property
    def name(self) -> str:
        """What evidence calls it, such as `openai chat API`."""
        ...

    @property
    def base_url(self) -> str | None:
        """Where it is spoken unless the operator says otherwise."""
        ...

    @property
    def gives(self) -> Mapping[str, str | SupportLevel]:
        """Levels of what the API itself has, whatever the model: the last word, after everybody else's."""
        ...

    @property
    def lacks(self) -> Mapping[str, str]:
        """Why it cannot carry what it cannot, by capability: no fact about a model changes that."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers of every request."""
        ...

    def ask(self, order: WorkOrder, model: str) -> Asking:
        """The request that carries this work. Raises `CannotCarry` for what it cannot; nothing is left out quietly."""
        ...

    def reading(self) -> Reading:
        """A reader for one streamed answer."""
        ...

    def read_whole(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once, an `EndPiece` last. Raises as `Reading.feed` does."""
        ...

    def explain(self, status: int, body: bytes) -> Explained:
        """What an answer that is not 200 says went wrong."""
        ...

    def look(self, model: str) -> Asking:
        """A request that costs nothing and shows whether the endpoint is there, and may tell of the model."""
        ...

    def discovered(self, body: bytes, model: str) -> Layer:
        """What the answer to `look` tells of the model; nothing if it tells nothing."""
        ...


class Broken(Exception):  # noqa: N818 - it becomes an error of ours, with the backend's name
    """What came is not what the API says; the text is ours and repeats nothing that came."""


class Told(Exception):  # noqa: N818 - as above
    """The endpoint tells of an error in its answer."""

    def __init__(self, explained: Explained) -> None:
        super().__init__(str(explained.failure))
        self.explained = explained


class CannotCarry(Exception):  # noqa: N818 - as above
    """The API has no way to say this; `capability` is what it would take. Plans see this coming: see `lacks`.

    Of what it can say otherwise, such as sound of another kind, it is not `always` true: nothing is learnt from it.
    """

    def __init__(self, capability: str, what: str, *, always: bool = True) -> None:
        super().__init__(what)
        self.capability = capability
        self.what = what
        self.always = always


# Puts together what is known of a model behind an API: whose word counts before whose, and what an API adds.
#
# The operator first; then what the API cannot carry, which no fact about a model changes; then what the endpoint
# tells, what it was seen to do, the shipped facts; and last what the API itself has, whatever the model.


def layers(api: ModelApi, declared: Layer, discovered: Layer, facts: Layer) -> tuple[Layer, ...]:
    """All that is said of a model, the first word first."""
    lacks = {name: Evidence(SupportLevel.model_validate("unsupported"), api.name) for name in api.lacks}
    gives = {name: Evidence(SupportLevel.model_validate(level), api.name) for name, level in api.gives.items()}
    return declared, lacks, discovered, facts, gives
