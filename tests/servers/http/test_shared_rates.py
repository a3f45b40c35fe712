"""Rates over several processes: what one has counted counts in the others soon, once, and in bounded memory."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.servers.http.rates import MAX_MARKS, SHARE_S, CountSharing, RateLimits
from accord.wire.keys import KeyRules
from tests.linked_channel import ChannelHub
from tests.servers.clock import ManualClock, run
from tests.servers.http.test_rates import refusal, taken
from tests.servers.process import accord_serve
from tests.stores.postgres_server import running_server
from tests.stores.test_contract_tokens import a_token


def processes(hub: ChannelHub, clock: ManualClock, rates: Sequence[str], count: int = 2) -> list[RateLimits]:
    return [RateLimits(rates, clock, channel=hub.channel()) for _ in range(count)]


def sharing_of(rates: RateLimits) -> CountSharing:
    sharing = rates._sharing  # pyright: ignore[reportPrivateUsage]
    assert sharing is not None
    return sharing


async def shared(hub: ChannelHub, messages: int = 1) -> None:
    """Wait until so many messages were sent and have arrived."""
    async with asyncio.timeout(5):
        while len(hub.sent) < messages:  # noqa: ASYNC110 - the timer of the code under test
            await asyncio.sleep(SHARE_S / 10)
    await asyncio.sleep(0)


def test_what_one_process_has_counted_counts_in_the_others_and_only_once_in_itself():
    async def ask() -> None:
        hub, clock = ChannelHub(), ManualClock()
        first, second = processes(hub, clock, ["5/minute"])
        assert [await taken(first) for _ in range(3)] == [True] * 3
        await shared(hub)
        assert [await taken(second) for _ in range(3)] == [True, True, False]
        await shared(hub, 2)
        assert not await taken(first)
        assert await taken(second, "eve")

    run(ask())


def test_a_message_has_the_sums_of_some_time_and_an_idle_process_sends_none():
    async def ask() -> None:
        hub = ChannelHub()
        (only,) = processes(hub, ManualClock(), ["5/second", "1000/minute"], 1)
        for _ in range(3):
            await taken(only)
        for _ in range(9):
            await taken(only, "eve")
        assert hub.sent == []
        await shared(hub)
        ((topic, payload),) = hub.sent
        counts = json.loads(payload)[1]
        assert topic == "rates"
        assert counts == [
            ["user:ada", 5, 1, 3],
            ["user:ada", 1000, 60, 3],
            ["user:eve", 5, 1, 5],
            ["user:eve", 1000, 60, 5],
        ]
        assert sharing_of(only)._timer is None  # pyright: ignore[reportPrivateUsage]
        await taken(only, "bob")
        await shared(hub, 2)

    run(ask())


def test_the_rates_of_keys_are_shared():
    async def ask() -> None:
        hub = ChannelHub()
        first, second = processes(hub, ManualClock(), [])
        key = a_token("t1", rules=KeyRules(rates=["2/minute"]))
        await first.count_key_request(key)
        await first.count_request("ada", "", key)
        await shared(hub)
        with pytest.raises(Exception, match="the limit is 2/minute"):
            await second.count_key_request(key)

    run(ask())


def test_a_window_that_several_processes_have_exceeded_is_over_when_enough_of_it_is_past():
    async def ask() -> None:
        hub, clock = ChannelHub(), ManualClock()
        first, second = processes(hub, clock, ["3/minute"])
        for moment in (0, 10, 20):
            clock.elapsed_s = moment
            assert await taken(first)
            assert await taken(second)
        await shared(hub, 2)
        # Six requests: three here at 0, 10 and 20 s, and three of the other process that are known since 20 s.
        assert await refusal(first) == {"retry_after": 60, "limit": "3/minute"}
        clock.elapsed_s = 79.9
        assert not await taken(first)
        clock.elapsed_s = 80
        assert await taken(first)

    run(ask())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"{}",
        b"[]",
        b'["other"]',
        b'["other",7]',
        b'["other",[["user:ada",5,60]]]',
        b'["other",[["user:ada",5,60,0]]]',
        b'["other",[["user:ada",5,60,-9]]]',
        b'["other",[["user:ada",0,60,9]]]',
        b'["other",[["user:ada",5,0,9]]]',
        b'["other",[["user:ada",5,60,1e400]]]',
        b'["other",[[null,5,60,9]]]',
        b'["other",[["user:ada",5,60,9],["user:ada",5,60,"9"]]]',
    ],
)
def test_a_message_that_is_none_is_ignored(payload: bytes):
    async def ask() -> None:
        hub = ChannelHub()
        (only,) = processes(hub, ManualClock(), ["5/minute"], 1)
        hub.channel().publish("rates", payload)
        await asyncio.sleep(0)
        assert [await taken(only) for _ in range(6)] == [True] * 5 + [False]

    run(ask())


@given(st.integers(150, 400), st.lists(st.text(max_size=120), max_size=30, unique=True))
def test_no_message_is_larger_than_the_channel_allows_and_none_that_fits_is_missing(max_bytes: int, users: list[str]):
    async def ask() -> None:
        hub = ChannelHub()
        sender = RateLimits(["5/minute"], ManualClock(), channel=hub.channel(max_bytes))
        for user in users:
            await taken(sender, user)
        sharing_of(sender)._send()  # pyright: ignore[reportPrivateUsage]
        sent = {name for _, payload in hub.sent for name, *_ in json.loads(payload)[1]}
        fits = {f"user:{user}" for user in users if len(json.dumps(user, ensure_ascii=False).encode()) < 60}
        assert fits <= sent

    run(ask())


def test_counts_of_other_processes_take_bounded_memory():
    async def ask() -> None:
        hub, clock = ChannelHub(), ManualClock()
        only = RateLimits(["5/minute"], clock, max_keys=10, channel=hub.channel(100_000))
        for number in range(1000):
            clock.elapsed_s = number / 10
            counts = [[f"user:{number}", 5, 60, 1], ["user:ada", 5, 60, 1]]
            hub.channel(100_000).publish("rates", json.dumps(["other", counts]).encode())
            await asyncio.sleep(0)
        assert only.windows.size == 10
        window = max(only.windows._windows.values(), key=lambda each: each.count)  # pyright: ignore[reportPrivateUsage]
        assert window.count > 500
        assert len(window.marks) <= MAX_MARKS + 1

    run(ask())


def test_many_callers_are_sent_before_they_take_much_memory():
    async def ask() -> None:
        hub = ChannelHub()
        only = RateLimits(["5/minute"], ManualClock(), max_keys=10, channel=hub.channel())
        for number in range(95):
            await taken(only, f"u{number}")
        assert len(hub.sent) == 9

    run(ask())


def test_together_two_processes_accept_what_one_would_and_what_each_accepts_between_two_messages():
    async def ask() -> None:
        hub, clock = ChannelHub(), ManualClock()
        both = processes(hub, clock, ["40/minute"])
        accepted, sent = 0, 0
        for _ in range(10):
            accepted += sum([await taken(one) for one in both for _ in range(5)])
            sent = min(sent + 2, 8)
            await shared(hub, sent)
        assert accepted == 40

    run(ask())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_processes_on_one_store_allow_a_caller_together_what_the_rate_says(tmp_path: Path, kind: str):
    place = f'path = "{tmp_path}/accord.db"' if kind == "sqlite" else 'url_env = "STORE_URL"'
    config = f'[server]\nrates = ["20/hour"]\n[store]\nkind = "{kind}"\n{place}\n'
    chat = {"model": "auto", "messages": [{"role": "user", "content": "hi"}]}

    async def status(client: aiohttp.ClientSession) -> int:
        async with client.post("/v1/chat/completions", json=chat) as response:
            await response.read()
            return response.status

    async def ask(address: str) -> None:
        async with asyncio.timeout(40), AsyncExitStack() as stack:
            clients: list[aiohttp.ClientSession] = []
            for name in ("first", "second"):
                (tmp_path / name).mkdir()
                serving = accord_serve(tmp_path / name, config=config, environ={"STORE_URL": address})
                served = await stack.enter_async_context(serving)
                clients.append(await stack.enter_async_context(aiohttp.ClientSession(served.address)))
            assert [await status(clients[0]) for _ in range(21)] == [200] * 20 + [429]
            accepted = 0
            while await status(clients[1]) == 200:
                accepted += 1
                await asyncio.sleep(SHARE_S / 4)
            assert accepted < 20

    if kind == "sqlite":
        asyncio.run(ask(""))
        return
    with running_server() as server:
        asyncio.run(ask(server.make_database("rates")))
