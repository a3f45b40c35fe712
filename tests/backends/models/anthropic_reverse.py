"""The Messages API in reverse, for tests: bodies as work orders, pieces as events."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from accord.backends.anthropic import AnthropicMessages
from accord.backends.anthropic.request import MAX_TOKENS, MEDIA_TYPE
from accord.core.sse import EventDecoder
from accord.wire.conversation import (
    Conversation,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourcePart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, ToolSpec, WorkOrder, WorkPiece
from tests.backends.models.document_parts import part_of_text

OWN_FIELDS = {"model", "max_tokens", "system", "messages", "tools", "stop_sequences", "stream", "thinking"}


def order_of(body: dict[str, Any]) -> WorkOrder:
    """Return the order in this body; results of tools are messages of their own, defaults are left out."""
    messages = [read_message("system", [block]) for block in body.get("system", [])]
    for turn in body["messages"]:
        results = [block for block in turn["content"] if block["type"] == "tool_result"]
        others = [block for block in turn["content"] if block["type"] != "tool_result"]
        messages += [read_message("tool", results)] if results else []
        messages += [read_message(turn["role"], others)] if others else []
    parameters = {name: value for name, value in body.items() if name not in {*OWN_FIELDS, "output_config"}}
    if body["max_tokens"] != MAX_TOKENS:
        parameters["max_tokens"] = body["max_tokens"]
    if mark := mark_in(body):
        parameters["cache_control"] = {name: value for name, value in mark.items() if name != "type"} or True
    return WorkOrder(
        conversation=Conversation(messages=messages),
        tools=[ToolSpec(**tool) for tool in body.get("tools", [])],
        response_schema=body.get("output_config", {}).get("format", {}).get("schema"),
        stop_sequences=body.get("stop_sequences", []),
        stream=body.get("stream", False),
        thinking="thinking" in body,
        parameters=parameters,
    )


def mark_in(body: dict[str, Any]) -> dict[str, Any] | None:
    users = [turn for turn in body["messages"] if turn["role"] == "user"]
    return users[-1]["content"][-1].get("cache_control")


def read_message(role: str, blocks: Iterable[dict[str, Any]]) -> ConversationMessage:
    return ConversationMessage.model_validate({"role": role, "content": [part_of(block) for block in blocks]})


def part_of(block: dict[str, Any]) -> MessagePart:
    match block["type"]:
        case "text":
            return part_of_text(block["text"])
        case "image":
            return ImagePart(media_type=block["source"]["media_type"], data=block["source"]["data"])
        case "document":
            return document_of(block, block["source"])
        case "thinking":
            return ThinkingPart(text=block["thinking"], signature=block["signature"])
        case "redacted_thinking":
            return ThinkingPart(text="", signature=block["data"], redacted=True)
        case "tool_use":
            return ToolUsePart(id=block["id"], name=block["name"], input=block["input"])
        case _:
            content = [part_of(inner) for inner in block.get("content", [])]
            failed = block.get("is_error", False)
            return ToolResultPart(tool_use_id=block["tool_use_id"], content=content, is_error=failed)


def document_of(block: dict[str, Any], source: dict[str, Any]) -> ResourcePart:
    if source["type"] == "base64":
        uri = block.get("title") or block["context"]
        return ResourcePart(uri=uri, media_type=source["media_type"], data=source["data"])
    media_type = block["context"].removeprefix(MEDIA_TYPE) if "context" in block else None
    return ResourcePart(uri=block["title"], media_type=media_type, text=source["data"])


def events_of(pieces: Sequence[AnyPiece]) -> Iterator[dict[str, Any]]:
    """Return the events in which the API would send these pieces, the end last."""
    opened: dict[str, Any]
    usage: dict[str, Any] = {"input_tokens": 3, "output_tokens": 1}
    yield {"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}
    for index, piece in enumerate(pieces):
        match piece:
            case TextPiece():
                opened, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece.text}]
            case ThinkingPiece(redacted=True):
                opened, deltas = {"type": "redacted_thinking", "data": piece.signature}, []
            case ThinkingPiece():
                opened = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": piece.text}]
                deltas += [{"type": "signature_delta", "signature": piece.signature}] if piece.signature else []
            case ToolCallPiece():
                opened = {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
                text = json.dumps(piece.input, ensure_ascii=False)
                deltas = [{"type": "input_json_delta", "partial_json": part} for part in ("", text[:3], text[3:])]
            case WorkPiece():
                raise AssertionError("a model shows no work of its own")
            case EndPiece():
                yield {"type": "message_delta", "delta": {"stop_reason": piece.reason}, "usage": {"output_tokens": 7}}
                yield {"type": "message_stop"}
                return
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}


def written(events: Iterable[dict[str, Any]]) -> bytes:
    """The events as they are sent."""
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events
    ).encode()


def read(chunks: Iterable[bytes]) -> list[AnyPiece]:
    """The pieces of a stream that comes in these chunks and then ends."""
    decoder, reader = EventDecoder(), AnthropicMessages().answer_reader()
    pieces = [piece for chunk in chunks for event in decoder.feed(chunk) for piece in reader.feed(event)]
    return [*pieces, *reader.finish()]
