"""The Messages API: headers, paths, options, and the endpoint's description of a model."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from accord.apis.codec import ApiRequest, MalformedAnswerError, ModelApi
from accord.apis.failure import EndpointError
from accord.apis.messages.codec import MessagesCodec
from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.upstream import UpstreamReply, UpstreamRequest
from accord.ports import SystemClock
from accord.wire.conversation import Conversation
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder

API: ModelApi = MessagesCodec()
YES, NO = {"supported": True}, {"supported": False}


def test_it_is_addressed_by_key_and_version():
    assert API.base_url == "https://api.anthropic.com"
    assert API.headers("k") == {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert API.headers(None) == {"anthropic-version": "2023-06-01"}
    other = MessagesCodec(version="2026-10-21", betas=["one", "two"])
    assert other.headers(None) == {"anthropic-version": "2026-10-21", "anthropic-beta": "one,two"}


def test_a_models_name_is_quoted_in_the_path():
    assert API.discovery_request("claude-test") == ApiRequest("/v1/models/claude-test", method="GET")
    assert API.discovery_request("../a?b").path == "/v1/models/..%2Fa%3Fb"


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"thinking_budget": 1023}])
def test_options_that_the_api_would_refuse_are_errors(options: dict[str, Any]):
    with pytest.raises(ValueError, match="at least"):
        MessagesCodec(**options)


def read_discovery(reported: Any, **options: Any) -> dict[str, Any]:
    body = json.dumps(
        {"id": "claude-test", "type": "model", "max_input_tokens": 200_000, "capabilities": reported}
    ).encode()
    layer = MessagesCodec(**options).read_discovery(body, "claude-test")
    assert {evidence.source for evidence in layer.values()} <= {"anthropic messages API"}
    return {name: evidence.level.model_dump() for name, evidence in layer.items()}


@pytest.mark.parametrize(
    "reported", [None, {}, {"batch": YES, "effort": {"supported": True, "low": YES}}, {"pdf_input": {}}]
)
def test_a_description_without_capabilities_is_no_evidence(reported: Any):
    assert read_discovery(reported) == {}


def test_capabilities_in_a_description_are_evidence():
    reported = {"image_input": YES, "pdf_input": NO, "structured_outputs": YES, "citations": YES, "code_execution": NO}
    assert read_discovery(reported) == {
        "image_input": "native",
        "pdf_input": "unsupported",
        "structured_output_json_schema": "native",
    }


@pytest.mark.parametrize(
    ("thinking", "budget", "level"),
    [
        ({"supported": True, "types": {"adaptive": YES, "enabled": NO}}, None, "native"),
        ({"supported": True, "types": {"adaptive": YES, "enabled": NO}}, 2048, "unsupported"),
        ({"supported": True, "types": {"adaptive": NO, "enabled": YES}}, None, "unsupported"),
        ({"supported": True, "types": {"adaptive": NO, "enabled": YES}}, 2048, "native"),
        ({"supported": True}, None, "native"),
        (NO, None, "unsupported"),
    ],
)
def test_thinking_counts_only_in_the_form_that_is_configured(thinking: Any, budget: int | None, level: str):
    assert read_discovery({"thinking": thinking}, thinking_budget=budget) == {"extended_thinking": level}


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"capabilities": 5}'])
def test_a_malformed_description_is_an_error(body: bytes):
    with pytest.raises(MalformedAnswerError):
        API.read_discovery(body, "claude-test")


@dataclass
class Kept:
    """A reply that has already arrived."""

    status: int
    kind: str
    chunks: list[bytes]

    @property
    def headers(self) -> Mapping[str, str]:
        return {"content-type": self.kind}

    async def read(self) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    async def close(self) -> None:
        self.chunks.clear()


@dataclass
class Shelf:
    """An upstream that gives prepared replies and records the requests."""

    replies: list[Kept]
    requested: list[UpstreamRequest] = field(default_factory=list[UpstreamRequest])

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        self.requested.append(request)
        return self.replies.pop(0)

    async def aclose(self) -> None:
        self.replies.clear()


SAID = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]}
ORDER = WorkOrder(conversation=Conversation.model_validate(SAID), stream=True)
STREAM = (Path(__file__).parent / "golden" / "anthropic" / "streams" / "text.sse").read_bytes()


def answered(shelf: Shelf) -> list[AnyPiece]:
    endpoint = Endpoint("https://models.example/", "claude-test", "k")
    backend = ModelBackend("claude", API, endpoint, shelf, SystemClock(), retries=RetryPolicy(times=0))

    async def ask() -> list[AnyPiece]:
        return [piece async for piece in backend.answer(ORDER)]

    return asyncio.run(asyncio.wait_for(ask(), 10))


def test_the_model_backend_works_with_it():
    shelf = Shelf([Kept(200, "text/event-stream; charset=utf-8", [STREAM[:300], STREAM[300:]])])
    pieces = answered(shelf)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)) == "Grüße, 世界 👋"
    assert isinstance(pieces[-1], EndPiece)
    assert shelf.requested[0].url == "https://models.example/v1/messages"
    assert shelf.requested[0].headers["x-api-key"] == "k"
    assert json.loads(shelf.requested[0].body or b"")["stream"] is True


def test_an_overloaded_endpoint_is_reported():
    reported = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    with pytest.raises(EndpointError, match="claude: the endpoint is overloaded \\(529\\)") as caught:
        answered(Shelf([Kept(529, "application/json", [reported])]))
    assert (caught.value.may_resend, caught.value.details["endpoint_code"]) == (True, "overloaded_error")


def test_a_connection_that_ends_too_early_is_not_an_answer():
    with pytest.raises(EndpointError, match="the answer stops before its end"):
        answered(Shelf([Kept(200, "text/event-stream", [STREAM[:-40]])]))
