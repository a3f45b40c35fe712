"""The operations of a store, said once for every engine: which statement is read, which is written.

How a statement gets its connection and its transaction, and on which thread, is each engine's own affair.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import Connection

from accord.stores import erase, statements
from accord.stores.statements import Append, Ending
from accord.wire.chat import ChatMessage
from accord.wire.session import Erased, PacketRecord, ReceiptRecord, SessionRecord, TurnRecord, TurnState

# Deleting much is done in steps, so that a running turn never waits for all of it.
ERASE_STEP: Final = 100

P = ParamSpec("P")
T = TypeVar("T")
Statement = Callable[Concatenate[Connection, P], T]


class SqlStore(ABC):
    """A store whose data is in tables."""

    @abstractmethod
    async def read(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the statement finds."""

    @abstractmethod
    async def write(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the statement returns, after what it wrote is safe."""

    async def probe(self) -> None:
        """Return if the storage answers."""
        await self.read(statements.probe)

    async def put_session(self, session: SessionRecord) -> None:
        """Keep a session, or renew the one of that id."""
        await self.write(statements.put_session, session)

    async def session(self, session_id: str) -> SessionRecord | None:
        """The session of that id."""
        return await self.read(statements.session, session_id)

    async def sessions(self, owner: str, *, limit: int, after: SessionRecord | None = None) -> list[SessionRecord]:
        """A page of an owner's sessions, the newest first."""
        return await self.read(statements.sessions_of, owner, limit, after)

    async def begin_turn(self, turn: TurnRecord) -> TurnRecord | None:
        """None if the turn is new, else the turn that has its request id."""
        return await self.write(statements.begin_turn, turn)

    async def turn(self, request_id: str) -> TurnRecord | None:
        """The turn of that request id."""
        return await self.read(statements.turn_of, request_id)

    async def unfinished(self, before: datetime, *, limit: int) -> list[TurnRecord]:
        """Turns still running that began before then."""
        return await self.read(statements.unfinished, before, limit)

    async def append_packets(self, request_id: str, first_seq: int, packets: Sequence[str]) -> None:
        """Keep packets, numbered from `first_seq`."""
        await self.write(statements.append_packets, [Append(request_id, first_seq, packets)])

    async def packets(self, request_id: str, *, after_seq: int, limit: int) -> list[PacketRecord]:
        """The packets that follow `after_seq`."""
        return await self.read(statements.packets_of, request_id, after_seq, limit)

    async def end_turn(
        self,
        request_id: str,
        state: TurnState,
        ended_at: datetime,
        *,
        messages: Sequence[ChatMessage] = (),
        receipt: ReceiptRecord | None = None,
    ) -> bool:
        """End a running turn; False if its receipt does not follow the session's last one."""
        ending = Ending(request_id, state, ended_at, messages, receipt)
        return await self.write(statements.end_turn, ending)

    async def history(self, session_id: str, *, limit: int) -> list[ChatMessage]:
        """The last messages of a session, the oldest of them first."""
        return await self.read(statements.history, session_id, limit)

    async def last_receipt_hash(self, session_id: str) -> str | None:
        """The hash that the session's next receipt has to name."""
        return await self.read(statements.last_receipt_hash, session_id)

    async def receipts(self, session_id: str) -> list[ReceiptRecord]:
        """A session's receipts in the order of their chain."""
        return await self.read(statements.receipts_of, session_id)

    async def receipt(self, request_id: str) -> ReceiptRecord | None:
        """The receipt of one turn."""
        return await self.read(statements.receipt_of, request_id)

    async def delete_user(self, owner: str) -> Erased:
        """Delete everything of one owner."""
        return await self._in_steps(erase.delete_user, owner)

    async def expire(self, before: datetime) -> Erased:
        """Delete the sessions that nothing has happened in since then."""
        return await self._in_steps(erase.expire, before)

    async def _in_steps(self, statement: Callable[[Connection, T, int], Erased], which: T) -> Erased:
        total = Erased()
        while True:
            step = await self.write(statement, which, ERASE_STEP)
            total += step
            if step.sessions < ERASE_STEP:
                return total


async def finished(work: Awaitable[T]) -> T:
    """What the work gives. It goes on if its caller is cancelled, who is told so only when it is done.

    Otherwise a cancelled turn could not know how many of its packets are kept, and so not close its stream.
    """
    going_on = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(going_on)
    except asyncio.CancelledError:
        await asyncio.wait([going_on])
        _ = going_on.cancelled() or going_on.exception()  # looked at, so that asyncio does not call it forgotten
        raise
