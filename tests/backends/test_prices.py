"""Prices: arithmetic, the model that a name means, and the operator's own prices."""

import json
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.apis.chat.codec import ChatCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.prices import (
    ADDRESSES,
    ModelPrice,
    PriceList,
    TokenPrice,
    backend_price,
    backend_prices,
    find_price,
    shipped_prices,
)
from accord.config import BackendConfig
from tests.laws import examples
from tests.servers.model_apis.recorder import chat_answer, messages_answer, responses_answer

DAY = date(2026, 6, 1)
PLAIN = ModelPrice(TokenPrice(2.5), TokenPrice(10))
FULL = ModelPrice(TokenPrice(3), TokenPrice(15), TokenPrice(0.3), TokenPrice(3.75))
STEPPED = ModelPrice(TokenPrice(1, ((200, 4), (100, 2))), TokenPrice(10, ((100, 20),)))


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (PLAIN, {"input_tokens": 1_000_000, "output_tokens": 1_000_000}, 12_500_000),
        (PLAIN, {"input_tokens": 1000, "output_tokens": 100, "cached_input_tokens": 500}, 3500),
        (FULL, {"input_tokens": 1000, "output_tokens": 100, "cached_input_tokens": 500}, 3150),
        (FULL, {"input_tokens": 1000, "output_tokens": 0, "cached_input_tokens": 500, "cache_write_tokens": 100}, 1725),
        (FULL, {"input_tokens": 10, "output_tokens": 1, "reasoning_tokens": 1}, 45),
        (FULL, {"input_tokens": 10, "output_tokens": 0, "cached_input_tokens": 99, "cache_write_tokens": 99}, 3),
        (FULL, {"input_tokens": -10, "output_tokens": "x"}, 0),
        (FULL, {"output_tokens": 2}, 30),
        (STEPPED, {"input_tokens": 100, "output_tokens": 1}, 110),
        (STEPPED, {"input_tokens": 101, "output_tokens": 1}, 222),
        (STEPPED, {"input_tokens": 201, "output_tokens": 1}, 824),
        (PLAIN, {}, None),
        (PLAIN, None, None),
        (PLAIN, {"total_tokens": 5}, None),
    ],
)
def test_each_usage_has_its_cost_in_micro_dollars(price: ModelPrice, usage: dict[str, Any] | None, cost: int | None):
    assert price.cost(usage) == cost


REPORTED: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (
        ChatCodec(),
        chat_answer(1)[0],
        {
            "prompt_tokens": 1000,
            "completion_tokens": 0,
            "prompt_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 100},
        },
    ),
    (
        ResponsesCodec(),
        responses_answer()[0],
        {
            "input_tokens": 1000,
            "output_tokens": 0,
            "input_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 100},
        },
    ),
    (
        MessagesCodec(),
        messages_answer()[0],
        {
            "input_tokens": 400,
            "output_tokens": 0,
            "cache_read_input_tokens": 500,
            "cache_creation_input_tokens": 100,
        },
    ),
]


@pytest.mark.parametrize(("codec", "answer", "usage"), REPORTED, ids=lambda each: getattr(each, "name", ""))
def test_what_is_written_to_the_cache_is_paid_translated_or_passed_on(codec: Any, answer: Any, usage: Any):
    body = json.dumps({**answer, "usage": usage}).encode()
    watcher = codec.watcher()
    watcher.note_answer(msgspec.json.decode(body, type=watcher.answer_type))
    assert FULL.cost(codec.read_answer(body)[-1].usage) == FULL.cost(watcher.summary.usage) == 1725


@pytest.mark.parametrize(
    ("tokens", "limit", "cost"),
    [(0, 0, 0), (1, 0, 2), (1000, 100, 3500), (1000, None, 12_740), (0, None, 10_240), (0, 32_000, 40_960), (1, -5, 2)],
)
def test_a_request_is_estimated_by_its_length_and_its_limit(tokens: int, limit: int | None, cost: int):
    assert PLAIN.estimate(tokens, limit) == cost


COUNTS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens"), st.integers(0, 10**9))
)  # fmt: skip


@given(COUNTS, st.sampled_from([PLAIN, FULL, STEPPED]))
@settings(max_examples=examples(100))
def test_more_output_never_costs_less_and_cached_input_never_more(usage: dict[str, int], price: ModelPrice):
    usage = {"input_tokens": 0, "output_tokens": 0, **usage}
    cost = price.cost(usage)
    more = price.cost({**usage, "output_tokens": usage["output_tokens"] + 1000})
    uncached = price.cost({**usage, "cached_input_tokens": 0})
    assert cost is not None
    assert more is not None
    assert uncached is not None
    assert 0 <= cost <= more
    assert price is not PLAIN or cost == uncached


