"""The fake models of the demonstration: each lacks something real models lack, and everything they receive is kept.

All are served by one program on different paths: `/<name>/v1/chat/completions`, and `/claude/v1/messages`.
"""

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

Body = dict[str, Any]
REFUSED_SETTINGS: Final = ("seed", "logit_bias", "top_k", "store")
PROSE: Final = "Berlin is a large city in Germany."
SCHEMA_WORDS: Final = ("json schema", "json_schema", '"properties"')
CITY: Final = {"name": "Berlin", "country": "Germany"}
SEEN: Final = "a red square"
TOOL_INPUT: Final = {"city": "Paris", "unit": "celsius"}
FRAGMENTS: Final = ("", '{"ci', 'ty": "Par', 'is", "un', 'it": "cel', 'sius"}')
"""The input of the tool as the Messages API sends it: an empty fragment first, then cuts anywhere."""


@dataclass(slots=True)
class Received:
    """One request that an upstream got."""

    upstream: str
    body: Body


@dataclass(slots=True)
class FakeUpstreams:
    """The running upstreams: their port, and what they received since the list was last cleared."""

    port: int = 0
    received: list[Received] = field(default_factory=list[Received])

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """A request of the chat API."""
        name = request.match_info["name"]
        body = await request.json()
        self.received.append(Received(name, body))
        refused = [setting for setting in REFUSED_SETTINGS if setting in body]
        if name == "picky" and refused:
            return refuse(refused[0], f"Unsupported parameter: '{refused[0]}' is not supported with this model.")
        if name == "plain" and json_type(body) == "json_schema":
            return refuse(
                "response_format", "'response_format' of type 'json_schema' is not supported with this model."
            )
        answer = ANSWERS.get(name, lambda _: "Hello.")
        text = answer(body)
        if body.get("stream"):
            return await stream(request, chat_events(body, text))
        return web.json_response(chat_answer(body, text))

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """A request of the Messages API: a tool is called if there is one and it may be called."""
        body = await request.json()
        self.received.append(Received("claude", body))
        may_call = bool(body.get("tools")) and body.get("tool_choice", {}).get("type") != "none"
        if body.get("stream"):
            return await stream(request, message_events(may_call=may_call))
        text = {"type": "text", "text": "I look it up." if may_call else "It is mild in Paris."}
        call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": TOOL_INPUT}
        content = [text, call] if may_call else [text]
        return web.json_response({**MESSAGE, "content": content, "stop_reason": "tool_use" if may_call else "end_turn"})

    async def models(self, request: web.Request) -> web.StreamResponse:
        """The models that this endpoint has: its own name."""
        model = {"id": request.match_info["name"], "object": "model", "created": 1, "owned_by": "demo"}
        return web.json_response({"object": "list", "data": [model]})


def json_type(body: Body) -> str:
    """The kind of response format that a request names."""
    response_format: Body = body.get("response_format") or {}
    return str(response_format.get("type", ""))


def refuse(param: str, message: str) -> web.StreamResponse:
    """A 400 in OpenAI's shape, which names the field."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": "unsupported_parameter"}
    return web.json_response({"error": error}, status=400)


def text_of(body: Body) -> str:
    """All text of the conversation, in lower case."""
    texts: list[str] = []
    for message in body.get("messages", []):
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts += [str(part.get("text", "")) for part in parts]
    return "\n".join(texts).lower()


def has_image(body: Body) -> bool:
    """Whether a message carries an image."""
    return "image_url" in json.dumps(body.get("messages", []))


def answer_blind(body: Body) -> str:
    """What a model says that ignores images, as some servers of text models do."""
    return f"You speak of {SEEN}." if SEEN in text_of(body) else "I see no picture, so I cannot say."


def answer_seeing(body: Body) -> str:
    """What a model says that reads images."""
    return f"The picture shows {SEEN}." if has_image(body) else "There is no picture."


def answer_by_prompt(body: Body) -> str:
    """JSON if the prompt asks for it with a schema; prose otherwise, whatever `response_format` says."""
    text = text_of(body)
    return json.dumps(CITY) if any(word in text for word in SCHEMA_WORDS) else PROSE


ANSWERS: Final[Mapping[str, Callable[[Body], str]]] = {
    "blind": answer_blind,
    "seeing": answer_seeing,
    "plain": answer_by_prompt,
    "ignoring": answer_by_prompt,
    "alive": lambda _: "Hello from the second backend.",
}
USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


def chat_answer(body: Body, text: str) -> Body:
    """One choice, whatever `n` says."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    common = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": body.get("model", "")}
    return {**common, "object": "chat.completion", "choices": [choice], "usage": USAGE}


def chat_events(body: Body, text: str) -> list[str]:
    """The same as a stream."""
    common = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": body.get("model", "")}
    deltas: list[tuple[Body, str | None]] = [({"role": "assistant", "content": text}, None), ({}, "stop")]
    choices = [{"index": 0, "delta": delta, "finish_reason": reason} for delta, reason in deltas]
    chunks = [{**common, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


MESSAGE: Final[Body] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 5},
}


def message_events(*, may_call: bool) -> list[str]:
    """The events of a streamed message: a text, then a tool call whose input comes in fragments."""
    events: list[Body] = [
        {"type": "message_start", "message": MESSAGE},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I look it up."}},
        {"type": "content_block_stop", "index": 0},
    ]
    if may_call:
        block: Body = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
        events.append({"type": "content_block_start", "index": 1, "content_block": block})
        for fragment in FRAGMENTS:
            delta = {"type": "input_json_delta", "partial_json": fragment}
            events.append({"type": "content_block_delta", "index": 1, "delta": delta})
        events.append({"type": "content_block_stop", "index": 1})
    reason = "tool_use" if may_call else "end_turn"
    end = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 12}})
    events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


async def stream(request: web.Request, events: Iterable[str]) -> web.StreamResponse:
    """Write each event on its own."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(event.encode())
    await response.write_eof()
    return response


@asynccontextmanager
async def serving(port: int) -> AsyncGenerator[FakeUpstreams]:
    """Serve all upstreams on this port of loopback."""
    upstreams = FakeUpstreams(port)
    application = web.Application(client_max_size=2**26)
    application.add_routes(
        [
            web.post("/claude/v1/messages", upstreams.messages),
            web.post("/{name}/v1/chat/completions", upstreams.chat),
            web.get("/{name}/v1/models", upstreams.models),
        ]
    )
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield upstreams
    finally:
        await runner.cleanup()
