"""A small endpoint of OpenAI's chat API on loopback, in the event loop of the test."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

SLOW = "slowly please"
BACKEND = """
[[backends]]
name = "{name}"
kind = "openai"
model = "m-{name}"
base_url = "{url}/v1"
manifest = "declared"
options = {{ retries = 0 }}
overrides = {{ streaming = "native" }}
"""


@dataclass
class ModelEndpoint:
    """A model that answers with its name; a slow answer ends only when the test says so."""

    name: str
    url: str = ""
    runner: web.AppRunner | None = None
    answered: int = 0
    running: int = 0
    most_running: int = 0
    """How many calls it answers now, and how many it has answered at once at most."""
    takes_s: float = 0.0
    """How long each call takes."""
    breaks_off: bool = False
    """Whether each stream ends after its first piece."""
    is_slow: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def connections(self) -> int:
        assert self.runner is not None
        assert self.runner.server is not None
        return len(self.runner.server.connections)

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": f"m-{self.name}"}]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            await asyncio.sleep(self.takes_s)
            return await self.answer(request)
        finally:
            self.running -= 1

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        self.answered += 1
        if not body.get("stream"):
            message = {"role": "assistant", "content": self.name}
            return web.json_response({"id": "1", "model": body["model"], "choices": [{**choice, "message": message}]})
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for content in (f"{self.name} begins", " and ends"):
            chunk = {"id": "1", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]}
            await reply.write(f"data: {json.dumps(chunk)}\n\n".encode())
            if self.breaks_off and request.transport is not None:
                request.transport.close()
                return reply
            if SLOW in json.dumps(body["messages"]) and not self.is_slow.is_set():
                self.is_slow.set()
                await self.release.wait()
        await reply.write(f"data: {json.dumps({'id': '1', 'choices': [{**choice, 'delta': {}}]})}\n\n".encode())
        await reply.write(b"data: [DONE]\n\n")
        return reply


@asynccontextmanager
async def endpoint(name: str) -> AsyncGenerator[ModelEndpoint]:
    made = ModelEndpoint(name)
    app = web.Application()
    app.router.add_get("/v1/models", made.models)
    app.router.add_post("/v1/chat/completions", made.chat)
    made.runner = web.AppRunner(app)
    await made.runner.setup()
    await web.TCPSite(made.runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{made.runner.addresses[0][1]}"
    try:
        yield made
    finally:
        made.release.set()
        await made.runner.cleanup()
