"""The fake model over HTTP: every endpoint with the SDKs of the vendors and our own clients, and whatever else comes."""

import asyncio
import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from io import BytesIO
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from accord.acp_tools.inspect.fake_model import AnswerState
from accord.acp_tools.inspect.fake_model.script import PLAIN, REFUSAL
from accord.acp_tools.inspect.fake_model.server import MAX_BODY_BYTES, FakeModel
from accord.wire.conversation import Conversation
from accord.wire.work import TextPiece, WorkOrder
from tests.backends.models.simulator import SPOKEN, simulated
from tests.laws import examples

MODEL = "gpt-4o"
SCHEMA: Any = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}
RESPONSES_TOOL: Any = {"type": "function", "name": "read_file", "parameters": SCHEMA, "strict": False}
MESSAGES_TOOL: Any = {"name": "read_file", "input_schema": SCHEMA}
GEMINI_TOOL: Any = {"functionDeclarations": [{"name": "read_file", "parametersJsonSchema": SCHEMA}]}
ARGUMENTS = {"path": "/a"}
READ = "accord:read /a"
RETURNED = "The tool returned: heliotrope\nok"


ORDER = WorkOrder(
    conversation=Conversation.model_validate(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}
    )
)


class City(BaseModel):
    """The form of a structured answer."""

    name: str


def with_model(test: Callable[[FakeModel], Awaitable[None]]) -> Callable[[], None]:
    """A test that has a fake model, and at most 30 seconds."""

    async def bounded() -> None:
        async with FakeModel() as model:
            await asyncio.wait_for(test(model), 30)

    @wraps(test)
    def started() -> None:
        asyncio.run(bounded())

    del started.__wrapped__  # pytest would take the parameter for a fixture
    return started


def openai_client(model: FakeModel, base: str = "/v1") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=model.url + base, api_key="k", max_retries=0, timeout=20)


def anthropic_client(model: FakeModel) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=model.url, api_key="k", max_retries=0, timeout=20)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


@with_model
async def test_chat_completions(model: FakeModel):
    for base in ("/v1", "", "/openai/deployments/x"):
        async with openai_client(model, base) as client:
            answer = await client.chat.completions.create(model=MODEL, messages=[user("Hello")])
            assert answer.choices[0].message.content == PLAIN
            assert answer.usage
    async with openai_client(model) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=[user("Hello")], stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == PLAIN
        assert len(chunks) > 5
        assert chunks[-1].usage
        parsed = await client.chat.completions.parse(model=MODEL, messages=[user("Hello")], response_format=City)
        assert parsed.choices[0].message.parsed == City(name="ok")
        refused = await client.chat.completions.create(model=MODEL, messages=[user("accord:refuse")])
        assert (refused.choices[0].finish_reason, refused.choices[0].message.content) == ("content_filter", REFUSAL)


@with_model
async def test_chat_calls_a_tool_and_reads_its_result(model: FakeModel):
    async with openai_client(model) as client:
        for streamed in (False, True):
            if streamed:
                async with client.chat.completions.stream(
                    model=MODEL, messages=[user(READ)], tools=[CHAT_TOOL]
                ) as events:
                    message: Any = (await events.get_final_completion()).choices[0].message
            else:
                answer = await client.chat.completions.create(model=MODEL, messages=[user(READ)], tools=[CHAT_TOOL])
                message = answer.choices[0].message
            (call,) = message.tool_calls
            assert (call.function.name, json.loads(call.function.arguments)) == ("read_file", ARGUMENTS)
            result: Any = {"role": "tool", "tool_call_id": call.id, "content": "heliotrope"}
            history = [user(READ), message.model_dump(exclude_none=True), result]
            answer = await client.chat.completions.create(model=MODEL, messages=history, tools=[CHAT_TOOL])
            assert answer.choices[0].message.content == RETURNED


