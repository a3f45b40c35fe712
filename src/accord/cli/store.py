"""One question to the configuration's store, for a command: open it, ask, close it. Which store it is, is not known."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from accord.cli.assemble import open_store
from accord.config import load_config
from accord.ports import Store

ResultT = TypeVar("ResultT")


def with_store(config: str | None, ask: Callable[[Store], Awaitable[ResultT]], *, create: bool = False) -> ResultT:
    """What the store answers; a file that is not there is made only if asked."""
    loaded = load_config(config, environ=os.environ)

    async def asked() -> ResultT:
        store = open_store(loaded, create=create)
        await store.open()
        try:
            return await ask(store)
        finally:
            await store.close()

    return asyncio.run(asked())
