"""What every answer must be for its client, whatever is in it: of the SDK's types, and a stream in the API's order."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

from pydantic import BaseModel

from accord.wire.disposition import Api
from tests.servers.model_apis.answer_samples import members_of
from tests.servers.model_apis.client_view import EVENT, WHOLE, ClientView, Shape, shape_of

Event = dict[str, Any]
CUSTOM: Final = "custom"
"""The type of calls that the API streams, and the SDK's types of chunks do not have."""


def broken_rules(view: ClientView) -> Iterator[str]:
    """What is wrong with an answer that is no error."""
    answer = view.answer
    annotation = EVENT[answer.api] if answer.is_stream else WHOLE[answer.api]
    for number, each in enumerate(answer.objects):
        yield from (f"object {number}{problem}" for problem in type_errors(each, annotation))
    if answer.is_stream:
        yield from {Api.CHAT: _chat_stream, Api.RESPONSES: _responses_stream, Api.MESSAGES: _messages_stream}[
            answer.api
        ](answer.events)


def type_errors(value: Any, annotation: Any, path: str = "") -> Iterator[str]:
    """The members that a type of the SDK requires and this value lacks, and values that it does not have."""
    if isinstance(value, dict):
        yield from _object_errors(cast("dict[str, Any]", value), shape_of(annotation), path)
    elif isinstance(value, list):
        items = shape_of(annotation).items
        for number, each in enumerate(cast("list[Any]", value)):
            yield from type_errors(each, items, f"{path}[{number}]")
    elif value is not None and value != CUSTOM:
        literals = shape_of(annotation).literals
        if literals and value not in literals:
            yield f"{path}: {value!r} is not in {sorted(literals)}"


def _object_errors(members: dict[str, Any], shape: Shape, path: str) -> Iterator[str]:
    name = members.get("type")
    if len(shape.models) > 1 and name not in shape.by_type and name != CUSTOM:
        yield f"{path}: {name!r} is no type of it"
    if (model := shape.model_of(members)) is None:
        return
    names = members_of(model)
    yield from (f"{path}: {name} is missing" for name in _required(model) if name not in members)
    for name, each in members.items():
        if name in names and name != "service_tier":  # whose values are the endpoint's own
            yield from type_errors(each, names[name], f"{path}.{name}")


@cache
def _required(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items() if info.is_required()]


def _chat_stream(events: list[Event]) -> Iterator[str]:
    if len({event["id"] for event in events}) != 1 or len({event["model"] for event in events}) != 1:
        yield "not all chunks have the same id and model"
    chosen = [choice for event in events for choice in event["choices"]]
    if chosen[0]["delta"].get("role") != "assistant":
        yield "the first chunk has no role"
    ends = [number for number, choice in enumerate(chosen) if choice["finish_reason"]]
    if ends != [len(chosen) - 1]:
        yield f"the answer ends with {ends} of {len(chosen)} chunks"
    begun: set[int] = set()
    for choice in chosen:
        calls: list[Event] = choice["delta"].get("tool_calls") or []
        for call in calls:
            if (call["index"] in begun) is bool(call.get("id")):
                yield f"call {call['index']}: its id is not in its first delta, and only there"
            begun.add(call["index"])
    if begun != {*range(len(begun))}:
        yield f"the indexes of the calls are {begun}"


_TEXTS: Final = {
    "output_text": ("text", "content_index"),
    "refusal": ("refusal", "content_index"),
    "reasoning_summary_text": ("text", "summary_index"),
    "reasoning_text": ("text", "content_index"),
    "function_call_arguments": ("arguments", "output_index"),
    "custom_tool_call_input": ("input", "output_index"),
}
"""What comes in deltas: where its `done` event has the whole, and which index tells it apart within its item."""


def _responses_stream(events: list[Event]) -> Iterator[str]:
    if [event.get("sequence_number") for event in events] != [*range(len(events))]:
        yield "the sequence numbers are not in sequence"
    added = [event for event in events if event["type"] == "response.output_item.added"]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    if [event["output_index"] for event in added] != [*range(len(added))]:
        yield f"items begin at {[event['output_index'] for event in added]}"
    items = {event["output_index"]: event["item"] for event in done}
    if [items[index] for index in sorted(items)] != events[-1]["response"]["output"] or len(done) != len(added):
        yield "the items of the events are not those of the response"
    ids = {event["output_index"]: event["item"]["id"] for event in added}
    for event in events:
        if "item_id" in event and event["item_id"] != ids.get(event["output_index"]):
            yield f"{event['type']} is of an item that has not begun"
    yield from _deltas_of_responses(events)


def _deltas_of_responses(events: list[Event]) -> Iterator[str]:
    texts: dict[tuple[str, int, int], str] = {}
    for event in events:
        name, _, step = event["type"].removeprefix("response.").rpartition(".")
        if name in _TEXTS:
            member, index = _TEXTS[name]
            place = name, event["output_index"], event[index]
            if step == "delta":
                texts[place] = texts.get(place, "") + event["delta"]
            elif texts.pop(place, "") != event[member]:
                yield f"{event['type']} has another text than its deltas"
    yield from (f"{place} has no end" for place in texts)


def _messages_stream(events: list[Event]) -> Iterator[str]:
    names = [event["type"] for event in events]
    if [names[0], *names[-2:]] != ["message_start", "message_delta", "message_stop"]:
        yield f"the events are {names}"
    is_open, count = False, 0
    for event in events[1:-2]:
        step = event["type"].removeprefix("content_block_")
        if step not in {"start", "delta", "stop"}:
            yield f"{step} is in the middle"
            continue
        count += step == "start"
        if is_open is (step == "start") or event["index"] != count - 1:
            yield f"{step} of block {event['index']}: {count} have begun, and one is {'open' if is_open else 'not open'}"
        is_open = step != "stop"
    if is_open:
        yield f"block {count - 1} has no end"
