"""The models that clients can name, and what is known of each: `GET /v1/models`, `/v1/models/{id}`, `/v1/model/info`.

A name is a group, a backend, a model of a backend, or `auto`. What it can do is what at least one of its backends can
do, natively or emulated, because a request goes to a backend that can do it. What is unknown is left out, never false.

Three shapes, each where its clients look: OpenAI's list with OpenRouter's members beside it, Anthropic's list for a
request with its version header, LiteLLM's `model_info`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import msgspec

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ServedApi
from accord.apis.messages.codec import MessagesCodec
from accord.core.vocabulary import unknown_name
from accord.core.work.dispositions import effective_fields
from accord.core.work.fields import TABLE
from accord.core.work.groups import BackendGroup, UnresolvedModel
from accord.core.work.negotiate import declared_level
from accord.core.work.plan import Candidate
from accord.errors import AccordError, ErrorCode, RefusedError
from accord.ports import BackendPrice
from accord.run.model_calls import ModelCalls, ModelCallsRef, backend_column
from accord.servers.http.exchange import Exchange, send_response
from accord.servers.http.model_endpoint import JSON_TYPE, ModelEndpoint, send_api_error
from accord.servers.service import Caller, Service
from accord.wire.capability import Capability, canonical_name
from accord.wire.disposition import Api, Disposition
from accord.wire.keys import MICRO
from accord.wire.manifest import SupportLevel
from accord.wire.routes import MODEL_INFO_PATH, MODEL_PATH, MODELS_PATH

OWNER: Final = "accord"
"""The owner of a name that means several backends."""
ANTHROPIC_HEADER: Final = b"anthropic-version"

_CONTENT: Final = "messages[].content[]"

MODALITIES: Final[Mapping[str, str]] = MappingProxyType(
    {f"{_CONTENT}.image_url": "image", f"{_CONTENT}.input_audio": "audio", f"{_CONTENT}.file": "file"}
)
"""OpenRouter's names for kinds of input besides text, by the field of chat completions that carries each."""

FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "supports_vision": f"{_CONTENT}.image_url",
        "supports_audio_input": f"{_CONTENT}.input_audio",
        "supports_pdf_input": f"{_CONTENT}.file",
        "supports_function_calling": "tools",
        "supports_tool_choice": "tool_choice",
        "supports_parallel_function_calling": "parallel_tool_calls",
        "supports_response_schema": "response_format.json_schema",
        "supports_prompt_caching": Capability.CACHE_CONTROL,
        "supports_reasoning": "reasoning_effort",
    }
)
"""LiteLLM's flags, and the field of chat completions that each is about, or the capability."""

NESTED_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "response_format.json_object": ("response_format",),
        "response_format.json_schema": ("response_format", "structured_outputs"),
    }
)
"""Rows of the table that `supported_parameters` has under other names; top-level fields have their own."""
NOT_PARAMETERS: Final = frozenset({"model", "messages", "stream", "functions", "function_call"})
"""Top-level fields that `supported_parameters` does not list."""
COSTS: Final = ("input_cost_per_token", "output_cost_per_token")
"""LiteLLM's members for prices."""
PRICED_TOKENS: Final = 10_000
"""Prices come from the cost of so many tokens: enough that rounding to micro-dollars does not show, and fewer than
those from which on some models cost more."""
HAS: Final = frozenset({Disposition.NATIVE, Disposition.EMULATED})

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of one name.

    `has` says, for fields of chat completions and for the capability to cache, whether a request may use them; unknown
    ones are left out. `models` are the models behind its backends. `prices` are US dollars for a token of input and of
    output, if they are known and the same for all of its backends.
    """

    name: str
    backends: tuple[str, ...]
    models: tuple[str, ...]
    has: Mapping[str, bool]
    prices: tuple[float, float] | None = None

    @property
    def inputs(self) -> list[str]:
        """The kinds of input, with OpenRouter's words."""
        return ["text", *(word for field, word in MODALITIES.items() if self.has.get(field))]

    @property
    def parameters(self) -> list[str]:
        """The parameters that a request may use, with OpenRouter's names."""
        found = dict[str, None]()
        for field in TABLE[Api.CHAT]:
            if self.has.get(field) and (field.isidentifier() or field in NESTED_PARAMETERS):
                found.update(dict.fromkeys(NESTED_PARAMETERS.get(field, (field,))))
        return [name for name in found if name not in NOT_PARAMETERS]


