"""The sessions that a client has open, and the one prompt that may run in each. What is said is not known here."""

import asyncio
from typing import Final

from accord.engine import KeptTurn, LiveTurn
from accord.servers.acp.failing import INVALID_REQUEST, NOT_FOUND
from accord.stdio import RpcError

MAX_OPEN: Final = 1_000
UNKNOWN: Final = "No such session is open: begin one with session/new, or reopen one"
BUSY: Final = "A prompt is running in this session: wait for its end, or cancel it"
TOO_MANY: Final = f"{MAX_OPEN} sessions are open: close one first"


class Prompting:
    """A prompt on its way, from the moment it was taken."""

    def __init__(self) -> None:
        self.over: Final = asyncio.Event()
        self._turn: LiveTurn | KeptTurn | None = None
        self._is_cancelled = False

    @property
    def request_ids(self) -> list[str]:
        """What its turn is called in the store, if it has begun."""
        return [] if self._turn is None else [self._turn.request_id]

    def begun(self, turn: LiveTurn | KeptTurn) -> None:
        """Its turn has begun; a client that has cancelled it meanwhile is heard now."""
        self._turn = turn
        if self._is_cancelled:
            self.cancel()

    def cancel(self) -> None:
        """End it; its stream is closed properly."""
        self._is_cancelled = True
        if isinstance(self._turn, LiveTurn):
            self._turn.cancel()


class OpenSession:
    """One session. `asks` is how many permissions its client is asked for right now."""

    def __init__(self, session_id: str, cwd: str) -> None:
        self.id: Final = session_id
        self.cwd: Final = cwd
        self.prompting: Prompting | None = None
        self.asks = 0

    def take_prompt(self) -> Prompting:
        """Room for a prompt; raises our error while another one runs."""
        if self.prompting is not None:
            raise RpcError(INVALID_REQUEST, BUSY)
        self.prompting = Prompting()
        return self.prompting

    def prompt_over(self) -> None:
        """The prompt is answered."""
        if self.prompting is not None:
            self.prompting.over.set()
            self.prompting = None


class OpenSessions:
    """All that one client has open."""

    def __init__(self) -> None:
        self._sessions: Final[dict[str, OpenSession]] = {}

    def find(self, session_id: str) -> OpenSession | None:
        """The session of that id, if it is open."""
        return self._sessions.get(session_id)

    def named(self, session_id: str) -> OpenSession:
        """The session of that id; raises our error if it is not open."""
        session = self._sessions.get(session_id)
        if session is None:
            raise RpcError(NOT_FOUND, UNKNOWN)
        return session

    def open(self, session_id: str, cwd: str) -> OpenSession:
        """Open a session; one that is open stays as it is."""
        session = self._sessions.get(session_id)
        if session is not None:
            return session
        if len(self._sessions) >= MAX_OPEN:
            raise RpcError(INVALID_REQUEST, TOO_MANY)
        session = self._sessions[session_id] = OpenSession(session_id, cwd)
        return session

    async def close(self, session_id: str) -> None:
        """Close a session once what runs in it has ended; one that is not open is closed already."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        if (prompting := session.prompting) is not None:
            prompting.cancel()
            await prompting.over.wait()
        self._sessions.pop(session_id, None)
