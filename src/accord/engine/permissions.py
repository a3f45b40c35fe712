"""What one turn asks its user leave for: put to whoever can be asked, taken down for the receipt, ended with the turn.

While the user thinks, the turn's patience stands still. Like the questions to backends, this object holds no turn.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from accord.agent import NOBODY
from accord.engine.limits import Patience
from accord.ports import Clock, PermissionChannel
from accord.wire.agent_work import Permission, PermissionRecord, PermissionRequest, PermissionStatus

ENDED: Final = Permission.trusted(status=PermissionStatus.CANCELLED, why="It was given up before there was an answer")


class _Asked:
    """One question, from the moment it was put."""

    __slots__ = ("_began_at", "_took_s", "answer", "question")

    def __init__(self, question: PermissionRequest, now: float) -> None:
        self.question: Final = question
        self.answer = ENDED
        self._began_at: Final = now
        self._took_s = 0.0

    def end(self, now: float) -> None:
        """It is answered, or given up."""
        self._took_s = max(0.0, now - self._began_at)

    def record(self) -> PermissionRecord:
        """What the receipt says of it."""
        answer, option = self.answer, self.answer.option
        return PermissionRecord.trusted(
            title=self.question.title,
            options=self.question.options,
            status=answer.status,
            chosen=None if option is None else option.id,
            why=answer.why,
            waited_ms=round(self._took_s * 1_000, 3),
        )


class Permissions:
    """The permissions of one turn. `made` is how many packets of it there are already."""

    __slots__ = ("_asked", "_clock", "_is_over", "_open", "_patience", "_permits", "made")

    def __init__(self, permits: PermissionChannel | None, patience: Patience, clock: Clock) -> None:
        self.made = 0
        self._permits: Final = permits
        self._patience: Final = patience
        self._clock: Final = clock
        self._asked: Final[list[_Asked]] = []
        self._open: Final[set[asyncio.Task[Permission]]] = set()
        self._is_over = False

    async def __call__(self, question: PermissionRequest) -> Permission:
        """What came of asking; a turn that is cancelled meanwhile ends here, and one that is over asks nobody."""
        self._patience.check()
        if self._is_over:
            return ENDED
        asked = _Asked(question, self._clock.monotonic())
        self._asked.append(asked)
        if self._permits is None:
            asked.answer = NOBODY
            return NOBODY
        waiting = asyncio.create_task(_put(self._permits, question, self.made))
        self._open.add(waiting)
        try:
            with self._patience.standing_still():
                asked.answer = await waiting
        finally:
            self._open.discard(waiting)
            asked.end(self._clock.monotonic())
        return asked.answer

    def records(self) -> Sequence[PermissionRecord]:
        """What became of each."""
        return [asked.record() for asked in self._asked]

    async def close(self) -> None:
        """Stop asking what the agent left open, and ask nothing more."""
        self._is_over = True
        left = list(self._open)
        for waiting in left:
            waiting.cancel()
        if left:
            await asyncio.wait(left)


async def _put(permits: PermissionChannel, question: PermissionRequest, after: int) -> Permission:
    return await permits(question, after)
