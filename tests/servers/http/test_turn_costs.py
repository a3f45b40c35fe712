"""What turns of agents cost: with a key and a paid endpoint, over every transport, from outside."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.errors import RefusedError
from accord.run.costs import NO_PRICE
from accord.servers.service import NO_BACKEND_LEFT
from accord.wire.keys import MICRO, Payer, UsageGroup
from accord.wire.routes import receipt_path
from tests.servers.clock import run
from tests.servers.gateway import TOKEN, Gateway, gateway
from tests.servers.http.test_counted_calls import backend, usage_of
from tests.servers.paid_endpoint import FAULTS, USAGE, WORDS, paid_endpoint
from tests.servers.transports import body, events_of

INPUT, OUTPUT = 10, 10
"""Micro-dollars for a token: an answer costs 0.0065 USD, and one without a limit may cost 0.0103."""
TOLD = USAGE["input"] * INPUT + USAGE["output"] * OUTPUT
LIMIT = 20
EXCEEDED = "budget_exceeded"
TRANSPORTS = ("json", "events", "websocket")
NUMBERS = count(1)


async def ask(turn: Turn) -> AsyncIterator[Yielded]:
    """Ask as the first word of the request says: so many times for a few tokens each, or in another way."""
    how, _, rest = turn.text.partition(" ")
    if how == "together":
        await asyncio.gather(*(turn.ask("q").text() for _ in range(int(rest))))
    elif how == "suppressed":
        with suppress(RefusedError):
            await turn.ask("q").text()
            await turn.ask("q" * 10_000).text()
        yield "went on"
    elif how in {"first", "all"}:
        async for word in turn.ask():
            yield word
            if how == "first":
                break
    else:
        for number in range(int(how)):
            await turn.ask("q", parameters={"max_tokens": LIMIT}).text()
            yield f"{number} "
    if rest == "broken":
        raise ValueError(rest)


ASKING = Agent(ask, name="asking", accepts={})


def priced(url: str, *names: str) -> str:
    return "".join(backend(name, url, input=INPUT, output=OUTPUT) for name in names or ("fine",))


@dataclass(frozen=True)
class Answered:
    """What came of one request. Of a frame of a WebSocket that is refused, the status is 0."""

    request_id: str
    status: int
    text: str = ""
    error: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def code(self) -> str | None:
        return self.error.get("code")


async def turn(
    served: Gateway, query: str = "1", *, transport: str = "json", key: str = TOKEN, number: int = 0, **payload: Any
) -> Answered:
    """Send a request and read all of the answer."""
    number = number or next(NUMBERS)
    request = body(number, query, user="ada", session=f"s{number}", **payload)
    headers = {"authorization": f"Bearer {key}", "accept": {"events": "text/event-stream"}.get(transport, "*/*")}
    if transport == "websocket":
        return await over_websocket(served, request, headers)
    async with served.session.post(f"{served.address}/v1/assist", json=request, headers=headers) as response:
        status, content = response.status, await response.read()
    if status != 200:
        return Answered(request["request_id"], status, error=json.loads(content))
    if transport == "json":
        return Answered(request["request_id"], 200, json.loads(content)["output"]["text"])
    return read_packets(request, 200, [packet for _, packet in events_of(content)])


async def over_websocket(served: Gateway, request: dict[str, Any], headers: dict[str, str]) -> Answered:
    packets: list[dict[str, Any]] = []
    async with served.session.ws_connect(f"{served.address}/v1/ws", headers=headers) as socket:
        await socket.send_json(request)
        while not packets or (packets[-1]["op"] != "close" and "id" in packets[-1]):
            packets.append(await socket.receive_json())
    return read_packets(request, 200 if "id" in packets[0] else 0, packets)


def read_packets(request: dict[str, Any], status: int, packets: list[dict[str, Any]]) -> Answered:
    errors = [packet["p"] for packet in packets if packet["op"] == "error"]
    text = "".join(packet["p"] for packet in packets if packet["op"] == "delta")
    return Answered(request["request_id"], status, text, errors[0] if errors else {})


async def receipt_of(served: Gateway, answered: Answered) -> dict[str, Any]:
    return await served.receipt(receipt_path(answered.request_id))


async def spent(served: Gateway, key: str = "k1") -> int:
    """What is spent and reserved of the key's budget."""
    await served.budgets.flush()
    return await served.store.spent(key, None)


