"""A model server on loopback that speaks four model APIs, records what it gets, and always answers `{"a": 1}`."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

TEXT: Final = '{"a": 1}'
MODEL: Final = "recorded-1"
USAGE: Final = {"input_tokens": 5, "output_tokens": 3}

Event = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class Recorder:
    """The paths and bodies of the requests so far."""

    address: str = ""
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    raw: list[bytes] = field(default_factory=list[bytes])
    """The bodies as they came."""
    ignores_n: bool = False
    """Whether it gives one answer, however many are wanted."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer in the API of the path, streamed if that is requested."""
        body: dict[str, Any] = await request.json()
        self.raw.append(await request.read())
        self.sent.append((request.path, body))
        if request.path.endswith("chat/completions"):
            whole, events = chat_answer(1 if self.ignores_n else body.get("n") or 1)
        elif request.path.endswith("responses"):
            whole, events = responses_answer()
        elif request.path.endswith("messages"):
            whole, events = messages_answer()
        else:
            whole, events = gemini_answer()
        if not body.get("stream") and "streamGenerateContent" not in request.path:
            return web.json_response(whole)
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for name, event in events:
            head = f"event: {name}\n" if name else ""
            await reply.write(f"{head}data: {json.dumps(event)}\n\n".encode())
        if request.path.endswith("chat/completions"):
            await reply.write(b"data: [DONE]\n\n")
        return reply


def chat_answer(count: int) -> tuple[dict[str, Any], list[Event]]:
    head = {"id": "chatcmpl-1", "created": 1, "model": MODEL}
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    choices = [
        {"index": index, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
        for index in range(count)
    ]
    chunk = {**head, "object": "chat.completion.chunk"}
    delta = {"role": "assistant", "content": TEXT}
    events: list[Event] = [
        ("", {**chunk, "choices": [{"index": index, "delta": delta, "finish_reason": "stop"}]})
        for index in range(count)
    ]
    events.append(("", {**chunk, "choices": [], "usage": usage}))
    return {**head, "object": "chat.completion", "choices": choices, "usage": usage}, events


def responses_answer() -> tuple[dict[str, Any], list[Event]]:
    part = {"type": "output_text", "text": TEXT, "annotations": list[Any]()}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    usage = {**USAGE, "total_tokens": 8}
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": MODEL,
        "status": "completed",
        "output": [item],
        "usage": usage,
    }
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    listed = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", **at, "delta": TEXT},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [(str(event["type"]), {**event, "sequence_number": place}) for place, event in enumerate(listed)]


def messages_answer() -> tuple[dict[str, Any], list[Event]]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_sequence": None}
    whole = {**head, "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn", "usage": USAGE}
    listed: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": USAGE}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": USAGE},
        {"type": "message_stop"},
    ]
    return whole, [(event["type"], event) for event in listed]


def gemini_answer() -> tuple[dict[str, Any], list[Event]]:
    candidate = {"content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}
    return whole, [("", whole)]


@asynccontextmanager
async def recording() -> AsyncGenerator[Recorder]:
    """Serve until the block ends."""
    recorder, app = Recorder(), web.Application(client_max_size=1 << 20)
    app.router.add_post("/{path:.*}", recorder.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        recorder.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield recorder
    finally:
        await runner.cleanup()
