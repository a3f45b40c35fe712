"""A budget of 0.05 USD binds, whatever a client leaves early and an endpoint says of its usage, or does not say."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from accord.wire.keys import UsageGroup, UsageTotal
from tests.cli.test_app import accord
from tests.servers.clock import run
from tests.servers.gateway import TOKEN, Gateway, gateway
from tests.servers.paid_endpoint import FAULTS, USAGE, WORDS, PaidEndpoint, paid_endpoint

BACKEND = """
[[backends]]
name = "{name}"
kind = "{kind}"
model = "{name}"
base_url = "{url}"
manifest = "declared"
[backends.overrides]
streaming = "native"
structured_output_json_schema = "native"
{overrides}
[backends.options]
retries = 0
{options}
[backends.price]
input = {input}
output = {output}
"""
INPUT, OUTPUT = 10, 1000
"""Micro-dollars for a token."""
TOLD = USAGE["input"] * INPUT + USAGE["output"] * OUTPUT
"""What an answer costs whose usage is reported."""
LIMIT = 20
"""The stated limit of output tokens: at most 0.02 USD are reserved, and the endpoint ignores it."""
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {**HELLO, "max_tokens": LIMIT},
    "responses": {"input": "hi", "max_output_tokens": LIMIT},
    "messages": {**HELLO, "max_tokens": LIMIT},
}
KINDS = {
    "chat": ("openai", "/v1", ""),
    "responses": ("openai", "/v1", 'api = "responses"'),
    "messages": ("anthropic", "", ""),
}


def backend(
    name: str, url: str, kind: str = "chat", *, overrides: str = "", input: int = INPUT, output: int = OUTPUT
) -> str:
    of, path, options = KINDS[kind]
    prices = {"input": input, "output": output}
    return BACKEND.format(name=name, kind=of, url=url + path, options=options, overrides=overrides, **prices)


async def usage_of(served: Gateway, key: str, requests: int = 1) -> UsageTotal:
    """The usage of a key once it has so many requests."""
    async with asyncio.timeout(20):
        while True:
            for total in await served.usage():
                if total.name == key and total.requests >= requests:
                    return total
            await asyncio.sleep(0.01)


async def send(served: Gateway, endpoint: PaidEndpoint, api: str, key: str, **members: Any) -> tuple[int, str | None]:
    """Send a request, and read its answer to the end or until all text is there; the status and the receipt's path."""
    leaves = endpoint.faults.get(members["model"]) == "left"
    async with await served.post(PATHS[api], {**BODIES[api], **members}, key) as response:
        found = b""
        while data := await response.content.readany():
            found += data
            if leaves and found.count(b"word") >= WORDS:
                response.close()
                break
        return response.status, response.headers.get("accord-receipt")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("api", PATHS)
def test_what_arrived_of_a_stream_counts_whatever_its_usage_says(tmp_path: Path, api: str, kind: str):
    async def check() -> None:
        async with paid_endpoint() as endpoint:
            names = ("fine", *FAULTS)
            config = "".join(backend(name, endpoint.url, kind) for name in names)
            endpoint.faults = {name: name for name in FAULTS}
            async with gateway(tmp_path, config) as served:
                for name in names:
                    endpoint.left.clear()
                    key = await served.add_key(name, budget_usd=0.05)
                    status, path = await send(served, endpoint, api, key, model=name, stream=True)
                    assert status == 200
                    if name == "left":
                        async with asyncio.timeout(20):
                            await endpoint.left.wait()
                    total, receipt = await usage_of(served, name), await served.receipt(path or "")
                    cost = round(total.cost_usd * 1e6)
                    assert receipt["call"]["cost_usd"] == total.cost_usd
                    if name == "fine":
                        assert (cost, receipt["call"].get("estimated")) == (TOLD, None)
                    else:
                        assert cost >= WORDS * OUTPUT, name
                        assert (receipt["call"]["estimated"], receipt["work"][0]["usage"]["estimated"]) == (True, True)
                        assert total.output_tokens >= WORDS
                    assert total.estimated_requests == int(name != "fine")
                    assert (await send(served, endpoint, api, key, model=name))[0] == 403
                    assert endpoint.seen[name] == 1

    run(check())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("api", PATHS)
