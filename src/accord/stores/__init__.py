"""Stores of sessions, turns, receipts and tokens. They do not depend on the engine.

`sqlite.py` is one file on one machine, `memory.py` is SQLite without a file, `postgres.py` is for several machines. All
of them fulfil the contract of `ports.SessionStore`; one test suite checks it for each.
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
