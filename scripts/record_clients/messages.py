"""Anthropic's messages API, from the model's side: read a request, write the scripted reply."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from scripts.record_clients.chat import Json, member, pieces_of, text_in
from scripts.record_clients.task import Failure, ModelRequest, Reply, ToolCall

ID: Final = "msg_1"
CALL_ID: Final = "toolu_1"
INPUT_TOKENS: Final = 20
USAGE: Final = {
    "input_tokens": INPUT_TOKENS,
    "output_tokens": 7,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}

ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Read the body of `POST /v1/messages`."""
    messages: list[Json] = body.get("messages", [])
    tools: list[Json] = body.get("tools", [])
    last: object = messages[-1].get("content") if messages else None
    blocks: list[Json] = cast("list[Json]", last) if isinstance(last, list) else []
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return ModelRequest(
        model=body.get("model", ""),
        text="\n".join(text_in(message.get("content")) for message in messages if message.get("role") == "user"),
        tools={tool["name"]: tool.get("input_schema", {}) for tool in tools if "name" in tool},
        result=text_in(results[-1].get("content")) if results else None,
        schema=member(body, "output_config", "format", "schema"),
        tool_choice=member(body, "tool_choice", "name"),
        stream=bool(body.get("stream")),
    )


def whole_answer(request: ModelRequest, reply: Reply) -> Json:
    """Return the answer in one piece."""
    if isinstance(reply, ToolCall):
        block: Json = {"type": "tool_use", "id": CALL_ID, "name": reply.name, "input": reply.arguments}
        return {**_head(request), "content": [block], "stop_reason": "tool_use", "usage": USAGE}
    return {**_head(request), "content": [{"type": "text", "text": reply}], "stop_reason": "end_turn", "usage": USAGE}


def events(request: ModelRequest, reply: Reply) -> Iterator[Json]:
    """Yield the events of a streamed answer."""
    start: Json = {**_head(request), "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    if isinstance(reply, ToolCall):
        block: Json = {"type": "tool_use", "id": CALL_ID, "name": reply.name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces_of(reply.text)]
        stop = "tool_use"
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces_of(reply)]
        stop = "end_turn"
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": USAGE["output_tokens"]},
    }
    yield {"type": "message_stop"}


def _head(request: ModelRequest) -> Json:
    return {"id": ID, "type": "message", "role": "assistant", "model": request.model, "stop_sequence": None}


def error_of(failure: Failure) -> Json:
    """Return the body of an error."""
    kind = ERROR_TYPES.get(failure.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": failure.message}, "request_id": "req_1"}
