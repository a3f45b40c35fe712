"""A local endpoint with enough of OpenAI's chat API for commands that call a model.

It refuses images, ignores stop sequences, calls a tool if it gets one, and follows a schema. A prompt with "wait" gets
the start of an answer, which ends only when the client disconnects.
"""

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

KEY = "sk-very-secret-12345"
PATIENCE_S = 20.0


class ModelServer:
    """The endpoint, and the requests that it received."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.waiting = threading.Event()
        self.left = threading.Event()
        self._loop = asyncio.new_event_loop()

    async def models(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": f"bad key {KEY}", "code": "invalid_api_key"}}, status=401)
        return web.json_response({"data": [{"id": "tiny"}]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": f"bad key {KEY}", "code": "invalid_api_key"}}, status=401)
        if "image_url" in json.dumps(body["messages"]) or "file_data" in json.dumps(body["messages"]):
            return web.json_response(
                {"error": {"message": "no such input", "type": "invalid_request_error"}}, status=400
            )
        message = make_message(body)
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return web.json_response({"id": "1", "choices": [choice], "usage": usage})
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for delta in [{"role": "assistant"}, *({"content": word + " "} for word in message["content"].split(" "))]:
            await self.send(reply, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if "wait" in str(body["messages"][-1]):
            self.waiting.set()
            await self.wait()
        await self.send(reply, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await self.send(reply, {"choices": [], "usage": usage})
        await reply.write(b"data: [DONE]\n\n")
        return reply

    async def wait(self) -> None:
        """Wait until the client disconnects: the server then cancels this handler."""
        try:
            await asyncio.sleep(PATIENCE_S)
        except asyncio.CancelledError:
            self.left.set()
            raise

    async def send(self, reply: web.StreamResponse, event: dict[str, Any]) -> None:
        await reply.write(f"data: {json.dumps({'id': '1', **event})}\n\n".encode())

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/chat/completions", self.chat)
        runner = web.AppRunner(app, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    @contextmanager
    def running(self) -> Generator["ModelServer"]:
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        runner = asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(PATIENCE_S)
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), self._loop).result(PATIENCE_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(PATIENCE_S)
            self._loop.close()


def make_message(body: dict[str, Any]) -> dict[str, Any]:
    """Make the answer of the model."""
    if body.get("tools"):
        call = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "pineapple"}'}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if "json_schema" in json.dumps(body.get("response_format")):
        return {"role": "assistant", "content": '{"legs_of_a_cat": 4}'}
    if body["messages"][0]["role"] == "system":
        return {"role": "assistant", "content": "Pineapple"}
    if body.get("stop"):
        return {"role": "assistant", "content": "one two three four five"}
    return {"role": "assistant", "content": "You are welcome"}
