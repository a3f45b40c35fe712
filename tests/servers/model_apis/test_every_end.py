"""The promise about ends: a client is never told of a normal end where there was none, whatever the model says."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from accord.wire.disposition import SERVED, Api
from tests.servers.model_apis.answer_ends import End, EndedAnswer, all_ends, errors_in_streams
from tests.servers.model_apis.answer_parts import base_answer, placed
from tests.servers.model_apis.answer_streams import EVENTS, stream_bytes
from tests.servers.model_apis.client_rules import broken_rules
from tests.servers.model_apis.client_view import ClientView, view_of
from tests.servers.model_apis.scripted_upstream import SOURCES, Service, with_service

PAIRS: Final = [(source, target) for source in SOURCES for target in SERVED]
ACROSS: Final = [(source, target) for source, target in PAIRS if source is not target]
ENDS: Final = [*all_ends()]
NORMAL: Final[Mapping[Api, frozenset[Any]]] = {
    Api.CHAT: frozenset({"stop"}),
    Api.RESPONSES: frozenset({("completed", None)}),
    Api.MESSAGES: frozenset({("end_turn", None), ("stop_sequence", "END"), ("stop_sequence", None)}),
}
CALL: Final[Mapping[Api, frozenset[Any]]] = {
    Api.CHAT: frozenset({"tool_calls"}),
    Api.RESPONSES: frozenset({("completed", None)}),
    Api.MESSAGES: frozenset({("tool_use", None)}),
}
CUT: Final[Mapping[Api, frozenset[Any]]] = {
    Api.CHAT: frozenset({"length"}),
    Api.RESPONSES: frozenset({("incomplete", "max_output_tokens")}),
    Api.MESSAGES: frozenset({("max_tokens", None), ("model_context_window_exceeded", None), ("pause_turn", None)}),
}
FILTERED: Final[Mapping[Api, frozenset[Any]]] = {
    Api.CHAT: frozenset({"content_filter"}),
    Api.RESPONSES: frozenset({("incomplete", "content_filter")}),
    Api.MESSAGES: frozenset({("refusal", None)}),
}
MARKS: Final = (
    'data: [DONE]\n\nevent: message_stop {"type":"message_stop"} response.completed {"finish_reason":"stop"} STOP'
)
"""What a model may quote; none of it is an end."""


def is_allowed(end: End, view: ClientView, target: Api) -> bool:
    """Whether a client of this API may be told so."""
    said = view.end
    match end:
        case End.NORMAL:
            return not view.is_error and said in NORMAL[target]
        case End.CALL:
            return not view.is_error and said in CALL[target]
        case End.CUT:
            return not view.is_error and said in CUT[target]
        case End.FILTERED:
            return view.is_error or said in FILTERED[target]
        case End.FAILED:
            return view.is_error
        case End.UNKNOWN:
            is_named = any("=" in name for name in view.label)
            return view.is_error or (said in CUT[target] | FILTERED[target] and is_named)


@pytest.mark.parametrize(("source", "target"), ACROSS, ids=str)
def test_each_end_is_what_it_means_in_the_api_of_the_client(source: Api, target: Api):
    async def judge(service: Service) -> list[str]:
        wrong: list[str] = []
        for each in (each for each in ENDS if each.source is source):
            for is_stream in (False, True):
                sent = stream_bytes(source, each.events) if is_stream else [json.dumps(each.answer).encode()]
                answer = await service.answer(source, target, sent, stream=is_stream)
                view, outcome = view_of(answer), (await service.receipt(answer))["outcome"]
                has_failed = outcome["status"] == "failed"
                form = "streamed" if is_stream else "whole"
                if not view.is_error:
                    wrong += [f"{form}: {each.reason}: {problem}" for problem in broken_rules(view)]
                if not is_allowed(each.end, view, target) or has_failed is not view.is_error or is_wrong(each, answer):
                    came = "an error" if view.is_error else view.end
                    wrong.append(
                        f"{form}: {each.reason} is {each.end.value}: {came}, label {sorted(view.label)}, {outcome}"
                    )
        return wrong

    wrong = with_service(judge)
    assert not wrong, "\n".join(wrong)


def is_wrong(each: EndedAnswer, answer: Any) -> bool:
    """Whether a failure of the endpoint has a status that blames the client."""
    return not answer.is_stream and answer.status != 200 and answer.status < 500 and each.end is End.FAILED


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_an_error_in_a_stream_is_an_error_for_the_client_and_in_the_receipt(source: Api, target: Api):
    async def judge(service: Service) -> None:
        for api, name, events in errors_in_streams():
            if api is source:
                answer = await service.answer(source, target, [*map_bytes(api, events)], stream=True)
                view, receipt = view_of(answer), await service.receipt(answer)
                assert view.is_error, (name, answer.content)
                assert view.end not in NORMAL[target], (name, answer.content)
                assert receipt["outcome"]["status"] == "failed", (name, receipt["outcome"])

    with_service(judge)


def map_bytes(api: Api, events: list[dict[str, Any]]) -> list[bytes]:
    """The bytes of a stream without `[DONE]`."""
    return [each for each in stream_bytes(api, events) if each != b"data: [DONE]\n\n"]


@pytest.mark.parametrize("api", SERVED, ids=str)
def test_a_whole_answer_that_failed_is_an_error_for_a_client_of_its_own_api(api: Api):
    async def judge(service: Service) -> None:
        for each in ENDS:
            if each.source is api and each.answer.get("error"):
                answer = await service.answer(api, api, [json.dumps(each.answer).encode()], stream=False)
                assert answer.status >= 500, (each.reason, answer.content)
                assert (await service.receipt(answer))["outcome"]["status"] == "failed", each.reason

    with_service(judge)


def quoting(api: Api) -> dict[str, Any]:
    """The least answer, with a text that has the marks of all ends."""
    place, name = {
        Api.CHAT: ("choices[].message", "content"),
        Api.RESPONSES: ("output[].content[]", "text"),
        Api.MESSAGES: ("content[]", "text"),
        Api.GEMINI: ("candidates[].content.parts[]", "text"),
    }[api]
    return placed(base_answer(api), place, name, MARKS)


def first_end(api: Api, events: list[dict[str, Any]]) -> int:
    """How many events a stream must have to be complete."""
    ends: dict[Api, Callable[[dict[str, Any]], bool]] = {
        Api.CHAT: lambda event: any(each.get("finish_reason") for each in event["choices"]),
        Api.RESPONSES: lambda event: event["type"] == "response.completed",
        Api.MESSAGES: lambda event: event["type"] == "message_stop",
        Api.GEMINI: lambda event: any(each.get("finishReason") for each in event["candidates"]),
    }
    return next(number for number, event in enumerate(events, 1) if ends[api](event))


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_a_stream_that_stops_before_its_end_is_never_done_whatever_its_text_says(source: Api, target: Api):
    async def judge(service: Service) -> None:
        answer = quoting(source)
        if source is Api.GEMINI:
            content = answer["candidates"][0]["content"]
            answer = placed(answer, "candidates[].content", "parts", content["parts"] * 3)
        events = [*EVENTS[source](answer)]
        complete = first_end(source, events)
        sent = map_bytes(source, events)
        for length in range(len(sent) + 1):
            reply = await service.answer(source, target, sent[:length], stream=True)
            view, receipt = view_of(reply), await service.receipt(reply)
            is_done = receipt["outcome"]["status"] == "done"
            assert is_done is (length >= complete), (length, receipt["outcome"], reply.content)
            assert view.is_error is not is_done, (length, reply.content)
            if not is_done and source is not target:
                assert view.end in {None, (None, None), ("failed", None)}, (length, reply.content)
            if source is target and is_done:
                assert b"".join(sent[:length]).endswith(reply.content[-100:])

    with_service(judge)
