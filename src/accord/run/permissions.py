"""The permission requests of one turn: sent to the client, recorded for the receipt, ended with the turn.

While the user decides, the agent's time is paused. Like `RunQuestions`, this object does not refer to its turn.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from accord.agent import CANNOT_ASK
from accord.ports import Clock, PermissionChannel
from accord.run.limits import RunTimer
from accord.wire.agent_work import Permission, PermissionRecord, PermissionRequest, PermissionStatus

ENDED: Final = Permission(status=PermissionStatus.CANCELLED, why="It was given up before there was an answer")


class _OpenRequest:
    """One permission request, with its answer and how long that took."""

    __slots__ = ("after", "answer", "began_at", "question", "waited_s")

    def __init__(self, question: PermissionRequest, after: int, now: float) -> None:
        self.question: Final = question
        self.after: Final = after
        self.answer = ENDED
        self.began_at: Final = now
        self.waited_s = 0.0


class Permissions:
    """The permission requests of one turn. `packets_made` is how many packets the turn has made so far."""

    __slots__ = ("_clock", "_is_over", "_permits", "_timer", "_waiting", "packets_made", "requests")

    def __init__(self, permits: PermissionChannel | None, timer: RunTimer, clock: Clock) -> None:
        self.packets_made = 0
        self._permits: Final = permits
        self._timer: Final = timer
        self._clock: Final = clock
        self.requests: Final[list[_OpenRequest]] = []
        self._waiting: Final[set[asyncio.Task[Permission]]] = set()
        self._is_over = False

    async def __call__(self, question: PermissionRequest) -> Permission:
        """Ask the client. Raises the error of a turn that is over; one that is being closed asks nothing."""
        self._timer.raise_if_over()
        if self._is_over:
            return ENDED
        request = _OpenRequest(question, self.packets_made, self._clock.monotonic())
        self.requests.append(request)
        if self._permits is None:
            request.answer = CANNOT_ASK
            return CANNOT_ASK
        waiting = asyncio.create_task(_ask(self._permits, question, self.packets_made))
        self._waiting.add(waiting)
        try:
            with self._timer.paused():
                request.answer = await waiting
        finally:
            self._waiting.discard(waiting)
            request.waited_s = max(0.0, self._clock.monotonic() - request.began_at)
        return request.answer

    def records(self) -> Sequence[PermissionRecord]:
        """Each request with its answer, for the receipt."""
        return [
            PermissionRecord(
                title=request.question.title,
                options=request.question.options,
                status=request.answer.status,
                chosen=None if request.answer.option is None else request.answer.option.id,
                why=request.answer.why,
                waited_ms=round(request.waited_s * 1_000, 3),
                tool_call_id=request.question.call.tool_call_id,
                after=request.after,
            )
            for request in self.requests
        ]

    async def close(self) -> None:
        """Cancel the requests that are still open, and send no more."""
        self._is_over = True
        waiting = list(self._waiting)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)


async def _ask(permits: PermissionChannel, question: PermissionRequest, after: int) -> Permission:
    """A coroutine, which a task needs: a port may return any awaitable."""
    return await permits(question, after)
