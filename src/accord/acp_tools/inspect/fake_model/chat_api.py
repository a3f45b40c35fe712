"""OpenAI's chat completions: read a request, write the reply. Pure."""

import json
from collections.abc import Iterator
from typing import Final

from accord.acp_tools.inspect.fake_model.model_request import (
    MessageRole,
    OfferedTool,
    ReceivedCall,
    ReceivedMessage,
    ReceivedPart,
    ReceivedRequest,
    ReceivedResult,
    ReceivedText,
    media_part,
    member,
    messages_of,
    objects,
    words_of,
)
from accord.acp_tools.inspect.fake_model.script import TextReply
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from accord.acp_tools.json_values import Json, as_object, as_text

CREATED: Final = 1_767_225_600
USAGE: Final = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
ROLES: Final[dict[str, MessageRole]] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def read_request(body: Json) -> ReceivedRequest:
    """The request in this body."""
    form = as_object(body.get("response_format"))
    choice = body.get("tool_choice")
    return ReceivedRequest(
        api="openai-chat",
        model=as_text(body.get("model")),
        streaming=body.get("stream") is True,
        messages=[message for each in objects(body.get("messages")) for message in _read_message(each)],
        tools=list(_read_tools(body)),
        schema=as_object(member(form, "json_schema", "schema")) if form.get("type", "text") != "text" else None,
        forced_tool="" if choice == "required" else member(choice, "function", "name"),
        body=body,
    )


def _read_message(message: Json) -> Iterator[ReceivedMessage]:
    role = ROLES.get(as_text(message.get("role")), "user")
    parts = read_content(message.get("content"))
    if role == "tool":
        parts = [ReceivedResult(as_text(message.get("tool_call_id")), parts)]
    calls = [(as_text(call.get("id")), as_object(call.get("function"))) for call in objects(message.get("tool_calls"))]
    if older := as_object(message.get("function_call")):
        calls.append(("", older))
    parts += [
        ReceivedCall(call_id, as_text(each.get("name")), as_text(each.get("arguments"))) for call_id, each in calls
    ]
    yield from messages_of(role, parts)


def read_content(content: object) -> list[ReceivedPart]:
    """The parts of a content of OpenAI's two APIs: text, or a list of parts."""
    if isinstance(content, str):
        return [ReceivedText(content)] if content else []
    return [part for each in objects(content) for part in _read_part(each)]


def _read_part(part: Json) -> Iterator[ReceivedPart]:
    match part.get("type"):
        case "text" | "input_text" | "output_text" | "refusal":
            yield ReceivedText(as_text(part.get("text") or part.get("refusal")))
        case "image_url" | "input_image":
            address = part.get("image_url")
            yield media_part("image", as_text(member(address, "url") or address or part.get("file_id")))
        case "input_audio":
            sound = as_object(part.get("input_audio"))
            yield media_part("audio", as_text(sound.get("data")), f"audio/{as_text(sound.get('format'))}")
        case "file" | "input_file":
            file = as_object(part.get("file")) or part
            source = as_text(file.get("file_data") or file.get("file_url"))
            yield media_part("file", source, uri=as_text(file.get("filename") or file.get("file_id")))
        case _:
            pass


def _read_tools(body: Json) -> Iterator[OfferedTool]:
    for tool in [*objects(body.get("tools")), *({"function": each} for each in objects(body.get("functions")))]:
        function = as_object(tool.get("function"))
        if name := as_text(function.get("name")):
            yield OfferedTool(name, as_object(function.get("parameters")), as_text(function.get("description")))


def write_whole(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Json:
    """The answer in one document."""
    message: Json = {"role": "assistant", "content": None, "refusal": None}
    match reply:
        case ChosenCall():
            message["tool_calls"] = [{"id": _call_id(request), "type": "function", "function": _function(reply)}]
        case TextReply():
            message["content"] = reply.text
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(reply)}
    return {**_head(request, "chat.completion"), "choices": [choice], "usage": USAGE}


def write_events(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Iterator[tuple[str, str]]:
    """The name, which is empty in this API, and the data of each event of a streamed answer."""
    head = _head(request, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> tuple[str, str]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return "", json.dumps({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": None if isinstance(reply, ChosenCall) else ""})
    match reply:
        case ChosenCall():
            function = _function(reply)
            start = {"index": 0, "id": _call_id(request), "type": "function"}
            yield chunk({"tool_calls": [{**start, "function": {**function, "arguments": ""}}]})
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": function["arguments"]}}]})
        case TextReply():
            yield from (chunk({"content": word}) for word in words_of(reply.text))
    yield chunk({}, _finish_reason(reply))
    if member(request.body, "stream_options", "include_usage"):
        yield "", json.dumps({**head, "choices": [], "usage": USAGE})
    yield "", "[DONE]"


def write_error(status: int, message: str) -> Json:
    """The body of an error of OpenAI's two APIs."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _head(request: ReceivedRequest, kind: str) -> Json:
    head = {"id": f"chatcmpl-accord{request.number}", "object": kind, "created": CREATED}
    return {**head, "model": request.model, "system_fingerprint": "fp_accord"}


def _call_id(request: ReceivedRequest) -> str:
    return f"call_accord{request.number}"


def _function(call: ChosenCall) -> Json:
    return {"name": call.tool.name, "arguments": json.dumps(call.arguments)}


def _finish_reason(reply: TextReply | ChosenCall) -> str:
    if isinstance(reply, ChosenCall):
        return "tool_calls"
    # The text of a refusal is content: agents ignore the member `refusal`, which belongs to structured answers.
    return "content_filter" if reply.is_refusal else "stop"
