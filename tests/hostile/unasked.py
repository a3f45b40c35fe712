"""Endpoints that double, delay and merge their replies, and callers that check whose words they get.

Each of `ENDPOINTS` behaves for its first replies, so that connections to it are kept, and then sends at random: a reply
twice at once, a reply again after a while, the last reply to anybody before or behind its own, or half a reply. A reply
has the words of its request and nothing else, so that a foreign one is known by its words.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import aiohttp

from accord.stores.sqlite import SqliteStore
from accord.wire.session import PREFIX, SECRET_BYTES, TokenRecord, token_digest
from tests.client.faulty_server import END, STREAM_HEAD, as_json, chunk
from tests.servers.model_endpoint import BACKEND
from tests.servers.process import ServedProcess, accord_serve

CALLERS = ("olly", "tom", "ursula", "zoe")
HONEST_REPLIES = 4
MAX_LATE_S = 0.3


@dataclass
class DoublingEndpoint:
    """One endpoint of the chat API. `unasked` counts what it sent too much."""

    random: Random
    last: bytes = b""
    replies: int = 0
    unasked: int = 0
    late: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    open: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """The connections."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.open.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    writer.write(as_json({"data": []}))
                    continue
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                request = json.loads(await reader.readexactly(length))
                words, streams = request["messages"][-1]["content"], request.get("stream")
                await self.reply(writer, reply_of(words, streams=bool(streams)))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.open.discard(task)

    async def reply(self, writer: asyncio.StreamWriter, reply: bytes) -> None:
        self.replies += 1
        before, self.last = self.last or reply, reply
        await asyncio.sleep(self.random.choice((0, 0, 0.002, 0.02)))
        fault = "none" if self.replies <= HONEST_REPLIES else self.random.choice(("none", "none", *FAULTS))
        self.unasked += fault != "none"
        match fault:
            case "twice at once":
                writer.write(reply + reply)
            case "again":
                writer.write(reply)
                await asyncio.sleep(0)
                writer.write(reply)
            case "again later":
                writer.write(reply)
                task = asyncio.create_task(self.write_late(writer, reply))
                self.late.add(task)
                task.add_done_callback(self.late.discard)
            case "another's behind it":
                writer.write(reply + before[: len(before) // 2])
            case _:
                writer.write(reply)
        await writer.drain()

    async def write_late(self, writer: asyncio.StreamWriter, reply: bytes) -> None:
        await asyncio.sleep(self.random.random() * MAX_LATE_S)
        if not writer.is_closing():
            writer.write(reply)


FAULTS = ("twice at once", "again", "again later", "another's behind it")


def reply_of(words: str, *, streams: bool) -> bytes:
    if not streams:
        choice = {"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}
        return as_json({"id": words, "model": "m", "choices": [choice]})
    pieces = [*({"content": f"{word} "} for word in words.split()), {}]
    chunks = [
        {"id": "1", "choices": [{"index": 0, "delta": piece, "finish_reason": None if piece else "stop"}]}
        for piece in pieces
    ]
    events = [f"data: {json.dumps(each)}\n\n".encode() for each in chunks]
    return STREAM_HEAD + b"".join(map(chunk, [*events, b"data: [DONE]\n\n"])) + END


@dataclass
class Tally:
    """What the callers got."""

    answered: int = 0
    cancelled: int = 0
    failed: int = 0
    stale: int = 0
    """Answers to another question of the same caller."""
    foreign: list[str] = field(default_factory=list[str])
    unasked: int = 0


@asynccontextmanager
async def doubling_endpoints(count: int, seed: int) -> AsyncGenerator[dict[str, DoublingEndpoint]]:
    """So many endpoints, by their addresses."""
    found: dict[str, DoublingEndpoint] = {}
    async with AsyncExitStack() as stack:
        for number in range(count):
            made = DoublingEndpoint(Random(seed * 1_000 + number))  # noqa: S311 - a seeded fuzz
            server = await stack.enter_async_context(await asyncio.start_server(made.serve, "127.0.0.1", 0))
            found[f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"] = made
        try:
            yield found
        finally:
            for made in found.values():
                for task in made.late:
                    task.cancel()
            # The service has ended, and every connection with it.
            if left := [task for made in found.values() for task in made.open]:
                _, left = await asyncio.wait(left, timeout=5)
                assert not left


async def call_all(folder: Path, calls: int, endpoints: int, seed: int) -> tuple[Tally, ServedProcess]:
    """Send so many calls of all callers through one service, a fifth of them cancelled, and count what they got."""
    store, tokens, tally = SqliteStore(folder / "accord.db"), dict[str, str](), Tally()
    await store.open()
    for user in CALLERS:
        tokens[user] = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        digest, now = token_digest(tokens[user]), datetime.now(UTC)
        await store.put_token(TokenRecord(token_id=user, user=user, digest=digest, created_at=now))
    await store.close()
    async with doubling_endpoints(endpoints, seed) as found:
        names = [f"b{number}" for number in range(endpoints)]
        config = "".join(BACKEND.format(name=name, url=url) for name, url in zip(names, found, strict=True))
        async with accord_serve(folder, "--log-level", "warning", config=config) as served:
            async with aiohttp.ClientSession(served.address, timeout=aiohttp.ClientTimeout(20)) as client:
                numbers = iter(range(calls))

                async def worker(random: Random) -> None:
                    for number in numbers:
                        user = random.choice(CALLERS)
                        await call(client, user, tokens[user], number, random.choice(names), random, tally)

                async with asyncio.TaskGroup() as group:
                    for number in range(16):
                        group.create_task(worker(Random(seed * 100 + number)))  # noqa: S311 - a seeded fuzz
            tally.unasked = sum(each.unasked for each in found.values())
        return tally, served


async def call(  # noqa: PLR0917 - one call
    client: aiohttp.ClientSession, user: str, token: str, number: int, backend: str, random: Random, tally: Tally
) -> None:
    words = f"{user} says {user}-{number}"
    body = {"model": backend, "messages": [{"role": "user", "content": words}], "stream": random.random() < 0.5}
    patience_s = random.random() * 0.03 if random.random() < 0.2 else 20.0
    try:
        async with (
            asyncio.timeout(patience_s),
            client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {token}"}) as response,
        ):
            text = await response.text()
    except TimeoutError:
        assert patience_s < 20
        tally.cancelled += 1
        return
    if others := [other for other in CALLERS if other != user and other in text]:
        tally.foreign.append(f"{words}: {others} in {text}")
    if response.status != 200:
        tally.failed += 1
    elif f"{user}-{number}" in text:
        tally.answered += 1
    else:
        tally.stale += 1
