"""Malformed answers: a clear error or a faithful pass, and never an answer that looks complete and is not."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

import pytest

from accord.wire.disposition import SERVED, Api
from tests.servers.http.test_broken_answers import BROKEN
from tests.servers.model_apis.answer_parts import TEXT, base_answer, placed
from tests.servers.model_apis.answer_streams import DONE, EVENTS, Event, event_bytes, stream_bytes
from tests.servers.model_apis.client_view import ClientView, view_of
from tests.servers.model_apis.scripted_upstream import (
    ERROR_EVENTS,
    SOURCES,
    ClientAnswer,
    Service,
    with_service,
    without_label,
)

PAIRS: Final = [(source, target) for source in SOURCES for target in SERVED]
ACROSS: Final = [(source, target) for source, target in PAIRS if source is not target]
MANY_BYTES: Final = 10_000_000


class Allowed(Enum):
    """What may become of a stream."""

    ERROR = "an error"
    SAME = "as if it were not there"
    NAMED = "as if it were not there, with a label"
    EITHER = "an error, or as if it were not there"
    KEPT = "an error, or passed on"
    NO_END = "an error, or cut off with a label"


@dataclass(frozen=True, slots=True)
class Case:
    """A stream that is not as its API has it."""

    name: str
    allowed: Allowed
    parts: list[bytes]


def base_events(api: Api) -> list[Event]:
    return [*EVENTS[api](base_answer(api))]


def text_place(events: list[Event]) -> int:
    """The number of the first event with text."""
    return next(number for number, event in enumerate(events) if TEXT[:6] in json.dumps(event))


def with_event(api: Api, name: str, event: Event | bytes, allowed: Allowed) -> Case:
    """The base stream with one more event behind the first text."""
    events = base_events(api)
    parts = stream_bytes(api, events)
    parts.insert(text_place(events) + 1, event if isinstance(event, bytes) else event_bytes(event))
    return Case(name, allowed, parts)


def cases(api: Api) -> Iterator[Case]:
    """The table."""
    events = base_events(api)
    parts, place = stream_bytes(api, events), text_place(events)
    yield Case("CRLF", Allowed.SAME, [each.replace(b"\n", b"\r\n") for each in parts])
    yield Case("no space after the colon", Allowed.SAME, [each.replace(b"data: ", b"data:") for each in parts])
    yield Case("a byte order mark", Allowed.SAME, [b"\xef\xbb\xbf", *parts])
    yield Case("other fields", Allowed.SAME, [b"id: 7\nretry: 10\nzq: 1\n" + each for each in parts])
    yield Case("data in two lines", Allowed.SAME, [each.replace(b'": ', b'":\ndata: ', 1) for each in parts])
    if api is not Api.GEMINI:  # whose end comes with the text
        yield Case("the end twice", Allowed.EITHER, [*parts, parts[-1]])
        yield Case("events after the end", Allowed.EITHER, [*parts, *parts[1:]])
    yield Case("empty data", Allowed.EITHER, [b"data:\n\n", *parts[:2], b"event: zq\ndata:\n\n", *parts[2:]])
    for name, fault in BROKEN.items():
        data = json.dumps(events[place]).replace(TEXT[:6], "Hello").encode()
        if (broken := fault(data)) != data:
            event = b"data: " + broken.replace(b"\n", b"\ndata: ") + b"\n\n"
            yield Case(name, Allowed.ERROR, [*parts[: place + 1], event, *parts[place + 1 :]])
    yield with_event(api, "null", b"data: null\n\n", Allowed.ERROR)
    yield with_event(api, "a number", b"data: 5\n\n", Allowed.ERROR)
    in_words = Allowed.NAMED if api is Api.GEMINI else Allowed.ERROR  # where no event has a name
    yield with_event(api, "an error in words", b'event: error\ndata: {"message": "zq"}\n\n', in_words)
    yield from {
        Api.CHAT: _chat_cases,
        Api.RESPONSES: _responses_cases,
        Api.MESSAGES: _messages_cases,
        Api.GEMINI: _gemini_cases,
    }[api]()


def _chat_cases() -> Iterator[Case]:
    api = Api.CHAT
    events = base_events(api)
    chunk = {name: events[0][name] for name in ("id", "object", "created", "model")}

    def delta(members: Event, **choice: Any) -> Event:
        return {**chunk, "choices": [{"index": 0, "delta": members, "finish_reason": None, **choice}]}

    yield with_event(api, "a chunk without choices", {**chunk, "choices": []}, Allowed.SAME)
    yield with_event(api, "choices that are null", {**chunk, "choices": None}, Allowed.EITHER)
    yield with_event(api, "an unknown kind of chunk", {"object": "zq.new", "zq": "zq"}, Allowed.NAMED)
    yield with_event(api, "an answer that was not requested", delta({"content": "zq"}, index=1), Allowed.NAMED)
    for index in ("0", {"a": 1}, 1.5):
        call = {"index": index, "id": "call_1", "function": {"name": "look_up", "arguments": "{}"}}
        yield with_event(api, f"a call with the index {index!r}", delta({"tool_calls": [call]}), Allowed.ERROR)
    nameless = {"index": 0, "id": "call_1", "function": {"arguments": "{}"}}
    yield with_event(api, "a call without a name", delta({"tool_calls": [nameless]}), Allowed.ERROR)
    broken = {"index": 0, "id": "call_1", "function": {"name": "look_up", "arguments": '{"a": '}}
    yield with_event(api, "a call with half its arguments", delta({"tool_calls": [broken]}), Allowed.ERROR)
    yield with_event(
        api, "an event named as an end", b"event: done\n" + event_bytes(delta({"content": ""})), Allowed.SAME
    )


def _responses_cases() -> Iterator[Case]:
    api, base = Api.RESPONSES, base_answer(Api.RESPONSES)
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look_up", "arguments": '{"a": '}
    yield with_event(api, "an event of an unknown type", {"type": "response.zq_new", "zq": "zq"}, Allowed.NAMED)
    yield with_event(api, "an event without a type", {"zq": "zq"}, Allowed.NAMED)
    delta = {
        "type": "response.output_text.delta",
        "item_id": "zq",
        "output_index": 9,
        "content_index": 9,
        "delta": "zq",
    }
    yield with_event(api, "text for an item that there is not", delta, Allowed.KEPT)
    half = {**base, "output": [*base["output"], {**item, "status": "completed"}]}
    yield Case("a call with half its arguments", Allowed.ERROR, stream_bytes(api, [*EVENTS[api](half)]))
    named = (
        b"event: response.completed\ndata: " + json.dumps({**delta, "delta": "", "output_index": 0}).encode() + b"\n\n"
    )
    events = base_events(api)
    parts = stream_bytes(api, events)
    yield Case("an event named as the end, and nothing after it", Allowed.ERROR, [*parts[:-1], named])
    yield Case("an end without a response", Allowed.ERROR, [*parts[:-1], event_bytes({"type": "response.completed"})])
    other = {"type": "response.completed", "response": {**base, "status": "failed"}}
    yield Case("an end that says failed", Allowed.ERROR, [*parts[:-1], event_bytes(other)])
    other = {"type": "response.completed", "response": {**base, "status": "incomplete"}}
    yield Case("an end that says incomplete", Allowed.NO_END, [*parts[:-1], event_bytes(other)])
    yield with_event(api, "a second beginning", events[0], Allowed.EITHER)
    yield with_event(api, "[DONE] before the end", DONE, Allowed.EITHER)
    yield Case("[DONE] in the place of the end", Allowed.ERROR, [*parts[:-1], DONE])
    yield Case("[DONE] after the end", Allowed.SAME, [*parts, DONE])


def _messages_cases() -> Iterator[Case]:
    api = Api.MESSAGES
    events = base_events(api)
    parts = stream_bytes(api, events)
    yield with_event(api, "an event of an unknown type", {"type": "zq_event", "zq": "zq"}, Allowed.NAMED)
    yield with_event(api, "an event without a type", {"zq": "zq"}, Allowed.NAMED)
    delta = {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "zq"}}
    yield with_event(api, "text for a block that there is not", delta, Allowed.KEPT)
    yield with_event(
        api, "the end of a block that there is not", {"type": "content_block_stop", "index": 7}, Allowed.EITHER
    )
    wrong = {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{"}}
    yield with_event(api, "arguments for a block of text", wrong, Allowed.NAMED)
    begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield with_event(api, "a block that begins twice", begun, Allowed.EITHER)
    yield with_event(api, "a second beginning", events[0], Allowed.EITHER)
    yield Case("no beginning", Allowed.EITHER, parts[1:])
    yield Case("a block that is not ended", Allowed.EITHER, [each for each in parts if b"block_stop" not in each])
    yield Case("no reason for the end", Allowed.NO_END, [each for each in parts if b"message_delta" not in each])
    named = (
        b"event: message_stop\ndata: "
        + json.dumps({**delta, "index": 0, "delta": {"type": "text_delta", "text": ""}}).encode()
    )
    yield Case("an event named as the end, and nothing after it", Allowed.ERROR, [*parts[:-1], named + b"\n\n"])
    call: Event = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}}
    half: list[Event] = [
        {"type": "content_block_start", "index": 1, "content_block": call},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a": '}},
        {"type": "content_block_stop", "index": 1},
    ]
    yield Case("a call with half its arguments", Allowed.ERROR, [*parts[:-2], *map(event_bytes, half), *parts[-2:]])


def _gemini_cases() -> Iterator[Case]:
    api = Api.GEMINI
    [event] = base_events(api)
    begun = placed(placed(event, "candidates[]", "finishReason", None), "candidates[]", "index", 0)
    start, end = (
        event_bytes({**begun, "usageMetadata": None}),
        event_bytes(placed(event, "candidates[].content", "parts", [])),
    )
    yield Case("in two chunks", Allowed.SAME, [start, end])
    yield Case("a chunk without candidates", Allowed.SAME, [event_bytes({"modelVersion": "m"}), start, end])
    yield Case("an unknown chunk", Allowed.NAMED, [start, event_bytes({"zqNew": "zq"}), end])
    other = placed(begun, "candidates[]", "index", 1)
    other = placed(other, "candidates[].content.parts[]", "text", "zq")
    yield Case("an answer that was not requested", Allowed.NAMED, [start, event_bytes(other), end])
    yield Case("candidates that are no list", Allowed.ERROR, [start, event_bytes({"candidates": {"a": 1}}), end])
    nameless = placed(begun, "candidates[].content", "parts", [{"functionCall": {"args": {}}}])
    yield Case("a call without a name", Allowed.ERROR, [start, event_bytes(nameless), end])


def is_allowed(allowed: Allowed, view: ClientView, base: ClientView, outcome: str) -> bool:
    if view.is_error:
        return allowed is not Allowed.SAME and outcome == "failed"
    if outcome != "done" or allowed is Allowed.ERROR:
        return False
    if allowed is Allowed.KEPT:
        return "zq" in view.text
    if allowed is Allowed.NO_END:
        return view.end != base.end and bool(view.label)
    return view.said == base.said and (allowed is not Allowed.NAMED or bool(view.label))


@pytest.mark.parametrize(("source", "target"), ACROSS, ids=str)
def test_a_malformed_stream_is_an_error_or_changes_nothing(source: Api, target: Api):
    async def judge(service: Service) -> list[str]:
        base = view_of(await service.answer(source, target, stream_bytes(source, base_events(source)), stream=True))
        wrong: list[str] = []
        for case in cases(source):
            answer = await service.answer(source, target, case.parts, stream=True)
            view, outcome = view_of(answer), (await service.receipt(answer))["outcome"]
            if not is_allowed(case.allowed, view, base, outcome["status"]) or is_internal(answer):
                came = "an error" if view.is_error else f"{view.said}, label {sorted(view.label)}"
                wrong.append(f"{case.name}: should be {case.allowed.value}: {came}, {outcome}")
        return wrong

    wrong = with_service(judge)
    assert not wrong, "\n".join(wrong)


def is_internal(answer: ClientAnswer) -> bool:
    """Whether Accord itself has failed."""
    return b"internal" in answer.content.lower()


@pytest.mark.parametrize("api", SERVED, ids=str)
def test_a_malformed_stream_passes_unchanged_to_a_client_of_its_own_api_or_is_an_error(api: Api):
    async def judge(service: Service) -> list[str]:
        wrong: list[str] = []
        for case in cases(api):
            answer = await service.answer(api, api, case.parts, stream=True)
            outcome = (await service.receipt(answer))["outcome"]["status"]
            content, sent = without_label(answer.content), b"".join(case.parts)
            is_error = answer.status >= 500 or ERROR_EVENTS[api] in content
            if outcome == "done" and (
                (case.allowed is Allowed.ERROR and case.name in BROKEN) or not ends_like(content, sent)
            ):
                wrong.append(f"{case.name}: done, {content[-200:]!r}")
            elif (outcome != "done" and not (is_error and outcome == "failed")) or (
                case.allowed is Allowed.SAME and outcome != "done"
            ):
                wrong.append(f"{case.name}: {outcome}, {content[-200:]!r}")
        return wrong

    wrong = with_service(judge)
    assert not wrong, "\n".join(wrong)


def ends_like(content: bytes, sent: bytes) -> bool:
    """Whether the client got all that was sent; what comes before the first event may be left out."""
    return sent.endswith(content) and len(sent) - len(content) < 100


OTHER_VALUES: Final[tuple[Any, ...]] = (5, {"zq": 1})


def wrong_types(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every way to give one member that says something a value of another type, with its path."""
    if path and value not in (None, "", [], {}):
        yield from ((f"{path} = {other}", other) for other in OTHER_VALUES if type(other) is not type(value))
    inner: Any = ()
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        inner = enumerate(cast("list[Any]", value))
    for name, each in inner:
        for where, changed in wrong_types(each, f"{path}/{name}"):
            copy = cast("Any", value).copy()
            copy[name] = changed
            yield where, copy


