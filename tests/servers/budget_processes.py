"""Processes of `accord serve` on one store with one key and a priced backend, and clients that count answers."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, cast

import aiohttp

from accord.stores.postgres import PostgresStore
from accord.stores.sqlite import SqliteStore
from accord.wire.keys import KeyRules
from accord.wire.session import TokenRecord, token_digest
from tests.servers.clock import START
from tests.servers.process import ServedProcess, accord_serve

LIMIT_S = 55
LEASE_S = 1.5
TOKEN = "accord_" + "a" * 43
HEADERS = {"authorization": f"Bearer {TOKEN}"}
TOKENS = 10
CONFIG = """
[[backends]]
name = "one"
kind = "openai"
model = "m-one"
base_url = "{url}"
manifest = "declared"
options = {{ retries = 0 }}
overrides = {{ streaming = "native" }}
[backends.price]
input = 0.0
output = 10000.0
[limits]
concurrent_turns = 500
[server]
turns_per_caller = 500
lease_s = {lease_s}
"""
"""Ten tokens cost 0.1 $."""
CHAT: dict[str, Any] = {"model": "one", "max_tokens": TOKENS, "messages": [{"role": "user", "content": "hi"}]}


class Endpoint(asyncio.Protocol):
    """An endpoint that answers at once, or with a stream that does not end. Ours, since a slow one would not saturate."""

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (request := whole_message(self._received)) is not None:
            self._received = self._received[len(request) :]
            self._transport.write(STREAM if b'"stream":true' in request else ANSWER)


def whole_message(received: bytes) -> bytes | None:
    """The first HTTP message with its body, once all of it is there."""
    head, _, _ = received.partition(b"\r\n\r\n")
    if len(head) + 4 > len(received):
        return None
    lines = head.lower().split(b"\r\n")
    length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
    end = len(head) + 4 + length
    return received[:end] if len(received) >= end else None


def http(body: bytes, *headers: str) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", *headers, "", "")).encode() + body


def event(choice: dict[str, Any]) -> bytes:
    data = b"data: " + json.dumps({"id": "1", "model": "m-one", "choices": [{"index": 0, **choice}]}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


BODY = json.dumps({
    "id": "1",
    "model": "m-one",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": TOKENS},
}).encode()  # fmt: skip
ANSWER = http(BODY, "content-type: application/json", f"content-length: {len(BODY)}")
STREAM = http(
    event({"delta": {"content": "on and on"}}), "content-type: text/event-stream", "transfer-encoding: chunked"
)


@dataclass(frozen=True)
class SharedStore:
    """A store for the processes and for the test, its table of the configuration, and the address of PostgreSQL."""

    store: SqliteStore | PostgresStore
    table: str
    address: str = ""


def on_sqlite(folder: Path) -> SharedStore:
    file = folder / "accord.db"
    return SharedStore(SqliteStore(file), f'[store]\npath = "{file}"\n')


def on_postgres(address: str) -> SharedStore:
    return SharedStore(PostgresStore(address), '[store]\nkind = "postgres"\nurl_env = "STORE_URL"\n', address)


@asynccontextmanager
async def served(
    folder: Path, shared: SharedStore, *names: str, budget: float | None = None
) -> AsyncGenerator[list[ServedProcess]]:
    """Processes with these names on one store that has one key, and an endpoint behind them."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(LIMIT_S))
        server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", 0)
        stack.callback(server.close)
        await shared.store.open()
        stack.push_async_callback(shared.store.close)
        if not await shared.store.tokens():
            key = {"token_id": "k1", "user": "ada", "digest": token_digest(TOKEN), "created_at": START}
            await shared.store.put_token(TokenRecord.model_validate({**key, "rules": KeyRules(budget_usd=budget)}))
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        config = CONFIG.format(url=url, lease_s=LEASE_S) + shared.table
        processes: list[ServedProcess] = []
        for name in names:
            (folder / name).mkdir()
            serving = accord_serve(folder / name, "relay", config=config, environ={"STORE_URL": shared.address})
            processes.append(await stack.enter_async_context(serving))
        yield processes


async def chat(client: aiohttp.ClientSession, served: ServedProcess, **more: Any) -> tuple[int, Any]:
    async with client.post(f"{served.address}/v1/chat/completions", json={**CHAT, **more}) as response:
        return response.status, await response.json()


def connected() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(headers=HEADERS, connector=aiohttp.TCPConnector(limit=0))


async def complete_until_killed(port: int, ended: list[float]) -> None:
    """Send one request after the other, and note when each answer was whole."""
    body = json.dumps(CHAT).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
    request = f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(OSError, asyncio.IncompleteReadError), closing(writer):
        while True:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            while whole_message(answer) is None:
                answer += await reader.read(65_536)
                if reader.at_eof():
                    return
            ended.append(monotonic())


def most_within(seconds: float, times: list[float]) -> int:
    """The largest number of these times that lie so close together."""
    return max(sum(start <= each < start + seconds for each in times) for start in times)


def count_receipts(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT count(*) FROM receipts").fetchone()[0]