def test_what_arrived_of_a_whole_answer_counts_whatever_its_usage_says(tmp_path: Path, api: str, kind: str):
    async def check() -> None:
        async with paid_endpoint() as endpoint:
            endpoint.faults = {name: name for name in ("negative", "zero", "missing", "broken")}
            names = ("fine", *endpoint.faults)
            config = "".join(backend(name, endpoint.url, kind) for name in names)
            async with gateway(tmp_path, config) as served:
                for name in names:
                    key = await served.add_key(name, budget_usd=0.05)
                    status, _ = await send(served, endpoint, api, key, model=name)
                    assert (status == 200) is (name != "broken")
                    total = await usage_of(served, name)
                    cost = round(total.cost_usd * 1e6)
                    assert cost >= WORDS * OUTPUT if name != "fine" else cost == TOLD
                    assert (await send(served, endpoint, api, key, model=name))[0] == 403

    run(check())


@pytest.mark.parametrize(
    ("api", "name"),
    [
        ("chat", "max_tokens"),
        ("chat", "max_completion_tokens"),
        ("responses", "max_output_tokens"),
        ("messages", "max_tokens"),
    ],
)
def test_a_limit_below_1_is_refused_and_frees_nothing(tmp_path: Path, api: str, name: str):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, backend("fine", endpoint.url), budget_usd=0.05) as served,
        ):
            body = {"model": "fine", "input": "hi"} if api == "responses" else {"model": "fine", **HELLO}
            for limit in (-1, 0, -(10**9), -(10**30)):
                async with await served.post(PATHS[api], {**body, name: limit}) as response:
                    assert response.status == 400
                    assert name in await response.text()
            async with await served.post(PATHS[api], {**body, name: 60}) as response:
                assert response.status == 403  # 0.06 USD are as much too much as before
            assert not endpoint.seen

    run(check())


def test_two_limits_are_taken_only_if_they_are_the_same(tmp_path: Path):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, backend("fine", endpoint.url), budget_usd=0.05) as served,
        ):
            for first, second in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")):
                status, answer = await served.chat("fine", "hi", **{first: 1, second: 10_000})
                assert (status, answer["accord"]["code"]) == (400, "invalid_message")
            status, answer = await served.chat("fine", max_tokens=60, max_completion_tokens=60)
            assert (status, answer["accord"]["code"]) == (403, "budget_exceeded")
            assert (await served.chat("fine", max_tokens=5, max_completion_tokens=5))[0] == 200

    run(check())


def test_tokens_are_counted_without_a_limit(tmp_path: Path):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, backend("fine", endpoint.url), budget_usd=0.05) as served,
        ):
            async with await served.post("/v1/messages/count_tokens", {"model": "fine", **HELLO}) as response:
                assert (response.status, (await response.json())["input_tokens"] > 0) == (200, True)
            async with await served.post(PATHS["messages"], {"model": "fine", **HELLO}) as response:
                assert response.status == 400

    run(check())


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_each_attempt_at_an_answer_that_no_schema_fits_counts(tmp_path: Path, kind: str, stream: bool):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, backend("fine", endpoint.url, kind), budget_usd=5) as served,
        ):
            status, _ = await served.chat("fine", max_tokens=LIMIT, response_format=FORMAT, stream=stream)
            assert status == 502
            total = await usage_of(served, "k1", endpoint.seen["fine"])
            assert total.requests == endpoint.seen["fine"] > 1
            assert round(total.cost_usd * 1e6) == total.requests * TOLD

    run(check())


