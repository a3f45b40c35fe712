"""A compressed WebSocket message cannot unpack to more than was sent."""

import asyncio
import base64
import os
import zlib
from pathlib import Path

from tests.servers.process import accord_serve, healthy_in
from tests.servers.transports import within

UNPACKED = 60 * 1024 * 1024
"""Below the limit of a message, so that only compression makes it a bomb."""
HANDSHAKE = (
    "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
    "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
)
COMPRESSED_TEXT = 0b1100_0001
"""The first byte of a frame: final, compressed (RSV1), text."""


def bomb() -> bytes:
    packer = zlib.compressobj(wbits=-12)
    packed = packer.compress(b" " * UNPACKED) + packer.flush(zlib.Z_SYNC_FLUSH)
    payload = packed[:-4]
    assert len(payload) < 1024 * 1024
    return bytes([COMPRESSED_TEXT, 0xFF]) + len(payload).to_bytes(8) + bytes(4) + payload


def test_a_compression_bomb_is_refused_and_takes_no_memory(tmp_path: Path):
    async def run() -> None:
        async with accord_serve(tmp_path) as served:
            await healthy_in(served.address)
            before_mb = served.memory_mb()
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(HANDSHAKE.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101")
            assert b"permessage-deflate" not in head
            writer.write(bomb())
            close = await reader.read()
            writer.transport.abort()
            assert (close[0], int.from_bytes(close[2:4])) == (0x88, 1002)
            assert served.memory_mb("VmHWM") - before_mb < 30

    within(run)
