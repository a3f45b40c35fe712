"""The attacks, one row each: what one hostile client does, again and again, for some seconds.

`python -m tests.hostile.attacks NAME PORT TOKEN SECONDS` says `ready`, attacks, and says how many rounds it made.
"""

import asyncio
import base64
import itertools
import json
import sys
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, cast
from uuid import uuid4

import aiohttp

from tests.hostile.endpoint import SAYS_COMMENTS, SAYS_DRIP

MB = 1024 * 1024
USER = "mallory"
TEXT, COMPRESSED_TEXT, PING = 0x81, 0xC1, 0x89


@dataclass(frozen=True, slots=True)
class Target:
    """The service that is attacked, and the attacker's own good token."""

    port: int
    token: str

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """The head of a request with the token."""
        usual = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}"]
        return "\r\n".join([*usual, *lines, "", ""]).encode()

    @asynccontextmanager
    async def connection(self, **options: Any) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **options)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[aiohttp.ClientSession]:
        headers = {"authorization": f"Bearer {self.token}"}
        async with aiohttp.ClientSession(self.address, headers=headers) as client:
            yield client

    @asynccontextmanager
    async def websocket(
        self, *lines: str, **options: Any
    ) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A WebSocket, byte by byte."""
        wish = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        key = f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}"
        async with self.connection(**options) as (reader, writer):
            writer.write(self.head("GET", "/v1/ws", *wish, key, *lines))
            await reader.readuntil(b"\r\n\r\n")
            yield reader, writer


def request(text: str = "hi", **payload: Any) -> dict[str, Any]:
    """A request of the attacker's, in a session of its own."""
    number = str(uuid4())
    user = {"id": USER, "name": "M"}
    return {
        "request_id": number,
        "context": {"session_id": number, "user": user},
        "payload": {"query": text, **payload},
    }


def post(target: Target, content: bytes) -> bytes:
    length = f"Content-Length: {len(content)}"
    return target.head("POST", "/v1/assist", length, "Content-Type: application/json") + content


def frame(content: bytes, kind: int = TEXT) -> bytes:
    """A client's frame; its mask is zero."""
    size = len(content)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65536:
        length = bytes([0xFE]) + size.to_bytes(2)
    else:
        length = bytes([0xFF]) + size.to_bytes(8)
    return bytes([kind]) + length + bytes(4) + content


async def until_closed(reader: asyncio.StreamReader, timeout_s: float = 2) -> None:
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(timeout_s):
            while await reader.read(65536):
                pass