def test_every_attempt_is_in_the_receipt_with_its_backend_and_its_cost(tmp_path: Path):
    async def check() -> None:
        async with paid_endpoint() as endpoint:
            endpoint.faults = {"broken": "broken", "refused": "refused"}
            names = ("refused", "broken", "fine")
            config = "".join(backend(name, endpoint.url, "messages") for name in names)
            config += f"[groups.all]\nbackends = {list(names)}\n"
            async with gateway(tmp_path, config, budget_usd=5) as served:
                status, path = await send(served, endpoint, "chat", TOKEN, model="all")
                assert (status, dict(endpoint.seen)) == (200, dict.fromkeys(names, 1))
                receipt = await served.receipt(path or "")
                refused, broken, fine = receipt["work"][0]["calls"]
                assert refused == {"backend": "refused", "complete": False}
                assert (broken["backend"], broken["usage"]["estimated"]) == ("broken", True)
                assert broken["cost_usd"] >= WORDS * OUTPUT / 1e6
                assert (fine["backend"], fine["cost_usd"]) == ("fine", TOLD / 1e6)
                assert receipt["call"]["cost_usd"] == pytest.approx(broken["cost_usd"] + fine["cost_usd"])
                total = await usage_of(served, "k1", 3)
                assert (total.requests, total.failed) == (3, 2)
                assert total.cost_usd == receipt["call"]["cost_usd"]
                (tmp_path / "receipt.json").write_text(json.dumps(receipt))

    run(check())
    printed = accord("receipts", "show", str(tmp_path / "receipt.json")).stdout
    assert [line for line in printed.splitlines() if '"backend": "refused"' in line] == [
        '{"backend": "refused", "complete": false}'
    ]


def test_a_request_that_is_sent_again_counts_again(tmp_path: Path):
    async def check() -> None:
        async with paid_endpoint() as endpoint:
            endpoint.faults = {"refused": "refused"}
            config = backend("refused", endpoint.url).replace("retries = 0", "retries = 2")
            async with gateway(tmp_path, config, budget_usd=5) as served:
                assert (await served.chat("refused", max_tokens=1))[0] == 503
                total = await usage_of(served, "k1", 3)
                assert (total.requests, total.failed, total.cost_usd) == (3, 3, 0)
                assert endpoint.seen["refused"] == 3

    run(check())


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="


def picture(number: int) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL[:-8]}{number:06d}=="}}


@pytest.mark.parametrize("fault", ["", "missing"])
def test_images_that_another_backend_describes_cost_what_it_costs(tmp_path: Path, fault: str):
    async def check() -> None:
        async with paid_endpoint() as endpoint:
            endpoint.faults = {"seer": fault}
            config = backend("blind", endpoint.url)
            config += backend("seer", endpoint.url, "messages", overrides='image_input = "native"', output=2 * OUTPUT)
            config += '[emulation]\ndescribe_images_with = "seer"\n[emulation.preset]\nimage_input = true\n'
            messages = [{"role": "user", "content": [{"type": "text", "text": "what?"}, picture(1), picture(2)]}]
            body = {"model": "blind", "messages": messages, "max_tokens": LIMIT}
            async with gateway(tmp_path, config, budget_usd=10) as served:
                async with await served.post(PATHS["chat"], body) as response:
                    assert response.status == 200
                    receipt = await served.receipt(response.headers["accord-receipt"])
                assert dict(endpoint.seen) == {"blind": 1, "seer": 2}
                calls = receipt["work"][0]["calls"]
                assert [(each["backend"], each.get("describes", False)) for each in calls] == [
                    ("seer", True),
                    ("seer", True),
                    ("blind", False),
                ]
                totals = {each.name: each for each in await served.usage(UsageGroup.BACKEND)}
                seen = round(totals["seer"].cost_usd * 1e6)
                told = 2 * (USAGE["input"] * INPUT + USAGE["output"] * 2 * OUTPUT)
                assert seen >= 2 * WORDS * 2 * OUTPUT if fault else seen == told
                assert round(totals["blind"].cost_usd * 1e6) == TOLD
                assert receipt["call"]["cost_usd"] == pytest.approx((seen + TOLD) / 1e6)
            (tmp_path / "poor").mkdir()
            async with (
                gateway(tmp_path / "poor", config, budget_usd=0.05) as served,
                await served.post(PATHS["chat"], body) as response,
            ):
                assert response.status == 403  # descriptions are reserved, too
                assert dict(endpoint.seen) == {"blind": 1, "seer": 2}

    run(check())
