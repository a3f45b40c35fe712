"""The clock of a worker jumps while turns run: none of them is lost, and none is run twice."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.queues.fleet import (
    EVENTS,
    Packets,
    Place,
    Process,
    bounded,
    events,
    numbers,
    ops,
    path_of,
    request,
    running,
    stream,
    text_of,
    until_runs,
)

HOUR_S = 3_600
EVERY_MS = 100
JUMPS = {5: HOUR_S, 60: 0, 65: -HOUR_S}
"""By how many seconds the clock is wrong after so many packets.

It is ahead for longer than five seconds, since its worker looks so often for turns of others that have died, and behind
for longer than two, since the server looks so often for turns of that worker.
"""
LAST = 95


@pytest.mark.parametrize("kind", ["nats", "postgres"])
def test_no_turn_is_lost_or_run_twice_when_the_clock_of_a_worker_jumps(new_place: Callable[[str], Place], kind: str):
    place = new_place(kind)
    server = Process(place, "s", "serve")
    jumping, other = Process(place, "w1", "worker", turns=1, skew_s=0), Process(place, "w2", "worker", turns=1)
    made = [request(f"count {LAST} {EVERY_MS}", agent) for agent in ("never", "safe")]

    async def run() -> None:
        async with running(server, jumping, other), server.client() as http:
            reading = asyncio.create_task(stream(server, made[0]))
            await until_runs(place, made[0], "never")
            last: Packets = []  # of the turn that the other worker runs, since each has room for one
            async with http.post("/v1/assist", json=made[1], headers=EVENTS) as response:
                async for each in events(response):
                    last.append(each)
                    if len(last) in JUMPS:
                        jumping.set_clock(JUMPS[len(last)])
            for packets in (await reading, last):
                assert text_of(packets) == numbers(LAST)
                assert ops(packets) == ["delta"] * (len(packets) - 1) + ["close"]
            assert list(place.runs().values()) == [1, 1]
            late: list[bool] = []
            for each in made:
                async with http.get(f"{path_of(each)}/receipt") as response:
                    receipt = await response.json()
                late.append(datetime.now(UTC) - datetime.fromisoformat(receipt["created_at"]) > timedelta(minutes=50))
                assert 0 < receipt["timings"]["total_ms"] < HOUR_S * 1_000 / 2
            assert sorted(late) == [False, True]  # the clock of one worker has really jumped

    bounded(run)
