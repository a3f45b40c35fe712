"""The unmodified anthropic package for Python with `accord serve`, on backends of all three APIs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel
from scripts.record_clients.task import CONTENT, GREETING, NOTE, PROMPT

from tests.servers.model_apis.served import BACKENDS, ServedModels

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
HELLO: Any = [{"role": "user", "content": "Hello"}]
ASK: Any = [{"role": "user", "content": PROMPT}]
TOOL: Any = {
    "name": "read_file",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
every_backend = pytest.mark.parametrize("model", BACKENDS)


class City(BaseModel):
    """The form of a structured answer."""

    name: str


@anthropic.beta_tool
def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


@pytest.fixture(scope="module")
def client(served: ServedModels) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.address, api_key="a-key", max_retries=0, timeout=20) as sdk:
        yield sdk


def test_the_models_are_listed(client: anthropic.Anthropic):
    assert {*BACKENDS} <= {model.id for model in client.models.list()}


@every_backend
def test_a_message_is_answered_at_once_and_in_a_stream(client: anthropic.Anthropic, model: str):
    answer = client.messages.create(model=model, max_tokens=64, messages=HELLO)
    assert [(block.type, getattr(block, "text", None)) for block in answer.content] == [("text", GREETING)]
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens
    with client.messages.stream(model=model, max_tokens=64, messages=HELLO) as events:
        assert "".join(events.text_stream) == GREETING
        assert events.get_final_message().stop_reason == "end_turn"


@every_backend
def test_a_structured_answer_is_parsed(client: anthropic.Anthropic, model: str):
    answer = client.messages.parse(model=model, max_tokens=64, messages=HELLO, output_format=City)
    assert answer.parsed_output == City(name="Paris")


@every_backend
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called_and_its_result_answered(
    client: anthropic.Anthropic, served: ServedModels, model: str, *, stream: bool
):
    if stream:
        with client.messages.stream(model=model, max_tokens=64, messages=ASK, tools=[TOOL]) as events:
            called: Any = events.get_final_message()
    else:
        called = client.messages.create(model=model, max_tokens=64, messages=ASK, tools=[TOOL])
    call = called.content[-1]
    assert (called.stop_reason, call.name, call.input) == ("tool_use", "read_file", {"path": str(served.folder / NOTE)})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": CONTENT}
    said = {"role": "assistant", "content": called.content}
    whole: Any = [*ASK, said, {"role": "user", "content": [result]}]
    answer: Any = client.messages.create(model=model, max_tokens=64, messages=whole, tools=[TOOL])
    assert CONTENT in answer.content[0].text


@every_backend
def test_the_tool_runner_of_the_beta_api_does_the_task(client: anthropic.Anthropic, model: str):
    runner = client.beta.messages.tool_runner(model=model, max_tokens=64, messages=ASK, tools=[read_file])
    answer: Any = runner.until_done()
    assert CONTENT in answer.content[0].text


@every_backend
def test_an_image_is_passed_on(client: anthropic.Anthropic, served: ServedModels, model: str):
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content: Any = [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}]
    answer: Any = client.messages.create(model=model, max_tokens=64, messages=[{"role": "user", "content": content}])
    assert answer.content[0].text == GREETING
    assert PIXEL in json.dumps(served.upstream.requests[-1].body)


@every_backend
def test_tokens_are_counted(client: anthropic.Anthropic, model: str):
    assert client.messages.count_tokens(model=model, messages=HELLO, tools=[TOOL]).input_tokens > 0


# What is wrong with the request is passed on in the endpoint's words; what is wrong with the endpoint is Accord's to say.
ERRORS = [
    (400, anthropic.BadRequestError, "Scripted: Bad Request"),
    (429, anthropic.RateLimitError, "takes no more requests"),
]


@every_backend
@pytest.mark.parametrize(("status", "kind", "text"), ERRORS)
def test_an_error_of_the_endpoint_raises_the_class_of_its_status(
    client: anthropic.Anthropic, model: str, status: int, kind: type[anthropic.APIStatusError], text: str
):
    prompt: Any = [{"role": "user", "content": f"Please fail with {status}."}]
    with pytest.raises(kind) as caught:
        client.messages.create(model=model, max_tokens=64, messages=prompt)
    assert caught.value.status_code == status
    assert text in caught.value.message


def test_an_unknown_model_raises_not_found_and_names_it(client: anthropic.Anthropic):
    with pytest.raises(anthropic.NotFoundError, match="no-such-model"):
        client.messages.create(model="no-such-model", max_tokens=64, messages=HELLO)


def test_an_invalid_request_raises_bad_request_and_names_the_field(client: anthropic.Anthropic):
    wrong: Any = [{"role": "nobody", "content": "Hello"}]
    with pytest.raises(anthropic.BadRequestError, match="role"):
        client.messages.create(model="messages", max_tokens=64, messages=wrong)
