"""Send permission requests to the editor in the middle of a turn, and wait for the answers.

A request is sent only after the packets that precede it, and only while the turn's updates are being sent. What an
answer means is decided in `core.output.agent_work`.
"""

import asyncio
from typing import Any, Final

from accord.acp.methods import Method
from accord.acp.schema_v2 import SessionState
from accord.core.output.agent_work import read_permission
from accord.core.rpc import Id, notification_line
from accord.servers.acp.sessions import OpenSession
from accord.servers.acp.updates import PromptUpdates, StableWriter
from accord.stdio import PeerGoneError, RpcConnection, RpcError
from accord.wire.agent_work import Permission, PermissionRequest, PermissionStatus

DISCONNECTED: Final = Permission(status=PermissionStatus.NO_CLIENT, why="The client is gone")


class PromptPermissions:
    """The permission requests of one turn; the code that sends its updates calls `mark_sent` and `finish`."""

    def __init__(
        self, connection: RpcConnection, session: OpenSession, writer: StableWriter, updates: PromptUpdates
    ) -> None:
        self._connection: Final = connection
        self._session: Final = session
        self._running: Final = writer.state(SessionState.RUNNING)
        self._updates: Final = updates
        self._sent_seq = -1
        self._is_finished = False
        self._progress: Final = asyncio.Event()

    def mark_sent(self, seq: int) -> None:
        """Note that the packets up to this number were sent."""
        self._sent_seq = seq
        self._wake()

    def finish(self) -> None:
        """Note that no further packet of this turn will be sent."""
        self._is_finished = True
        self._wake()

    async def __call__(self, question: PermissionRequest, after: int) -> Permission:
        """Request this permission once `after` packets were sent, and return the outcome."""
        while self._sent_seq < after and not self._is_finished:
            await self._progress.wait()
        if self._is_finished:
            return DISCONNECTED
        message = self._updates.request_permission(question)
        self._session.open_requests += 1
        try:
            if message.before:
                await self._connection.send(message.before)
            answer = await self._connection.call(
                Method.SESSION_REQUEST_PERMISSION, message.request, cancel_line=_cancel_line
            )
            permission = read_permission(question, answer)
        except RpcError as error:
            why = f"The client answered with the error {error.code}"
            permission = Permission(status=PermissionStatus.FAILED, why=why)
        except (PeerGoneError, ConnectionError):
            permission = DISCONNECTED
        finally:
            self._session.open_requests -= 1
        self._updates.resolve_permission(message.call_id, is_allowed=bool(permission))
        # The draft has a session state: it returns to running when no other request is open.
        if self._running and not self._session.open_requests and permission is not DISCONNECTED:
            try:
                await self._connection.send(self._running)
            except ConnectionError:
                return DISCONNECTED
        return permission

    def _wake(self) -> None:
        # Every waiting request looks at the state again; those that are not yet due wait for the next call.
        self._progress.set()
        self._progress.clear()


def _cancel_line(call_id: Id) -> bytes:
    params: dict[str, Any] = {"requestId": call_id}
    return notification_line(Method.CANCEL_REQUEST, params)