class ModelCatalog:
    """What is known of every name, as of now; each backend is looked at once."""

    def __init__(self, calls: ModelCalls) -> None:
        self._calls: Final = calls
        self._by_backend: Final[dict[str, dict[str, bool]]] = {}

    def card(self, name: str) -> ModelCard | UnresolvedModel:
        """What is known of this name."""
        found = self._calls.resolve(name)
        return found if isinstance(found, UnresolvedModel) else self._card(name, found)

    def cards(self, names: Iterable[str]) -> list[ModelCard]:
        """What is known of each of these names."""
        return [card for name in names if isinstance(card := self.card(name), ModelCard)]

    def _card(self, name: str, group: BackendGroup) -> ModelCard:
        known, of = self._calls.dispatcher.known, self._calls.dispatcher.prices
        models = (known[each].model for each in group.backends if each in known)
        has = merge_levels([self._levels(each) for each in group.backends])
        prices = {token_prices(of[each]) if each in of else None for each in group.backends}
        price = prices.pop() if len(prices) == 1 else None
        return ModelCard(name, group.backends, tuple(dict.fromkeys(model for model in models if model)), has, price)

    def _levels(self, name: str) -> dict[str, bool]:
        """Which fields of chat completions this backend has or lacks."""
        if (found := self._by_backend.get(name)) is None:
            calls = self._calls
            candidate, config = calls.dispatcher.candidate(name), calls.plan_config()
            column = backend_column(calls.dispatcher.backends[name])
            learned = calls.dispatcher.refusals.members_of(name, Api.CHAT)
            found = self._by_backend[name] = {}
            records = effective_fields(Api.CHAT, column, candidate, config, learned)
            for row in TABLE[Api.CHAT].values():
                if records[row.name].disposition in HAS:
                    found[row.name] = True
                elif column.cell(row) not in HAS or row.name in learned or is_known(candidate, row.capability):
                    found[row.name] = False
            # Marks are passed on whether or not the endpoint heeds them, so that no row says it.
            if is_known(candidate, Capability.CACHE_CONTROL):
                level = declared_level(candidate.manifest, Capability.CACHE_CONTROL)
                found[Capability.CACHE_CONTROL] = level is not None and level.root != SupportLevel.UNSUPPORTED.root
        return found


def is_known(candidate: Candidate, capability: str | None) -> bool:
    """Whether the manifest or experience says anything of this capability."""
    if capability is None:
        return False
    learned = map(canonical_name, candidate.refused | candidate.contradicted)
    return declared_level(candidate.manifest, capability) is not None or capability in learned


def merge_levels(levels: list[dict[str, bool]]) -> dict[str, bool]:
    """What at least one of these has, and what all of them are known to lack."""
    merged: dict[str, bool] = {}
    for name in dict.fromkeys(name for each in levels for name in each):
        known = [each.get(name) for each in levels]
        if any(known):
            merged[name] = True
        elif None not in known:
            merged[name] = False
    return merged


def token_prices(price: BackendPrice) -> tuple[float, float] | None:
    """US dollars for a token of input and of output in a request of ordinary length; None if they are not known."""
    costs = [price.cost({name: PRICED_TOKENS}) for name in ("input_tokens", "output_tokens")]
    found = [cost / PRICED_TOKENS / MICRO for cost in costs if cost is not None]
    return (found[0], found[1]) if len(found) == len(costs) else None


def openrouter_members(card: ModelCard) -> dict[str, Any]:
    """OpenRouter's members of a model in OpenAI's shape, and the backends that the name means."""
    # OpenRouter has prices as text, so that no digit is lost.
    prompt, completion = map(_decimal, card.prices) if card.prices else (None, None)
    return {
        "name": card.name,
        "architecture": {
            "modality": f"{'+'.join(card.inputs)}->text",
            "input_modalities": card.inputs,
            "output_modalities": ["text"],
        },
        "supported_parameters": card.parameters,
        **({"pricing": {"prompt": prompt, "completion": completion}} if card.prices else {}),
        "accord": {"backends": list(card.backends), "models": list(card.models)},
    }


