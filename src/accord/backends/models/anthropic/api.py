"""Anthropic's Messages API as the one model backend needs it: what it has, what it lacks, where each question goes.

How orders are written is in `ask`, how answers are read in `read`, what errors mean in `failure`. Knows no model by
name: what differs between models is the operator's to choose here, or told by the endpoint.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import msgspec

from accord.backends.evidence import Evidence, Layer
from accord.backends.failure import Explained
from accord.backends.models.anthropic.ask import LEAST_THINKING, Manner, body_of
from accord.backends.models.anthropic.failure import explain
from accord.backends.models.anthropic.read import MessageReading, read_message
from accord.backends.models.api import Asking, Broken
from accord.wire.answer import AnyPiece
from accord.wire.capability import FILE_INPUT, TOOL_RESULT_MEDIA, Capability
from accord.wire.support import SupportLevel
from accord.wire.work import WorkOrder

NAME: Final = "anthropic messages API"
BASE_URL: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
WITHOUT_SAMPLING: Final = "2026-10-21"
"""From this version on, the API has no temperature, no top_p and no top_k."""
MAX_TOKENS: Final = 8192

SAMPLING: Final = (Capability.TEMPERATURE, Capability.TOP_P, Capability.TOP_K)

GIVES: Final = (
    Capability.STREAMING,
    "reasoning_history",
    Capability.SYSTEM_MESSAGE,
    Capability.STOP_SEQUENCES,
    Capability.MAX_TOKENS,
    Capability.CACHE_CONTROL,
    TOOL_RESULT_MEDIA,
)

LACKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.AUDIO: "the Messages API takes no sound",
        FILE_INPUT: "the Messages API takes PDF documents and text, and no other files",
        Capability.JSON_MODE: "the Messages API has no JSON mode without a schema",
        Capability.FREQUENCY_PENALTY: "the Messages API has no frequency_penalty",
        Capability.PRESENCE_PENALTY: "the Messages API has no presence_penalty",
        Capability.SEED_DETERMINISM: "the Messages API has no seed",
        Capability.LOGPROBS: "the Messages API tells no probabilities",
    }
)

TOLD: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        "image_input": Capability.IMAGE_INPUT,
        "pdf_input": Capability.PDF_INPUT,
        "structured_outputs": Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    }
)
"""What the endpoint calls what it tells of a model; thinking has forms and is looked at apart."""


class AnthropicMessages:
    """The Messages API.

    `max_tokens` is how long an answer may be if the order does not say: the API insists on a number. `thinking_budget`
    is how many tokens the model may think, for models that are told so; without one they decide (`adaptive`),
    as all models since 4.7 must and none before 4.6 can. `structured_output` says whether schemas go to the API;
    otherwise Accord's own emulation is planned. `version` is the API's, and `betas` are features to be asked for.
    """

    def __init__(
        self,
        *,
        max_tokens: int = MAX_TOKENS,
        thinking_budget: int | None = None,
        structured_output: bool = True,
        version: str = VERSION,
        betas: Sequence[str] = (),
    ) -> None:
        if max_tokens < 1:
            raise ValueError("max_tokens is at least 1")
        if thinking_budget is not None and thinking_budget < LEAST_THINKING:
            raise ValueError(f"thinking_budget is at least {LEAST_THINKING}")
        self.name: Final = NAME
        self.base_url: Final = BASE_URL
        lacks = dict(LACKS)
        if not structured_output:
            lacks[Capability.STRUCTURED_OUTPUT_JSON_SCHEMA] = "the operator keeps schemas from the Messages API"
        if version >= WITHOUT_SAMPLING:
            lacks |= {name: f"version {version} of the Messages API has no {name}" for name in SAMPLING}
        self.lacks: Final[Mapping[str, str]] = MappingProxyType(lacks)
        given = (name for name in (*GIVES, *SAMPLING) if name not in lacks)
        self.gives: Final[Mapping[str, str]] = MappingProxyType(dict.fromkeys(given, "native"))
        self._manner: Final = Manner(max_tokens, thinking_budget, self.lacks)
        self._fixed: Final = {"anthropic-version": version} | ({"anthropic-beta": ",".join(betas)} if betas else {})

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers of every request."""
        return {**({} if key is None else {"x-api-key": key}), **self._fixed}

    def ask(self, order: WorkOrder, model: str) -> Asking:
        """The request that carries this work."""
        return Asking("/v1/messages", body_of(order, model, self._manner))

    def reading(self) -> MessageReading:
        """A reader for one streamed answer."""
        return MessageReading()

    def read_whole(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once."""
        return read_message(body)

    def explain(self, status: int, body: bytes) -> Explained:
        """What an answer that is not 200 says went wrong."""
        return explain(status, body)

    def look(self, model: str) -> Asking:
        """Ask what the model is."""
        return Asking(f"/v1/models/{quote(model, safe='')}", method="GET")

    def discovered(self, body: bytes, model: str) -> Layer:  # noqa: ARG002 - the answer is about one model
        """What the endpoint tells of the model: newer ones tell their capabilities, others nothing."""
        try:
            told = _decode(body).capabilities or {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Broken("what the endpoint tells of the model cannot be understood") from None
        found = {
            ours: is_there for theirs, ours in TOLD.items() if (is_there := _is_there(told.get(theirs))) is not None
        }
        thinks = _is_there(thinking := told.get("thinking"))
        if thinks is not None and thinking is not None:
            form = thinking.types.get("adaptive" if self._manner.thinking_budget is None else "enabled")
            found[Capability.EXTENDED_THINKING] = thinks and _is_there(form) is not False
        return {name: Evidence(LEVELS[is_there], self.name) for name, is_there in found.items()}


LEVELS: Final[Mapping[bool, SupportLevel]] = MappingProxyType(
    {True: SupportLevel.model_validate("native"), False: SupportLevel.model_validate("unsupported")}
)


class _Support(msgspec.Struct):
    supported: bool | None = None
    types: dict[str, "_Support"] = msgspec.field(default_factory=dict[str, "_Support"])


class _Model(msgspec.Struct):
    capabilities: dict[str, _Support | None] | None = None


_decode: Final = msgspec.json.Decoder(_Model).decode


def _is_there(told: _Support | None) -> bool | None:
    return None if told is None else told.supported
