"""What one check works with: agents, a session of its own, prompts. The checks are in `checks/`."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from accord.acp.methods import Method
from accord.acp_tools.inspect.blocks import TEXT, WORDS, Block, text_block
from accord.acp_tools.inspect.client import InspectorClient, initialize_params
from accord.acp_tools.inspect.connection import AgentConnection, to_reply
from accord.acp_tools.inspect.declared import DeclaredAgent
from accord.acp_tools.inspect.inspection import MAX_LINES, Inspection, LineEffect, NextPrompt, has_died
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Gone,
    Refused,
    Reply,
    Silent,
    describe,
    not_judged,
)
from accord.acp_tools.json_values import as_object
from accord.core.prompt.verdict import Declaration, read_declaration
from accord.core.rpc import request_line
from accord.wire.inspection import InspectedLine

UNKNOWN_METHOD: Final = "_accord/ping"
UNKNOWN_NOTICE: Final = "_accord/nothing"


class CannotJudgeError(Exception):
    """Something that a check needs did not work; `outcome` says what."""

    def __init__(self, outcome: CheckOutcome) -> None:
        super().__init__(outcome.sentence)
        self.outcome: Final = outcome


class StartedPrompt(NamedTuple):
    """A prompt whose turn may still run. In the draft the reply only accepts it, and an update reports the end."""

    connection: AgentConnection
    session: str
    call_id: int
    since: int
    pending: "asyncio.Future[Reply]"
    is_draft: bool

    async def has_ended_within(self, seconds: float) -> bool:
        """Wait for the end of the turn."""
        if self.is_draft:
            return not isinstance(await self.connection.turn_end_within(self.session, self.since, seconds), Silent)
        return bool((await asyncio.wait({self.pending}, timeout=seconds))[0])

    async def ending(self) -> Reply:
        """How the turn ended."""
        connection = self.connection
        reply = await connection.reply(self.pending, self.call_id)
        if self.is_draft and isinstance(reply, Answered):
            reply = await connection.turn_end_within(self.session, self.since, connection.timeout_s)
            connection.is_busy = connection.is_busy or isinstance(reply, Silent)
        return reply


class AgentProbe:
    """What one check works with: agents, a session of its own, prompts."""

    def __init__(self, inspection: Inspection, check: str) -> None:
        self.inspection: Final = inspection
        self.settings: Final = inspection.settings
        self.check: Final = check
        self._agent: AgentConnection | None = None
        self._session: str | None = None
        self._fresh: Final[list[AgentConnection]] = []
        self._since: Final[dict[AgentConnection, int]] = {}
        """The length of each log when the check began to use the connection."""

    @property
    def declared(self) -> DeclaredAgent:
        """What the agent declares."""
        return self.inspection.declared

    @property
    def declaration(self) -> Declaration:
        """The content types that the agent declares."""
        return read_declaration(self.declared.prompt, self.declared.version)

    @property
    def is_draft(self) -> bool:
        """Whether the negotiated version is the draft."""
        return self.declared.version >= 2

    async def agent(self) -> AgentConnection:
        """An initialized agent that no other check uses at the same time; the same one for the whole check."""
        if self._agent is None or not self._agent.is_alive:
            if self._agent is not None:
                await self.inspection.give_back(self._agent, self.check)
            self._agent = await self.inspection.take()
            self._session = None
            self._since[self._agent] = len(self._agent.log)
        return self._agent

    async def fresh(self, *, initialized: bool = False, client: InspectorClient | None = None) -> AgentConnection:
        """A new agent for this check alone; `client` is what the inspector offers to it."""
        connection = await self.inspection.start(client)
        self._fresh.append(connection)
        self._since[connection] = 0
        if initialized:
            await self.inspection.initialize(connection, self.settings.protocol)
        return connection

    async def create_session(self, connection: AgentConnection | None = None, **members: Any) -> Mapping[str, Any]:
        """Open a session and return the result; raises `CannotJudgeError` if that does not work."""
        connection = connection or await self.agent()
        params = self.inspection.session_params(**members)
        reply = await connection.call("session/new", params, wait_s=self.settings.startup_s)
        result = as_object(reply.result) if isinstance(reply, Answered) else {}
        if not isinstance(result.get("sessionId"), str):
            raise CannotJudgeError(not_judged(f"A further session could not be opened: {describe(reply)}", reply))
        return result

    async def open_session(self, connection: AgentConnection | None = None, **members: Any) -> str:
        """Open a session and return its id; raises `CannotJudgeError` if that does not work."""
        return str((await self.create_session(connection, **members))["sessionId"])

    async def session(self) -> str:
        """The session of this check on `agent()`, opened when it is first used."""
        connection = await self.agent()
        if self._session is None:
            self._session = await self.open_session(connection)
        return self._session

    async def prompt(
        self,
        *blocks: Block,
        session: str | None = None,
        connection: AgentConnection | None = None,
        wait_s: float | None = None,
    ) -> Reply:
        """Send a prompt and return the reply; in the session of this check unless another is given."""
        prompt = await self.start_prompt(*blocks, session=session, connection=connection)
        connection = prompt.connection
        reply = await connection.reply(prompt.pending, prompt.call_id, wait_s=wait_s)
        if self.is_draft and isinstance(reply, Answered):
            connection.is_busy = not await prompt.has_ended_within(connection.timeout_s)
        return reply

    async def start_prompt(
        self, *blocks: Block, session: str | None = None, connection: AgentConnection | None = None
    ) -> StartedPrompt:
        """Send a prompt without waiting for its reply; in the session of this check unless another is given."""
        connection = connection or await self.agent()
        session = session or await self.session()
        call_id, since = connection.next_id(), len(connection.updates)
        pending = connection.expect(call_id)
        params = {"sessionId": session, "prompt": list(blocks)}
        await connection.send(request_line(call_id, Method.SESSION_PROMPT, params))
        return StartedPrompt(connection, session, call_id, since, pending, self.is_draft)

    async def baseline(self) -> Reply:
        """The reply to plain text, which is sent once for all checks."""
        return (await self._send_baseline())[0]

    async def baseline_lines(self) -> tuple[InspectedLine, ...]:
        """The lines of the exchange of `baseline`."""
        return (await self._send_baseline())[1]

    async def _send_baseline(self) -> tuple[Reply, tuple[InspectedLine, ...]]:
        inspection = self.inspection
        async with inspection.lock("baseline"):
            if inspection.baseline is None:
                probe = AgentProbe(inspection, "text")
                reply = await probe.prompt(TEXT)
                if isinstance(reply, Answered):
                    # What comes after the end of the turn is late, and judged as such.
                    await (await probe.agent()).received_within(self.settings.watch_s)
                inspection.baseline = (reply, probe.lines())
                await probe.finish()
            return inspection.baseline

    async def prompt_text_again(
        self, after: str, connection: AgentConnection | None = None, session: str | None = None
    ) -> Reply:
        """Send plain text to the session that just got a bad prompt, and record whether it still works."""
        connection = connection or await self.agent()
        since = len(connection.log)
        # With a marker: the fake model follows the directive of an earlier prompt if the newest one has neither.
        _, text = self.marked_text()
        reply = await self.prompt(text, session=session, connection=connection)
        lines = self.inspection.render(connection, range(since, len(connection.log)))
        self.inspection.next_prompts.append(NextPrompt(after, reply, lines))
        return reply

    def marked_text(self, words: str = WORDS) -> tuple[str, Block]:
        """A marker that no other prompt has, and a text block that contains it."""
        marker = f"accord-marker-{next(self.inspection.markers):04d}"
        return marker, text_block(f"{words} ({marker})")

    async def harmless_request(self, **meta: Any) -> tuple[str, dict[str, Any]]:
        """A request that any agent can answer: an unknown method, or `initialize` if unknown methods get no reply."""
        inspection = self.inspection
        async with inspection.lock("harmless"):
            if inspection.harmless is None:
                connection = await inspection.take()
                reply = await connection.call(UNKNOWN_METHOD, {})
                is_answered = isinstance(reply, Answered | Refused)
                inspection.harmless = UNKNOWN_METHOD if is_answered else "initialize"
                await inspection.give_back(connection, self.check)
        if inspection.harmless == UNKNOWN_METHOD:
            return UNKNOWN_METHOD, {"_meta": meta}
        return "initialize", {**initialize_params(self.settings.protocol), "_meta": meta}

    async def send_line(self, line: bytes) -> LineEffect:
        """Send this line to a new agent, then a harmless request; done once for each line."""
        inspection = self.inspection
        async with inspection.lock(line):
            effects = inspection.line_effects
            if line not in effects:
                effects[line] = await self._send_line(line)
            return effects[line]

    async def _send_line(self, line: bytes) -> LineEffect:
        request = await self.harmless_request()
        # Not a shared agent: one that dies late would fail the next check.
        connection = await self.fresh(initialized=True)
        connection.got_broken_line = True
        since = len(connection.log)
        await connection.send(line)
        reply = await connection.call(*request)
        # An error reply, or the end of the agent, may come after the reply to the next request.
        await asyncio.wait({connection.reading}, timeout=min(self.settings.watch_s, connection.timeout_s))
        if not connection.is_alive:
            reply = Gone(connection.peer.process.returncode)
        unsolicited = [to_reply(frame) for frame in connection.unsolicited]
        lines = self.inspection.render(connection, range(since, len(connection.log)))
        return LineEffect(reply, unsolicited, bool(connection.errors_without_id), lines)

    def lines(self) -> tuple[InspectedLine, ...]:
        """The end of the conversations of this check; of long ones, without the updates."""
        found: list[InspectedLine] = []
        for connection, since in self._since.items():
            numbers = range(since, len(connection.log))
            if len(numbers) > MAX_LINES:
                numbers = [number for number in numbers if b'"session/update"' not in connection.log[number][1]]
            found += self.inspection.render(connection, numbers)
        return tuple(found[-MAX_LINES:])

    async def finish(self, *, counts_deaths: bool = True) -> None:
        """Give back or end the agents of this check; record the check if an agent died during it."""
        if self._agent is not None:
            await self.inspection.give_back(self._agent, self.check, counts_deaths=counts_deaths)
            self._agent = None
        for connection in self._fresh:
            if connection.got_broken_line and connection.is_alive:
                await self.inspection.give_back(connection, self.check, counts_deaths=counts_deaths)
                continue
            if counts_deaths and has_died(connection):
                self.inspection.crashed_in.append(self.check)
            await self.inspection.end(connection, self.check)
        self._fresh.clear()
