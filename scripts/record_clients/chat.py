"""OpenAI's chat completions API, from the model's side: read a request, write the scripted reply."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, cast

from scripts.record_clients.task import Failure, ModelRequest, Reply, ToolCall

CREATED: Final = 1_700_000_000
ID: Final = "chatcmpl-1"
USAGE: Final = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}
Json = dict[str, Any]


def pieces_of(text: str, size: int = 12) -> list[str]:
    """Cut a text as a stream cuts it."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def member(value: object, *path: str) -> Any:
    """Return what stands at this path, or None where there is no such member."""
    for name in path:
        value = cast("Json", value).get(name) if isinstance(value, Mapping) else None
    return value


def text_in(content: object) -> str:
    """Return all text of a message's content, which is a text or a list of blocks, in any of the three APIs."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_in(block) for block in cast("list[object]", content))
    if isinstance(content, Mapping):
        block = cast("Mapping[str, object]", content)
        return text_in(block.get("text") or block.get("content") or "")
    return ""


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Read the body of `POST /v1/chat/completions`."""
    messages: list[Json] = body.get("messages", [])
    functions: list[Json] = [tool["function"] for tool in body.get("tools", []) if tool.get("type") == "function"]
    last = messages[-1] if messages else {}
    return ModelRequest(
        model=body.get("model", ""),
        text="\n".join(text_in(message.get("content")) for message in messages if message.get("role") == "user"),
        tools={function["name"]: function.get("parameters", {}) for function in functions},
        result=text_in(last.get("content")) if last.get("role") == "tool" else None,
        schema=member(body, "response_format", "json_schema", "schema"),
        tool_choice=member(body, "tool_choice", "function", "name"),
        stream=bool(body.get("stream")),
    )


def whole_answer(request: ModelRequest, reply: Reply) -> Json:
    """Return the answer in one piece."""
    message: Json = {"role": "assistant", "content": reply, "refusal": None}
    finish = "stop"
    if isinstance(reply, ToolCall):
        call = {"id": "call_1", "type": "function", "function": {"name": reply.name, "arguments": reply.text}}
        message, finish = message | {"content": None, "tool_calls": [call]}, "tool_calls"
    choice: Json = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**_head(request, "chat.completion"), "choices": [choice], "usage": USAGE}


def events(request: ModelRequest, reply: Reply, *, usage: bool) -> Iterator[Json]:
    """Yield the chunks of a streamed answer; `usage` adds the one that `stream_options.include_usage` requests."""
    head = _head(request, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    if isinstance(reply, ToolCall):
        first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": reply.name, "arguments": ""}}
        yield chunk({"role": "assistant", "content": None, "tool_calls": [first]})
        for piece in pieces_of(reply.text):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
    else:
        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces_of(reply):
            yield chunk({"content": piece})
        yield chunk({}, "stop")
    if usage:
        yield {**head, "choices": [], "usage": USAGE}


def _head(request: ModelRequest, kind: str) -> Json:
    return {"id": ID, "object": kind, "created": CREATED, "model": request.model, "system_fingerprint": "fp_1"}


def error_of(failure: Failure) -> Json:
    """Return the body of an error, which OpenAI's two APIs share."""
    kind = "invalid_request_error" if failure.status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
    return {"error": {"message": failure.message, "type": kind, "param": None, "code": None}}
