"""A service and a client of it on an event loop in a thread of its own, so that the main thread has the terminal.

The terminal stays responsive whatever an agent does in this process, and Ctrl-C is handled in one place.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Self, TypeVar

from accord.assembly.loop import run_async
from accord.client import AsyncClient

ResultT = TypeVar("ResultT")
Work = Callable[[AsyncClient], Coroutine[Any, Any, ResultT]]
OpenClient = Callable[[], AbstractAsyncContextManager[AsyncClient]]
"""Makes the client and, in this process, the service."""


class Connection:
    """Runs work with the client in its thread. Use it with `with`; entering raises what opening the client raises."""

    def __init__(self, open_client: OpenClient) -> None:
        self._open_client: Final = open_client
        self._ready: Final[Future[tuple[AsyncClient, asyncio.AbstractEventLoop]]] = Future()
        self._end: Final = asyncio.Event()
        # A daemon: an agent that cannot be stopped must not keep the command from ending.
        self._thread: Final = threading.Thread(target=self._run, name="accord-chat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result()
        return self

    def __exit__(self, *_: object) -> None:
        loop = self._ready.result()[1]
        loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def start(self, work: Work[ResultT]) -> "Future[ResultT]":
        """Begin this work; cancelling the future cancels it."""
        client, loop = self._ready.result()
        return asyncio.run_coroutine_threadsafe(work(client), loop)

    def call(self, work: Work[ResultT]) -> ResultT:
        """Do this work and return its result; an interrupt of the wait cancels it."""
        future = self.start(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def _run(self) -> None:
        try:
            run_async(self._hold_open())
        except BaseException as error:  # the main thread waits for it
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _hold_open(self) -> None:
        async with self._open_client() as client:
            self._ready.set_result((client, asyncio.get_running_loop()))
            await self._end.wait()
