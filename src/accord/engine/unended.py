"""Turns that are over but whose end the store could not write: it is tried again until the store is back."""

import asyncio
import logging
from typing import Final

from accord.engine.live import LiveTurn
from accord.errors import StoreError

LOG: Final = logging.getLogger("accord.engine")
FIRST_RETRY_S: Final = 0.05
LAST_RETRY_S: Final = 2.0
"""How long is waited before the next attempt, at first and at most."""


class UnendedTurns:
    """Such turns of one process. Their number is bounded: no turn begins while the store is away."""

    def __init__(self) -> None:
        self._turns: Final[dict[str, LiveTurn]] = {}
        self._retrying: asyncio.Task[None] | None = None

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._turns

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, turn: LiveTurn) -> None:
        """Try to write the end of this turn from now on."""
        self._turns[turn.request_id] = turn
        if self._retrying is None or self._retrying.done():
            self._retrying = asyncio.create_task(self._retry())

    async def drain(self, seconds: float) -> None:
        """Wait so long until every end is written, then give up: other processes end the turns that are left."""
        if self._retrying is not None:
            await asyncio.wait([self._retrying], timeout=seconds)
            self._retrying.cancel()

    async def _retry(self) -> None:
        wait_s = FIRST_RETRY_S
        while self._turns:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LAST_RETRY_S)
            for turn in list(self._turns.values()):
                try:
                    await turn.write_end()
                except StoreError:
                    if turn.is_unended:
                        break  # the store is still away, for the others as well
                except Exception:
                    # It would fail again. A row that no turn here belongs to is ended by `Sessions.recover`.
                    LOG.exception("The end of a turn cannot be written")
                del self._turns[turn.request_id]
                wait_s = FIRST_RETRY_S
