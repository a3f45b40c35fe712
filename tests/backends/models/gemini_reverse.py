"""Reads a Gemini request back as the work order, to show that nothing was lost."""

import json
import re
from typing import Any, cast

from accord.backends.gemini.request import FIELDS
from accord.wire.conversation import (
    AudioPart,
    Conversation,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourcePart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.work import ToolSpec, WorkOrder
from tests.backends.models.document_parts import part_of_text

FILE = re.compile(r"<file (\{.*\})/>")
OURS = {"contents", "tools", "systemInstruction", "generationConfig"}


def order_of(body: dict[str, Any]) -> WorkOrder:
    """The order in this body; tool results are messages of their own role."""
    messages = [message for content in body["contents"] for message in [content_message(content)]]
    if "systemInstruction" in body:
        parts = [part_of_text(part["text"]) for part in body["systemInstruction"]["parts"]]
        messages.insert(0, ConversationMessage.model_validate({"role": "system", "content": parts}))
    settings = body.get("generationConfig", {})
    names = {field: name for name, field in FIELDS.items()}
    parameters = {names[field]: value for field, value in settings.items() if field in names}
    return WorkOrder(
        conversation=Conversation(messages=messages),
        tools=[tool(one) for held in body.get("tools", []) for one in held["functionDeclarations"]],
        response_schema=settings.get("responseJsonSchema"),
        json_mode="responseMimeType" in settings and "responseJsonSchema" not in settings,
        stop_sequences=settings.get("stopSequences", []),
        thinking=settings.get("thinkingConfig", {}).get("includeThoughts", False),
        parameters={**parameters, **{name: value for name, value in body.items() if name not in OURS}},
    )


def tool(declared: dict[str, Any]) -> ToolSpec:
    schema = declared.get("parametersJsonSchema", {})
    return ToolSpec(name=declared["name"], description=declared.get("description", ""), input_schema=schema)


def content_message(content: dict[str, Any]) -> ConversationMessage:
    parts = content["parts"]
    role = "assistant" if content["role"] == "model" else "tool" if "functionResponse" in parts[0] else "user"
    return ConversationMessage.model_validate({"role": role, "content": read_parts(parts)})


def read_parts(parts: list[dict[str, Any]]) -> list[MessagePart]:
    read: list[MessagePart] = []
    uri: str | None = None
    for part in parts:
        if (found := FILE.fullmatch(part.get("text", ""))) is not None:
            uri = json.loads(found[1])["uri"]
            continue
        read.append(read_part(part, uri))
        uri = None
    return read


def read_part(part: dict[str, Any], uri: str | None) -> MessagePart:
    signature = part.get("thoughtSignature")
    if "functionCall" in part:
        call = part["functionCall"]
        return ToolUsePart(id=call["id"], name=call["name"], input=call["args"], signature=signature)
    if "functionResponse" in part:
        return result(part["functionResponse"])
    if "inlineData" in part:
        return media(part["inlineData"], uri)
    if part.get("thought"):
        return ThinkingPart(text=part["text"], signature=signature)
    if signature is not None:
        return ThinkingPart(text="", signature=signature, redacted=True)
    return part_of_text(part["text"])


def media(blob: dict[str, str], uri: str | None) -> MessagePart:
    if uri is not None:
        return ResourcePart(uri=uri, media_type=blob["mimeType"], data=blob["data"])
    kind = AudioPart if blob["mimeType"].startswith("audio/") else ImagePart
    return kind(media_type=blob["mimeType"], data=blob["data"])


def result(response_part: dict[str, Any]) -> ToolResultPart:
    ((outcome, value),) = response_part["response"].items()
    blobs = {blob["inlineData"]["displayName"]: blob for blob in response_part.get("parts", [])}
    values = cast("list[Any]", value if isinstance(value, list) else [value])
    parts: list[dict[str, Any]] = [{"text": one} if isinstance(one, str) else blobs[one["$ref"]] for one in values]
    return ToolResultPart(tool_use_id=response_part["id"], content=read_parts(parts), is_error=outcome == "error")
