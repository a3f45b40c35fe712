"""What a check is, and what it is given: an initialized agent with a session or a fresh one, and prompts to try."""

import asyncio
import base64
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from accord.acp_tools.inspect.declared import Introduction, read_introduction
from accord.acp_tools.inspect.replies import Answered, CheckOutcome, Gone, Refused, Reply, Silent, why_no_session
from accord.acp_tools.inspect.talk import Talk, as_reply
from accord.core.prompt.verdict import Declaration, read_declaration
from accord.stdio import start_peer
from accord.wire.acp.content import ContentType
from accord.wire.inspection import Level

# The prompts that agents are tried with: one good block of each type, and blocks that are wrong in one way each.
#
# Small, harmless, and without a question in them that would make a model work long. Whom they are sent to is not
# known.

Block = Mapping[str, Any]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_HEADER: Final = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
PNG: Final = (
    b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", _HEADER) + _chunk(b"IDAT", zlib.compress(b"\0\xff")) + _chunk(b"IEND", b"")
)
"""One white dot."""
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


# What a check is given: an agent that has introduced itself and has a session, or fresh ones, and short ways to ask.
#
# One agent serves all checks that leave it well; one that ended, or still owes an answer, is replaced. One that was
# sent a broken line is watched until the next such check is done: it may die of it late. Which checks there are and
# what they say is not known here.

UNKNOWN_METHOD: Final = "_accord/ping"
NO_SESSIONS: Final = "session is not declared"
UNKNOWN_NOTICE: Final = "_accord/nothing"


