"""What OpenAI-compatible endpoints report about their models."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import MalformedAnswerError, ModelApi
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.model import Endpoint, ModelBackend
from accord.backends.upstream import UpstreamRequest
from accord.errors import BackendError
from accord.wire.work import WorkOrder


def levels(reported: Any, api: ModelApi | None = None) -> dict[str, str]:
    layer = (api or ChatCodec()).read_discovery(json.dumps(reported).encode(), "a/b")
    return {name: evidence.level.kind for name, evidence in layer.items()}


def test_openais_list_shows_only_that_a_model_exists():
    listed = {"object": "list", "data": [{"id": "a/b", "object": "model", "created": 1, "owned_by": "system"}]}
    assert levels(listed) == levels(listed, ResponsesCodec()) == {}
    assert levels({"data": [{"id": "another", "supported_parameters": ["tools"]}]}) == {}
    assert levels({"data": None}) == {}


def test_openrouters_list_shows_what_a_model_takes():
    entry = {
        "id": "a/b",
        "architecture": {"input_modalities": ["text", "image"], "tokenizer": "X"},
        "supported_parameters": ["tools", "response_format", "temperature"],
    }
    reported = levels({"data": [entry]})
    assert {name for name, level in reported.items() if level == "native"} == {
        "image_input",
        "tool_use",
        "json_mode",
        "temperature",
    }
    assert (
        reported["audio"] == reported["extended_thinking"] == reported["structured_output_json_schema"] == "unsupported"
    )
    assert "pdf_input" not in reported


def test_ollamas_description_shows_what_a_model_has():
    reported = levels({"capabilities": ["completion", "vision"], "details": {}, "model_info": {"a": 1}})
    assert reported == {"image_input": "native", "tool_use": "unsupported", "extended_thinking": "unsupported"}


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"data": 1}', b"[" * 100_000])
def test_an_unreadable_list_is_malformed(body: bytes):
    with pytest.raises(MalformedAnswerError):
        ChatCodec().read_discovery(body, "m")


class Recorded:
    """An upstream that gives one reply to every request and records the requests."""

    def __init__(self, body: bytes, kind: str = "application/json") -> None:
        self.sent: list[UpstreamRequest] = []
        self._body, self._kind = body, kind

    async def send(self, request: UpstreamRequest) -> "RecordedReply":
        self.sent.append(request)
        return RecordedReply(self._body, self._kind)

    async def aclose(self) -> None:
        pass


class RecordedReply:
    """A reply that has already arrived."""

    def __init__(self, body: bytes, kind: str) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": kind}
        self._left = [body]

    async def read(self) -> bytes:
        return self._left.pop() if self._left else b""

    async def close(self) -> None:
        pass


class Noon:
    """A clock that stands still."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("ollama", "address"),
    [(False, "GET http://localhost:11434/v1/models"), (True, "POST http://localhost:11434/api/show")],
)
def test_ollama_is_asked_at_the_servers_root_and_others_at_the_base_url(ollama: bool, address: str):
    upstream = Recorded(b'{"capabilities": ["completion", "tools"]}')
    endpoint = Endpoint("http://localhost:11434/v1/", "a/b")
    backend = ModelBackend("b", ChatCodec(ollama=ollama), endpoint, upstream, Noon())
    manifest = asyncio.run(backend.discover())
    assert [f"{request.method} {request.url}" for request in upstream.sent] == [address]
    assert manifest["tool_use"].kind == "native"


def test_a_refusal_of_our_own_says_nothing_about_the_endpoint():
    backend = ModelBackend("b", ChatCodec(), Endpoint("http://localhost/v1", "m"), Recorded(b"{}"), Noon())

    async def refused(order: WorkOrder) -> str | None:
        with pytest.raises(BackendError) as caught:
            await anext(aiter(backend.answer(order)))
        return caught.value.refused

    assert asyncio.run(refused(WorkOrder(stop_sequences=list("abcde")))) is None
    assert asyncio.run(refused(WorkOrder(parameters={"top_k": 1}))) is None
