"""The agent under inspection, and everything that the checks have found out about it: shared by all checks.

Agents are reused from check to check as long as they are alive and idle; one that was sent a broken line is not,
because it may die late, and is observed for a while instead. What each connection shows about the messages of the
agent is collected here for the checks that report it.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

from accord.acp_tools.inspect.client import InspectorClient, PermissionPolicy, initialize_params
from accord.acp_tools.inspect.conduct import Rule
from accord.acp_tools.inspect.connection import AgentConnection
from accord.acp_tools.inspect.declared import DeclaredAgent, read_initialize_result
from accord.acp_tools.inspect.replies import (
    Answered,
    Refused,
    Reply,
    Silent,
    shorten,
    why_no_session,
)
from accord.acp_tools.inspect.tool_use import ClientOffer, ToolTask, ToolTurn
from accord.stdio import start_peer
from accord.wire.inspection import InspectedLine, LineSender

if TYPE_CHECKING:
    from accord.acp_tools.inspect.fake_model.server import FakeModel

NO_SESSIONS: Final = "session is not declared"
MAX_WATCHED: Final = 3
"""How many agents that got a broken line are observed at the same time."""
MAX_LINES: Final = 12
"""How many lines of the conversation a finding shows."""
MAX_LINE_CHARS: Final = 600


@dataclass(frozen=True, slots=True)
class InspectSettings:
    """How to start the agent, how long to wait for it, and how many to run at the same time."""

    command: Sequence[str]
    environ: Mapping[str, str] | None = None
    """The environment of the agent; that of this process if it is None."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that the user gave; they replace those of the environment and of the fake model."""
    cwd: str | None = None
    session_cwd: str = "/"
    protocol: int = 1
    timeout_s: float = 10.0
    startup_s: float = 30.0
    watch_s: float = 0.2
    """How long to wait for a late error reply, or the end of the agent, after a broken line."""
    jobs: int = 4
    quick: bool = False
    mock_llm: bool = False
    authenticate: str | None = None
    """The method to call after every handshake, for agents that require it."""
    secrets: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class LineEffect:
    """What happened after a line: the reply to the next request, and the unsolicited replies."""

    reply: Reply
    unsolicited: Sequence[Refused | Answered] = ()
    lacks_id: bool = False
    """Whether one of the unsolicited errors has no id."""
    lines: tuple[InspectedLine, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundViolation:
    """A broken rule, the check during which it was broken, and the lines that show it."""

    rule: Rule
    sentence: str
    check: str
    lines: tuple[InspectedLine, ...]


@dataclass(frozen=True, slots=True)
class NextPrompt:
    """The reply to plain text after a prompt that may have left its session unusable."""

    after: str
    reply: Reply
    lines: tuple[InspectedLine, ...]


class Inspection:
    """The agent under inspection, and everything that was found out about it so far."""

    def __init__(self, settings: InspectSettings) -> None:
        self.settings: Final = settings
        self.handshake: Reply = Silent(0)
        self.handshake_lines: tuple[InspectedLine, ...] = ()
        self.authentication: Reply | None = None
        """The last reply to `authenticate`, if the user gave a method for it."""
        self.last_stderr_line: str | None = None
        """The last line that an agent which ended wrote to stderr."""
        self.declared: DeclaredAgent = read_initialize_result(None)
        self.first_session: Reply = Silent(0)
        """The reply to the first `session/new`."""
        self.first_session_lines: tuple[InspectedLine, ...] = ()
        self.crashed_in: Final[list[str]] = []
        """The checks during which an agent died."""
        self.violations: Final[list[FoundViolation]] = []
        self.judged: Final[set[Rule]] = set()
        """The rules for which the agent sent something to judge."""
        self.next_prompts: Final[list[NextPrompt]] = []
        self.noise: Final[list[str]] = []
        self.baseline: tuple[Reply, tuple[InspectedLine, ...]] | None = None
        """The reply to plain text and the lines of that exchange."""
        self.harmless: str | None = None
        """A method that every agent answers."""
        self.line_effects: Final[dict[bytes, LineEffect]] = {}
        self.tool_turns: Final[dict[ToolTask, ToolTurn]] = {}
        self.tool_agents: Final[dict[ClientOffer, AgentConnection]] = {}
        """The agents that are offered files and terminals."""
        self.tool_sessions: Final[dict[tuple[AgentConnection, PermissionPolicy], str]] = {}
        self._temporary: Final = TemporaryDirectory(prefix="accord-inspect-", ignore_cleanup_errors=True)
        self.folder: Final = Path(self._temporary.name).resolve()
        """Where these agents work; it is deleted at the end."""
        self._locks: Final[dict[str | bytes, asyncio.Lock]] = {}
        self._idle: Final[list[AgentConnection]] = []
        self._running: Final[set[AgentConnection]] = set()
        self._watched: Final[list[tuple[str, AgentConnection]]] = []
        """The last agents that were sent a broken line, and the checks that sent it."""
        self._taken: Final[dict[AgentConnection, int]] = {}
        """How many violations of each connection were collected."""
        self.markers: Final = count(1)
        self.model: FakeModel | None = None
        self._resources: Final = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self.settings.mock_llm:
            from accord.acp_tools.inspect.fake_model.server import FakeModel  # noqa: PLC0415 - its library is an extra

            self.model = await self._resources.enter_async_context(FakeModel())
        self._resources.enter_context(self._temporary)
        self._resources.push_async_callback(self.close)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

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

    def lock(self, name: str | bytes) -> asyncio.Lock:
        """The lock of something that is found out once for all checks."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def open(self) -> None:
        """Start the first agent, with a handshake and a session."""
        connection = await self.start()
        self.handshake = await self.initialize(connection, self.settings.protocol)
        self.handshake_lines = self.render(connection, range(len(connection.log)))
        if isinstance(self.handshake, Answered):
            self.declared = read_initialize_result(self.handshake.result)
            if not self.lacks_sessions:
                self.first_session = await connection.call(
                    "session/new", self.session_params(), wait_s=self.settings.startup_s
                )
                self.first_session_lines = self.render(connection, range(len(connection.log)))
        await self.give_back(connection, "handshake")

    async def start(self, client: InspectorClient | None = None) -> AgentConnection:
        """Start an agent, without a handshake."""
        environ = os.environ if self.settings.environ is None else self.settings.environ
        if self.model is not None:
            environ = {**environ, **self.model.environ()}
        peer = await start_peer(
            self.settings.command, environ={**environ, **self.settings.variables}, cwd=self.settings.cwd
        )
        connection = AgentConnection(peer, self.settings.timeout_s, client)
        self._running.add(connection)
        return connection

    async def initialize(self, connection: AgentConnection, version: int) -> Reply:
        """Send `initialize` with this version and return the reply."""
        params = initialize_params(version, connection.client.capabilities)
        reply = await connection.call("initialize", params, wait_s=self.settings.startup_s)
        if self.settings.authenticate is not None and isinstance(reply, Answered):
            method = {"methodId": self.settings.authenticate}
            self.authentication = await connection.call("authenticate", method, wait_s=self.settings.startup_s)
        return reply

    def session_params(self, **members: Any) -> dict[str, Any]:
        """The parameters of `session/new`."""
        return {"cwd": self.settings.session_cwd, "mcpServers": [], **members}

    async def take(self) -> AgentConnection:
        """An initialized agent: an idle one, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_alive and not connection.is_busy:
                return connection
            await self.end(connection, "")
        connection = await self.start()
        await self.initialize(connection, self.settings.protocol)
        return connection

    async def give_back(self, connection: AgentConnection, check: str, *, counts_deaths: bool = True) -> None:
        """Keep an agent for the next check if it is alive and idle; else end it."""
        if counts_deaths and has_died(connection):
            self.crashed_in.append(check)
        if connection.is_alive and not connection.is_busy and not connection.got_broken_line:
            self.collect(connection, check)
            self._idle.append(connection)
        elif connection.is_alive and connection.got_broken_line and counts_deaths:
            self._watched.append((check, connection))
            if len(self._watched) > MAX_WATCHED:
                await self._end_watched(*self._watched.pop(0))
        else:
            await self.end(connection, check)

    async def end(self, connection: AgentConnection, check: str) -> None:
        """End an agent and collect what it did."""
        await connection.end()
        self.collect(connection, check)
        lines = [line.strip() for line in connection.peer.stderr.split("\n") if line.strip()]
        self.last_stderr_line = lines[-1] if lines else self.last_stderr_line
        self._running.discard(connection)

    def collect(self, connection: AgentConnection, check: str) -> None:
        """Collect the violations and the noise of this connection since the last time."""
        violations = connection.conduct.violations
        for violation in violations[self._taken.get(connection, 0) :]:
            lines = self.render(connection, violation.lines)
            self.violations.append(FoundViolation(violation.rule, violation.sentence, check, lines))
        self._taken[connection] = len(violations)
        self.judged.update(connection.conduct.judged)
        self.noise.extend(connection.noise)
        connection.noise.clear()

    async def end_watched(self) -> None:
        """End the agents that are still observed; record the check that sent the broken line if one died meanwhile."""
        watched, self._watched[:] = list(self._watched), []
        await asyncio.gather(*(self._end_watched(check, connection) for check, connection in watched))

    async def _end_watched(self, check: str, connection: AgentConnection) -> None:
        if has_died(connection):
            self.crashed_in.append(check)
        await self.end(connection, check)

    async def collect_all(self) -> None:
        """Collect what every agent did until now, for the checks that report on all of it."""
        await self.end_watched()
        for connection in list(self._running):
            self.collect(connection, "")

    async def close(self) -> None:
        """End every agent that was started."""
        await asyncio.gather(*(self.end(connection, "") for connection in list(self._running)))

    def render(self, connection: AgentConnection, numbers: Sequence[int]) -> tuple[InspectedLine, ...]:
        """These lines of a connection's log, shortened and without secrets."""
        rendered: list[InspectedLine] = []
        for number in numbers[-MAX_LINES:]:
            sender, line = connection.log[number]
            # What the inspector sends has no keys, and must be complete to be sent again.
            text = shorten(
                line.decode(errors="replace"),
                self.settings.secrets,
                max_chars=MAX_LINE_CHARS,
                hides_keys=sender is LineSender.AGENT,
            )
            rendered.append(InspectedLine(sender=LineSender(sender), line=text))
        return tuple(rendered)


def has_died(connection: AgentConnection) -> bool:
    """Whether the agent ended although its input was open."""
    return not connection.is_alive and not connection.is_input_closed
