"""What the checks work with: the agent under inspection, started as often as needed, and content blocks to send.

All checks share one agent as long as it is alive and idle; otherwise it is replaced. An agent that was sent a broken
line is watched until the next such check has run, because it may die late. The checks themselves are in `checks`.
"""

import asyncio
import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from accord.acp_tools.inspect.connection import AgentConnection, to_reply
from accord.acp_tools.inspect.declared import DeclaredAgent, read_initialize_result
from accord.acp_tools.inspect.replies import Answered, Gone, Refused, Reply, Silent, why_no_session
from accord.core.prompt.verdict import Declaration, read_declaration
from accord.stdio import start_peer
from accord.wire.acp.content import ContentType

# Content blocks that are sent in prompts: a good one of each type, and some that are wrong in exactly one respect. The
# texts are harmless, and short so that no model works on them for long.

Block = Mapping[str, Any]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_HEADER: Final = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
PNG: Final = (
    b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", _HEADER) + _chunk(b"IDAT", zlib.compress(b"\0\xff")) + _chunk(b"IEND", b"")
)
"""One white pixel."""
WAV: Final = b"RIFF\x28\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16) + b"data\4\0\0\0\0\0\0\0"
"""Two samples of silence."""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


TEXT: Final[Block] = {"type": "text", "text": "Reply with the word ok."}
LONG_WORK: Final[Block] = {
    "type": "text",
    "text": "Count slowly from 1 to 1000, one number a line, and do nothing else.",
}
GOOD: Final[Mapping[ContentType, Block]] = {
    ContentType.TEXT: TEXT,
    ContentType.RESOURCE_LINK: {
        "type": "resource_link",
        "uri": "https://example.com/note.txt",
        "name": "note.txt",
        "mimeType": "text/plain",
    },
    ContentType.IMAGE: {"type": "image", "data": _base64(PNG), "mimeType": "image/png"},
    ContentType.AUDIO: {"type": "audio", "data": _base64(WAV), "mimeType": "audio/wav"},
    ContentType.RESOURCE: {
        "type": "resource",
        "resource": {"uri": "https://example.com/note.txt", "mimeType": "text/plain", "text": "A note."},
    },
}
MALFORMED: Final[Mapping[str, tuple[str, Block]]] = {
    "image-without-data": ("an image without data", {"type": "image", "mimeType": "image/png"}),
    "image-without-mime-type": ("an image without mimeType", {"type": "image", "data": _base64(PNG)}),
    "unknown-type": ("a block of an unknown type", {"type": "accord_hologram", "text": "ok"}),
    "text-not-text": ("a text block whose text is a number", {"type": "text", "text": 42}),
    "link-without-uri": ("a resource link without uri", {"type": "resource_link", "name": "note.txt"}),
}
BAD_BASE64: Final[Mapping[ContentType, Block]] = {
    ContentType.IMAGE: {"type": "image", "data": "this is !! not base64", "mimeType": "image/png"},
    ContentType.AUDIO: {"type": "audio", "data": "this is !! not base64", "mimeType": "audio/wav"},
    ContentType.RESOURCE: {
        "type": "resource",
        "resource": {"uri": "https://example.com/a.bin", "blob": "this is !! not base64"},
    },
}


UNKNOWN_METHOD: Final = "_accord/ping"
NO_SESSIONS: Final = "session is not declared"
UNKNOWN_NOTICE: Final = "_accord/nothing"


@dataclass(frozen=True, slots=True)
class InspectSettings:
    """How to start the agent, and how long to wait for it."""

    command: Sequence[str]
    environ: Mapping[str, str] | None = None
    cwd: str | None = None
    session_cwd: str = "/"
    protocol: int = 1
    timeout_s: float = 10.0
    startup_s: float = 30.0
    watch_s: float = 0.2
    """How long to wait for a late error reply, or the end of the agent, after a broken line."""
    secrets: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class LineEffect:
    """What happened after a line: the reply to the next request, and the unsolicited replies."""

    reply: Reply
    unsolicited: Sequence[Refused | Answered] = ()
    lacks_id: bool = False
    """Whether one of the unsolicited errors has no id."""


