"""Run one operation on the configured store, for a command: open it, run, close it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from accord.cli.store_file import store_path
from accord.config import Loaded, OriginKind, StoreKind
from accord.ports import Store

ResultT = TypeVar("ResultT")


def is_absent(loaded: Loaded) -> bool:
    """Whether nothing was stored yet: the SQLite file is not there, at a place that nobody named on the command line.

    A file that --store names must exist; a name that does not is a mistake, and opening it says so.
    """
    is_named = loaded.origin(("store", "path")).kind is OriginKind.FLAG
    return loaded.config.store.kind is StoreKind.SQLITE and not is_named and not store_path(loaded).exists()


def with_store(loaded: Loaded, ask: Callable[[Store], Awaitable[ResultT]], *, create: bool = False) -> ResultT:
    """What the store answers; a file that is not there is made only if asked."""
    # SQLAlchemy and the engine take half a second to load, which no other command should wait for.
    from accord.cli.assemble import open_store  # noqa: PLC0415

    async def asked() -> ResultT:
        store = open_store(loaded, create=create)
        await store.open()
        try:
            return await ask(store)
        finally:
            await store.close()

    return asyncio.run(asked())
