"""The model endpoint of the benchmark: answers OpenAI chat requests with bytes that were made beforehand.

It is not a web server: it reads just enough HTTP to see where a request ends, because it must be faster than everything
that is measured. A stream is written one chunk at a time, as a model would send it; a slow reader still gets several at
once. `GET /pace/<milliseconds>` sets the pause after each chunk of later streams, `GET /pace/0` removes it.

    python -m bench.gateways.upstream PORT
"""

import asyncio
import json
import re
import sys
from typing import Any, Final, cast

import uvloop

CHUNKS: Final = 200
"""Chunks with text in one stream; a chunk with the role goes before, the end and the usage follow."""
MODEL: Final = "bench-model"
HEAD_END: Final = b"\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
CHUNKED: Final = re.compile(rb"(?i)\r\ntransfer-encoding: *chunked")
IS_STREAM: Final = re.compile(rb'"stream" *: *true')
USAGE: Final = {"prompt_tokens": 31, "completion_tokens": CHUNKS, "total_tokens": 31 + CHUNKS}


def with_length(status: str, body: dict[str, Any]) -> bytes:
    """A whole HTTP answer with a JSON body."""
    encoded = json.dumps(body, separators=(",", ":")).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(encoded)}\r\n\r\n"
    return head.encode() + encoded


def chat_answer() -> bytes:
    """One chat completion."""
    message = {"role": "assistant", "content": "The answer is short: it depends on what is measured.", "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    answer = {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [choice],
        "usage": {"prompt_tokens": 31, "completion_tokens": 12, "total_tokens": 43},
        "system_fingerprint": "fp_bench",
    }
    return with_length("200 OK", answer)


def chat_chunk(delta: dict[str, str] | None, finish: str | None = None) -> bytes:
    """One chunk of a stream in an HTTP chunk of its own; without a delta the one that carries the usage."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    chunk = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": MODEL,
        "system_fingerprint": "fp_bench",
        "choices": choices,
        **({"usage": USAGE} if delta is None else {}),
    }
    return in_http_chunk(b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n")


def in_http_chunk(data: bytes) -> bytes:
    """These bytes as one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream_answer() -> list[bytes]:
    """The writes of one streamed chat completion."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return [
        head + chat_chunk({"role": "assistant", "content": ""}),
        *(chat_chunk({"content": f"word{number} "}) for number in range(CHUNKS)),
        chat_chunk({}, "stop"),
        chat_chunk(None) + in_http_chunk(b"data: [DONE]\n\n") + LAST_CHUNK,
    ]


WHOLE: Final = chat_answer()
STREAM: Final = stream_answer()
MODELS: Final = with_length(
    "200 OK", {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1_700_000_000, "owned_by": "b"}]}
)
READY: Final = with_length("200 OK", {"status": "ok"})
NOT_FOUND: Final = with_length("404 Not Found", {"error": {"message": "no such path", "type": "not_found"}})


class Pace:
    """The pause after each chunk, in seconds; shared by all connections."""

    pause_s = 0.0


class ChatConnection(asyncio.Protocol):
    """One connection. Requests on it come one after the other, never two at once."""

    def __init__(self, pace: Pace) -> None:
        self._pace: Final = pace
        self._held = b""
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a stream that is being written."""
        del exc
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer once the request is complete."""
        self._held = self._held + data if self._held else data
        head, found, body = self._held.partition(HEAD_END)
        if not found:
            return
        if length := LENGTH.search(head):
            if len(body) < int(length[1]):
                return
        elif CHUNKED.search(head) and not body.endswith(LAST_CHUNK):
            return
        self._held = b""
        self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if self._transport is None:
            return
        if head.startswith(b"POST ") and b"/chat/completions" in head[:60]:
            if IS_STREAM.search(body):
                self._write_chunk(0, self._pace.pause_s)
            else:
                self._transport.write(WHOLE)
        elif b"/models" in head[:40]:
            self._transport.write(MODELS)
        elif head.startswith(b"GET /pace/"):
            self._pace.pause_s = int(head.split(b" ")[1].removeprefix(b"/pace/")) / 1_000
            self._transport.write(READY)
        else:
            self._transport.write(READY if b" /health" in head[:16] else NOT_FOUND)

    def _write_chunk(self, number: int, pause_s: float) -> None:
        if self._transport is None:
            return
        self._transport.write(STREAM[number])
        if number + 1 == len(STREAM):
            return
        if pause_s:
            self._loop.call_later(pause_s, self._write_chunk, number + 1, pause_s)
        else:
            self._loop.call_soon(self._write_chunk, number + 1, pause_s)


async def serve(port: int) -> None:
    """Answer until the process is ended."""
    pace = Pace()
    server = await asyncio.get_running_loop().create_server(lambda: ChatConnection(pace), "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