@with_model
async def test_responses(model: FakeModel):
    async with openai_client(model) as client:
        answer = await client.responses.create(model=MODEL, input="Hello")
        assert answer.output_text == PLAIN
        async with client.responses.stream(model=MODEL, input="Hello") as stream:
            kinds = [event.type async for event in stream]
            assert (await stream.get_final_response()).output_text == PLAIN
        assert kinds.count("response.output_text.delta") == len(PLAIN.split())
        parsed = await client.responses.parse(model=MODEL, input="Hello", text_format=City)
        assert parsed.output_parsed == City(name="ok")
        refused = await client.responses.create(model=MODEL, input="accord:refuse")
        content: Any = refused.output[0]
        assert content.content[0].refusal == REFUSAL


@with_model
async def test_responses_call_tools_and_remember_the_previous_response(model: FakeModel):
    custom: Any = {"type": "custom", "name": "exec"}
    shell: Any = {"type": "local_shell"}
    async with openai_client(model) as client:
        async with client.responses.stream(model=MODEL, input=READ, tools=[RESPONSES_TOOL]) as stream:
            async for _ in stream:
                pass
            response = await stream.get_final_response()
        call: Any = response.output[0]
        assert (call.name, json.loads(call.arguments)) == ("read_file", ARGUMENTS)
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "heliotrope"}
        answer = await client.responses.create(model=MODEL, input=[result], previous_response_id=response.id)
        assert answer.output_text == RETURNED
        answer = await client.responses.create(model=MODEL, input="accord:run ls", tools=[custom])
        freeform: Any = answer.output[0]
        assert (freeform.type, "ls" in freeform.input) == ("custom_tool_call", True)
        answer = await client.responses.create(model=MODEL, input="accord:run ls", tools=[shell])
        local: Any = answer.output[0]
        assert (local.type, local.action.command) == ("local_shell_call", ["bash", "-lc", "ls"])


@with_model
async def test_messages(model: FakeModel):
    async with anthropic_client(model) as client:
        answer: Any = await client.messages.create(model=MODEL, max_tokens=9, messages=[user("Hello")])
        assert (answer.content[0].text, answer.stop_reason) == (PLAIN, "end_turn")
        async with client.messages.stream(model=MODEL, max_tokens=9, messages=[user("Hello")]) as stream:
            words = [word async for word in stream.text_stream]
        assert (len(words), "".join(words)) == (len(PLAIN.split()), PLAIN)
        beta: Any = await client.beta.messages.create(
            model=MODEL, max_tokens=9, messages=[user("accord:refuse")], extra_query={"beta": "true"}
        )
        assert (beta.content[0].text, beta.stop_reason) == (REFUSAL, "refusal")
        assert model.requests[-1].path.endswith("?beta=true")
        assert (await client.messages.count_tokens(model=MODEL, messages=[user("Hello")])).input_tokens > 0
        async with client.messages.stream(
            model=MODEL, max_tokens=9, messages=[user(READ)], tools=[MESSAGES_TOOL]
        ) as stream:
            called: Any = await stream.get_final_message()
        call = called.content[0]
        assert (call.name, call.input, called.stop_reason) == ("read_file", ARGUMENTS, "tool_use")
        result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "heliotrope"}
        reminder: Any = {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}
        history: Any = [
            user(READ),
            {"role": "assistant", "content": [call.model_dump()]},
            {"role": "user", "content": [result, reminder]},
        ]
        answer = await client.messages.create(model=MODEL, max_tokens=9, messages=history, tools=[MESSAGES_TOOL])
        assert answer.content[0].text == RETURNED


def gemini_body(*parts: Any, **members: Any) -> Any:
    return {"contents": [{"role": "user", "parts": [*parts]}], **members}


