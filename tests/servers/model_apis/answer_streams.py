"""A whole answer of each API as the stream in which its endpoint would send it: events, and their bytes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from accord.wire.disposition import Api

DONE: Final = b"data: [DONE]\n\n"
Event = dict[str, Any]
_ARGUMENTS: Final = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
    "mcp_call": ("arguments", "mcp_call_arguments"),
}
"""What of these items comes in deltas: the member, and the name of its events."""


def without(members: Mapping[str, Any], *names: str) -> Event:
    return {name: value for name, value in members.items() if name not in names}


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def chat_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """What stands beside the text in the whole answer comes with the text."""
    choice = answer["choices"][0]
    message: Event = choice.get("message") or {}
    head = {**without(answer, "choices", "usage"), "object": "chat.completion.chunk"}
    plain = {name: head[name] for name in ("id", "object", "created", "model") if name in head}

    def chunk(members: Mapping[str, Any], delta: Event, end: Any = None, **more: Any) -> Event:
        return {**members, "choices": [{"index": choice.get("index", 0), "delta": delta, **more, "finish_reason": end}]}

    yield chunk(plain, {"role": "assistant", "content": ""})
    logprobs = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
    content = message.get("content")
    yield chunk(head, {"content": content} if content else {}, **logprobs)
    rest = {name: value for name, value in without(message, "role", "content").items() if value is not None}
    calls = rest.pop("tool_calls", [])
    if rest:
        yield chunk(plain, rest)
    for number, call in enumerate(calls):
        yield from (chunk(plain, {"tool_calls": [delta]}) for delta in _call_deltas(call, number))
    yield chunk(
        plain, {}, choice.get("finish_reason"), **without(choice, "index", "message", "logprobs", "finish_reason")
    )
    if answer.get("usage"):
        yield {**plain, "choices": [], "usage": answer["usage"]}


def _call_deltas(call: Mapping[str, Any], number: int) -> Iterator[Event]:
    body, text = ("custom", "input") if "custom" in call else ("function", "arguments")
    whole = call[body].get(text) or ""
    yield {"index": number, **call, body: {**call[body], text: ""}}
    for half in halves(whole):
        yield {"index": number, body: {text: half}}


def responses_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """Events without their numbers, which `numbered` adds."""
    begun: Event = {**answer, "output": [], "status": "in_progress", "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for number, item in enumerate(answer["output"]):
        for event in _item_events(item):
            yield {**event, "output_index": number}
    kind = answer["status"] if answer["status"] in {"completed", "incomplete", "failed"} else "completed"
    yield {"type": f"response.{kind}", "response": dict(answer)}


def _item_events(item: Mapping[str, Any]) -> Iterator[Event]:
    place, kind = {"item_id": item.get("id")}, item["type"]
    empty: Event = {"status": "in_progress"} if "status" in item else {}
    inner: Iterator[Event] = iter(())
    if kind == "message":
        empty["content"] = []
        parts = enumerate(item["content"])
        inner = ({**event, "content_index": number} for number, part in parts for event in _part_events(part))
    elif kind == "reasoning":
        empty |= {name: [] for name in ("summary", "content") if name in item}
        inner = _reasoning_events(item)
    elif kind in _ARGUMENTS:
        empty[_ARGUMENTS[kind][0]] = ""
        inner = _argument_events(item)
    yield {"type": "response.output_item.added", "item": {**item, **empty}}
    yield from ({**event, **place} for event in inner)
    yield {"type": "response.output_item.done", "item": dict(item)}


def _argument_events(item: Mapping[str, Any]) -> Iterator[Event]:
    member, name = _ARGUMENTS[item["type"]]
    text = item.get(member) or ""
    yield from ({"type": f"response.{name}.delta", "delta": half} for half in halves(text))
    yield {"type": f"response.{name}.done", member: text}


def _part_events(part: Mapping[str, Any]) -> Iterator[Event]:
    match part["type"]:
        case "output_text":
            yield {"type": "response.content_part.added", "part": {**part, "text": "", "annotations": []}}
            logprobs: list[Event] = part.get("logprobs") or []
            for half in halves(part["text"]):
                yield {"type": "response.output_text.delta", "delta": half, "logprobs": logprobs}
                logprobs = []
            for number, annotation in enumerate(part.get("annotations") or []):
                yield {
                    "type": "response.output_text.annotation.added",
                    "annotation_index": number,
                    "annotation": annotation,
                }
            yield {
                "type": "response.output_text.done",
                "text": part["text"],
                "logprobs": part.get("logprobs") or [],
            }
        case "refusal":
            yield {"type": "response.content_part.added", "part": {**part, "refusal": ""}}
            for half in halves(part["refusal"]):
                yield {"type": "response.refusal.delta", "delta": half}
            yield {"type": "response.refusal.done", "refusal": part["refusal"]}
        case _:
            yield {"type": "response.content_part.added", "part": dict(part)}
    yield {"type": "response.content_part.done", "part": dict(part)}


def _reasoning_events(item: Mapping[str, Any]) -> Iterator[Event]:
    for number, part in enumerate(item.get("summary") or []):
        at, name = {"summary_index": number}, "response.reasoning_summary"
        yield {"type": f"{name}_part.added", "part": {**part, "text": ""}, **at}
        for half in halves(part["text"]):
            yield {"type": f"{name}_text.delta", "delta": half, **at}
        yield {"type": f"{name}_text.done", "text": part["text"], **at}
        yield {"type": f"{name}_part.done", "part": part, **at}
    for number, part in enumerate(item.get("content") or []):
        at, name = {"content_index": number}, "response.reasoning_text"
        yield {"type": "response.content_part.added", "part": {**part, "text": ""}, **at}
        for half in halves(part["text"]):
            yield {"type": f"{name}.delta", "delta": half, **at}
        yield {"type": f"{name}.done", "text": part["text"], **at}
        yield {"type": "response.content_part.done", "part": part, **at}


def numbered(events: Sequence[Event]) -> list[Event]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def messages_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """What the end of a message says comes in its last event but one, as far as the API has it there."""
    started: Event = {**answer, "content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    started = without(started, "container", "context_management", "input_transformations")
    yield {"type": "message_start", "message": {**started, "usage": {**answer["usage"], "output_tokens": 1}}}
    for number, block in enumerate(answer["content"]):
        for event in _block_events(block):
            yield {**event, "index": number}
    delta = {
        name: answer[name] for name in ("stop_reason", "stop_sequence", "stop_details", "container") if name in answer
    }
    beside = {name: answer[name] for name in ("context_management", "input_transformations") if name in answer}
    yield {"type": "message_delta", "delta": delta, "usage": answer["usage"], **beside}
    yield {"type": "message_stop"}


def _block_events(block: Mapping[str, Any]) -> Iterator[Event]:
    deltas: list[Event] = []
    begun: Event = dict(block)
    match block["type"]:
        case "text":
            citations: list[Event] = block.get("citations") or []
            begun = {**block, "text": "", **({"citations": []} if citations else {})}
            deltas = [{"type": "text_delta", "text": half} for half in halves(block["text"])]
            deltas += [{"type": "citations_delta", "citation": each} for each in citations]
        case "thinking":
            begun = {**block, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": half} for half in halves(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            begun = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves(json.dumps(block["input"]))]
        case _:
            pass
    yield {"type": "content_block_start", "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "delta": delta}
    yield {"type": "content_block_stop"}


def gemini_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """Each part alone; with the last one, everything else."""
    if not answer.get("candidates"):
        yield dict(answer)
        return
    candidate = answer["candidates"][0]
    content: Event = candidate.get("content") or {}
    parts: list[Event] = content.get("parts") or []
    head = {name: answer[name] for name in ("modelVersion", "responseId") if name in answer}
    for part in parts[:-1]:
        yield {**head, "candidates": [{"index": 0, "content": {**content, "parts": [part]}}]}
    if parts:
        candidate = {**candidate, "content": {**content, "parts": parts[-1:]}}
    yield {**answer, "candidates": [candidate]}


EVENTS: Final[Mapping[Api, Callable[[Mapping[str, Any]], Iterator[Event]]]] = {
    Api.CHAT: chat_events,
    Api.RESPONSES: lambda answer: iter(numbered([*responses_events(answer)])),
    Api.MESSAGES: messages_events,
    Api.GEMINI: gemini_events,
}


def event_bytes(event: Mapping[str, Any]) -> bytes:
    name = event.get("type")
    return (f"event: {name}\n".encode() if isinstance(name, str) else b"") + b"data: %b\n\n" % json.dumps(
        event
    ).encode()


def stream_bytes(api: Api, events: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """The bytes of a complete stream, event by event."""
    return [*map(event_bytes, events), *([DONE] if api is Api.CHAT else [])]
