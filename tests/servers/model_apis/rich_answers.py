"""One answer of each API with much at once: reasoning in blocks, text with a citation, parallel calls, a custom tool.

The streams are written event by event, as the endpoints send them: calls in pieces that interleave, where the API can.
"""

from collections.abc import Mapping
from typing import Any, Final

from accord.wire.disposition import Api
from tests.servers.model_apis.answer_streams import Event, messages_events, numbered, responses_events

THOUGHTS: Final = ("First thought.", "Second thought.")
TEXT: Final = "It ends in May."
URL: Final = "https://source.example/"
CALLS: Final = (("look_up", {"q": "a b"}), ("look_down", {"q": ["c", {"d": 'quoted "e" – ü'}]}))
CUSTOM: Final = "SELECT 1;\n-- not JSON"
REFUSAL: Final = "I will not do that."
_ARGUMENTS: Final = ('{"q": "a b"}', '{"q": ["c", {"d": "quoted \\"e\\" – \\u00fc"}]}')


def chat_chunk(delta: Event, end: str | None = None, **more: Any) -> Event:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}], **more}


def call_delta(index: int, text: str, **more: Any) -> Event:
    name = more.pop("name", None)
    return {"index": index, **more, "function": {**({"name": name} if name else {}), "arguments": text}}


def rich_chat(*, cut: bool = False) -> list[Event]:
    first, second = _ARGUMENTS
    citation = {"type": "url_citation", "url_citation": {"url": URL, "title": "T", "start_index": 0, "end_index": 2}}
    pieces = [
        *({"reasoning_content": thought} for thought in THOUGHTS),
        {"content": TEXT[:7]},
        {"content": TEXT[7:]},
        {"annotations": [citation]},
        {"tool_calls": [call_delta(0, "", id="call_1", type="function", name="look_up")]},
        {"tool_calls": [call_delta(0, first[:4])]},
        {"tool_calls": [call_delta(1, "", id="call_2", type="function", name="look_down")]},
        {"tool_calls": [call_delta(1, second[:9]), call_delta(0, first[4:])]},
    ]
    end = "length" if cut else "tool_calls"
    if not cut:
        custom = {"index": 2, "id": "call_3", "type": "custom", "custom": {"name": "sql", "input": CUSTOM[:6]}}
        pieces += [
            {"tool_calls": [call_delta(1, second[9:])]},
            {"tool_calls": [custom]},
            {"tool_calls": [{"index": 2, "custom": {"input": CUSTOM[6:]}}]},
        ]
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    begun = chat_chunk({"role": "assistant", "content": ""})
    return [begun, *map(chat_chunk, pieces), chat_chunk({}, end), {**chat_chunk({}), "choices": [], "usage": usage}]


def response(output: list[Event], *, status: str = "completed") -> Event:
    usage = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 2}}
    details = {"reason": "max_output_tokens"} if status == "incomplete" else None
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "error": None}
    echo: Event = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**head, **echo, "incomplete_details": details, "output": output, "usage": usage}


def rich_responses(*, cut: bool = False) -> list[Event]:
    reasoning = [
        {
            "type": "reasoning",
            "id": f"rs_{number}",
            "summary": [{"type": "summary_text", "text": thought}],
            "encrypted_content": f"signature-{number}",
        }
        for number, thought in enumerate(THOUGHTS)
    ]
    citation = {"type": "url_citation", "url": URL, "title": "T", "start_index": 0, "end_index": 2}
    content = [{"type": "output_text", "text": TEXT, "annotations": [citation], "logprobs": []}]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    calls = [
        {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name, "arguments": text}
        for number, ((name, _), text) in enumerate(zip(CALLS, _ARGUMENTS, strict=True), 1)
    ]
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_3", "name": "sql", "input": CUSTOM}
    status = "completed"
    if cut:
        status, calls[1]["arguments"] = "incomplete", _ARGUMENTS[1][:9]
    items = [*({**each, "status": "completed"} for each in calls), {**custom, "status": "completed"}]
    if cut:
        items = [items[0], {**items[1], "status": "incomplete"}]
    events = [*responses_events(response([*reasoning, message, *items], status=status))]
    return numbered(_interleaved(events, "fc_1", "fc_2"))


def _interleaved(events: list[Event], one: str, other: str) -> list[Event]:
    """The events with those of one call put between those of the other, as parallel calls come."""
    firsts, seconds = ([event for event in events if _item_of(event) == item_id] for item_id in (one, other))
    start = events.index(firsts[0])
    rest = [event for event in events[start:] if event not in firsts and event not in seconds]
    mixed = [event for pair in zip(firsts, seconds, strict=True) for event in pair]
    return [*events[:start], *mixed, *rest]


def _item_of(event: Event) -> Any:
    return event["item"].get("id") if "item" in event else event.get("item_id")


def rich_messages(*, cut: bool = False) -> list[Event]:
    thinking = [
        {"type": "thinking", "thinking": thought, "signature": f"signature-{number}"}
        for number, thought in enumerate(THOUGHTS)
    ]
    citation = {
        "type": "web_search_result_location",
        "url": URL,
        "title": "T",
        "cited_text": "May",
        "encrypted_index": "e",
    }
    text = {"type": "text", "text": TEXT, "citations": [citation]}
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": value}
        for number, (name, value) in enumerate(CALLS)
    ]
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [*thinking, text, *calls],
        "stop_reason": "max_tokens" if cut else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 5},
    }
    events = [*messages_events(answer)]
    if cut:  # the second half of the last call's input
        last = max(number for number, event in enumerate(events) if event["type"] == "content_block_delta")
        del events[last]
    return events


def rich_gemini(*, cut: bool = False) -> list[Event]:
    chunk = {"title": "T", "uri": URL}
    support = {"segment": {"startIndex": 0, "endIndex": 2, "text": TEXT[:2]}, "groundingChunkIndices": [0]}
    grounding = {"groundingChunks": [{"web": chunk}], "groundingSupports": [support]}
    parts = [
        *({"text": thought, "thought": True} for thought in THOUGHTS),
        {"text": TEXT[:7]},
        {"text": TEXT[7:]},
        *({"functionCall": {"id": name, "name": name, "args": value}} for name, value in CALLS),
    ]
    events: list[Event] = [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}], "modelVersion": "m"}
        for part in parts
    ]
    events[-1]["candidates"][0] |= {"finishReason": "MAX_TOKENS" if cut else "STOP", "groundingMetadata": grounding}
    events[-1]["usageMetadata"] = {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16}
    return events


def refusing(api: Api) -> list[Event]:
    """A stream in which the model declines in words, where the API marks that."""
    if api is Api.CHAT:
        pieces = [{"refusal": REFUSAL[:6]}, {"refusal": REFUSAL[6:]}]
        return [chat_chunk({"role": "assistant", "content": None}), *map(chat_chunk, pieces), chat_chunk({}, "stop")]
    content = [{"type": "refusal", "refusal": REFUSAL}]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    return numbered([*responses_events(response([message]))])


RICH: Final[Mapping[Api, Any]] = {
    Api.CHAT: rich_chat,
    Api.RESPONSES: rich_responses,
    Api.MESSAGES: rich_messages,
    Api.GEMINI: rich_gemini,
}