def is_faithful(view: ClientView, base: ClientView, outcome: str) -> bool:
    """Whether this is an error, or the same, or a label says what is missing."""
    if view.is_error:
        return outcome == "failed"
    return outcome == "done" and (view.said == base.said or bool(view.label))


@pytest.mark.parametrize(("source", "target"), ACROSS, ids=str)
def test_a_value_of_a_wrong_type_is_never_lost_without_a_word(source: Api, target: Api):
    async def judge(service: Service) -> list[str]:
        whole, events, wrong = base_answer(source), base_events(source), list[str]()
        base = {
            is_stream: view_of(await service.answer(source, target, parts, stream=is_stream))
            for is_stream, parts in ((False, [json.dumps(whole).encode()]), (True, stream_bytes(source, events)))
        }
        streams = [
            (f"event {number}: {name}", [*events[:number], changed, *events[number + 1 :]])
            for number, event in enumerate(events)
            for name, changed in wrong_types(event)
        ]
        tried = [(name, [json.dumps(changed).encode()], False) for name, changed in wrong_types(whole)]
        tried += [(name, stream_bytes(source, changed), True) for name, changed in streams]
        for name, parts, is_stream in tried:
            answer = await service.answer(source, target, parts, stream=is_stream)
            view, outcome = view_of(answer), (await service.receipt(answer))["outcome"]["status"]
            if not is_faithful(view, base[is_stream], outcome) or is_internal(answer):
                wrong.append(
                    f"{'streamed' if is_stream else 'whole'}: {name}: {outcome}: {view.said}, {base[is_stream].said}"
                )
        return wrong

    wrong = with_service(judge)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("source", "target"), [*ACROSS, (Api.CHAT, Api.CHAT)], ids=str)
def test_an_event_of_10_mb_arrives_whole_or_is_a_clear_error(source: Api, target: Api):
    async def judge(service: Service) -> None:
        long = "zq " * (MANY_BYTES // 3)
        events = json.loads(
            json.dumps(base_events(source)).replace(TEXT, long).replace(TEXT[:6], long).replace(TEXT[6:], "")
        )
        answer = await service.answer(source, target, stream_bytes(source, events), stream=True)
        outcome = (await service.receipt(answer))["outcome"]["status"]
        arrived = answer.content.count(b"zq ")
        if outcome == "done":
            assert arrived >= MANY_BYTES // 3
        else:
            assert outcome == "failed"
            assert b"too long" in answer.content[-3_000:] or b"longer than" in answer.content[-3_000:]

    with_service(judge)
