"""What a call of a model API and a JSON turn take in a SQLite file, by tables and indexes.

The real command with authentication, an endpoint whose every answer has another id and another usage, and a file that
is neither compacted nor new: what it had before the first request is subtracted.
"""

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

import aiohttp
from aiohttp import web

REQUESTS: Final = int(os.environ.get("REQUESTS", "10000"))
WARM: Final = 20
AT_ONCE: Final = 32
GOAL: Final = 600
MODEL: Final = "gpt-4.1-mini"
AGENT: Final = """
from accord import Agent

async def answer(turn):
    yield "Here is a short answer."

agent = Agent(answer)
"""
CONFIG: Final = """
[store]
kind = "sqlite"
path = "accord.db"

[server]
rates = ["1000000/second"]

[[backends]]
name = "native"
kind = "openai"
model = "gpt-4.1-mini"
base_url = "{url}/v1"
"""


@dataclass(frozen=True)
class Served:
    """A running service: its address, a client with a key, and its folder."""

    address: str
    client: aiohttp.ClientSession
    folder: Path

    async def call(self, number: int, *, stream: bool) -> None:
        """Send a chat request whose answer is passed on."""
        message = {"role": "user", "content": f"Question {number} of one user"}
        body = {"model": MODEL, "messages": [message], "stream": stream}
        await self._send("/v1/chat/completions", body)

    async def turn(self, number: int) -> None:
        """Send a request to the agent, in a session of its own."""
        context = {"session_id": f"session-{number}", "user": {"id": "bench", "name": "Bench"}}
        body = {"request_id": str(uuid4()), "context": context, "payload": {"query": f"Question {number} of one user"}}
        await self._send("/v1/assist", body)

    async def _send(self, path: str, body: dict[str, Any]) -> None:
        async with self.client.post(self.address + path, json=body) as response:
            answer = await response.read()
            if response.status != 200:
                raise RuntimeError(answer.decode())


async def main() -> None:
    """Print all figures."""
    async with upstream() as url:
        for label, request in (
            ("a native call", partial(Served.call, stream=False)),
            ("a native call, streamed", partial(Served.call, stream=True)),
            ("a JSON turn in a session of its own", Served.turn),
        ):
            before = await store_after(url, request, WARM)
            after = await store_after(url, request, WARM + REQUESTS)
            sizes = {name: (size - before[name]) / REQUESTS for name, size in after.items()}
            total = sum(sizes.values())
            print(f"{label}: {total:,.0f} bytes" + (f"   goal ≤ {GOAL}" if "call" in label else ""))
            for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
                if size >= 1:
                    print(f"  {name:28}{size:8,.1f}")


async def store_after(url: str, request: Any, requests: int) -> Counter[str]:
    """The bytes of each table and index of a new store after so many requests."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        async with service(folder, url) as served:
            numbers = iter(range(requests))

            async def send() -> None:
                for number in numbers:
                    await request(served, number)

            await asyncio.gather(*(send() for _ in range(AT_ONCE)))
        with closing(sqlite3.connect(folder / "accord.db")) as store:
            (pages,) = store.execute("PRAGMA page_count").fetchone()
            (page_size,) = store.execute("PRAGMA page_size").fetchone()
            sizes = Counter(dict(store.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()))
            sizes["everything else"] = pages * page_size - sizes.total()
        return sizes


@asynccontextmanager
async def service(folder: Path, url: str) -> AsyncGenerator[Served]:
    """The service, in this folder."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "accord.toml").write_text(CONFIG.format(url=url))
    accord = [sys.executable, "-P", "-m", "accord"]
    env = {**os.environ, "ACCORD_STATE_DIR": str(folder), "OPENAI_API_KEY": "none"}
    options = ["--config", "accord.toml"]
    adding = [*accord, "keys", "add", "bench", *options]
    key = await asyncio.to_thread(
        subprocess.check_output, adding, cwd=folder, env=env, text=True, stderr=subprocess.DEVNULL
    )
    process = await asyncio.create_subprocess_exec(
        *accord, "serve", "agent.py", "--port", "0", *options,
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        line = await process.stdout.readline() if process.stdout else b""
        if (found := re.search(r"http://\S+?(?=/v1)", line.decode())) is None:
            raise RuntimeError(line.decode())
        headers = {"authorization": f"Bearer {key.split()[-1]}"}
        async with aiohttp.ClientSession(headers=headers) as client:
            yield Served(found.group(), client, folder)
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def upstream() -> AsyncGenerator[str]:
    """A model endpoint in this process."""
    numbers = count(1)

    async def answer(request: web.Request) -> web.StreamResponse:
        body, number = await request.json(), next(numbers)
        usage = {"prompt_tokens": 20 + number % 9_000, "completion_tokens": 1 + number % 700}
        usage["total_tokens"] = sum(usage.values())
        shared = {"id": f"chatcmpl-{uuid4().hex[:29]}", "created": 1_700_000_000 + number, "model": MODEL}
        end = {"index": 0, "finish_reason": "stop"}
        text = {"role": "assistant", "content": "A short answer."}
        if not body.get("stream"):
            choices = [{**end, "message": text}]
            return web.json_response({**shared, "object": "chat.completion", "choices": choices, "usage": usage})
        chunk = {**shared, "object": "chat.completion.chunk"}
        chunks: list[dict[str, Any]] = [
            {**chunk, "choices": [{"index": 0, "delta": text, "finish_reason": None}]},
            {**chunk, "choices": [{**end, "delta": {}}], "usage": usage},
        ]
        events = [f"data: {event}\n\n" for event in (*map(json.dumps, chunks), "[DONE]")]
        return web.Response(text="".join(events), content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