def litellm_model(card: ModelCard) -> dict[str, Any]:
    """A model in LiteLLM's shape."""
    return {
        "model_name": card.name,
        "litellm_params": {"model": card.models[0] if len(card.models) == 1 else card.name},
        "model_info": {
            "id": card.name,
            "mode": "chat",
            "supported_openai_params": card.parameters,
            **{flag: card.has[field] for flag, field in FLAGS.items() if field in card.has},
            **(dict(zip(COSTS, card.prices, strict=True)) if card.prices else {}),
        },
    }


class ModelListEndpoint(ModelEndpoint):
    """The ASGI application of the three paths; answers and errors have the shape of the client's API."""

    def __init__(self, service: Service, route: str, calls: ModelCallsRef) -> None:
        handlers = {MODELS_PATH: self.list_models, MODEL_PATH: self.describe_model, MODEL_INFO_PATH: self.list_info}
        super().__init__(service, route, {"GET": handlers[route]}, ChatCodec())
        self._calls: Final = calls
        self._messages: Final = MessagesCodec()

    async def send_error(self, exchange: Exchange, error: AccordError, allow: str) -> int:
        """Answer with this error."""
        request_id = exchange.request_id or str(uuid4())
        return await send_api_error(exchange.send, self._codec_of(exchange), error, request_id, allow)

    async def list_models(self, exchange: Exchange) -> int:
        """Answer with every model that the caller may name."""
        codec = self._codec_of(exchange)
        models = [self._describe(codec, card) for card in self._cards(exchange.caller)]
        return await _answer(exchange, codec.write_models(models))

    async def describe_model(self, exchange: Exchange) -> int:
        """Answer with one model; 404 if there is none of this name, or the caller may not use it."""
        name = exchange.path_parameter("model")
        names = self._names(exchange.caller)
        card = ModelCatalog(self._calls.current).card(name) if name in names else None
        if not isinstance(card, ModelCard):
            # Of the names that might be meant, only those that the caller may use are listed.
            raise RefusedError(unknown_name("model", name, names), ErrorCode.NOT_FOUND, {"field": "model"})
        return await _answer(exchange, self._describe(self._codec_of(exchange), card))

    async def list_info(self, exchange: Exchange) -> int:
        """Answer with every model that the caller may name, in LiteLLM's shape."""
        return await _answer(exchange, {"data": [litellm_model(card) for card in self._cards(exchange.caller)]})

    def _codec_of(self, exchange: Exchange) -> ServedApi:
        return self._messages if ANTHROPIC_HEADER in exchange.headers else self.codec

    def _describe(self, codec: ServedApi, card: ModelCard) -> dict[str, Any]:
        owner = card.backends[0] if len(card.backends) == 1 else OWNER
        return codec.write_model(card.name, owner) | (openrouter_members(card) if codec is self.codec else {})

    def _cards(self, caller: Caller) -> list[ModelCard]:
        return ModelCatalog(self._calls.current).cards(self._names(caller))

    def _names(self, caller: Caller) -> list[str]:
        """The names that this caller may use."""
        rules = None if caller.key is None else caller.key.rules
        return [name for name in self._calls.current.names() if rules is None or rules.allows_model(name)]


def _decimal(price: float) -> str:
    return f"{price:.12f}".rstrip("0").rstrip(".")


async def _answer(exchange: Exchange, body: Mapping[str, Any]) -> int:
    await send_response(exchange.send, 200, [JSON_TYPE, (b"cache-control", b"no-store")], _encode(body))
    return 200


def model_list_endpoints(service: Service, calls: ModelCallsRef) -> list[ModelListEndpoint]:
    """The endpoints of this file."""
    return [ModelListEndpoint(service, route, calls) for route in (MODELS_PATH, MODEL_PATH, MODEL_INFO_PATH)]
