"""OpenAI's responses API, from the model's side: read a request, write the scripted reply."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from scripts.record_clients.chat import CREATED, Json, member, pieces_of, text_in
from scripts.record_clients.task import ModelRequest, Reply, ToolCall

ID: Final = "resp_1"
CALL_ID: Final = "call_1"
RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
USAGE: Final = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 27,
}
ECHOED: Final = ("instructions", "metadata", "parallel_tool_calls", "temperature", "tool_choice", "tools", "top_p")
"""What a response repeats of its request, and SDKs require of it."""


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Read the body of `POST /v1/responses`."""
    given: object = body.get("input", "")
    items: list[Json] = cast("list[Json]", given) if isinstance(given, list) else [{"role": "user", "content": given}]
    tools = list(_client_tools([*(body.get("tools") or []), *items]))
    last = items[-1] if items else {}
    return ModelRequest(
        model=body.get("model", ""),
        text="\n".join(text_in(item.get("content")) for item in items if item.get("role") == "user"),
        tools={tool["name"]: tool.get("parameters") or {} for tool in tools},
        result=text_in(last.get("output")) if last.get("type") in RESULTS else None,
        schema=member(body, "text", "format", "schema"),
        tool_choice=member(body, "tool_choice", "name"),
        stream=bool(body.get("stream")),
    )


def _client_tools(offers: list[Json]) -> Iterator[Json]:
    """Yield the tools that the client runs itself; Codex groups them in namespaces and in an item of the input."""
    for offer in offers:
        match offer.get("type"):
            case "function" | "custom":
                yield offer
            case "namespace" | "additional_tools":
                yield from _client_tools(offer["tools"])
            case _:
                pass


def whole_answer(request: ModelRequest, reply: Reply, body: Mapping[str, Any]) -> Json:
    """Return the answer in one piece."""
    return {**_head(request, body), "status": "completed", "output": [_item(reply)], "usage": USAGE}


def events(request: ModelRequest, reply: Reply, body: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the events of a streamed answer, numbered."""
    for number, event in enumerate(_events(request, reply, body)):
        yield {**event, "sequence_number": number}


def _events(request: ModelRequest, reply: Reply, body: Mapping[str, Any]) -> Iterator[Json]:
    head: Json = {**_head(request, body), "status": "in_progress", "output": []}
    item = _item(reply)
    yield {"type": "response.created", "response": head}
    yield {"type": "response.in_progress", "response": head}
    if isinstance(reply, ToolCall):
        yield from _call_events(reply, item)
    else:
        yield from _text_events(reply, item)
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": whole_answer(request, reply, body)}


def _call_events(reply: ToolCall, item: Json) -> Iterator[Json]:
    is_freeform = item["type"] == "custom_tool_call"
    kind = "response.custom_tool_call_input" if is_freeform else "response.function_call_arguments"
    member = "input" if is_freeform else "arguments"
    place = {"item_id": item["id"], "output_index": 0}
    yield {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**item, member: "", "status": "in_progress"},
    }
    for piece in pieces_of(reply.text):
        yield {"type": f"{kind}.delta", **place, "delta": piece}
    yield {"type": f"{kind}.done", **place, "name": reply.name, member: reply.text}


def _text_events(reply: str, item: Json) -> Iterator[Json]:
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**item, "content": [], "status": "in_progress"},
    }
    yield {"type": "response.content_part.added", **place, "part": part}
    for piece in pieces_of(reply):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": reply, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": {**part, "text": reply}}


def _item(reply: Reply) -> Json:
    if not isinstance(reply, ToolCall):
        part: Json = {"type": "output_text", "text": reply, "annotations": [], "logprobs": []}
        return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    call: Json = {"id": "fc_1", "call_id": CALL_ID, "name": reply.name, "status": "completed"}
    if isinstance(reply.arguments, str):
        return {**call, "type": "custom_tool_call", "input": reply.text}
    return {**call, "type": "function_call", "arguments": reply.text}


def _head(request: ModelRequest, body: Mapping[str, Any]) -> Json:
    defaults: Json = {"tool_choice": "auto", "tools": [], "parallel_tool_calls": True}
    echoed = {name: body[name] if body.get(name) is not None else defaults.get(name) for name in ECHOED}
    return {
        **echoed,
        "id": ID,
        "object": "response",
        "created_at": CREATED,
        "model": request.model,
        "error": None,
        "incomplete_details": None,
    }
