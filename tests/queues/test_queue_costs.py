"""What turns of the queue cost: a server admits them, and workers count them with the key of the request."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from accord.stores.postgres import PostgresStore
from accord.wire.keys import KeyRules, UsageGroup, UsageTotal
from accord.wire.session import TokenRecord, token_digest
from tests.queues.fleet import LIMIT_S, Place, Process, running
from tests.servers.clock import START
from tests.servers.gateway import TOKEN
from tests.servers.http.test_turn_costs import OUTPUT, TOLD, priced
from tests.servers.paid_endpoint import PaidEndpoint, paid_endpoint
from tests.servers.transports import events_of

AGENTS = {"asking": "tests.servers.http.test_turn_costs:ASKING"}
FIRST = (1024 * OUTPUT + 200) / 1e6
"""A little more than what the first question of a turn may cost, in US dollars."""


@dataclass
class Queued:
    """A server with a key and workers."""

    server: Process
    store: PostgresStore
    endpoint: PaidEndpoint
    client: aiohttp.ClientSession

    async def turn(self, query: str, accept: str = "text/event-stream") -> tuple[int, str, str | None]:
        """The status, the text and the code of the error of a new turn."""
        request = {
            "request_id": str(uuid4()),
            "context": {"session_id": str(uuid4()), "user": {"id": "ada", "name": "Ada"}},
            "payload": {"query": query},
        }
        headers = {"authorization": f"Bearer {TOKEN}", "accept": accept}
        async with self.client.post("/v1/assist", json=request, headers=headers) as response:
            content = await response.read()
            if response.status != 200:
                return response.status, "", json.loads(content)["code"]
            if accept == "application/json":
                return 200, json.loads(content)["output"]["text"], None
            packets = [packet for _, packet in events_of(content)]
            codes = [packet["p"]["code"] for packet in packets if packet["op"] == "error"]
            text = "".join(packet["p"] for packet in packets if packet["op"] == "delta")
            return 200, text, codes[0] if codes else None

    async def usage(self, requests: int, by: UsageGroup = UsageGroup.KEY) -> UsageTotal:
        """The usage, once it has so many requests."""
        while True:
            for total in await self.store.usage(by=by):
                if total.requests >= requests:
                    return total
            await asyncio.sleep(0.02)


@asynccontextmanager
async def queued(place: Place, *, budget: float, turns: int = 100) -> AsyncGenerator[Queued]:
    store = PostgresStore(place.database)
    async with asyncio.timeout(LIMIT_S), paid_endpoint() as endpoint:
        await store.open()
        made = {"token_id": "k1", "user": "ada", "digest": token_digest(TOKEN), "created_at": START}
        await store.put_token(TokenRecord.model_validate({**made, "rules": KeyRules(budget_usd=budget)}))
        settings: dict[str, Any] = {"agents": AGENTS, "backends": priced(endpoint.url), "turns": turns}
        settings["turns_per_caller"] = 100
        server, worker = Process(place, "server", "serve", **settings), Process(place, "worker", "worker", **settings)
        try:
            async with running(server, worker), server.client() as client:
                yield Queued(server, store, endpoint, client)
        finally:
            await store.close()


@pytest.mark.parametrize("kind", ["nats", "postgres"])
def test_a_worker_counts_what_a_turn_costs_for_the_key_that_started_it(new_place: Callable[[str], Place], kind: str):
    async def check() -> None:
        async with queued(new_place(kind), budget=4 * FIRST) as place:
            assert await place.turn("2") == (200, "0 1 ", None)
            for group, name in (("key", "k1"), ("user", "ada"), ("backend", "fine"), ("model", "fine")):
                total = await place.usage(2, UsageGroup(group))
                assert (total.name, total.requests, round(total.cost_usd * 1e6)) == (name, 2, 2 * TOLD)
            assert await place.turn("3", "application/json") == (200, "0 1 2 ", None)
            await place.usage(5)
            for accept in ("text/event-stream", "application/json"):
                assert await place.turn("1", accept) == (403, "", "budget_exceeded")
            assert place.endpoint.seen["fine"] == 5

    asyncio.run(check())


def test_a_burst_of_queued_turns_is_refused_with_a_status_and_never_in_a_stream(new_place: Callable[[str], Place]):
    async def check() -> None:
        # One turn at a time: the others wait in the queue with what is reserved for them.
        async with queued(new_place("postgres"), budget=4 * FIRST, turns=1) as place:
            answers = await asyncio.gather(*(place.turn("1") for _ in range(12)))
            assert sorted(answers) == [(200, "0 ", None)] * 4 + [(403, "", "budget_exceeded")] * 8
            assert (await place.usage(4)).requests == 4

    asyncio.run(check())