async def reserved(served: Gateway) -> float:
    """What is reserved of the key's budget, in US dollars."""
    await served.budgets.flush()
    with pytest.raises(RefusedError) as caught:
        await served.budgets.reserve(Payer("k1", "ada", 0), 1)
    return caught.value.details["reserved_usd"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_turn_is_counted_as_a_call_is(tmp_path: Path, transport: str):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, priced(endpoint.url), agent=ASKING, budget_usd=1) as served,
        ):
            answered = await turn(served, "3", transport=transport)
            assert (answered.status, answered.text) == (200, "0 1 2 ")
            total = await usage_of(served, "k1", 3)
            assert (total.requests, total.failed, round(total.cost_usd * 1e6)) == (3, 0, 3 * TOLD)
            assert (await served.chat("fine"))[0] == 200
            for group, name in (("user", "ada"), ("model", "fine"), ("backend", "fine"), ("key", "k1")):
                (total,) = await served.usage(UsageGroup(group))
                assert (total.name, total.requests, round(total.cost_usd * 1e6)) == (name, 4, 4 * TOLD)
            receipt = await receipt_of(served, answered)
            assert (receipt["key"], receipt["cost_usd"]) == ("k1", pytest.approx(3 * TOLD / 1e6))
            assert [work["cost_usd"] for work in receipt["work"]] == [TOLD / 1e6] * 3
            assert "estimated" not in receipt
            assert await reserved(served) == 0

    run(check())


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_budget_that_is_used_up_refuses_a_turn_before_it_runs(tmp_path: Path, transport: str):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, priced(endpoint.url), agent=ASKING, budget_usd=0.016) as served,
        ):
            number = next(NUMBERS)
            assert (await turn(served, transport=transport, number=number)).status == 200
            refused = await turn(served, transport=transport)
            assert (refused.status, refused.code, refused.text) == (
                0 if transport == "websocket" else 403,
                EXCEEDED,
                "",
            )
            assert endpoint.seen["fine"] == 1
            receipt = await receipt_of(served, refused)
            assert (receipt["outcome"]["status"], receipt["outcome"]["code"]) == ("refused", EXCEEDED)
            assert (receipt["key"], receipt.get("cost_usd")) == ("k1", None)
            # One that was answered before is read again, and costs nothing more.
            again = await turn(served, transport=transport, number=number)
            assert (again.status, again.text, await spent(served)) == (200, "0 ", TOLD)
            status, answer = await served.chat("fine")  # the same error as that of a call
            assert (status, answer["accord"]["code"]) == (403, EXCEEDED)

    run(check())


@pytest.mark.parametrize(("how", "questions"), [("20", 5), ("together 20", 2)])
def test_the_questions_of_one_turn_stop_at_the_budget(tmp_path: Path, how: str, questions: int):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, priced(endpoint.url), agent=ASKING, budget_usd=0.03) as served,
        ):
            answered = await turn(served, how, transport="events")
            assert (answered.status, answered.code) == (200, EXCEEDED)
            # One after the other, each costs more than its limit allows, which is known before the next one is asked.
            assert answered.text == ("0 1 2 3 4 " if how == "20" else "")
            assert endpoint.seen["fine"] <= questions
            assert (await receipt_of(served, answered))["outcome"]["code"] == EXCEEDED
            assert (await usage_of(served, "k1", endpoint.seen["fine"])).requests == endpoint.seen["fine"]
            assert await spent(served) <= 0.03 * MICRO + TOLD
            assert await reserved(served) == 0

    run(check())


def test_an_agent_may_go_on_when_the_budget_does_not_have_a_question(tmp_path: Path):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, priced(endpoint.url), agent=ASKING, budget_usd=0.02) as served,
        ):
            long = [{"type": "text", "text": "long " * 2_000}]
            refused = await turn(served, "suppressed", content=long)
            assert (refused.status, refused.code) == (403, EXCEEDED)  # what the user sent counts at admission
            answered = await turn(served, "suppressed")
            assert (answered.text, dict(endpoint.seen)) == ("went on", {"fine": 1})
            assert (await receipt_of(served, answered))["outcome"] == {"status": "done"}

    run(check())


def test_a_turn_without_a_question_costs_nothing(tmp_path: Path):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, priced(endpoint.url), agent=ASKING, budget_usd=0.011) as served,
        ):
            for _ in range(3):
                assert (await turn(served, "0")).status == 200
            failed = await turn(served, "0 broken", transport="events")
            assert failed.code == "agent_failed"
            assert await served.usage() == []
            assert "cost_usd" not in await receipt_of(served, failed)
            assert await reserved(served) == 0

    run(check())


@pytest.mark.parametrize("fault", FAULTS)
def test_what_arrived_of_a_question_counts_whatever_its_usage_says(tmp_path: Path, fault: str):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, priced(endpoint.url, fault), agent=ASKING, budget_usd=1) as served,
        ):
            endpoint.faults = {fault: fault}
            answered = await turn(served, "first" if fault == "left" else "1", transport="events")
            total = await usage_of(served, "k1")
            assert total.estimated_requests == 1
            assert total.cost_usd * 1e6 >= WORDS * OUTPUT
            receipt = await receipt_of(served, answered)
            assert (receipt["estimated"], receipt["cost_usd"]) == (True, total.cost_usd)
            assert await reserved(served) == 0

    run(check())


