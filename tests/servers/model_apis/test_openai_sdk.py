"""The unmodified openai package for Python with `accord serve`: both of its APIs, on backends of all three."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from scripts.record_clients.task import CONTENT, GREETING, NOTE, PROMPT

from tests.servers.model_apis.served import BACKENDS, ServedModels

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
HELLO: Any = [{"role": "user", "content": "Hello"}]
ASK: Any = [{"role": "user", "content": PROMPT}]
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "read_file", "parameters": PARAMETERS}}
RESPONSES_TOOL: Any = {"type": "function", "name": "read_file", "parameters": PARAMETERS, "strict": False}
every_backend = pytest.mark.parametrize("model", BACKENDS)


class City(BaseModel):
    """The form of a structured answer."""

    name: str


@pytest.fixture(scope="module")
def client(served: ServedModels) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.address}/v1", api_key="a-key", max_retries=0, timeout=20) as sdk:
        yield sdk


def test_the_models_are_listed(client: openai.OpenAI):
    assert {*BACKENDS} <= {model.id for model in client.models.list()}


@every_backend
def test_chat_answers_at_once_and_in_a_stream(client: openai.OpenAI, model: str):
    answer = client.chat.completions.create(model=model, messages=HELLO)
    assert answer.choices[0].message.content == GREETING
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage
    chunks = client.chat.completions.create(
        model=model, messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    deltas = [*chunks]
    assert "".join(each.choices[0].delta.content or "" for each in deltas if each.choices) == GREETING
    assert deltas[-1].usage


@every_backend
def test_chat_parses_a_structured_answer(client: openai.OpenAI, model: str):
    answer = client.chat.completions.parse(model=model, messages=HELLO, response_format=City)
    assert answer.choices[0].message.parsed == City(name="Paris")


@every_backend
@pytest.mark.parametrize("stream", [False, True])
def test_chat_calls_a_tool_and_answers_with_its_result(
    client: openai.OpenAI, served: ServedModels, model: str, *, stream: bool
):
    if stream:
        with client.chat.completions.stream(model=model, messages=ASK, tools=[CHAT_TOOL]) as events:
            for _ in events:
                pass
            message: Any = events.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(model=model, messages=ASK, tools=[CHAT_TOOL]).choices[0].message
    call = message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("read_file", {"path": path_of_note(served)})
    said = {"role": "assistant", "tool_calls": [call.model_dump(include={"id", "type", "function"})]}
    whole: Any = [*ASK, said, {"role": "tool", "tool_call_id": call.id, "content": CONTENT}]
    answer = client.chat.completions.create(model=model, messages=whole, tools=[CHAT_TOOL])
    assert CONTENT in (answer.choices[0].message.content or "")


@every_backend
def test_chat_passes_an_image_on(client: openai.OpenAI, served: ServedModels, model: str):
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    content: Any = [{"type": "text", "text": "What is this?"}, image]
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}])
    assert answer.choices[0].message.content == GREETING
    assert PIXEL in json.dumps(served.upstream.requests[-1].body)


@every_backend
def test_responses_answer_at_once_and_in_a_stream(client: openai.OpenAI, model: str):
    answer = client.responses.create(model=model, input="Hello")
    assert (answer.output_text, answer.status) == (GREETING, "completed")
    assert answer.usage
    with client.responses.stream(model=model, input="Hello") as events:
        texts = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert "".join(texts) == GREETING
        assert events.get_final_response().output_text == GREETING


@every_backend
def test_responses_parse_a_structured_answer(client: openai.OpenAI, model: str):
    assert client.responses.parse(model=model, input="A city?", text_format=City).output_parsed == City(name="Paris")


@every_backend
@pytest.mark.parametrize("stream", [False, True])
def test_responses_call_a_tool_and_answer_with_its_result(
    client: openai.OpenAI, served: ServedModels, model: str, *, stream: bool
):
    if stream:
        with client.responses.stream(model=model, input=ASK, tools=[RESPONSES_TOOL]) as events:
            called: Any = events.get_final_response()
    else:
        called = client.responses.create(model=model, input=ASK, tools=[RESPONSES_TOOL])
    call = called.output[-1]
    assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": path_of_note(served)})
    result = {"type": "function_call_output", "call_id": call.call_id, "output": CONTENT}
    whole: Any = [*ASK, call.model_dump(exclude={"parsed_arguments"}, exclude_none=True), result]
    assert CONTENT in client.responses.create(model=model, input=whole, tools=[RESPONSES_TOOL]).output_text


@every_backend
def test_a_response_is_continued_by_its_id(client: openai.OpenAI, model: str):
    called: Any = client.responses.create(model=model, input=ASK, tools=[RESPONSES_TOOL])
    result: Any = {"type": "function_call_output", "call_id": called.output[-1].call_id, "output": CONTENT}
    answer = client.responses.create(
        model=model, input=[result], previous_response_id=called.id, tools=[RESPONSES_TOOL]
    )
    assert CONTENT in answer.output_text


@every_backend
def test_responses_pass_an_image_on(client: openai.OpenAI, served: ServedModels, model: str):
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    content: Any = [{"type": "input_text", "text": "What is this?"}, image]
    assert client.responses.create(model=model, input=[{"role": "user", "content": content}]).output_text == GREETING
    assert PIXEL in json.dumps(served.upstream.requests[-1].body)


# What is wrong with the request is passed on in the endpoint's words; what is wrong with the endpoint is Accord's to say.
ERRORS = [
    (400, openai.BadRequestError, "Scripted: Bad Request"),
    (429, openai.RateLimitError, "takes no more requests"),
]


@every_backend
@pytest.mark.parametrize(("status", "kind", "text"), ERRORS)
def test_an_error_of_the_endpoint_raises_the_class_of_its_status(
    client: openai.OpenAI, model: str, status: int, kind: type[openai.APIStatusError], text: str
):
    prompt = f"Please fail with {status}."
    with pytest.raises(kind) as chat:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": prompt}])
    with pytest.raises(kind) as responses:
        client.responses.create(model=model, input=prompt)
    for caught in (chat, responses):
        assert caught.value.status_code == status
        assert text in caught.value.message


def test_an_unknown_model_raises_not_found_and_names_it(client: openai.OpenAI):
    with pytest.raises(openai.NotFoundError) as chat:
        client.chat.completions.create(model="no-such-model", messages=HELLO)
    with pytest.raises(openai.NotFoundError) as responses:
        client.responses.create(model="no-such-model", input="Hello")
    for caught in (chat, responses):
        assert "no-such-model" in caught.value.message


def test_an_invalid_request_raises_bad_request_and_names_the_field(client: openai.OpenAI):
    wrong: Any = [{"role": "nobody", "content": "Hello"}]
    with pytest.raises(openai.BadRequestError, match="role"):
        client.chat.completions.create(model="chat", messages=wrong)


def path_of_note(served: ServedModels) -> str:
    return str(served.folder / NOTE)
