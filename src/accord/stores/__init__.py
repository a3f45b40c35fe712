"""What is remembered: one schema, one set of statements, several places to keep it. No store knows the engine.

`sqlite.py` is one file on one machine, `postgres.py` is for more than one, `memory.py` forgets. All of them keep the
contract of `ports.SessionStore`, and one suite of tests holds them to it.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from accord.ports import SessionStore


@asynccontextmanager
async def opened_store(store: SessionStore) -> AsyncGenerator[None]:
    """Open a store, and close it when the block ends. Every command and the ASGI application open theirs here."""
    await store.open()
    try:
        yield
    finally:
        await store.close()
