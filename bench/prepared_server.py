"""Answers every request with bytes that were made beforehand, in a process of its own: the endpoint of a benchmark."""

import asyncio
import json
import re
import sys
from typing import Final, cast

CHUNKS: Final = 2_000
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"


def chunk_of(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One event as the chat API sends it."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def streamed() -> bytes:
    """A streamed answer of many chunks, each in an HTTP chunk of its own."""
    events = [
        chunk_of({"role": "assistant", "content": ""}),
        *[chunk_of({"content": f"word{number} "}) for number in range(CHUNKS)],
        chunk_of({}, "stop"),
        b"data: [DONE]\n\n",
    ]
    body = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events)
    return HEAD % b"text/event-stream" + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def at_once() -> bytes:
    """A short answer in one piece."""
    message = {"role": "assistant", "content": "Hello there."}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    }
    body = json.dumps(answer).encode()
    return HEAD % b"application/json" + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Answering(asyncio.Protocol):
    """Knows just enough HTTP to see where a request ends."""

    def __init__(self, stream: bytes, whole: bytes) -> None:
        self._stream, self._whole, self._held = stream, whole, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer once a request is complete."""
        self._held += data
        head, is_whole, body = self._held.partition(b"\r\n\r\n")
        if not is_whole:
            return
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if len(body) < int(length[1] if length else 0):
            return
        self._held = b""
        is_streamed = b'"stream":true' in body.replace(b" ", b"")
        self._transport.write(self._stream if is_streamed else self._whole)


async def main() -> None:
    """Say where, and answer until our input ends."""
    loop = asyncio.get_running_loop()
    stream, whole = streamed(), at_once()
    server = await loop.create_server(lambda: Answering(stream, whole), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
