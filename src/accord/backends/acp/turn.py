"""One answer of an agent: a session of its own, its prompt, and what is heard of it until it ends or is given up.

Knows sessions, not processes: whoever runs the agent sends for it and ends the agent if a turn cannot be ended.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Protocol

from pydantic import ValidationError

from accord.backends.acp.listen import Listening, end_of, usage_of
from accord.core.adapt.waiting import weigh
from accord.errors import BackendError
from accord.wire.acp.content import ContentBlock
from accord.wire.acp.rpc import Method
from accord.wire.acp.session import CancelNotification, PromptRequest, PromptResponse
from accord.wire.acp.update import SessionUpdate, UsageUpdate
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkPiece

MAX_HELD_CHARS: Final = 64 * 1024 * 1024
BRIEF_S: Final = 0.5


class Line(Protocol):
    """What a turn needs of the agent that it runs on."""

    async def call(self, method: str, params: Any) -> Any:
        """The agent's answer, or `BackendError`."""
        ...

    async def notify(self, method: str, params: Any) -> None:
        """Tell the agent something."""
        ...

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something on the side."""
        ...

    def forget(self, session_id: str) -> None:
        """Hear no more of a session."""
        ...

    async def end(self) -> None:
        """End the agent."""
        ...


class Turn:
    """A prompt that is being answered."""

    def __init__(self, line: Line, session_id: str, blocks: Sequence[ContentBlock], *, cancel_s: float) -> None:
        self.session_id: Final = session_id
        self._line: Final = line
        self._cancel_s: Final = cancel_s
        self._heard: Final[asyncio.Queue[AnyPiece | BackendError]] = asyncio.Queue()
        self._held = 0
        self._listening: Final = Listening()
        self._usage: dict[str, Any] = {}
        self._prompt: Final = line.spawn(self._ask(blocks))

    def hear(self, update: SessionUpdate) -> None:
        """Take what the agent tells; it waits here until it is read."""
        if isinstance(update, UsageUpdate):
            self._usage = usage_of(update)
        piece = self._listening.piece_of(update)
        if piece is None or self._held > MAX_HELD_CHARS:
            return
        self._held += _length(piece)
        if self._held > MAX_HELD_CHARS:
            self._heard.put_nowait(BackendError("The agent answers faster than the answer is read"))
            return
        self._heard.put_nowait(piece)

    async def next(self) -> AnyPiece:
        """The next piece; an `EndPiece` is the last. Raises `BackendError` where the agent failed."""
        piece = await self._heard.get()
        if isinstance(piece, BackendError):
            raise piece
        self._held -= _length(piece)
        return piece

    async def close(self) -> None:
        """Give the answer up if it is not over: the agent is told at once, and waited for briefly.

        The agent has longer than that to end its turn, and is ended itself if it does not.
        """
        if self._prompt.done():
            self._line.forget(self.session_id)
            return
        await asyncio.wait({self._line.spawn(self._wind_down())}, timeout=BRIEF_S)

    async def _ask(self, blocks: Sequence[ContentBlock]) -> None:
        self._heard.put_nowait(await self._end(blocks))

    async def _end(self, blocks: Sequence[ContentBlock]) -> EndPiece | BackendError:
        prompt = PromptRequest(session_id=self.session_id, prompt=list(blocks))
        try:
            told = await self._line.call(Method.SESSION_PROMPT, prompt)
            return end_of(PromptResponse.model_validate(told), self._usage)
        except BackendError as error:
            return error
        except ValidationError:
            return BackendError("The agent ended its turn without a stop reason of the protocol", retryable=False)

    async def _wind_down(self) -> None:
        # An agent that does not read holds up the notice, and must not hold up the deadline.
        self._line.spawn(self._line.notify(Method.SESSION_CANCEL, CancelNotification(session_id=self.session_id)))
        await asyncio.wait({self._prompt}, timeout=self._cancel_s)
        if not self._prompt.done():
            await self._line.end()
        self._line.forget(self.session_id)


def _length(piece: AnyPiece) -> int:
    if isinstance(piece, WorkPiece):
        return weigh(piece.shown, MAX_HELD_CHARS)
    return len(piece.text) if isinstance(piece, TextPiece | ThinkingPiece) else 0