def gemini_text(chunks: list[Any]) -> str:
    return "".join(part["text"] for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"])


@with_model
async def test_gemini(model: FakeModel):
    base = f"{model.url}/v1beta/models/gemini-2.5-pro"
    async with aiohttp.ClientSession() as session:

        async def post(method: str, body: Any) -> str:
            async with session.post(f"{base}:{method}", json=body) as response:
                assert response.status == 200
                return await response.text()

        hello = gemini_body({"text": "Hello"})
        assert gemini_text([json.loads(await post("generateContent", hello))]) == PLAIN
        array = json.loads(await post("streamGenerateContent", hello))
        assert (len(array), gemini_text(array)) == (len(PLAIN.split()) + 1, PLAIN)  # the end has an event of its own
        assert array[-1]["candidates"][0]["finishReason"] == "STOP"
        events = (await post("streamGenerateContent?alt=sse", hello)).strip().split("\n\n")
        assert gemini_text([json.loads(event.removeprefix("data: ")) for event in events]) == PLAIN
        assert json.loads(await post("countTokens", hello))["totalTokens"] > 0
        called = json.loads(await post("generateContent", gemini_body({"text": READ}, tools=[GEMINI_TOOL])))
        part = called["candidates"][0]["content"]["parts"][0]
        assert (part["functionCall"]["name"], part["functionCall"]["args"]) == ("read_file", ARGUMENTS)
        result = {"functionResponse": {"name": "read_file", "response": {"output": "heliotrope"}}}
        history = gemini_body({"text": READ})
        history["contents"] += [{"role": "model", "parts": [part]}, {"role": "user", "parts": [result]}]
        assert gemini_text([json.loads(await post("generateContent", history))]) == RETURNED
        form = {"responseMimeType": "application/json", "responseJsonSchema": City.model_json_schema()}
        answer = json.loads(await post("generateContent", gemini_body({"text": "Hi"}, generationConfig=form)))
        assert json.loads(gemini_text([answer])) == {"name": "ok"}


@pytest.mark.parametrize("api", SPOKEN)
def test_our_own_backends_are_served(api: str):
    async def ask() -> None:
        async with FakeModel() as model:
            backend = simulated(api, model.url)
            await backend.probe()
            for stream in (False, True):
                pieces = [piece async for piece in backend.answer(ORDER.model_copy(update={"stream": stream}))]
                assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)) == PLAIN
            await backend.aclose()

    asyncio.run(asyncio.wait_for(ask(), 30))


@with_model
async def test_models_are_listed_in_the_form_of_each_api(model: FakeModel):
    async with openai_client(model) as client:
        assert MODEL in [each.id async for each in client.models.list()]
        assert (await client.models.retrieve("some/model")).id == "some/model"
    async with anthropic_client(model) as client:
        assert "claude-sonnet-4-5" in [each.id async for each in client.models.list()]
    async with aiohttp.ClientSession(model.url, headers={"x-goog-api-key": "k"}) as session:
        async with session.get("/v1beta/models") as response:
            assert "models/gemini-2.5-pro" in [each["name"] for each in (await response.json())["models"]]
        async with session.get("/v1beta/models/some-model") as response:
            assert (await response.json())["name"] == "models/some-model"


@with_model
async def test_errors_have_the_form_of_the_api_and_are_not_tried_again(model: FakeModel):
    async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="k") as client:
        with pytest.raises(openai.InternalServerError, match="by request of the prompt: 500"):
            await client.chat.completions.create(model=MODEL, messages=[user("accord:error 500")])
    async with anthropic.AsyncAnthropic(base_url=model.url, api_key="k") as client:
        with pytest.raises(anthropic.RateLimitError) as caught:
            await client.messages.create(model=MODEL, max_tokens=9, messages=[user("accord:error 429")])
        assert caught.value.type == "rate_limit_error"
    assert [request.state for request in model.requests] == [AnswerState.SENT] * 2


