"""The yardstick of `scale.py`: nats-py alone does what a worker does with packets, and nothing else.

Each turn publishes to a subject of its own, one message at a time, with the sequence number of its last message
(compare and set) and a message id, and waits for the answer of JetStream. The stream republishes what it has stored,
and the other process subscribes to that. Commands come as JSON lines on standard input.
"""

# The annotations of the client are incomplete.
# pyright: reportUnknownMemberType=false

import asyncio
import json
import sys
from time import monotonic_ns

import nats
import uvloop
from bench.scale_agent import open_gate
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, RePublish, StorageType, StreamConfig

PREFIX = "raw"
STREAM = StreamConfig(
    name="RAW",
    subjects=[f"{PREFIX}.in.*"],
    storage=StorageType.FILE,
    max_age=3_600,
    discard=DiscardPolicy.NEW,
    duplicate_window=120,
    allow_direct=True,
    republish=RePublish(src=f"{PREFIX}.in.*", dest=f"{PREFIX}.out.{{{{wildcard(1)}}}}"),
)
PACKET = '{"op":"delta","p":"%s"}'
"""As Accord writes a delta."""


async def publish_turn(client: Client, name: str, *, gate: str, words: int, batch: int, pace_s: float) -> None:  # noqa: PLR0913 - the load
    """Publish the words of one turn."""
    subject, last, seq = f"{PREFIX}.in.{name}", 0, 1

    async def publish(bodies: list[str]) -> int:
        headers = {
            "Accord-Seq": str(seq),
            "Accord-Epoch": "1",
            "Nats-Msg-Id": f"{name}.1.{seq}",
            "Nats-Expected-Last-Subject-Sequence": str(last),
        }
        reply = await client.request(subject, "\n".join(bodies).encode(), timeout=30, headers=headers)
        return json.loads(reply.data)["seq"]

    last = await publish([PACKET % "ready "])
    await open_gate(gate)
    left = words
    while left:
        seq += 1
        bodies = [PACKET % f"t{monotonic_ns()}w " for _ in range(min(batch, left))]
        last = await publish(bodies)
        seq += len(bodies) - 1
        left -= len(bodies)
        if pace_s:
            await asyncio.sleep(pace_s)


async def main() -> None:
    """Run one command after the other."""
    client = await nats.connect(sys.argv[1])
    await client.jetstream().add_stream(STREAM)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        names = order.pop("names")
        await asyncio.gather(*(publish_turn(client, name, **order) for name in names))


if __name__ == "__main__":
    uvloop.run(main())