@dataclass(frozen=True, slots=True)
class InspectSettings:
    """How an agent is started and how long it is waited for."""

    command: Sequence[str]
    environ: Mapping[str, str] | None = None
    cwd: str | None = None
    session_cwd: str = "/"
    protocol: int = 1
    timeout_s: float = 10.0
    startup_s: float = 30.0
    aftermath_s: float = 0.2
    """How long an agent that answered after a broken line is watched, in case that it complains or ends."""
    secrets: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a line did: the reply to the next request, and the replies that nobody asked for."""

    reply: Reply
    strays: Sequence[Refused | Answered] = ()
    lacks_id: bool = False
    """One of those is an error without any id."""


class AgentProbe:
    """The agent under inspection."""

    def __init__(self, settings: InspectSettings) -> None:
        self.settings: Final = settings
        self.handshake: Reply = Silent(0)
        self.introduction: Introduction = read_introduction(None)
        self.opened: Reply = Silent(0)
        """What became of the first `session/new`."""
        self.noise: Final[list[str]] = []
        self.crashed_in: Final[list[str]] = []
        self._baseline: Reply | None = None
        self._answers_unknown: bool | None = None
        self._shared: Talk | None = None
        self._fresh: Final[list[Talk]] = []
        self._seen: Final[dict[bytes, Aftermath]] = {}
        self._lingering: tuple[str, Talk] | None = None
        """The last agent that was sent a broken line, and the check that did it."""

    @property
    def declaration(self) -> Declaration:
        """The types of content that the agent declared."""
        return read_declaration(self.introduction.prompt, self.introduction.version)

    @property
    def lacks_sessions(self) -> bool:
        """Whether the agent says that it has no sessions, as it may in the draft."""
        return isinstance(self.handshake, Answered) and not self.introduction.has_sessions

    @property
    def why_no_session(self) -> str | None:
        """Why no check can have a session; None if one can."""
        if self.lacks_sessions:
            return NO_SESSIONS
        return None if isinstance(self.opened, Answered) else why_no_session(self.opened)

    async def open(self) -> None:
        """The first handshake and the first session; every other agent goes the same way."""
        talk = self._shared = await self._start()
        self.handshake = await self.initialize(talk, self.settings.protocol)
        if isinstance(self.handshake, Answered):
            self.introduction = read_introduction(self.handshake.result)
            if not self.lacks_sessions:
                self.opened = await self._open_session(talk)

    async def agent(self) -> Talk:
        """The shared agent, with a session if the agent gives any; another one if the last cannot go on."""
        if self._shared is not None and self._shared.is_alive and not self._shared.is_tired:
            return self._shared
        if self._shared is not None:
            await self._retire(self._shared)
        self._shared = await self._start()
        await self.initialize(self._shared, self.settings.protocol)
        if self.why_no_session is None:
            await self._open_session(self._shared)
        return self._shared

    async def fresh(self, *, introduced: bool = False) -> Talk:
        """An agent of the check's own, ended with the check."""
        talk = await self._start()
        self._fresh.append(talk)
        if introduced:
            await self.initialize(talk, self.settings.protocol)
        return talk

    async def initialize(self, talk: Talk, version: int) -> Reply:
        """The agent's answer to the handshake."""
        return await talk.call("initialize", _introduction(version), wait_s=self.settings.startup_s)

    async def prompt(
        self, *blocks: Block, session: str | None = None, talk: Talk | None = None, wait_s: float | None = None
    ) -> Reply:
        """What becomes of a prompt, in the shared agent's session unless another is named."""
        talk = talk or await self.agent()
        since = len(talk.states)
        params = {"sessionId": session or talk.session or "", "prompt": list(blocks)}
        reply = await talk.call("session/prompt", params, wait_s=wait_s)
        if self.introduction.version >= 2 and isinstance(reply, Answered):
            # In the draft the answer says that the prompt was taken; the turn's end is an update.
            talk.is_tired = isinstance(await talk.state_within(since, talk.timeout_s), Silent)
        return reply

    async def baseline(self) -> Reply:
        """What becomes of plain text; asked once."""
        if self._baseline is None:
            self._baseline = await self.prompt(TEXT)
        return self._baseline

    async def harmless(self, **meta: Any) -> tuple[str, dict[str, Any]]:
        """A request that any agent can answer: a method that nobody has, or the handshake if such get no answer."""
        if self._answers_unknown is None:
            reply = await (await self.fresh(introduced=True)).call(UNKNOWN_METHOD, {})
            self._answers_unknown = isinstance(reply, Answered | Refused)
        if self._answers_unknown:
            return UNKNOWN_METHOD, {"_meta": meta}
        return "initialize", {**_introduction(self.settings.protocol), "_meta": meta}

    async def ping(self, talk: Talk) -> Reply:
        """The answer to a harmless request."""
        return await talk.call(*await self.harmless())

    async def after(self, line: bytes) -> Aftermath:
        """What this line does to an agent of its own; tried once."""
        if line not in self._seen:
            self._seen[line] = await self._try(line)
        return self._seen[line]

    async def _try(self, line: bytes) -> Aftermath:
        # An agent of its own: one that dies of the line a moment later must not be held against the next check.
        await self.harmless()
        talk = await self.fresh(introduced=True)
        talk.was_misled = True
        await talk.send(line)
        # Agents may take their time to complain, or to end; the reply to the next request need not come last.
        reply = await self.ping(talk)
        await asyncio.wait({talk.reading}, timeout=min(self.settings.aftermath_s, talk.timeout_s))
        strays = [as_reply(stray) for stray in talk.strays]
        return Aftermath(reply if talk.is_alive else Gone(talk.peer.process.returncode), strays, bool(talk.nameless))

    async def settle(self, check: str, *, is_grave: bool) -> None:
        """Tidy up after a check, and note whether it cost an agent its life where that is held against it."""
        has_died = self._shared is not None and _has_died(self._shared)
        while self._fresh:
            talk = self._fresh[-1]
            if is_grave and talk.was_misled and talk.is_alive:
                await self.end_lingering()
                self._lingering = (check, talk)
            else:
                has_died = has_died or _has_died(talk)
                await self._retire(talk)
            self._fresh.pop()
        if is_grave and has_died:
            self.crashed_in.append(check)
        if self._shared is not None and not self._shared.is_alive:
            await self._retire(self._shared)
            self._shared = None

    async def end_lingering(self) -> None:
        """End the agent that was watched longer; if it died meanwhile, that is held against the check it was for."""
        if self._lingering is None:
            return
        check, talk = self._lingering
        if _has_died(talk):
            self.crashed_in.append(check)
        await self._retire(talk)
        self._lingering = None

    async def close(self) -> None:
        """End every agent that was started."""
        for talk in self._all():
            await self._retire(talk)
        self._fresh.clear()
        self._shared = self._lingering = None

    def _running(self) -> list[Talk]:
        """The shared agent and those of the check that runs."""
        return [*self._fresh, *([self._shared] if self._shared else [])]

    def _all(self) -> list[Talk]:
        return [*self._running(), *([self._lingering[1]] if self._lingering else [])]

    def last_words(self) -> str | None:
        """The last line that the shared agent said on stderr."""
        lines = self._shared.peer.stderr.split("\n") if self._shared else []
        return next((line.strip() for line in reversed(lines) if line.strip()), None)

    def noise_so_far(self) -> list[str]:
        """What was no message on the output of any agent."""
        return [*self.noise, *(line for talk in self._all() for line in talk.noise)]

    async def _start(self) -> Talk:
        peer = await start_peer(self.settings.command, environ=self.settings.environ, cwd=self.settings.cwd)
        return Talk(peer, self.settings.timeout_s)

    async def _open_session(self, talk: Talk) -> Reply:
        params: dict[str, Any] = {"cwd": self.settings.session_cwd, "mcpServers": []}
        reply = await talk.call("session/new", params, wait_s=self.settings.startup_s)
        if isinstance(reply, Answered) and isinstance(reply.result, dict):
            own: Any = reply.result.get("sessionId")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            talk.session = own if isinstance(own, str) else None
        return reply

    async def _retire(self, talk: Talk) -> None:
        await talk.end()
        self.noise.extend(talk.noise)
        talk.noise.clear()


def _has_died(talk: Talk) -> bool:
    return not talk.is_alive and not talk.was_dismissed


def _introduction(version: int) -> dict[str, Any]:
    told = {"name": "accord-inspect", "version": "1"}
    params: dict[str, Any] = {"protocolVersion": version}
    params |= {"info": told, "capabilities": {}} if version >= 2 else {}
    # A client that offers version 2 may well meet an agent of version 1, which reads only these.
    return params | {"clientInfo": told, "clientCapabilities": {}}


# What a check is: a row that says on which clause it stands, and a small function that asks an agent and judges.

Ask = Callable[[AgentProbe], Awaitable[CheckOutcome]]


class Needs(Enum):
    """What has to have worked before a check can say anything."""

    NOTHING = "nothing"
    HANDSHAKE = "handshake"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Check:
    """One question to an agent."""

    id: str
    title: str
    clause: str
    level: Level
    needs: Needs
    ask: Ask


class CheckTable(list[Check]):
    """Checks in the order in which they run; `@table.check(…)` adds the function below it."""

    def check(self, own: str, title: str, clause: str, level: Level, needs: Needs = Needs.HANDSHAKE) -> Any:
        """Add a check with this row."""

        def add(ask: Ask) -> Ask:
            self.append(Check(own, title, clause, level, needs, ask))
            return ask

        return add


MUST: Final = Level.MUST
SHOULD: Final = Level.SHOULD
MAY: Final = Level.MAY
