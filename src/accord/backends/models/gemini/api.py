"""The Gemini API: its address, what it has, what it lacks, and what it tells of a model. No I/O.

What it has depends on the model in more ways than elsewhere. So it says nothing of penalties, which have a field and
are refused by most models: the operator, the facts or the endpoint's refusal decide. Media in the results of tools
have a place of their own (`functionResponse.parts`) since Gemini 3; earlier models refuse them loudly, by a sentence
that `failure.py` knows, so the API counts as having them. Log probabilities can be asked for, but an answer of ours has
no place for them; and caching takes a cached content that was made beforehand, not a mark on a message.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import msgspec

from accord.backends.evidence import Evidence, Layer
from accord.backends.failure import Explained
from accord.backends.models.api import Asking, Broken
from accord.backends.models.gemini.ask import body_of
from accord.backends.models.gemini.failure import explain
from accord.backends.models.gemini.read import GeminiReading, read_whole
from accord.wire.answer import AnyPiece
from accord.wire.capability import FILE_INPUT, TOOL_RESULT_MEDIA, Capability
from accord.wire.support import SupportLevel
from accord.wire.work import WorkOrder

NAME: Final = "gemini API"
BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
KEY_HEADER: Final = "x-goog-api-key"

GIVES: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.STREAMING: "native",
        "reasoning_history": "native",
        Capability.SYSTEM_MESSAGE: "native",
        Capability.STOP_SEQUENCES: "native",
        Capability.TEMPERATURE: "native",
        Capability.TOP_P: "native",
        Capability.TOP_K: "native",
        Capability.MAX_TOKENS: "native",
        Capability.SEED_DETERMINISM: "native",
        FILE_INPUT: "native",
        TOOL_RESULT_MEDIA: "native",
    }
)

LACKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.LOGPROBS: "answers have no place for the probabilities that the Gemini API tells",
        Capability.CACHE_CONTROL: "the Gemini API caches contents that were made beforehand, not parts of a request",
    }
)

GENERATING: Final = frozenset({"generateContent", "streamGenerateContent"})
NEEDS_GENERATING: Final = (
    Capability.STREAMING,
    Capability.SYSTEM_MESSAGE,
    Capability.TOOL_USE,
    Capability.EXTENDED_THINKING,
    Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    Capability.JSON_MODE,
)
"""What a model that answers nothing (one for embeddings, say) cannot have."""


class Described(msgspec.Struct, rename="camel", gc=False):
    """What the endpoint tells of a model, as far as it says what the model can do."""

    thinking: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    supported_generation_methods: list[str] | None = None


_described: Final = msgspec.json.Decoder(Described)


class Gemini:
    """The API at generativelanguage.googleapis.com, and whatever else speaks it."""

    @property
    def name(self) -> str:
        """What evidence calls it."""
        return NAME

    @property
    def base_url(self) -> str:
        """Where it is spoken unless the operator says otherwise."""
        return BASE_URL

    @property
    def gives(self) -> Mapping[str, str]:
        """What every model has through it, or refuses in words that are understood."""
        return GIVES

    @property
    def lacks(self) -> Mapping[str, str]:
        """What cannot be carried through it."""
        return LACKS

    def headers(self, key: str | None) -> dict[str, str]:
        """The key has a header of its own; it is never part of an address."""
        return {} if key is None else {KEY_HEADER: key}

    def ask(self, order: WorkOrder, model: str) -> Asking:
        """The request that carries this work."""
        method = "streamGenerateContent?alt=sse" if order.stream else "generateContent"
        return Asking(f"/{_resource(model)}:{method}", body_of(order))

    def reading(self) -> GeminiReading:
        """A reader for one streamed answer."""
        return GeminiReading()

    def read_whole(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once."""
        return read_whole(body)

    def explain(self, status: int, body: bytes) -> Explained:
        """What an answer that is not 200 says went wrong."""
        return explain(status, body)

    def look(self, model: str) -> Asking:
        """The model's own description."""
        return Asking(f"/{_resource(model)}", method="GET")

    def discovered(self, body: bytes, model: str) -> Layer:  # noqa: ARG002 - one model is described, the one asked for
        """What the description says the model can do.

        A description that has other ways of sampling and no `topK` says that the model takes none. That it thinks is
        told, that it does not is not: the field is then left out, as it is by endpoints that do not know it.
        """
        try:
            told = _described.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Broken("the description of the model cannot be read") from None
        return {name: Evidence(level, NAME) for name, level in _levels(told).items()}


def _levels(told: Described) -> dict[str, SupportLevel]:
    methods = told.supported_generation_methods
    if methods and GENERATING.isdisjoint(methods):
        return dict.fromkeys(NEEDS_GENERATING, SupportLevel.UNSUPPORTED)
    levels: dict[str, SupportLevel] = {}
    if told.thinking:
        levels[Capability.EXTENDED_THINKING] = SupportLevel.NATIVE
    if told.temperature is not None:
        levels[Capability.TEMPERATURE] = SupportLevel.NATIVE
    if told.top_p is not None:
        levels[Capability.TOP_P] = SupportLevel.NATIVE
    if told.top_k is not None:
        levels[Capability.TOP_K] = SupportLevel.NATIVE
    elif levels.keys() & {Capability.TEMPERATURE, Capability.TOP_P}:
        levels[Capability.TOP_K] = SupportLevel.UNSUPPORTED
    return levels


def _resource(model: str) -> str:
    """The path of a model: a plain name is one of `models/`, a tuned model has its own collection."""
    collection, slash, name = model.rpartition("/")
    if slash and collection in {"models", "tunedModels"}:
        return f"{collection}/{quote(name, safe='@')}"
    return f"models/{quote(model, safe='@')}"
