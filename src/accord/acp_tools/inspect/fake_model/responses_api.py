"""OpenAI's responses: read a request, write the reply. Pure."""

import json
from collections.abc import Iterator
from typing import Final

from accord.acp_tools.inspect.fake_model.chat_api import CREATED, ROLES, read_content
from accord.acp_tools.inspect.fake_model.model_request import (
    OfferedTool,
    ReceivedCall,
    ReceivedMessage,
    ReceivedRequest,
    ReceivedResult,
    ReceivedText,
    member,
    messages_of,
    objects,
    words_of,
)
from accord.acp_tools.inspect.fake_model.script import TextReply
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from accord.acp_tools.json_values import Json, as_object, as_text

ID_PREFIX: Final = "resp_accord"
USAGE: Final = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 110,
}
REPEATED: Final[Json] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
}
"""What a response repeats of its request, which SDKs require, and what it has where the request has nothing."""


def read_request(body: Json) -> ReceivedRequest:
    """The request in this body. The messages of a previous response, if it names one, are not in it."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(objects(given))
    instructions = [ReceivedText(text)] if (text := as_text(body.get("instructions"))) else []
    form, choice = as_object(member(body, "text", "format")), body.get("tool_choice")
    return ReceivedRequest(
        api="openai-responses",
        model=as_text(body.get("model")),
        streaming=body.get("stream") is True,
        messages=[
            *messages_of("system", instructions),
            *(message for item in items for message in _read_item(item)),
        ],
        tools=list(_read_tools([*objects(body.get("tools")), *items])),
        schema=as_object(form.get("schema")) if form.get("type", "text") != "text" else None,
        forced_tool="" if choice == "required" else member(choice, "name"),
        body=body,
    )


def _read_item(item: Json) -> Iterator[ReceivedMessage]:
    kind, call_id = as_text(item.get("type")) or "message", as_text(item.get("call_id"))
    if kind == "message":
        yield from messages_of(ROLES.get(as_text(item.get("role")), "user"), read_content(item.get("content")))
    elif kind.endswith("_output"):
        output = item.get("output")
        # The local shell's output and some others are JSON: their text is what the model gets.
        parts = read_content(output) or [ReceivedText(json.dumps(output))]
        yield ReceivedMessage("tool", [ReceivedResult(call_id, parts)])
    elif kind.endswith("_call"):
        text = as_text(item.get("arguments") or item.get("input")) or json.dumps(item.get("action"))
        yield ReceivedMessage("assistant", [ReceivedCall(call_id, as_text(item.get("name")) or kind, text)])


def _read_tools(offers: list[Json], namespace: str | None = None) -> Iterator[OfferedTool]:
    """The tools that the client runs; Codex groups them in namespaces and in an item of the input."""
    for offer in offers:
        name, description = as_text(offer.get("name")), as_text(offer.get("description"))
        match offer.get("type"):
            case "function" if name:
                schema = as_object(offer.get("parameters"))
                yield OfferedTool(name, schema, description, namespace=namespace)
            case "custom" if name:
                yield OfferedTool(name, {}, description, "custom", namespace)
            case "local_shell":
                yield OfferedTool("local_shell", form="local_shell")
            case "namespace":
                yield from _read_tools(list(objects(offer.get("tools"))), name)
            case "additional_tools":
                yield from _read_tools(list(objects(offer.get("tools"))), namespace)
            case _:
                pass


def write_whole(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Json:
    """The answer in one document."""
    return {**_head(request), "status": "completed", "output": [_item(request, reply)], "usage": USAGE}


def write_events(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Iterator[tuple[str, str]]:
    """The name and the data of each event of a streamed answer."""
    for number, event in enumerate(_events(request, reply)):
        yield event["type"], json.dumps({**event, "sequence_number": number})


def _events(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Iterator[Json]:
    head: Json = {**_head(request), "status": "in_progress", "output": []}
    item = _item(request, reply)
    yield {"type": "response.created", "response": head}
    yield {"type": "response.in_progress", "response": head}
    yield from _call_events(item) if isinstance(reply, ChosenCall) else _text_events(reply, item)
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": write_whole(request, reply)}


def _call_events(item: Json) -> Iterator[Json]:
    kind, name = {
        "function_call": ("response.function_call_arguments", "arguments"),
        "custom_tool_call": ("response.custom_tool_call_input", "input"),
    }.get(item["type"], ("", ""))
    place = {"item_id": item["id"], "output_index": 0}
    opened = {**item, "status": "in_progress", **({name: ""} if name else {})}
    yield {"type": "response.output_item.added", "output_index": 0, "item": opened}
    if kind:
        yield {"type": f"{kind}.delta", **place, "delta": item[name]}
        yield {"type": f"{kind}.done", **place, "name": item["name"], name: item[name]}


def _text_events(reply: TextReply, item: Json) -> Iterator[Json]:
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    whole: Json = item["content"][0]
    name = "refusal" if reply.is_refusal else "text"
    kind = "response.refusal" if reply.is_refusal else "response.output_text"
    more: Json = {} if reply.is_refusal else {"logprobs": []}
    opened: Json = {**item, "content": [], "status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": 0, "item": opened}
    yield {"type": "response.content_part.added", **place, "part": {**whole, name: ""}}
    for word in words_of(reply.text):
        yield {"type": f"{kind}.delta", **place, "delta": word, **more}
    yield {"type": f"{kind}.done", **place, name: reply.text, **more}
    yield {"type": "response.content_part.done", **place, "part": whole}


def _item(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Json:
    if isinstance(reply, TextReply):
        part: Json = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        if reply.is_refusal:
            part = {"type": "refusal", "refusal": reply.text}
        head = {"type": "message", "id": f"msg_accord{request.number}", "role": "assistant", "status": "completed"}
        return {**head, "content": [part]}
    call: Json = {
        "id": f"fc_accord{request.number}",
        "call_id": f"call_accord{request.number}",
        "status": "completed",
    }
    if reply.tool.form == "local_shell":
        action: Json = {"type": "exec", "env": {}, "command": as_object(reply.arguments).get("command")}
        return {**call, "type": "local_shell_call", "action": action}
    call |= {"name": reply.tool.name} | ({"namespace": reply.tool.namespace} if reply.tool.namespace else {})
    if isinstance(reply.arguments, str):
        return {**call, "type": "custom_tool_call", "input": reply.arguments}
    return {**call, "type": "function_call", "arguments": json.dumps(reply.arguments)}


def _head(request: ReceivedRequest) -> Json:
    repeated = {name: request.body.get(name) or value for name, value in REPEATED.items()}
    head = {"id": f"{ID_PREFIX}{request.number}", "object": "response", "created_at": CREATED, "model": request.model}
    return {**repeated, **head, "error": None, "incomplete_details": None}