LIST = PriceList.read(
    json.dumps(
        {
            "format": 1,
            "providers": {
                "maker": {
                    "address": r"https://api\.maker\.example",
                    "models": "~maker-",
                    "also": [],
                    "prices": [
                        ["maker-1", ["=maker-1", "^maker-1-"], {"input": 1, "output": 10}],
                        ["maker-1-mini", "=maker-1-mini", {"input": 2, "output": 10}],
                        ["maker-2", {"and": ["~maker", "$-2"]}, {"input": 3, "output": 10}],
                        ["maker-3", r"/^maker-3-\d{4}-\d{2}-\d{2}$", {"input": [4, [200, 8]], "output": 10}],
                        ["maker-embed", "=maker-embed"],
                        ["maker-any", "^maker-embed", {"input": 99, "output": 99}],
                        [
                            "maker-4",
                            "=maker-4",
                            {"input": 5, "output": 10},
                            {"input": 6, "output": 10, "since": "2026-06-01"},
                            {"input": 7, "output": 10, "since": "2026-06-02"},
                        ],
                    ],
                },
                "host": {
                    "address": r"https://[a-z]+\.host\.example",
                    "models": None,
                    "also": ["maker"],
                    "prices": [["maker-1", "=maker-1", {"input": 9, "output": 10}]],
                },
            },
        }
    ).encode()
)
AT_MAKER, AT_HOST = "https://api.maker.example/v1", "https://eu.host.example"


@pytest.mark.parametrize(
    ("model", "address", "price"),
    [
        ("maker-1", AT_MAKER, 1),
        ("MAKER-1", AT_MAKER, 1),
        ("maker-1-large", AT_MAKER, 1),
        ("maker-1-mini", AT_MAKER, 2),  # the name itself before an earlier pattern
        ("maker-x-2", AT_MAKER, 3),
        ("maker-3-20260102", AT_MAKER, 4),
        ("maker-3-2026-01-02", AT_MAKER, 4),
        ("maker-3-2026", AT_MAKER, None),
        ("maker-embed", AT_MAKER, None),
        ("maker-4", AT_MAKER, 6),
        ("maker-1", AT_HOST, 9),
        ("maker-x-2", AT_HOST, 3),  # of the provider whose models the host offers
        ("other", AT_HOST, None),
        ("maker-1", None, 1),
        ("other-1", None, None),
        ("maker-1", "https://gateway.example.com/v1", 1),
        ("other-1", "https://gateway.example.com/v1", None),
        ("maker-1", "http://127.0.0.1:8000/v1", None),
        ("maker-1", "http://[::1]:8000/v1", None),
        ("maker-1", "http://10.1.2.3/v1", None),
        ("maker-1", "http://localhost:11434/v1", None),
        ("maker-1", "http://models.internal/v1", None),
    ],
)
def test_each_name_at_each_address_means_one_price_or_none(model: str, address: str | None, price: float | None):
    found = LIST.find(model, address, DAY)
    assert (None if found is None else found.input.base) == price


@pytest.mark.parametrize(("day", "price"), [(date(2020, 1, 1), 5), (DAY, 6), (date(2026, 6, 2), 7), (date.max, 7)])
def test_the_last_price_that_has_begun_counts(day: date, price: float):
    found = LIST.find("maker-4", AT_MAKER, day)
    assert found is not None
    assert found.input.base == price


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": 2}', b"\xff"])
def test_a_file_that_is_not_a_list_of_prices_is_refused(content: bytes):
    with pytest.raises(ValueError, match=r"list of prices|truncated|malformed|UTF-8|Input data"):
        PriceList.read(content)


def test_every_shipped_price_can_be_read_and_found():
    names = list(shipped_prices().names())
    assert len(names) > 1000
    for name in names:
        provider, model = name.split("/", 1)
        rows = shipped_prices()._rows(shipped_prices()._providers[provider], model)  # pyright: ignore[reportPrivateUsage]
        assert rows, name
    for kind, model in {"openai": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}.items():
        found = find_price(model, ADDRESSES[kind])
        assert found is not None
        assert 0 < found.input.base < found.output.base
        assert found.cached_input is not None
        assert found.cached_input.base < found.input.base


def test_an_unknown_price_is_never_zero():
    assert find_price("no-such-model") is None
    price = find_price("gpt-4o", ADDRESSES["openai"])
    assert price is not None
    assert price.cost(None) is None
    assert price.cost({"input_tokens": 1000, "output_tokens": 100}) == 3500


def backend(**fields: Any) -> BackendConfig:
    return BackendConfig.model_validate({"name": "b", "kind": "openai", "model": "gpt-4o", **fields})


@pytest.mark.parametrize(
    ("fields", "price"),
    [
        ({}, 2.5),
        ({"price": {"input": 1.0, "output": 2.0}}, 1),
        ({"price": {"input": 0.0, "output": 0.0}, "model": "llama3", "base_url": "http://127.0.0.1:1"}, 0),
        ({"base_url": "http://127.0.0.1:1/v1"}, None),
        ({"kind": "anthropic", "model": "claude-sonnet-4-5"}, 3),
        ({"kind": "acp", "model": None}, None),
        ({"kind": "scripted", "model": "gpt-4o"}, None),
    ],
)
def test_the_price_of_a_backend_is_the_operators_or_else_the_list_price(fields: dict[str, Any], price: float | None):
    found = backend_price(backend(**fields))
    assert (None if found is None else found.input.base) == price


def test_only_backends_with_a_known_price_are_listed():
    configs = [backend(name="a"), backend(name="c", model="no-such"), backend(name="d", price={"input": 1.0, "output": 4.0, "cache_write": 2.0})]  # fmt: skip
    assert list(backend_prices(configs)) == ["a", "d"]
    assert backend_prices(configs)["d"] == ModelPrice(TokenPrice(1), TokenPrice(4), None, TokenPrice(2))