@with_model
async def test_the_root_answers_and_unknown_paths_are_kept_once(model: FakeModel):
    async with aiohttp.ClientSession(model.url) as session:
        for method in ("GET", "HEAD"):
            async with session.request(method, "/") as response:
                assert response.status == 200
        for path in ("/v1/embeddings", "/v1/embeddings", "/telemetry"):
            async with session.post(path, data=b"x") as response:
                assert (response.status, (await response.json())["error"]["type"]) == (404, "invalid_request_error")
        async with session.post("/v1beta/models/m:embedContent", json={}) as response:
            assert (await response.json())["error"]["status"] == "NOT_FOUND"
        async with session.get("/v1/responses", headers={"connection": "upgrade", "upgrade": "websocket"}) as response:
            assert response.status == 426
    assert model.unknown_paths == ["POST /v1/embeddings", "POST /telemetry", "POST /v1beta/models/m:embedContent"]


@with_model
async def test_a_request_that_its_api_does_not_take_is_kept_and_gets_the_error_of_the_api(model: FakeModel):
    async with aiohttp.ClientSession(model.url) as session:
        async with session.post("/v1/messages", json={"model": MODEL, "messages": [user("Hello")]}) as response:
            assert (response.status, (await response.json())["error"]["type"]) == (400, "invalid_request_error")
        assert model.refused_request("Hello") is model.refused_request() is model.refused[0]
        assert model.refused_request("Bye") is None
        async with session.post("/v1/messages", data=b"{") as response:
            assert response.status == 400
        assert model.refused_request("Bye") is model.refused[1], "what it said is not known"
        async with session.post("/models/m:generateContent", json={"contents": 1}) as response:
            assert (response.status, (await response.json())["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert [str(refused).partition(": expected")[0] for refused in model.refused] == [
        "POST /v1/messages: max_tokens",
        "POST /v1/messages: The body cannot be read: it is not JSON that every client can read.",
        "POST /models/m:generateContent: contents",
    ]
    assert not model.requests


@with_model
async def test_a_missing_tool_is_kept_with_the_tools_that_were_offered(model: FakeModel):
    async with openai_client(model) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=[user("accord:run ls")], tools=[CHAT_TOOL])
        assert answer.choices[0].message.content == "no tool for run"
    (missing,) = model.missing_tools
    assert (missing.directive, missing.request_number, missing.offered) == ("run", 1, ("read_file",))


@with_model
async def test_a_client_that_leaves_a_slow_answer_is_seen(model: FakeModel):
    async with openai_client(model) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=[user("accord:slow")], stream=True)
        words = [(await anext(stream)).choices[0].delta.content for _ in range(4)]
        assert words == ["", "word1", " word2", " word3"]
        assert model.requests[0].state is AnswerState.OPEN
        await stream.close()
        assert await model.wait_until(lambda: model.requests[0].state is AnswerState.DISCONNECTED, 10)
        waiting = asyncio.create_task(client.chat.completions.create(model=MODEL, messages=[user("accord:slow")]))
        assert await model.wait_until(lambda: len(model.requests) == 2, 10)
        waiting.cancel()
        assert await model.wait_until(lambda: model.requests[1].state is AnswerState.DISCONNECTED, 10)
        assert not await model.wait_until(lambda: len(model.requests) == 3, 0.01)


@with_model
async def test_a_slow_answer_holds_up_no_other(model: FakeModel):
    async with openai_client(model) as client:
        slow = await client.chat.completions.create(model=MODEL, messages=[user("accord:slow")], stream=True)
        await anext(slow)
        hellos = [
            client.chat.completions.create(model=MODEL, messages=[user(f"accord-marker-{number}")])
            for number in range(10)
        ]
        answers = await asyncio.gather(*hellos)
        assert {answer.choices[0].message.content for answer in answers} == {PLAIN}
        assert len({answer.id for answer in answers}) == 10
        assert model.requests[0].state is AnswerState.OPEN
        await slow.close()
    assert len(model.received("accord-marker-7")) == 1


def test_the_server_ends_while_an_answer_is_slow():
    async def leave() -> None:
        async with aiohttp.ClientSession() as session:
            async with FakeModel() as model:
                body = {"model": MODEL, "stream": True, "messages": [user("accord:slow")]}
                response = await session.post(f"{model.url}/v1/chat/completions", json=body)
                await response.content.readline()
            response.close()

    asyncio.run(asyncio.wait_for(leave(), 10))


