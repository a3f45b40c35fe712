"""Standard output: what is written arrives in order, long pieces in slices, and a peer that reads slowly is waited for."""

import asyncio
import os

import pytest

from accord.stdio.pipes import CHUNK, LONG_BYTES, PipeSink, is_hung_up


class SlowPeer:
    """A sink that accepts one piece for each `read`."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.has_piece = asyncio.Event()
        self._may_go_on = asyncio.Semaphore(0)

    def write(self, data: bytes, /) -> None:
        self.pieces.append(data)
        self.has_piece.set()

    async def drain(self) -> None:
        await self._may_go_on.acquire()

    def read(self, count: int) -> None:
        for _ in range(count):
            self._may_go_on.release()


def test_long_and_short_pieces_arrive_in_order_and_no_slice_is_long():
    async def talk() -> SlowPeer:
        peer = SlowPeer()
        sink = PipeSink(peer)
        long = bytes(range(256)) * (LONG_BYTES // 128)
        sink.write(b"first")
        sink.write(long)
        draining = asyncio.create_task(sink.drain())
        await peer.has_piece.wait()
        sink.write(b"between")  # while the long piece is being written
        assert not draining.done()
        assert len(peer.pieces) == 1
        peer.read(1_000)
        await draining
        sink.write(b"last")
        await sink.finish()
        assert b"".join(peer.pieces) == b"first" + long + b"between" + b"last"
        return peer

    peer = asyncio.run(asyncio.wait_for(talk(), 20))
    assert max(map(len, peer.pieces)) <= CHUNK


@pytest.mark.parametrize("unread", [b"", b"unread"])
def test_a_pipe_is_hung_up_once_its_writer_has_closed_it_also_with_unread_data(unread: bytes):
    reading, writing = os.pipe()
    try:
        os.write(writing, unread)
        assert not is_hung_up(reading)
        os.close(writing)
        assert is_hung_up(reading)
    finally:
        os.close(reading)
