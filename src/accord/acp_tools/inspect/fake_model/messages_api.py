"""Anthropic's messages: read a request, write the reply. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from accord.acp_tools.inspect.fake_model.model_request import (
    OfferedTool,
    ReceivedCall,
    ReceivedPart,
    ReceivedRequest,
    ReceivedResult,
    ReceivedText,
    kind_of,
    media_part,
    member,
    messages_of,
    objects,
    words_of,
)
from accord.acp_tools.inspect.fake_model.script import TextReply
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from accord.acp_tools.json_values import Json, as_object, as_text

USAGE: Final = {
    "input_tokens": 100,
    "output_tokens": 10,
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
    529: "overloaded_error",
}


BUILT_IN_SCHEMAS: Final[Mapping[str, Json]] = {
    "bash_": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    "text_editor_": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
            "path": {"type": "string"},
            "file_text": {"type": "string"},
        },
        "required": ["command", "path"],
    },
}
"""The schemas of tools that Anthropic defines and a client runs, by the beginning of their type."""


def read_request(body: Json) -> ReceivedRequest:
    """The request in this body."""
    form = as_object(member(body, "output_config", "format") or body.get("output_format"))
    choice = as_object(body.get("tool_choice"))
    messages = [{"role": "system", "content": body.get("system")}, *objects(body.get("messages"))]
    return ReceivedRequest(
        api="anthropic-messages",
        model=as_text(body.get("model")),
        streaming=body.get("stream") is True,
        messages=[
            message
            for each in messages
            for role in [as_text(each.get("role"))]
            for message in messages_of(
                "assistant" if role == "assistant" else "system" if role == "system" else "user",
                _read_content(each.get("content")),
            )
        ],
        tools=[
            OfferedTool(name, _schema_of(tool), as_text(tool.get("description")))
            for tool in objects(body.get("tools"))
            if (name := as_text(tool.get("name")))
        ],
        schema=as_object(form.get("schema")) if form else None,
        forced_tool="" if choice.get("type") == "any" else choice.get("name"),
        body=body,
    )


def _schema_of(tool: Json) -> Json:
    kind = as_text(tool.get("type"))
    built_in = next((schema for prefix, schema in BUILT_IN_SCHEMAS.items() if kind.startswith(prefix)), None)
    return as_object(tool.get("input_schema")) or as_object(built_in)


def _read_content(content: object) -> list[ReceivedPart]:
    if isinstance(content, str):
        return [ReceivedText(content)] if content else []
    return [part for block in objects(content) for part in _read_block(block)]


def _read_block(block: Json) -> Iterator[ReceivedPart]:
    match block.get("type"):
        case "text":
            yield ReceivedText(as_text(block.get("text")))
        case "image" | "document" | "audio":
            yield from _read_source(block, as_object(block.get("source")))
        case "tool_use":
            arguments = json.dumps(block.get("input"))
            yield ReceivedCall(as_text(block.get("id")), as_text(block.get("name")), arguments)
        case "tool_result":
            yield ReceivedResult(as_text(block.get("tool_use_id")), _read_content(block.get("content")))
        case _:
            pass


def _read_source(block: Json, source: Json) -> Iterator[ReceivedPart]:
    match source.get("type"):
        case "text":
            yield ReceivedText(as_text(source.get("data")))
        case "content":
            yield from _read_content(source.get("content"))
        case _:
            media_type = as_text(source.get("media_type"))
            kind = "image" if block["type"] == "image" else kind_of(media_type)
            data = as_text(source.get("data") or source.get("url"))
            yield media_part(kind, data, media_type, as_text(block.get("title") or source.get("file_id")))


def write_whole(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Json:
    """The answer in one document."""
    block: Json
    match reply:
        case ChosenCall():
            block = {**_call_head(request, reply), "input": reply.arguments}
        case TextReply():
            block = {"type": "text", "text": reply.text}
    return {**_head(request), "content": [block], "stop_reason": _stop_reason(reply), "usage": USAGE}


def write_events(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Iterator[tuple[str, str]]:
    """The name and the data of each event of a streamed answer."""
    for event in _events(request, reply):
        yield event["type"], json.dumps(event)


def _events(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Iterator[Json]:
    start: Json = {**_head(request), "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    match reply:
        case ChosenCall():
            block: Json = {**_call_head(request, reply), "input": {}}
            deltas = ({"type": "input_json_delta", "partial_json": text} for text in ("", json.dumps(reply.arguments)))
        case TextReply():
            block = {"type": "text", "text": ""}
            deltas = ({"type": "text_delta", "text": word} for word in words_of(reply.text))
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ending = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": USAGE["output_tokens"]}}
    yield {"type": "message_stop"}


def write_error(status: int, message: str) -> Json:
    """The body of an error."""
    kind = ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_accord"}


def _head(request: ReceivedRequest) -> Json:
    head = {"id": f"msg_accord{request.number}", "type": "message", "role": "assistant"}
    return {**head, "model": request.model, "stop_sequence": None}


def _call_head(request: ReceivedRequest, call: ChosenCall) -> Json:
    return {"type": "tool_use", "id": f"toolu_accord{request.number}", "name": call.tool.name}


def _stop_reason(reply: TextReply | ChosenCall) -> str:
    if isinstance(reply, ChosenCall):
        return "tool_use"
    return "refusal" if reply.is_refusal else "end_turn"
