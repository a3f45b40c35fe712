"""Asks an editor for permission in the middle of a turn: after what was told before, and only while somebody listens.

What an answer means is decided in the core; whatever the editor does instead of answering becomes a word that says so.
"""

import asyncio
from typing import Any, Final

from accord.core.output.agent_work import read_permission
from accord.core.rpc import Id, notice_line
from accord.servers.acp.sessions import OpenSession
from accord.servers.acp.updates import Asking, TurnUpdates, state_line
from accord.stdio import PeerGoneError, RpcConnection, RpcError
from accord.wire.acp.rpc import Method
from accord.wire.agent_work import Permission, PermissionQuestion, PermissionStatus

GONE: Final = Permission.trusted(status=PermissionStatus.NOBODY, why="The client is gone")


class TurnPermits:
    """One turn's way to ask its client; whoever tells the client of the turn reports `told` and `over`."""

    def __init__(
        self, connection: RpcConnection, session: OpenSession, updates: TurnUpdates, *, is_draft: bool
    ) -> None:
        self._connection: Final = connection
        self._session: Final = session
        self._updates: Final = updates
        self._is_draft: Final = is_draft
        self._told = -1
        self._is_over = False
        self._news: Final = asyncio.Event()

    def told(self, seq: int) -> None:
        """The client has the packets up to this number."""
        self._told = seq
        self._tell()

    def over(self) -> None:
        """The client is told nothing more of this turn."""
        self._is_over = True
        self._tell()

    async def __call__(self, question: PermissionQuestion, after: int) -> Permission:
        """What the client says to this, asked once it has so many packets."""
        while self._told < after and not self._is_over:
            await self._news.wait()
        if self._is_over:
            return GONE
        asking = self._updates.asking(question)
        self._session.asks += 1
        try:
            answer = await self._answer(question, asking)
        finally:
            self._session.asks -= 1
        self._updates.answered(asking.call_id, is_allowed=bool(answer))
        return await self._went_on(answer)

    async def _answer(self, question: PermissionQuestion, asking: Asking) -> Permission:
        try:
            if asking.before:
                await self._connection.send(asking.before)
            answered = await self._connection.call(
                Method.SESSION_REQUEST_PERMISSION, asking.request, given_up=_given_up
            )
        except RpcError as error:
            why = f"The client answered with the error {error.code}"
            return Permission(status=PermissionStatus.FAILED, why=why)
        except (PeerGoneError, ConnectionError):
            return GONE
        return read_permission(question, answered)

    async def _went_on(self, answer: Permission) -> Permission:
        """The same; a client of the draft is told that the agent is at work again, unless it is asked more."""
        if self._is_draft and not self._session.asks and answer is not GONE:
            try:
                await self._connection.send(state_line(self._session.id))
            except ConnectionError:
                return GONE
        return answer

    def _tell(self) -> None:
        self._news.set()
        self._news.clear()


def _given_up(own: Id) -> bytes:
    params: dict[str, Any] = {"requestId": own}
    return notice_line(Method.CANCEL_REQUEST, params)
