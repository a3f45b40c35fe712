"""Prices of models: the operator's own, else list prices from a file that ships with the package. No network.

A price is in US dollars for a million tokens, which is also micro-dollars for one token. A price that is not known is
None, never 0: unknown costs must not look like no costs. List prices leave out discounts (batches, times of day, other
service tiers), the higher price of one-hour cache writes, and whatever is not paid by the token.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from ipaddress import ip_address
from pkgutil import get_data
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from accord.backends.model_options import dialect_address
from accord.config import BackendConfig

FORMAT: Final = 1
SHIPPED: Final = "facts/prices.json"
EXPECTED_OUTPUT_TOKENS: Final = 1024
"""How long an answer is expected to be if the request does not limit it."""
MOST_OUTPUT_TOKENS: Final = 4096
"""How long an answer is expected to be at most: coding agents allow tens of thousands of tokens and use hundreds."""
ADDRESSES: Final[Mapping[str, str]] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""The address that each kind of backend has without `base_url`."""

_COMPACT_DATE: Final = re.compile(r"-(20\d\d)([01]\d)([0-3]\d)\b")


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """A price per token, and the prices for requests with more input tokens than so many, the longest first."""

    base: float
    above: tuple[tuple[int, float], ...] = ()

    def at(self, input_tokens: int) -> float:
        """The price in a request with this many input tokens."""
        for start, price in self.above:
            if input_tokens > start:
                return price
        return self.base


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What a model costs. Where cached input or cache writes have no price of their own, they cost what input does."""

    input: TokenPrice
    output: TokenPrice
    cached_input: TokenPrice | None = None
    cache_write: TokenPrice | None = None

    def cost(self, usage: Mapping[str, Any] | None) -> int | None:
        """The cost of an answer in micro-dollars, by the `usage` of its end; None if that has no counts.

        Input counts include cached input and cache writes, output counts include reasoning.
        """
        if not usage or ("input_tokens" not in usage and "output_tokens" not in usage):
            return None
        total, output = _count(usage, "input_tokens"), _count(usage, "output_tokens")
        cached = min(_count(usage, "cached_input_tokens"), total)
        written = min(_count(usage, "cache_write_tokens"), total - cached)
        cost = (total - cached - written) * self.input.at(total) + output * self.output.at(total)
        if cached:
            cost += cached * (self.cached_input or self.input).at(total)
        if written:
            cost += written * (self.cache_write or self.input).at(total)
        return round(cost)

    def estimate(self, input_tokens: int, max_output_tokens: int | None = None) -> int:
        """About what a request will cost, in micro-dollars, before it is sent."""
        limit = EXPECTED_OUTPUT_TOKENS if max_output_tokens is None else max_output_tokens
        expected = max(0, min(limit, MOST_OUTPUT_TOKENS))
        return round(input_tokens * self.input.at(input_tokens) + expected * self.output.at(input_tokens))


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0


class _Provider(msgspec.Struct, frozen=True):
    """A provider: the pattern of its address, the names of its models, and whose other models it offers."""

    address: str
    models: Any
    also: list[str]
    prices: msgspec.Raw
    """Its models with their prices as JSON: decoded all at once, the prices of all providers would take 1.5 MB."""

    def rows(self) -> list[list[Any]]:
        """A row for each model: its name, the clause that other names match, and its prices."""
        return msgspec.json.decode(self.prices, type=list[list[Any]])


class _PriceFile(msgspec.Struct, frozen=True):
    """The members of the file that are read."""

    format: int
    providers: dict[str, _Provider]


class PriceList:
    """List prices by provider and model."""

    def __init__(self, providers: Mapping[str, _Provider]) -> None:
        self._providers: Final = providers

    @classmethod
    def read(cls, content: bytes) -> "PriceList":
        """Return the list in a file's text; raise `ValueError` if it is not one."""
        problem = f"not a list of prices of format {FORMAT}, as `make models` writes it"
        try:
            found = msgspec.json.decode(content, type=_PriceFile)
        except msgspec.ValidationError:
            raise ValueError(problem) from None
        if found.format != FORMAT:
            raise ValueError(problem)
        return cls(found.providers)

    def names(self) -> Iterator[str]:
        """Yield every model that has a price as `provider/model`."""
        for name, provider in self._providers.items():
            yield from (f"{name}/{model[0]}" for model in provider.rows() if len(model) > 2)

    def find(self, model: str, address: str | None, on: date) -> ModelPrice | None:
        """The price of a model on a day, at the provider with this address.

        An address that is no provider's is taken for a gateway: then the provider that the model's name belongs to
        counts. A model on this machine or in a private network has no list price, whatever it is called.
        """
        name = model.lower()
        provider = self._by_address(address) if address else None
        if provider is None:
            if address and _is_private(address):
                return None
            provider = next((each for each in self._providers.values() if _matches(each.models, name)), None)
        if provider is None:
            return None
        dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", name)
        rows = self._rows(provider, name)
        if rows is None and dashed != name:
            rows = self._rows(provider, dashed)
        return _price_on(rows, on) if rows else None

    def _by_address(self, address: str) -> _Provider | None:
        return next((each for each in self._providers.values() if re.match(each.address, address)), None)

    def _rows(self, provider: _Provider, name: str) -> list[Mapping[str, Any]] | None:
        """The prices of the model of this name, at the provider or else at those whose models it offers.

        Empty for a model that is not paid by the token, None if there is no such model.
        """
        for each in (provider, *(self._providers[other] for other in provider.also)):
            models = each.rows()
            found = next((model for model in models if model[0] == name), None)
            found = found or next((model for model in models if _matches(model[1], name)), None)
            if found is not None:
                return found[2:]
        return None