@pytest.mark.parametrize("end", ["cancelled", "timed_out", "gone"])
def test_a_turn_that_is_stopped_counts_what_it_had_asked_for(tmp_path: Path, end: str):
    async def check() -> None:
        limits = "[limits]\nturn_s = 1\n" if end == "timed_out" else ""
        unread = '[server]\nunread = "stop"\nunread_grace_s = 0.1\n' if end == "gone" else ""
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, priced(endpoint.url) + limits + unread, agent=ASKING, budget_usd=1) as served,
        ):
            endpoint.faults = {"fine": "left"}
            number = next(NUMBERS)
            request = body(number, "all", user="ada", session=f"s{number}")
            headers = {"authorization": f"Bearer {TOKEN}", "accept": "text/event-stream"}
            async with served.session.post(f"{served.address}/v1/assist", json=request, headers=headers) as response:
                found = b""
                while found.count(b"word") < WORDS:
                    found += await response.content.readany()
                path = f"{served.address}/v1/requests/{request['request_id']}"
                if end == "cancelled":
                    await served.session.delete(path, headers=headers)
                if end != "gone":
                    await response.read()
            async with asyncio.timeout(20):
                await endpoint.left.wait()
            total = await usage_of(served, "k1")
            assert (total.requests, total.failed, total.estimated_requests) == (1, 1, 1)
            assert total.cost_usd * 1e6 >= 1024 * OUTPUT  # at least its estimate
            receipt = await served.receipt(receipt_path(request["request_id"]))
            assert (receipt["outcome"]["status"] != "done", receipt["cost_usd"]) == (True, total.cost_usd)
            assert await reserved(served) == 0

    run(check())


def test_a_key_for_some_models_starts_turns_that_use_only_these(tmp_path: Path):
    async def check() -> None:
        async with paid_endpoint() as endpoint:
            config = priced(endpoint.url, "first", "second") + '[groups.both]\nbackends = ["first", "second"]\n'
            async with gateway(tmp_path, config, agent=ASKING) as served:
                second = await served.add_key("second", models=["sec*"])
                grouped = await served.add_key("grouped", models=["both"])
                none = await served.add_key("none", models=["gpt-*"])
                admin = await served.add_key("admin", models=["sec*"], is_admin=True)
                endpoint.faults = {"second": "refused"}
                failed = await turn(served, key=second)
                assert (failed.status, dict(endpoint.seen)) == (503, {"second": 1})  # and no other one is tried
                for transport in TRANSPORTS:
                    refused = await turn(served, transport=transport, key=none)
                    assert (refused.status, refused.code) == (0 if transport == "websocket" else 403, "forbidden")
                    assert NO_BACKEND_LEFT.format("gpt-*") in refused.error.values()
                for key in (grouped, admin, TOKEN):
                    assert (await turn(served, key=key)).status == 200
                assert dict(endpoint.seen) == {"second": 1, "first": 3}
                needs = {"required": [{"capability": "audio_input", "min_support": "native"}]}
                refused = await turn(served, key=second, requirements=needs)
                assert refused.status == 422
                assert "first" not in json.dumps(refused.error)

    run(check())


def test_a_backend_without_a_price_refuses_keys_with_a_budget_that_may_use_it(tmp_path: Path):
    async def check() -> None:
        async with paid_endpoint() as endpoint:
            free = backend("free", endpoint.url).partition("[backends.price]")[0]
            async with gateway(tmp_path, priced(endpoint.url) + free, agent=ASKING) as served:
                both = await served.add_key("both", budget_usd=1)
                one = await served.add_key("one", budget_usd=1, models=["fine"])
                refused = await turn(served, key=both)
                assert (refused.status, refused.error["detail"]) == (403, f"{NO_PRICE} (free)")
                assert (await turn(served, key=one)).status == 200
                endpoint.faults = {"fine": "refused"}
                answered = await turn(served)  # a key without a budget
                assert answered.status == 200
                receipt = await receipt_of(served, answered)
                assert ("cost_usd" in receipt, receipt["key"]) == (False, "k1")
                totals = {each.name: each for each in await served.usage(UsageGroup.BACKEND)}
                assert (totals["free"].requests, totals["free"].priced_requests) == (1, 0)

    run(check())


def test_turns_and_calls_have_one_limit_for_those_that_run(tmp_path: Path):
    async def check() -> None:
        async with (
            paid_endpoint() as endpoint,
            gateway(tmp_path, priced(endpoint.url) + "[server]\nturns_per_caller = 2\n", agent=ASKING) as served,
        ):
            endpoint.faults = {"fine": "left"}
            call = asyncio.create_task(served.chat("fine", stream=True))
            running = asyncio.create_task(turn(served, "all", transport="events"))
            async with asyncio.timeout(20):
                while endpoint.seen["fine"] < 2:  # noqa: ASYNC110 - bounded
                    await asyncio.sleep(0.01)
            answered = await turn(served)
            status, answer = await served.chat("fine")
            assert (answered.status, status) == (429, 429)
            assert answered.error["detail"] == answer["error"]["message"]
            for task in (call, running):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    run(check())