class AgentProbe:
    """The agent under inspection."""

    def __init__(self, settings: InspectSettings) -> None:
        self.settings: Final = settings
        self.handshake: Reply = Silent(0)
        self.declared: DeclaredAgent = read_initialize_result(None)
        self.first_session: Reply = Silent(0)
        """The reply to the first `session/new`."""
        self.crashed_in: Final[list[str]] = []
        """The checks during which an agent died."""
        self._noise: Final[list[str]] = []
        self._baseline: Reply | None = None
        self._answers_unknown: bool | None = None
        self._shared: AgentConnection | None = None
        self._fresh: Final[list[AgentConnection]] = []
        self._line_effects: Final[dict[bytes, LineEffect]] = {}
        self._watched: tuple[str, AgentConnection] | None = None
        """The last agent that was sent a broken line, and the check that sent it."""

    @property
    def declaration(self) -> Declaration:
        """The content types that the agent declares."""
        return read_declaration(self.declared.prompt, self.declared.version)

    @property
    def lacks_sessions(self) -> bool:
        """Whether the agent declares no sessions, which the draft allows."""
        return isinstance(self.handshake, Answered) and not self.declared.has_sessions

    @property
    def why_no_session(self) -> str | None:
        """Why no check can have a session; None if one can."""
        if self.lacks_sessions:
            return NO_SESSIONS
        return None if isinstance(self.first_session, Answered) else why_no_session(self.first_session)

    async def open(self) -> None:
        """Start the first agent, with a handshake and a session."""
        connection = self._shared = await self._start()
        self.handshake = await self.initialize(connection, self.settings.protocol)
        if isinstance(self.handshake, Answered):
            self.declared = read_initialize_result(self.handshake.result)
            if not self.lacks_sessions:
                self.first_session = await self._open_session(connection)

    async def agent(self) -> AgentConnection:
        """The shared agent, with a session if sessions work; a new one if the last has ended or is busy."""
        if self._shared is not None and self._shared.is_alive and not self._shared.is_busy:
            return self._shared
        if self._shared is not None:
            await self._end(self._shared)
        self._shared = await self._start()
        await self.initialize(self._shared, self.settings.protocol)
        if self.why_no_session is None:
            await self._open_session(self._shared)
        return self._shared

    async def fresh(self, *, initialized: bool = False) -> AgentConnection:
        """A new agent for one check, ended after the check."""
        connection = await self._start()
        self._fresh.append(connection)
        if initialized:
            await self.initialize(connection, self.settings.protocol)
        return connection

    async def initialize(self, connection: AgentConnection, version: int) -> Reply:
        """Send `initialize` with this version and return the reply."""
        return await connection.call("initialize", _initialize_params(version), wait_s=self.settings.startup_s)

    async def prompt(
        self,
        *blocks: Block,
        session: str | None = None,
        connection: AgentConnection | None = None,
        wait_s: float | None = None,
    ) -> Reply:
        """Send a prompt and return the reply; to the session of the shared agent unless another is given."""
        connection = connection or await self.agent()
        since = len(connection.states)
        params = {"sessionId": session or connection.session or "", "prompt": list(blocks)}
        reply = await connection.call("session/prompt", params, wait_s=wait_s)
        if self.declared.version >= 2 and isinstance(reply, Answered):
            # In the draft the reply says that the prompt was accepted; an update reports the end of the turn.
            ended = await connection.turn_end_within(since, connection.timeout_s)
            connection.is_busy = isinstance(ended, Silent)
        return reply

    async def baseline(self) -> Reply:
        """The reply to plain text; sent once."""
        if self._baseline is None:
            self._baseline = await self.prompt(TEXT)
        return self._baseline

    async def harmless_request(self, **meta: Any) -> tuple[str, dict[str, Any]]:
        """A request that any agent can answer: an unknown method, or `initialize` if unknown methods get no reply."""
        if self._answers_unknown is None:
            reply = await (await self.fresh(initialized=True)).call(UNKNOWN_METHOD, {})
            self._answers_unknown = isinstance(reply, Answered | Refused)
        if self._answers_unknown:
            return UNKNOWN_METHOD, {"_meta": meta}
        return "initialize", {**_initialize_params(self.settings.protocol), "_meta": meta}

    async def send_line(self, line: bytes) -> LineEffect:
        """Send this line to a new agent, then a harmless request; done once for each line."""
        if line in self._line_effects:
            return self._line_effects[line]
        request = await self.harmless_request()
        # Not the shared agent: one that dies late would fail the next check.
        connection = await self.fresh(initialized=True)
        connection.got_broken_line = True
        await connection.send(line)
        reply = await connection.call(*request)
        # An error reply, or the end of the agent, may come after the reply to the next request.
        await asyncio.wait({connection.reading}, timeout=min(self.settings.watch_s, connection.timeout_s))
        if not connection.is_alive:
            reply = Gone(connection.peer.process.returncode)
        unsolicited = [to_reply(frame) for frame in connection.unsolicited]
        effect = LineEffect(reply, unsolicited, bool(connection.errors_without_id))
        self._line_effects[line] = effect
        return effect

    async def finish_check(self, check: str, *, counts_deaths: bool) -> None:
        """End the agents of a check; if `counts_deaths`, record the check when an agent died during it."""
        has_died = self._shared is not None and _died(self._shared)
        while self._fresh:
            connection = self._fresh[-1]
            if counts_deaths and connection.got_broken_line and connection.is_alive:
                await self.end_watched()
                self._watched = (check, connection)
            else:
                has_died = has_died or _died(connection)
                await self._end(connection)
            self._fresh.pop()
        if counts_deaths and has_died:
            self.crashed_in.append(check)
        if self._shared is not None and not self._shared.is_alive:
            await self._end(self._shared)
            self._shared = None

    async def end_watched(self) -> None:
        """End the agent that is still watched; if it died meanwhile, record the check that sent it a broken line."""
        if self._watched is None:
            return
        check, connection = self._watched
        if _died(connection):
            self.crashed_in.append(check)
        await self._end(connection)
        self._watched = None

    async def close(self) -> None:
        """End every agent that was started."""
        for connection in self._all():
            await self._end(connection)
        self._fresh.clear()
        self._shared = self._watched = None

    def _all(self) -> list[AgentConnection]:
        shared = [self._shared] if self._shared else []
        return [*self._fresh, *shared, *([self._watched[1]] if self._watched else [])]

    def last_stderr_line(self) -> str | None:
        """The last line that the shared agent wrote to stderr."""
        lines = self._shared.peer.stderr.split("\n") if self._shared else []
        return next((line.strip() for line in reversed(lines) if line.strip()), None)

    def all_noise(self) -> list[str]:
        """The lines on stdout of any agent that are not messages."""
        return [*self._noise, *(line for connection in self._all() for line in connection.noise)]

    async def _start(self) -> AgentConnection:
        peer = await start_peer(self.settings.command, environ=self.settings.environ, cwd=self.settings.cwd)
        return AgentConnection(peer, self.settings.timeout_s)

    async def _open_session(self, connection: AgentConnection) -> Reply:
        params: dict[str, Any] = {"cwd": self.settings.session_cwd, "mcpServers": []}
        reply = await connection.call("session/new", params, wait_s=self.settings.startup_s)
        if isinstance(reply, Answered) and isinstance(reply.result, dict):
            session_id: Any = reply.result.get("sessionId")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            connection.session = session_id if isinstance(session_id, str) else None
        return reply

    async def _end(self, connection: AgentConnection) -> None:
        await connection.end()
        self._noise.extend(connection.noise)
        connection.noise.clear()


def _died(connection: AgentConnection) -> bool:
    return not connection.is_alive and not connection.is_input_closed


def _initialize_params(version: int) -> dict[str, Any]:
    info = {"name": "accord-inspect", "version": "1"}
    params: dict[str, Any] = {"protocolVersion": version}
    params |= {"info": info, "capabilities": {}} if version >= 2 else {}
    # An agent of version 1 reads only these fields, also when version 2 is offered.
    return params | {"clientInfo": info, "clientCapabilities": {}}
