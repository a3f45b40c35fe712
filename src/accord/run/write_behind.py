"""Writes to the store behind the answers: what comes within `GATHER_S` at once, and again if that fails.

    add ── GATHER_S, or at once if it is urgent ──> write ── failed: RETRY_S ──> write ...
                                                      └── what is added meanwhile belongs to the next write

What a process that is killed loses is what was added and not written. So that this is at most `BEHIND_S` of calls also
under load, answers wait in `keep_up` before they end while something older is not written. They do not wait for a
store that fails or that takes longer than `PATIENCE_S`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from accord.errors import StoreError

GATHER_S: Final = 0.02
BEHIND_S: Final = 0.035
RETRY_S: Final = 1.0
PATIENCE_S: Final = 1.0

LOGGER: Final = logging.getLogger("accord.servers")


class WriteBehind:
    """Calls `write` soon after each `add`. `name` is what is written, for the log."""

    def __init__(self, name: str, write: Callable[[], Awaitable[None]]) -> None:
        self._name: Final = name
        self._write: Final = write
        self._added_at: float | None = None
        """When the first was added of what no write has begun to write."""
        self._writing_since: float | None = None
        """When the first was added of what is being written."""
        self._failed = False
        self._is_closing = False
        self._urgent: Final = asyncio.Event()
        self._written = asyncio.Event()
        """Set at the end of the write that is under way or comes next."""
        self._task: asyncio.Task[None] | None = None

    def add(self, *, is_urgent: bool = False) -> None:
        """Note that there is something to write."""
        if self._added_at is None:
            self._added_at = monotonic()
        if is_urgent:
            self._urgent.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    @property
    def is_behind(self) -> bool:
        """Whether something was added more than `BEHIND_S` ago, and no failure is the reason why it is not written."""
        oldest = self._added_at if self._writing_since is None else self._writing_since
        return oldest is not None and not self._failed and monotonic() - oldest > BEHIND_S

    async def keep_up(self) -> None:
        """Wait while the writes are behind."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self.is_behind:
                    self._urgent.set()
                    await self._written.wait()
        except TimeoutError:
            self._failed = True  # until a write succeeds: not every answer should wait for so long

    async def close(self) -> None:
        """Write what is left; raises `StoreError` if that fails."""
        self._is_closing = True
        self._urgent.set()
        if self._task is not None:
            await self._task
        await self._write()

    async def _run(self) -> None:
        while self._added_at is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if self._failed else GATHER_S):
                    await self._urgent.wait()
            self._urgent.clear()
            self._writing_since, self._added_at = self._added_at, None
            try:
                await self._write()
                self._failed = False
            except Exception as error:  # noqa: BLE001 - without this task nothing would be written any more
                self._failed, self._added_at = True, self._writing_since
                why = error.message if isinstance(error, StoreError) else repr(error)
                LOGGER.error("%s could not be stored; trying again", self._name, extra={"fields": {"why": why}})
            finally:
                self._writing_since = None
                written, self._written = self._written, asyncio.Event()
                written.set()
            if self._failed and self._is_closing:
                break
        self._task = None
