"""One question to the configuration's store, for a command: open it, ask, close it. Which store it is, is not known."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from accord.cli.assemble import open_store
from accord.config import Loaded
from accord.ports import Store

ResultT = TypeVar("ResultT")


def with_store(loaded: Loaded, ask: Callable[[Store], Awaitable[ResultT]], *, create: bool = False) -> ResultT:
    """What the store answers; a file that is not there is made only if asked."""

    async def asked() -> ResultT:
        store = open_store(loaded, create=create)
        await store.open()
        try:
            return await ask(store)
        finally:
            await store.close()

    return asyncio.run(asked())
