"""The streaming helpers of both SDKs read the streams of every pair of APIs: they keep a state that one wrong event breaks."""

import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import anthropic
import httpx2
import openai
import pytest

from accord.wire.disposition import SERVED, Api
from tests.servers.model_apis.answer_parts import base_answer, placed
from tests.servers.model_apis.answer_streams import EVENTS, Event, halves, stream_bytes
from tests.servers.model_apis.client_rules import broken_rules
from tests.servers.model_apis.client_view import view_of
from tests.servers.model_apis.rich_answers import CALLS, CUSTOM, REFUSAL, RICH, TEXT, THOUGHTS, URL, refusing
from tests.servers.model_apis.scripted_upstream import EVENT_STREAM, SOURCES, ClientAnswer, Service, with_service

PAIRS: Final = [(source, target) for source in SOURCES for target in SERVED]
HELLO: Final[Any] = [{"role": "user", "content": "hi"}]
HAS_CUSTOM: Final = frozenset({Api.CHAT, Api.RESPONSES})


@dataclass(slots=True)
class HelpedAnswer:
    """What a helper has put together."""

    text: str = ""
    final_text: str = ""
    """The text of the items of a response, which is that of its events."""
    refusal: str = ""
    thoughts: list[str] = field(default_factory=list[str])
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    urls: list[str] = field(default_factory=list[str])
    end: Any = None


async def read_chat(client: openai.AsyncOpenAI, model: str) -> HelpedAnswer:
    answer = HelpedAnswer()
    options: Any = {"include_usage": True}
    async with client.chat.completions.stream(model=model, messages=HELLO, stream_options=options) as events:
        async for event in events:
            if event.type == "chunk" and event.chunk.choices:
                delta: Any = event.chunk.choices[0].delta
                answer.thoughts += filter(None, [getattr(delta, "reasoning_content", None)])
        choice: Any = events.current_completion_snapshot.choices[
            0
        ]  # the final one is not for answers that were cut off
    message = choice.message
    answer.text, answer.refusal, answer.end = message.content or "", message.refusal or "", choice.finish_reason
    calls: list[Any] = message.tool_calls or []
    for call in calls:
        if call.type == "custom":
            [custom] = as_dicts([call.custom])
            answer.calls.append((custom["name"], custom["input"]))
        else:
            answer.calls.append((call.function.name, read_arguments(call.function.arguments)))
    answer.urls = [each["url_citation"]["url"] for each in as_dicts(message.annotations)]
    return answer


def as_dicts(items: Any) -> list[dict[str, Any]]:
    objects: list[Any] = items or []
    return [each if isinstance(each, dict) else each.model_dump() for each in objects]


def read_arguments(text: str) -> Any:
    """The arguments of a call; those that were cut off, as text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


async def read_responses(client: openai.AsyncOpenAI, model: str) -> HelpedAnswer:
    answer = HelpedAnswer()
    response: Any = None
    deltas: dict[str, str] = {}
    async with client.responses.stream(model=model, input="hi", store=False) as events:
        async for event in events:
            if event.type == "response.output_text.delta":
                answer.text += event.delta
            elif event.type == "response.function_call_arguments.delta":
                deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
            elif event.type == "response.completed" or event.type == "response.incomplete":  # noqa: PLR1714 - narrows
                response = event.response
    assert response
    for item in response.output:
        if item.type == "function_call":
            assert deltas.get(item.id or "", item.arguments) == item.arguments
        add_item(answer, item)
    assert answer.final_text == answer.text
    details = response.incomplete_details
    answer.end = response.status, details.reason if details else None
    return answer


def add_item(answer: HelpedAnswer, item: Any) -> None:
    if item.type == "message":
        answer.final_text += "".join(part.text for part in item.content if part.type == "output_text")
        answer.refusal += "".join(part.refusal for part in item.content if part.type == "refusal")
        cited = [each for part in item.content if part.type == "output_text" for each in part.annotations]
        answer.urls += [each.url for each in cited]
    elif item.type == "reasoning":
        answer.thoughts += [part.text for part in item.summary]
    elif item.type == "function_call":
        answer.calls.append((item.name, read_arguments(item.arguments)))
    elif item.type == "custom_tool_call":
        answer.calls.append((item.name, item.input))


async def read_messages(client: anthropic.AsyncAnthropic, model: str) -> HelpedAnswer:
    answer = HelpedAnswer()
    async with client.messages.stream(model=model, max_tokens=64, messages=HELLO) as events:
        async for _ in events:
            pass
        message = await events.get_final_message()
    for block in message.content:
        if block.type == "text":
            answer.text += block.text
            answer.urls += [each["url"] for each in as_dicts(block.citations)]
        elif block.type == "thinking":
            answer.thoughts.append(block.thinking)
        elif block.type == "tool_use":
            answer.calls.append((block.name, block.input))
    answer.end = message.stop_reason
    return answer


async def read(service: Service, source: Api, target: Api, events: list[Event]) -> HelpedAnswer:
    """What the helper of the client's SDK makes of this stream of an endpoint."""
    service.upstream.parts, service.upstream.content_type = stream_bytes(source, events), EVENT_STREAM
    address = "http://localhost"
    async with AsyncExitStack() as stack:
        transport: Any = httpx2.ASGITransport(service.application)
        http: Any = await stack.enter_async_context(httpx2.AsyncClient(transport=transport))
        if target is Api.MESSAGES:
            claude = anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=0, http_client=http)
            return await read_messages(claude, source.value)
        client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http)
        reader = read_chat if target is Api.CHAT else read_responses
        return await reader(client, source.value)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_a_helper_reads_everything_that_a_rich_answer_has(source: Api, target: Api):
    answer = with_service(lambda service: read(service, source, target, RICH[source]()))
    assert answer.text == TEXT
    assert "".join(answer.thoughts) == "".join(THOUGHTS)
    if source in {Api.RESPONSES, Api.MESSAGES} and target is not Api.CHAT:
        assert answer.thoughts == [*THOUGHTS]  # two blocks, each signed
    custom: Any = {"input": CUSTOM} if target is Api.MESSAGES else CUSTOM
    assert answer.calls == [*CALLS, *([("sql", custom)] if source in HAS_CUSTOM else [])]
    assert answer.urls == [URL]
    assert answer.end == {Api.CHAT: "tool_calls", Api.RESPONSES: ("completed", None), Api.MESSAGES: "tool_use"}[target]


