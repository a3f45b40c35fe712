"""Retries of turns whose end the store could not write."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from time import monotonic
from typing import Final

from accord.errors import StoreConflictError, StoreError
from accord.ports import PacketLog
from accord.run.run import Run
from accord.wire.session import RunRecord

LOG: Final = logging.getLogger("accord.run")
FIRST_RETRY_S: Final = 0.05
LAST_RETRY_S: Final = 2.0
"""The delay before the next attempt to write the end of a turn, at first and at most."""
WAIT_FOR_LOG_S: Final = 60.0
TRY_LOG_EVERY_S: Final = 0.5
"""How long, and how often, the log of a turn is asked before it is run again."""


async def fence_when_possible(log: PacketLog, turn: RunRecord, is_stopping: Callable[[], bool]) -> Sequence[str]:
    """Fence the log of a turn as soon as it answers: a run that waits for NATS is not one whose worker died."""
    until = monotonic() + WAIT_FOR_LOG_S
    while True:
        try:
            return await log.fence(turn)
        except StoreConflictError:
            raise
        except StoreError:
            if is_stopping() or monotonic() > until:
                raise
        await asyncio.sleep(TRY_LOG_EVERY_S)


async def try_each(
    turns: Sequence[RunRecord], work: Callable[[RunRecord], Awaitable[bool]], failures: list[StoreError]
) -> int:
    """Do this for each turn, whatever fails with some of them, since it may be NATS that does not answer.

    Returns for how many it was true.
    """
    done = 0
    for turn in turns:
        try:
            done += await work(turn)
        except StoreError as error:
            failures.append(error)
    return done


class UnwrittenEnds:
    """Turns of one process that are over but whose end the store could not write; writing is tried again.

    Their number is bounded: no turn begins while the store fails.
    """

    def __init__(self) -> None:
        self._turns: Final[dict[str, Run]] = {}
        self._retrying: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._turns)

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, turn: Run) -> None:
        """Keep trying to write the end of this turn."""
        self._turns[turn.request_id] = turn
        if self._retrying is None or self._retrying.done():
            self._retrying = asyncio.create_task(self._retry())

    async def drain(self, seconds: float) -> None:
        """Wait up to so many seconds for all ends to be written; other processes end the turns that are left."""
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
                    if turn.is_end_unwritten:
                        continue  # tried again later; it may be NATS that fails, which others do not need
                except Exception:
                    # It would fail again. `Sessions.recover` ends rows that belong to no turn of this process.
                    LOG.exception("The end of a turn cannot be written; it is marked as interrupted later")
                del self._turns[turn.request_id]
                wait_s = FIRST_RETRY_S