@with_model
async def test_bodies_may_be_compressed_and_large(model: FakeModel):
    body = json.dumps({"model": MODEL, "messages": [user("Hello " + "x" * 5_000_000)]}).encode()
    async with aiohttp.ClientSession(model.url) as session:
        gzipped = gzip.compress(body)
        for data, encoding in ((gzipped, {"content-encoding": "gzip"}), (body, {})):
            async with session.post("/v1/chat/completions", data=BytesIO(data), headers=encoding) as response:
                assert (await response.json())["choices"][0]["message"]["content"] == PLAIN
        too_large = b" " * (MAX_BODY_BYTES + 1)
        async with session.post("/v1/messages", data=BytesIO(too_large)) as response:
            assert (response.status, (await response.json())["error"]["type"]) == (413, "request_too_large")
        async with session.post("/v1/messages", data=b"not gzip", headers={"content-encoding": "gzip"}) as response:
            assert response.status == 400
    assert len(model.requests) == 2


HELLO = {"model": MODEL, "messages": [user("Hello")]}
PATHS = st.sampled_from(
    ["chat/completions", "responses", "messages", "models/m:generateContent", "models/m:streamGenerateContent"]
)
MEMBERS = "messages input contents tools model stream system text response_format tool_choice generationConfig".split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "role content type text parts image_url source function name arguments tool_calls input output id".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
BODIES = st.binary(max_size=60) | st.dictionaries(st.sampled_from(MEMBERS), JSON).map(
    lambda body: json.dumps(body).encode()
)


@given(st.lists(st.tuples(PATHS, BODIES), min_size=1, max_size=8))
@settings(max_examples=examples(20))
def test_no_body_stops_the_next_request(bodies: list[tuple[str, bytes]]):
    async def send() -> None:
        async with FakeModel() as model, aiohttp.ClientSession(model.url) as session:
            for path, body in bodies:
                async with session.post(f"/v1/{path}", data=body) as response:
                    assert response.status in (200, 400)
                    await response.read()
            async with session.post("/v1/chat/completions", json=HELLO) as response:
                assert (await response.json())["choices"][0]["message"]["content"] == PLAIN

    asyncio.run(asyncio.wait_for(send(), 30))


@with_model
async def test_bytes_that_are_not_http_stop_nothing(model: FakeModel):
    port = int(model.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01\xff not http\r\n\r\n")
    assert b" 400 " in await reader.readline()
    writer.close()
    async with openai_client(model) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=[user("Hello")])
        assert answer.choices[0].message.content == PLAIN


def test_the_environment_points_the_sdks_at_the_model(monkeypatch: pytest.MonkeyPatch):
    async def call() -> None:
        async with FakeModel() as model:
            for name, value in model.environ().items():
                monkeypatch.setenv(name, value)
            async with openai.AsyncOpenAI() as client:
                await client.responses.create(model=MODEL, input="accord-marker-1")
            async with anthropic.AsyncAnthropic() as client:
                await client.messages.create(model=MODEL, max_tokens=9, messages=[user("accord-marker-1")])
            apis = [request.api for request in model.received("accord-marker-1")]
            assert apis == ["responses", "messages"]

    asyncio.run(asyncio.wait_for(call(), 30))


def test_it_runs_by_hand_until_it_is_interrupted():
    command = [sys.executable, "-m", "accord.acp_tools.inspect.fake_model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            printed: list[str] = []
            for line in process.stdout:
                printed.append(line)
                if line.startswith("# The fake model is at "):
                    break
            url = printed[-1].removeprefix("# The fake model is at ").partition(";")[0]
            assert f"export ANTHROPIC_BASE_URL={url}\n" in printed
            with openai.OpenAI(base_url=url, api_key="k", timeout=20) as client:
                client.responses.create(model=MODEL, input="Hello\x1b[2J")
            assert process.stdout.readline() == f"# 1 responses {MODEL} Hello\\u001b[2J\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0
        finally:
            process.kill()
