"""Answers of the Messages API by a real service: what is lost on the way to its clients is labelled."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import aiohttp
import anthropic
import pytest

from accord.apis.messages.codec import MessagesCodec
from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.scripted import ScriptedBackend
from accord.backends.upstream_aiohttp import AiohttpUpstream
from accord.core.sse import EventDecoder
from accord.core.work.evidence import Evidence
from accord.ports import Backend, SystemClock
from accord.wire.manifest import SupportLevel
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ToolCallDelta, ToolCallPiece
from tests.backends.models.message_streams import written
from tests.client.faulty_server import BARE_STREAM_HEAD, Do, FaultyServer, Step
from tests.servers.model_apis.in_process import model_application
from tests.servers.transports import LIMIT_S, served

DECLARED = {"streaming": "native", "tool_use": "native", "max_tokens": "native"}
TOOL: Any = {"name": "n", "input_schema": {"type": "object"}}
ASKED: Any = {"model": "a", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}], "tools": [TOOL]}
CUT: list[AnyPiece] = [
    TextPiece(text="So: "),
    ToolCallDelta(id="c1", name="n"),
    ToolCallDelta(id="c1", name="n", text='{"a": 1, "b'),
    ToolCallPiece(id="c1", name="n", input='{"a": 1, "b', cut=True),
    EndPiece(reason="max_tokens", usage={"input_tokens": 3, "output_tokens": 4}),
]


async def post(address: str, body: Any) -> tuple[str, Any]:
    """The text of the answer, and its receipt."""
    async with aiohttp.ClientSession(address) as client:
        async with client.post("/v1/messages", json=body) as response:
            assert response.status == 200, await response.text()
            text = await response.text()
            receipt = response.headers["accord-receipt"]
        async with client.get(receipt) as response:
            return text, await response.json()


def answer(pieces: Sequence[AnyPiece], body: Any) -> tuple[str, Any]:
    return answer_by(ScriptedBackend("a", [pieces], DECLARED), body)


def answer_by(backend: Backend, body: Any) -> tuple[str, Any]:
    async def ask() -> tuple[str, Any]:
        async with asyncio.timeout(LIMIT_S), served(model_application([backend])) as address:
            try:
                return await post(address, body)
            finally:
                if isinstance(backend, ModelBackend):
                    await backend.aclose()

    return asyncio.run(ask())


def test_a_call_that_was_cut_off_is_labelled_whole_and_streamed():
    text, receipt = answer(CUT, ASKED)
    body = json.loads(text)
    assert [block["type"] for block in body["content"]] == ["text"]
    assert body["stop_reason"] == "max_tokens"
    assert [(each["part"], each["disposition"]) for each in body["accord"]["answer"]] == [("cut_call", "lost")]
    assert receipt["work"][0]["answer"] == body["accord"]["answer"]
    text, _ = answer(CUT, {**ASKED, "stream": True})
    events = [json.loads(event.data) for event in EventDecoder().feed(text.encode())]
    assert events[-2]["accord"]["answer"] == body["accord"]["answer"]
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("stream", [False, True])
def test_a_complete_call_is_not_labelled(*, stream: bool):
    pieces = [*CUT[:2], ToolCallPiece(id="c1", name="n", input={"a": 1}), EndPiece(reason="tool_use")]
    text, receipt = answer(pieces, {**ASKED, "stream": stream})
    assert "cut_call" not in text
    assert "answer" not in receipt["work"][0]


def test_the_sdk_sees_arguments_as_they_arrive():
    texts = ["", '{"a": [1', ", 2]", "}"]
    call = ToolCallPiece(id="c1", name="n", input={"a": [1, 2]})
    script = [*(ToolCallDelta(id="c1", name="n", text=text) for text in texts), call, EndPiece(reason="tool_use")]

    async def ask() -> tuple[list[Any], Any]:
        async with (
            asyncio.timeout(LIMIT_S),
            served(model_application([ScriptedBackend("a", [script], DECLARED)])) as address,
            anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=0) as client,
            client.messages.stream(**ASKED) as events,
        ):
            seen = [event.snapshot async for event in events if event.type == "input_json"]
            return seen, await events.get_final_message()

    seen, message = asyncio.run(ask())
    assert seen == [{"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}]
    assert [(block.type, block.input) for block in message.content] == [("tool_use", {"a": [1, 2]})]


def said(text: str) -> bytes:
    """The beginning of a stream that says this."""
    delta = {"type": "text_delta", "text": text}
    return written(
        [
            {"type": "message_start", "message": {"id": "m1", "model": "m", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
        ]
    )


END = [
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 3, "output_tokens": 4}},
    {"type": "message_stop"},
]
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
QUOTED = written(END).decode()
STREAMS: dict[str, tuple[bytes, bool]] = {
    "complete": (said(QUOTED) + written(END), True),
    "cut off after a text that quotes the end": (said(QUOTED), False),
    "cut off before its end": (said("a") + written(END[:2]), False),
    "an error in the middle": (said("a") + written([ERROR]), False),
    "an error, and an end after it": (said("a") + written([ERROR, *END]), False),
    "an error without a type": (said("a") + b'event: error\ndata: {"message": "no"}\n\n' + written(END), False),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_is_passed_on_is_complete_only_by_its_own_end(name: str):
    sent, is_complete = STREAMS[name]
    steps: list[Step] = [BARE_STREAM_HEAD + sent, Do.CLOSE]
    with FaultyServer(lambda _: steps) as endpoint:
        backend = ModelBackend(
            "a",
            MessagesCodec(),
            Endpoint(endpoint.url, "m", "a-key"),
            AiohttpUpstream(),
            SystemClock(),
            facts={name: Evidence(SupportLevel.NATIVE, "test") for name in DECLARED},
            retries=RetryPolicy(times=0),
        )
        text, receipt = answer_by(backend, {**ASKED, "stream": True})
    assert sent[:20].decode() in text
    assert (receipt["outcome"]["status"] == "done") is is_complete
    assert ("event: message_stop\n" in text) is is_complete
    assert ("event: error\n" in text) is not is_complete
