"""A program is started with its standard streams and nothing else."""

import asyncio
import os
import sys
from collections.abc import Callable

import pytest
import uvloop

from accord.stdio import start_peer

PRINT_OPEN = "import os; print([fd for fd in range(3, 256) if os.path.exists(f'/dev/fd/{fd}')])"


@pytest.mark.parametrize("new_event_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_program_inherits_no_file(new_event_loop: Callable[[], asyncio.AbstractEventLoop]):
    async def read_open_files() -> bytes:
        peer = await start_peer([sys.executable, "-S", "-c", PRINT_OPEN])
        found = await asyncio.wait_for(peer.stdout.read(), 30)
        assert await peer.end() == 0
        return found

    incoming, outgoing = os.pipe()
    os.set_inheritable(outgoing, True)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(read_open_files()) == b"[]\n"
    assert os.get_inheritable(outgoing), "this process keeps its own files"
    os.close(incoming)
    os.close(outgoing)
