"""A model endpoint in a process of its own, for attacks on the model APIs: `python -m tests.hostile.endpoint`.

It prints its port, reads whatever it is sent, and answers at once: with a short answer, or with a stream of a hundred
pieces a second. A request that says so gets comments before its stream, or an answer of a byte now and then.
"""

import asyncio
import json
from contextlib import suppress

USAGE = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
TEXT = '{"a": ["v"]}'
CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
    "usage": USAGE,
}
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def event(**choice: object) -> bytes:
    return b"data: " + json.dumps({**CHUNK, "choices": [{"index": 0, **choice}]}).encode() + b"\n\n"


PIECE = event(delta={"content": "word and 12, "}, finish_reason=None)
PIECES_AT_ONCE, EVERY_S = 5, 0.05
SAYS_COMMENTS, SAYS_DRIP = "comments, please", "drip, please"
COMMENTS, COMMENTS_MB = b": wait\n\n" * 8192, 64
STREAM = PIECE * 500 + event(delta={}, finish_reason="stop") + b"data: [DONE]\n\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    with suppress(OSError, EOFError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            sizes = (int(line[15:]) for line in head.splitlines() if line.startswith(b"content-length:"))
            length = next(sizes, 0)
            body = bytearray()
            while len(body) < length:
                body += await reader.read(min(1024 * 1024, length - len(body)))
            ends = bytes(body[:1000] + body[-1000:])
            if SAYS_COMMENTS.encode() in ends:
                await send_comments(writer)
                break
            if SAYS_DRIP.encode() in ends:
                await drip(writer)
                break
            is_stream = b'"stream":true' in ends
            content, kind = (
                (STREAM, b"text/event-stream") if is_stream else (json.dumps(CHAT).encode(), b"application/json")
            )
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(content)))
            # A stream comes as quickly as a quick model writes: the attack is in the number of streams.
            step = PIECES_AT_ONCE * len(PIECE) if is_stream else len(content)
            for start in range(0, len(content), step):
                writer.write(content[start : start + step])
                await writer.drain()
                await asyncio.sleep(EVERY_S if is_stream else 0)
    writer.transport.abort()


async def send_comments(writer: asyncio.StreamWriter) -> None:
    """Send many comments and then a stream."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    for _ in range(COMMENTS_MB * 1024 * 1024 // len(COMMENTS)):
        writer.write(COMMENTS)
        await writer.drain()
    writer.write(STREAM)
    await writer.drain()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send an answer that takes an hour."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 72000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(EVERY_S)


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
