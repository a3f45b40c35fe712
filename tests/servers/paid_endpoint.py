"""A model endpoint on loopback that speaks three APIs and reports its usage in whatever way a test wants.

It runs in the event loop of the test. What it does with a request depends on the model that the request names.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
WORDS = 400
TEXT = "word " * WORDS
"""What it answers: about a token for each word."""
USAGE = {"input": 50, "output": 600}
FAULTS = ("negative", "zero", "missing", "broken", "error", "left")
"""What can be wrong: counts that are negative, 0 or missing; a stream that breaks off or fails; a reader that leaves."""


@dataclass
class PaidEndpoint:
    """`faults` and `texts` are by model; `seen` counts the requests of each model."""

    url: str = ""
    faults: dict[str, str] = field(default_factory=dict[str, str])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    seen: Counter[str] = field(default_factory=Counter[str])
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the reader of a stream that waits for it has left."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        model = body["model"]
        self.seen[model] += 1
        api, fault, text = request.path.rpartition("/")[2], self.faults.get(model, ""), self.texts.get(model, TEXT)
        if fault == "refused":
            return web.json_response({"error": {"type": "server_error", "message": "no"}}, status=503)
        if not body.get("stream"):
            return await self._whole(request, json.dumps(WHOLE[api](text, fault)).encode(), fault)
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        begin, end = EVENTS[api](text, fault)
        await reply.write(b"".join(map(as_event, begin)))
        if fault == "broken":
            return _broken_off(request, reply)
        if fault == "left":
            await self._wait_until_left()
        if fault == "error":
            end = [{"type": "error", "error": {"type": "overloaded_error", "message": "no more"}, "message": "no"}]
        await reply.write(b"".join(map(as_event, end)))
        if api == "completions":
            await reply.write(b"data: [DONE]\n\n")
        return reply

    async def _whole(self, request: web.Request, data: bytes, fault: str) -> web.StreamResponse:
        if fault != "broken":
            return web.Response(body=data, content_type="application/json")
        headers = {"content-type": "application/json", "content-length": str(len(data))}
        reply = web.StreamResponse(headers=headers)
        await reply.prepare(request)
        await reply.write(data[:-40])
        return _broken_off(request, reply)

    async def _wait_until_left(self) -> None:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            self.left.set()
            raise


def _broken_off(request: web.Request, reply: web.StreamResponse) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return reply


def as_event(event: Json) -> bytes:
    """An event as it is sent, with a name if it has a type."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def _count(name: str, fault: str) -> int:
    return {"negative": -USAGE[name], "zero": 0}.get(fault, USAGE[name])


def _usage(first: str, second: str, fault: str) -> Json:
    return {} if fault == "missing" else {"usage": {first: _count("input", fault), second: _count("output", fault)}}


def _chat(text: str, fault: str) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "c1", "choices": [choice], **_usage("prompt_tokens", "completion_tokens", fault)}


def _chat_events(text: str, fault: str) -> tuple[list[Json], list[Json]]:
    def chunk(delta: Json, reason: str | None = None) -> Json:
        return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    end, usage = [chunk({}, "stop")], _usage("prompt_tokens", "completion_tokens", fault)
    begin = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": word}) for word in words(text))]
    return begin, [*end, {"id": "c1", "choices": [], **usage}] if usage else end


def _response(text: str, fault: str, status: str = "completed") -> Json:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
    item: Json = {"id": "i1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    usage = _usage("input_tokens", "output_tokens", fault)
    head = {"id": "r1", "object": "response", "status": status, "model": "named-by-endpoint"}
    return {**head, "output": [item], **usage} if status == "completed" else {**head, "output": []}


def _response_events(text: str, fault: str) -> tuple[list[Json], list[Json]]:
    whole = _response(text, fault)
    item = whole["output"][0]
    at: Json = {"item_id": "i1", "output_index": 0, "content_index": 0}
    part: Json = {"type": "output_text", "text": "", "annotations": []}
    begin: list[Json] = [
        {"type": "response.created", "response": _response("", fault, "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "part": part},
        *({"type": "response.output_text.delta", **at, "delta": word} for word in words(text)),
    ]
    end: list[Json] = [
        {"type": "response.output_text.done", **at, "text": text},
        {"type": "response.content_part.done", **at, "part": {**part, "text": text}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return begin, end


def _message(text: str, fault: str) -> Json:
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "named-by-endpoint"}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    content = [{"type": "text", "text": text}]
    return {**head, "content": content, **ending, **_usage("input_tokens", "output_tokens", fault)}


def _message_events(text: str, fault: str) -> tuple[list[Json], list[Json]]:
    whole, usage = _message(text, fault), _usage("input_tokens", "output_tokens", fault)
    first: Json = {"usage": {**usage["usage"], "output_tokens": 1}} if usage else {}
    message: Json = {**whole, "content": [], "stop_reason": None, **first}
    begin: list[Json] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w}} for w in words(text)),
    ]
    last: Json = {"usage": {"output_tokens": usage["usage"]["output_tokens"]}} if usage else {}
    end: list[Json] = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, **last},
        {"type": "message_stop"},
    ]
    return begin, end


def words(text: str) -> Iterator[str]:
    """The text in pieces."""
    for place in range(0, len(text), 50):
        yield text[place : place + 50]


WHOLE = {"completions": _chat, "responses": _response, "messages": _message}
EVENTS = {"completions": _chat_events, "responses": _response_events, "messages": _message_events}


@asynccontextmanager
async def paid_endpoint() -> AsyncGenerator[PaidEndpoint]:
    """Serve the endpoint until the block ends."""
    made = PaidEndpoint()
    app = web.Application()
    for path in ("chat/completions", "responses", "messages"):
        app.router.add_post(f"/v1/{path}", made.answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()
