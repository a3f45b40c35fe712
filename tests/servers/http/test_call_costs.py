"""Keys, budgets and costs of the model APIs, from an HTTP request to the stored usage, with a local endpoint."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from accord.agents import demo
from accord.assembly.parts import build_dispatcher
from accord.config import load_config
from accord.run.costs import NO_PRICE
from accord.wire.keys import UsageGroup
from tests.cli.model_server import KEY, ModelServer
from tests.servers import gateway as gateways
from tests.servers.clock import run
from tests.servers.gateway import TOKEN, Gateway

CONFIG = """
[[backends]]
name = "priced"
kind = "openai"
model = "tiny"
base_url = "{url}"
key_env = "MODEL_KEY"
[backends.overrides]
streaming = "native"
[backends.price]
input = 100.0
output = 1000.0

[[backends]]
name = "unpriced"
kind = "openai"
model = "tiny"
base_url = "{url}"
key_env = "MODEL_KEY"

[[backends]]
name = "dead"
kind = "openai"
model = "tiny"
base_url = "http://127.0.0.1:9/v1"
options = {{ retries = 0 }}
[backends.price]
input = 1.0
output = 1.0

[groups.fallback]
backends = ["dead", "priced"]
"""
COST = 7 * 100 + 3 * 1000
"""What one answer of the endpoint costs, in micro-dollars."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("MODEL_KEY", KEY)
    with ModelServer().running() as server:
        yield server


def gateway(folder: Path, endpoint: ModelServer, **rules: Any) -> AbstractAsyncContextManager[Gateway]:
    return gateways.gateway(folder, CONFIG.format(url=endpoint.url), **rules)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_counted_with_its_cost_by_key_and_model(tmp_path: Path, endpoint: ModelServer, stream: bool):
    async def check() -> None:
        async with gateway(tmp_path, endpoint, budget_usd=10) as served:
            for _ in range(2):
                options: dict[str, Any] = {"stream": True} if stream else {}
                assert (await served.chat(**options))[0] == 200
            (total,) = await served.usage()
            assert (total.name, total.requests, total.failed, total.priced_requests) == ("k1", 2, 0, 2)
            assert (total.input_tokens, total.output_tokens) == (14, 6)
            assert round(total.cost_usd * 1e6) == 2 * COST
            assert [each.name for each in await served.usage(UsageGroup.BACKEND)] == ["priced"]
            assert [each.name for each in await served.usage(UsageGroup.MODEL)] == ["tiny"]

    run(check())


def test_a_budget_refuses_before_anything_is_sent(tmp_path: Path, endpoint: ModelServer):
    async def check() -> None:
        async with gateway(tmp_path, endpoint, budget_usd=0.01, budget_period="day") as served:
            status, answer = await served.chat(max_tokens=100)
            assert (status, len(endpoint.bodies)) == (403, 0)
            assert "left of its budget of 0.01 USD per day" in answer["error"]["message"]
            assert answer["accord"]["code"] == "budget_exceeded"
            sent = 0
            while (await served.chat(max_tokens=3))[0] == 200:
                sent += 1
            assert sent == len(endpoint.bodies) == 2  # the third might cost more than is left
            (total,) = await served.usage()
            assert round(total.cost_usd * 1e6) == 2 * COST

    run(check())


def test_a_stream_that_the_client_leaves_costs_what_was_estimated(tmp_path: Path, endpoint: ModelServer):
    async def check() -> None:
        async with gateway(tmp_path, endpoint, budget_usd=10) as served:
            request = {
                "model": "priced",
                "messages": [{"role": "user", "content": "wait"}],
                "stream": True,
                "max_tokens": 50,
            }
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with served.session.post(
                f"{served.address}/v1/chat/completions", json=request, headers=headers
            ) as response:
                await response.content.readany()
                await asyncio.to_thread(endpoint.waiting.wait, 20)
            await asyncio.to_thread(endpoint.left.wait, 20)
            async with asyncio.timeout(20):
                while not (found := await served.usage()):  # noqa: ASYNC110 - bounded
                    await asyncio.sleep(0.01)
            assert (found[0].requests, found[0].failed) == (1, 1)
            assert found[0].cost_usd * 1e6 >= 50 * 1000

    run(check())


def test_a_backend_that_fails_is_counted_and_costs_nothing(tmp_path: Path, endpoint: ModelServer):
    async def check() -> None:
        async with gateway(tmp_path, endpoint, budget_usd=10) as served:
            assert (await served.chat("fallback"))[0] == 200
            assert (await served.chat("dead"))[0] >= 500
            totals = {each.name: each for each in await served.usage(UsageGroup.BACKEND)}
            assert (totals["dead"].requests, totals["dead"].failed, totals["dead"].cost_usd) == (2, 2, 0.0)
            assert (totals["priced"].requests, totals["priced"].failed) == (1, 0)
            assert {each.name for each in await served.usage(UsageGroup.MODEL)} == {"tiny"}

    run(check())


def test_a_model_without_a_price_is_refused_with_a_budget_and_counted_without_one(
    tmp_path: Path, endpoint: ModelServer
):
    async def check() -> None:
        async with gateway(tmp_path, endpoint, budget_usd=10) as served:
            status, answer = await served.chat("unpriced")
            assert (status, answer["error"]["message"]) == (403, f"{NO_PRICE} (unpriced)")
        (tmp_path / "open").mkdir()
        async with gateway(tmp_path / "open", endpoint) as served:
            assert (await served.chat("unpriced"))[0] == 200
            (total,) = await served.usage()
            assert (total.requests, total.priced_requests, total.input_tokens) == (1, 0, 7)

    run(check())


def test_the_models_rates_and_policy_of_a_key_apply(tmp_path: Path, endpoint: ModelServer):
    async def check() -> None:
        rules = {"models": ["pri*"], "rates": ["3/minute"], "policy": "strict"}
        async with gateway(tmp_path, endpoint, **rules) as served:
            status, answer = await served.chat("unpriced")
            assert (status, answer["error"]["message"]) == (403, "This key may not use this model; it allows pri*")
            assert (await served.chat())[0] == 200
            status, answer = await served.chat(accord={"policy": "labelled"})
            assert (status, endpoint.bodies[-1].get("accord")) == (200, None)
            assert (await served.chat())[0] == 429

    run(check())


def test_a_new_configuration_brings_its_prices(tmp_path: Path, endpoint: ModelServer):
    (tmp_path / "accord.toml").write_text(CONFIG.format(url=endpoint.url))
    found: list[int | None] = []
    for input_price in ("100.0", "200.0"):
        loaded = load_config(str(tmp_path / "accord.toml"), environ={})
        dispatcher = build_dispatcher(loaded, demo)
        assert sorted(dispatcher.prices) == ["dead", "priced"]
        found.append(dispatcher.prices["priced"].cost({"input_tokens": 1, "output_tokens": 0}))
        text = (tmp_path / "accord.toml").read_text().replace(f"input = {input_price}", "input = 200.0")
        (tmp_path / "accord.toml").write_text(text)
    assert found == [100, 200]
