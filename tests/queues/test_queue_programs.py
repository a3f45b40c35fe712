"""What other programs do over NATS, and messages and turns that are given up."""

# The annotations of the NATS client are incomplete.
# pyright: reportUnknownMemberType=false

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.queues.fleet import (
    Place,
    Process,
    bounded,
    numbers,
    ops,
    request,
    restart_dead,
    running,
    stream,
    text_of,
)
from tests.queues.nats_server import connect


def test_a_program_publishes_a_request_and_reads_packets_with_a_plain_client(new_place: Callable[[str], Place]):
    place = new_place("nats")
    worker = Process(place, "w", "worker")
    made = request("count 5 5")

    async def run() -> None:
        async with running(worker):
            client = await connect(place.nats or "")
            packets = await client.subscribe(f"{place.prefix}.packets.out.{made['request_id']}")
            await client.publish(f"{place.prefix}.work.safe", json.dumps(made).encode())
            got: list[dict[str, Any]] = []
            while not got or got[-1]["op"] != "close":
                message = await packets.next_msg(timeout=10)
                assert int((message.headers or {})["Accord-Seq"]) == len(got) + 1
                got += [json.loads(line) for line in message.data.decode().splitlines()]
            assert "".join(each["p"] for each in got if each["op"] == "delta") == numbers(5)
            await client.close()

    bounded(run)


def test_requests_of_a_program_wait_however_many_a_user_has(new_place: Callable[[str], Place]):
    place = new_place("nats")
    worker = Process(place, "w", "worker", turns=10, turns_per_caller=3)

    async def run() -> None:
        async with running(worker):
            client = await connect(place.nats or "")
            packets = await client.subscribe(f"{place.prefix}.packets.out.*")
            for number in range(8):
                made = request("count 2 100", session=f"s{number}")
                await client.publish(f"{place.prefix}.work.safe", json.dumps(made).encode())
            ended = 0
            while ended < 8:
                ended += "Accord-Over" in ((await packets.next_msg(timeout=10)).headers or {})
            assert sorted(place.runs().values()) == [1] * 8
            await client.close()

    bounded(run)


LARGE = 1_048_576
"""The largest message that NATS accepts."""
POISON = {
    "nothing": b"",
    "no room for a reason": b"x" * LARGE,
    "no UTF-8": b"\xff\xfe\n\n",
    "no JSON": b"{" * 3,
    "no request": b'{"hello": "there"}',
    "deep": b"[" * 50_000,
    "a long number": b'{"request_id": ' + b"9" * 5_000 + b"}",
    "an id of another kind": b'{"request_id": 1, "context": {}, "payload": {}}',
    "NUL": json.dumps(request("hi", user="a\0b")).encode(),
    "half a character": json.dumps(request("hi \ud800", session="\ud800")).encode(),
    "half a character in the user": json.dumps(request("hi", user="\ud800")).encode(),
    "an unknown agent": json.dumps(request("hi", "nobody")).encode(),
    "content that the agent does not take": json.dumps(
        request("hi", content=[{"type": "image", "data": "aGk=", "mimeType": "image/png"}])
    ).encode(),
    "a line break in a name": json.dumps(request("hi", "no\r\nbody: x")).encode(),
}


def test_messages_that_cannot_be_processed_are_kept_with_the_reason_and_the_worker_lives(
    new_place: Callable[[str], Place],
):
    place = new_place("nats")
    server, worker = Process(place, "s", "serve"), Process(place, "w", "worker")

    async def run() -> None:
        async with running(server, worker):
            client = await connect(place.nats or "")
            dead = await client.subscribe(f"{place.prefix}.dead.*")
            for what, payload in POISON.items():
                await client.publish(f"{place.prefix}.work.safe", payload)
                message = await dead.next_msg(timeout=10)
                assert message.data == payload[: len(message.data)], what
                assert len(message.data) >= min(len(payload), LARGE - 4_000), what
                assert (message.headers or {})["Accord-Reason"], what
            # A subject with this id would be too long for NATS.
            await client.publish(f"{place.prefix}.work.safe", b"{", headers={"Nats-Msg-Id": "i" * 5_000})
            assert (await dead.next_msg(timeout=10)).subject == f"{place.prefix}.dead.message"
            stored = await client.jetstream().stream_info(f"{place.prefix}_DEAD".upper())
            assert stored.state.messages == len(POISON) + 1
            assert worker.is_running
            assert text_of(await stream(server, request("count 3 1"))) == numbers(3)
            await client.close()

    bounded(run)


@pytest.mark.timeout(90)
def test_a_turn_whose_workers_die_again_and_again_is_given_up_with_a_dead_letter(new_place: Callable[[str], Place]):
    place = new_place("nats")
    server, workers = Process(place, "s", "serve"), [Process(place, f"w{number}", "worker") for number in (1, 2)]
    made = request("die 6 10 99")

    async def keep_going() -> None:
        while True:
            await restart_dead(workers)
            await asyncio.sleep(0.05)

    async def run() -> None:
        async with running(server, *workers):
            client = await connect(place.nats or "")
            dead = await client.subscribe(f"{place.prefix}.dead.*")
            keeping = asyncio.create_task(keep_going())
            packets = await stream(server, made)
            assert ops(packets)[-2:] == ["error", "close"]
            assert packets[-2][1]["p"]["code"] == "unavailable"
            letter = await dead.next_msg(timeout=10)
            assert json.loads(letter.data) == {"request_id": made["request_id"]}
            assert "died" in (letter.headers or {})["Accord-Reason"]
            assert place.runs()["safe", made["request_id"]] == 3
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await restart_dead(workers)
            assert text_of(await stream(server, request("count 3 1"))) == numbers(3)
            await client.close()

    bounded(run)
