"""Serves a door on this process's own standard input and output, until the client goes or a signal comes."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from accord.engine import Sessions
from accord.servers.acp.door import Door
from accord.servers.collector import spare_the_collector
from accord.stdio import Connection, own_pipes

GRACE_S: Final = 1.0
"""How long what is asked has to be answered when the client has said its last; clients kill who stays longer."""


async def serve_acp(sessions: Sessions, *, owner: str, version: str) -> None:
    """Speak ACP until the input ends; every turn is ended properly then."""
    reader, sink = await own_pipes()
    door = Door(sessions, owner=owner, version=version, cwd=str(Path.cwd()))
    connection = Connection(reader, sink, on_call=door.answer, on_notice=door.hear, grace_s=GRACE_S)
    door.attach(connection)
    spare_the_collector()
    running = asyncio.create_task(connection.run())
    _stop_on_signal(running)
    try:
        with suppress(asyncio.CancelledError):
            await running
    finally:
        await door.end(GRACE_S)
        with suppress(ConnectionError):
            await sink.finish()


def _stop_on_signal(running: "asyncio.Task[None]") -> None:
    with suppress(NotImplementedError):  # not on every system
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