@pytest.mark.parametrize(("source", "target"), [pair for pair in PAIRS if Api.GEMINI not in pair], ids=str)
def test_a_call_that_was_cut_off_ends_the_answer_as_cut_off(source: Api, target: Api):
    answer = with_service(lambda service: read(service, source, target, RICH[source](cut=True)))
    assert answer.text == TEXT
    assert answer.calls[0] == CALLS[0]
    assert [name for name, _ in answer.calls[1:]] == [CALLS[1][0]]
    ends = {Api.CHAT: "length", Api.RESPONSES: ("incomplete", "max_output_tokens"), Api.MESSAGES: "max_tokens"}
    assert answer.end == ends[target]


@pytest.mark.parametrize("target", SERVED, ids=str)
@pytest.mark.parametrize("source", [Api.CHAT, Api.RESPONSES], ids=str)
def test_a_refusal_is_one_in_the_api_of_the_client(source: Api, target: Api):
    answer = with_service(lambda service: read(service, source, target, refusing(source)))
    if target is Api.MESSAGES:
        assert (answer.text, answer.end) == (REFUSAL, "refusal")
    else:
        end = "stop" if target is Api.CHAT else ("completed", None)
        assert (answer.text, answer.refusal, answer.end) == ("", REFUSAL, end)


def argument_deltas(answer: ClientAnswer) -> list[str]:
    """The pieces in which the arguments of calls come to a client."""
    pieces: list[str | None] = []
    for event in answer.events:
        match event:
            case {"choices": [{"delta": {"tool_calls": [*calls]}}, *_]}:
                pieces += [call["function"]["arguments"] for call in calls]
            case {"type": "response.function_call_arguments.delta", "delta": text}:
                pieces.append(text)
            case {"delta": {"type": "input_json_delta", "partial_json": text}}:
                pieces.append(text)
            case _:
                pass
    return [piece for piece in pieces if piece]


@pytest.mark.parametrize(("source", "target"), [pair for pair in PAIRS if pair[0] is not pair[1]], ids=str)
def test_the_events_of_a_rich_answer_follow_the_rules_of_the_api(source: Api, target: Api):
    streams = {"whole": RICH[source](), "cut off": RICH[source](cut=True)}
    if source in HAS_CUSTOM:
        streams["refused"] = refusing(source)

    async def judge(service: Service) -> dict[str, list[str]]:
        answers = {
            name: await service.answer(source, target, stream_bytes(source, events), stream=True)
            for name, events in streams.items()
        }
        return {name: [*broken_rules(view_of(answer))] for name, answer in answers.items()}

    assert with_service(judge) == {name: [] for name in streams}


CALL: Final = {"name": "look_up", "arguments": '{"first": "a b", "second": [1, {"c": "d"}]}'}


def one_call(api: Api) -> list[Event]:
    """The events of an answer that is one call, whose arguments come in two pieces."""
    answer = base_answer(api)
    match api:
        case Api.CHAT:
            calls = [{"id": "call_1", "type": "function", "function": CALL}]
            answer = placed(answer, "choices[].message", "tool_calls", calls)
        case Api.RESPONSES:
            item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed", **CALL}
            answer["output"] = [item]
        case _:
            call = {"type": "tool_use", "id": "toolu_1", "name": CALL["name"], "input": json.loads(CALL["arguments"])}
            answer |= {"content": [call], "stop_reason": "tool_use"}
    return [*EVENTS[api](answer)]


@pytest.mark.parametrize(("source", "target"), [pair for pair in PAIRS if Api.GEMINI not in pair], ids=str)
def test_arguments_of_a_call_come_as_they_arrive_and_none_of_them_twice(source: Api, target: Api):
    first, second = halves(CALL["arguments"])
    parts = stream_bytes(source, one_call(source))
    so_far = next(number for number, part in enumerate(parts) if json.dumps(second).encode() in part)

    async def receive(service: Service) -> list[str]:
        answers = [await service.answer(source, target, sent, stream=True) for sent in (parts[:so_far], parts)]
        return ["".join(argument_deltas(answer)) for answer in answers]

    assert with_service(receive) == [first, first + second]