def _matches(clause: Any, name: str) -> bool:
    """Whether a name matches a clause: a sign and a text; a list, of which one matches; `and`, of which all match."""
    if isinstance(clause, list):
        return any(_matches(each, name) for each in cast("list[Any]", clause))
    if isinstance(clause, dict):
        return all(_matches(each, name) for each in cast("dict[str, Any]", clause)["and"])
    if not clause:
        return False
    text = str(clause)[1:]
    match str(clause)[0]:
        case "=":
            return name == text
        case "^":
            return name.startswith(text)
        case "$":
            return name.endswith(text)
        case "~":
            return text in name
        case _:
            return re.search(text, name) is not None


def _price_on(rows: list[Mapping[str, Any]], on: date) -> ModelPrice:
    """The last price that has begun; the first if none has."""
    begun = [row for row in rows if row.get("since", "") <= on.isoformat()]
    row = (begun or rows[:1])[-1]
    return ModelPrice(**{name: _token_price(value) for name, value in row.items() if name != "since"})


def _token_price(value: Any) -> TokenPrice:
    if not isinstance(value, list):
        return TokenPrice(value)
    base, *steps = cast("list[Any]", value)
    return TokenPrice(base, tuple(sorted(((start, price) for start, price in steps), reverse=True)))


def _is_private(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        known = ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".localhost", ".lan"))
    return known.is_private or known.is_loopback


@cache
def shipped_prices() -> PriceList:
    """Return the list that ships with the package, read at the first call."""
    return PriceList.read(get_data(__name__, SHIPPED) or b"")


@lru_cache(maxsize=1024)
def find_price(model: str, address: str | None = None) -> ModelPrice | None:
    """The list price of a model today; None if it is not known. Looked up once."""
    return shipped_prices().find(model, address, datetime.now(UTC).date())


def backend_price(config: BackendConfig) -> ModelPrice | None:
    """The price of a configured backend: the operator's own, else the list price of its model."""
    own = config.price
    if own is not None:
        given = {name: TokenPrice(price) for name, price in own.model_dump(exclude_none=True).items()}
        return ModelPrice(**given)
    address = config.base_url or ADDRESSES.get(config.kind) or dialect_address(config.kind)
    return None if config.model is None or address is None else find_price(config.model, address)


def backend_prices(configs: Iterable[BackendConfig]) -> dict[str, ModelPrice]:
    """The prices of these backends by name, of those whose price is known."""
    found = {config.name: backend_price(config) for config in configs}
    return {name: price for name, price in found.items() if price is not None}
