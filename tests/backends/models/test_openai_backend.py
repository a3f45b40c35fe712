"""A whole exchange with OpenAI's APIs through the one backend, from recorded streams: bytes in, pieces out."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ModelApi
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.model import Endpoint, ModelBackend
from accord.wire.work import AnyPiece, WorkOrder
from tests.backends.models.test_openai_discovery import Noon, Recorded

GOLDEN = Path(__file__).parent / "golden" / "openai"
APIS: dict[str, ModelApi] = {"chat": ChatCodec(), "responses": ResponsesCodec()}
WAYS = {"as it came": (b"\n", b"\n"), "with CRLF": (b"\n", b"\r\n"), "without spaces": (b"data: ", b"data:")}


@pytest.mark.parametrize("variant", WAYS)
@pytest.mark.parametrize("name", APIS)
def test_a_recorded_stream_gives_the_pieces_that_are_written_beside_it(name: str, variant: str):
    stream = (GOLDEN / f"{name}_stream.sse").read_bytes().replace(*WAYS[variant])
    upstream = Recorded(stream, "text/event-stream; charset=utf-8")
    backend = ModelBackend("b", APIS[name], Endpoint("https://api.example.org/v1", "gpt-5", "k"), upstream, Noon())
    order = WorkOrder.parse((GOLDEN / "order.json").read_bytes())

    async def answered() -> list[AnyPiece]:
        return [piece async for piece in backend.answer(order)]

    pieces = asyncio.run(answered())
    golden = json.loads((GOLDEN / f"{name}_pieces.json").read_text(encoding="utf-8"))
    assert pieces == msgspec.convert(golden, list[AnyPiece])
    (sent,) = upstream.sent
    requested = json.loads((GOLDEN / f"{name}_request.json").read_text(encoding="utf-8"))
    assert (sent.url, json.loads(sent.body or b"")) == (
        "https://api.example.org/v1" + requested["path"],
        requested["body"],
    )
    assert (sent.headers["authorization"], sent.headers["accept"]) == ("Bearer k", "text/event-stream")


def test_the_operators_headers_are_sent_and_count_before_the_apis():
    upstream = Recorded(b"{}")
    headers = {"Authorization": "Basic x", "X-Team": "a"}
    endpoint = Endpoint("https://api.example.org/v1", "gpt-5", "k", headers)
    asyncio.run(ModelBackend("b", ChatCodec(), endpoint, upstream, Noon()).probe())
    (sent,) = upstream.sent
    assert (sent.headers["authorization"], sent.headers["x-team"]) == ("Basic x", "a")