async def send(writer: asyncio.StreamWriter, parts: Iterable[bytes], timeout_s: float = 2) -> None:
    """Send as much of it as is taken in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for part in parts:
                writer.write(part)
                await writer.drain()


async def pipelined_reads(target: Target) -> None:
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with target.connection() as (reader, writer):
        await send(writer, [one * (MB // len(one))] * 21)
        await until_closed(reader)


async def pipelined_turns(target: Target) -> None:
    turns = b"".join(post(target, json.dumps(request()).encode()) for _ in range(2_000))
    async with target.connection() as (reader, writer):
        await send(writer, [turns])
        await until_closed(reader)


@cache
def many_values(what: bytes, field: str, megabytes: int = 63) -> bytes:
    """A request of this size that has this value in a list as often as it fits."""
    mark = '"here"'
    head, tail = json.dumps(request(**{field: "here"})).split(mark)
    return head.encode() + b"[" + what + (b"," + what) * (megabytes * MB // (len(what) + 1)) + b"]" + tail.encode()


async def tiny_blocks(target: Target) -> None:
    async with target.connection() as (reader, writer):
        await send(writer, [post(target, many_values(b'{"type":"x"}', "content"))], 10)
        await until_closed(reader, 5)


async def tiny_values(target: Target) -> None:
    async with target.connection() as (reader, writer):
        await send(writer, [post(target, many_values(b"[]", "meta"))], 10)
        await until_closed(reader, 5)


async def tiny_values_in_a_frame(target: Target) -> None:
    async with target.websocket() as (reader, writer):
        await send(writer, [frame(many_values(b"[]", "meta", 15))], 10)
        await until_closed(reader)


async def nested_json(target: Target) -> None:
    async with target.connection() as (reader, writer):
        await send(writer, [post(target, b"[" * 5 * MB)])
        await until_closed(reader)


async def recursive_schema(target: Target) -> None:
    async with target.session() as client, client.post("/v1/assist", json=request("schema")) as response:
        await response.read()


async def tiny_chunks(target: Target) -> None:
    head = target.head("POST", "/v1/assist", "Transfer-Encoding: chunked")
    async with target.connection() as (reader, writer):
        await send(writer, [head, *[b"1\r\n \r\n" * 10_000] * 100])
        await until_closed(reader)


@cache
def bomb() -> bytes:
    packer = zlib.compressobj(wbits=-12)
    packed = packer.compress(b" " * (63 * MB)) + packer.flush(zlib.Z_SYNC_FLUSH)
    return frame(packed[:-4], COMPRESSED_TEXT)


async def compression_bomb(target: Target) -> None:
    offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"
    async with target.websocket(offer) as (reader, writer):
        await send(writer, [bomb()])
        await until_closed(reader)


async def turn_slots(target: Target) -> None:
    """Begin turns that last, and hang up: they go on."""
    async with target.websocket() as (reader, writer):
        await send(writer, [frame(json.dumps(request("wait")).encode()) for _ in range(64)])
        await until_closed(reader, 0.2)


async def frame_flood(target: Target) -> None:
    async with target.websocket() as (reader, writer):
        reading = asyncio.create_task(until_closed(reader, 5))
        await send(writer, [frame(b"{}") * 10_000] * 20, 5)
        reading.cancel()


async def pings_without_reading(target: Target) -> None:
    async with target.websocket() as (_, writer):
        cast("asyncio.Transport", writer.transport).pause_reading()
        await send(writer, [frame(b"p" * 125, PING) * 10_000] * 20)


async def slow_readers(target: Target) -> None:
    """Ask for 4 MB, 30 times, and read nothing."""
    async with asyncio.TaskGroup() as group:
        for _ in range(30):
            group.create_task(_slow_reader(target))


async def _slow_reader(target: Target) -> None:
    content = json.dumps(request("flood")).encode()
    accept = target.head("POST", "/v1/assist", f"Content-Length: {len(content)}", "Accept: text/event-stream")
    async with target.connection(limit=1) as (_, writer):
        await send(writer, [accept + content])
        await asyncio.sleep(2)


async def large_headers(target: Target) -> None:
    async with target.connection() as (reader, writer):
        await send(writer, [b"GET / HTTP/1.1\r\nX: ", *[b"x" * MB] * 10])
        await until_closed(reader)


async def many_headers(target: Target) -> None:
    async with target.connection() as (reader, writer):
        await send(writer, [b"GET / HTTP/1.1\r\n", *[b"a: b\r\n" * 100_000] * 10])
        await until_closed(reader)


async def unfinished_headers(target: Target) -> None:
    """A thousand connections that say a little and no more."""
    opened = [await asyncio.open_connection("127.0.0.1", target.port) for _ in range(1_000)]
    for _, writer in opened:
        writer.write(b"GET / HTTP/1.1\r\nX: ")
    await asyncio.sleep(1)
    for _, writer in opened:
        writer.transport.abort()


async def bad_tokens(target: Target) -> None:
    head = Target(target.port, "accord_" + "z" * 43).head("GET", "/v1/capabilities")
    async with target.connection() as (reader, writer):
        for _ in range(200):
            writer.write(head)
            await reader.readuntil(b"\r\n\r\n")
            await reader.read(65536)


async def connection_churn(target: Target) -> None:
    for _ in range(200):
        async with target.connection():
            pass


TEXT_MB = 45
GROUP = "all"
"""The name of a group of many backends."""


async def call(target: Target, path: str, body: bytes, *lines: str) -> bytes:
    """Send one request of a model API and read the answer."""
    head = target.head("POST", path, f"Content-Length: {len(body)}", "Content-Type: application/json", *lines)
    async with target.connection() as (reader, writer):
        await send(writer, [head + body], 10)
        headers = await reader.readuntil(b"\r\n\r\n")
        length = next((line[15:] for line in headers.lower().splitlines() if line.startswith(b"content-length:")), b"0")
        return await reader.readexactly(int(length))


@cache
def chat(text: str, times: int, **more: Any) -> bytes:
    return json.dumps({"model": GROUP, "messages": [{"role": "user", "content": text * times}], **more}).encode()


async def long_text(target: Target) -> None:
    await call(target, "/v1/chat/completions", chat("word and 12, ", TEXT_MB * MB // 13, max_tokens=5))


async def long_foreign_text(target: Target) -> None:
    await call(target, "/v1/chat/completions", chat("\u4e2d\u6587 ", 6 * MB // 13, max_tokens=5))


async def long_input(target: Target) -> None:
    body = json.dumps({"model": GROUP, "input": "word and 12, " * (TEXT_MB * MB // 13)}).encode()
    await call(target, "/v1/responses", body)


async def counted_tokens(target: Target) -> None:
    await call(target, "/v1/messages/count_tokens", chat("word and 12, ", TEXT_MB * MB // 13))


async def chained_responses(target: Target) -> None:
    """A chain of long responses, and then small requests that continue it."""
    previous: str | None = None
    for _ in range(8):
        body = {"model": GROUP, "input": "x" * MB, "previous_response_id": previous}
        previous = json.loads(await call(target, "/v1/responses", json.dumps(body).encode())).get("id") or previous
    small = json.dumps({"model": GROUP, "input": "hi", "previous_response_id": previous}).encode()
    for _ in range(10):
        await asyncio.gather(*(call(target, "/v1/responses", small) for _ in range(5)))


numbers = itertools.count()


async def large_schema(target: Target) -> None:
    """A schema of nearly the largest size, another one each time."""
    parts: list[Any] = [{"contains": {"const": f"v{each} {next(numbers)}"}} for each in range(1_300)]
    schema = {"type": "object", "properties": {"a": {"type": "array", "allOf": parts}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"model": GROUP, "messages": [{"role": "user", "content": "hi"}], "response_format": wanted}
    await call(target, "/v1/chat/completions", json.dumps(body).encode())


async def dripped_requests(target: Target) -> None:
    """Two hundred bodies, a byte at a time."""

    async def drip() -> None:
        head = target.head("POST", "/v1/chat/completions", "Content-Length: 1000", "Content-Type: application/json")
        async with target.connection() as (_, writer):
            writer.write(head)
            for _ in range(100):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as group:
        for _ in range(200):
            group.create_task(drip())


async def unread_streams(target: Target) -> None:
    """Streams of a megabyte each that nobody reads."""

    async def leave_unread() -> None:
        body = chat("word and 12, ", MB // 13, stream=True)
        head = target.head("POST", "/v1/chat/completions", f"Content-Length: {len(body)}")
        async with target.connection(limit=1) as (_, writer):
            await send(writer, [head + body])
            await asyncio.sleep(2)

    async with asyncio.TaskGroup() as group:
        for _ in range(30):
            group.create_task(leave_unread())


async def flood_of_streams(target: Target) -> None:
    """Fifty streams at once, again and again."""

    async def read() -> None:
        body = chat("word and 12, ", 100, stream=True)
        head = target.head("POST", "/v1/chat/completions", f"Content-Length: {len(body)}", "Connection: close")
        async with target.connection() as (reader, writer):
            await send(writer, [head + body])
            await until_closed(reader, 5)

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(read())


async def comments_first(target: Target) -> None:
    """Requests to endpoints that send many comments before an answer."""
    body = chat(SAYS_COMMENTS, 1, stream=True, max_tokens=5)
    paths = ("/v1/chat/completions", "/v1/messages") * 2  # passed on, and translated
    await asyncio.gather(*(call(target, path, body) for path in paths))


async def dripping_endpoint(target: Target) -> None:
    """Two hundred requests to endpoints that never come to an end."""

    async def wait() -> None:
        body = chat(SAYS_DRIP, 1)
        head = target.head("POST", "/v1/chat/completions", f"Content-Length: {len(body)}")
        async with target.connection() as (reader, writer):
            await send(writer, [head + body])
            await until_closed(reader, 2)

    await asyncio.gather(*(wait() for _ in range(200)))


Attack = Callable[[Target], Awaitable[None]]

ATTACKS: Mapping[str, tuple[str, Attack]] = {
    "pipelined reads": ("B1", pipelined_reads),
    "pipelined turns": ("B1", pipelined_turns),
    "recursive schema": ("B2", recursive_schema),
    "tiny content blocks": ("B3", tiny_blocks),
    "tiny values in meta": ("B3", tiny_values),
    "tiny values in a frame": ("B3", tiny_values_in_a_frame),
    "nested JSON": ("B3", nested_json),
    "tiny chunks": ("B3", tiny_chunks),
    "compression bomb": ("B7", compression_bomb),
    "turn slots": ("B8", turn_slots),
    "frame flood": ("B8", frame_flood),
    "pings without reading": ("B8", pings_without_reading),
    "slow readers": ("-", slow_readers),
    "large headers": ("-", large_headers),
    "many headers": ("-", many_headers),
    "unfinished headers": ("-", unfinished_headers),
    "bad tokens": ("-", bad_tokens),
    "connection churn": ("-", connection_churn),
    "long text": ("C13", long_text),
    "long foreign text": ("C13", long_foreign_text),
    "long input": ("C13", long_input),
    "counted tokens": ("C13", counted_tokens),
    "chained responses": ("C12", chained_responses),
    "large schema": ("C13", large_schema),
    "dripped requests": ("C13", dripped_requests),
    "unread streams": ("C13", unread_streams),
    "flood of streams": ("C13", flood_of_streams),
    "comments first": ("C13", comments_first),
    "dripping endpoint": ("C14", dripping_endpoint),
}
"""Every attack: the point of the issue that it belongs to, and what it does in one round."""


async def attack(name: str, target: Target, seconds: float) -> int:
    """Attack for so long; gives the number of rounds, the unfinished last one included."""
    rounds = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                rounds += 1
                with suppress(OSError, EOFError, aiohttp.ClientError, ExceptionGroup):
                    await ATTACKS[name][1](target)
                await asyncio.sleep(0)
    return rounds


def main(name: str, port: str, token: str, seconds: str) -> None:
    """Run the attack that the command line names."""
    target = Target(int(port), token)
    if name.startswith("tiny ") and name != "tiny chunks":
        _ = many_values(b"[]", "meta"), many_values(b'{"type":"x"}', "content"), many_values(b"[]", "meta", 15)
    bomb()
    print("ready", flush=True)
    print(asyncio.run(attack(name, target, float(seconds))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
