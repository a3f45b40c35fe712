"""The backend that an ACP agent is: started when first needed, started again when it died, one session for each answer.

It decides when to start an agent and what is known of it before. How prompts are written is `translate`'s business, how
an agent is run `process`'s. Before the agent was reached, the manifest is what the operator declared and what every
agent owes (text, streamed); from then on, what the agent declared too. The operator's word counts first.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Final

from accord.backends.acp.permissions import AgentPermissions
from accord.backends.acp.process import AgentProcess, Launch, Timing
from accord.backends.acp.request import agent_manifest, prompt_blocks
from accord.backends.evidence import Layer, from_operator, gather, manifest_of
from accord.errors import BackendError
from accord.wire.acp.initialize import AgentCapabilities
from accord.wire.capability import ALIASES
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

FIRST_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 30.0
DECLARED: Final = "the agent's own declaration"


class AcpBackend:
    """An ACP agent that `command` starts. `declared` is the operator's word on what it can do."""

    def __init__(  # noqa: PLR0913 - parts are handed in
        self,
        name: str,
        command: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
        permissions: AgentPermissions | None = None,
        declared: CapabilityManifest | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.name: Final = name
        self.launch: Final = Launch(
            command=tuple(command),
            cwd=str(Path(cwd or ".").resolve()),
            environ=None if environ is None else dict(environ),
            permissions=permissions or AgentPermissions(),
        )
        self._declared: Final = declared or CapabilityManifest({})
        self._timing: Final = timing or Timing()
        self.model: Final = None
        self.evidence: Layer = {}
        self._manifest = self._with(AgentCapabilities())
        self._process: AgentProcess | None = None
        self._crashes = 0
        self._stderr = ""

    @property
    def manifest(self) -> CapabilityManifest:
        """What it can do, as far as it is known."""
        return self._manifest

    @property
    def last_stderr(self) -> str:
        """The end of what the agent, or the one before it, said on standard error: for the operator, never a client."""
        return (self._process.stderr if self._process is not None else "") or self._stderr

    async def discover(self) -> CapabilityManifest:
        """The manifest once the agent has been asked; raises `BackendError` if it cannot be."""
        await self._reached()
        return self._manifest

    async def probe(self) -> None:
        """Return if the agent runs and has introduced itself; raise `BackendError` if not."""
        await self._reached()

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """The agent's answer as it comes, from a session of its own."""
        process = await self._reached()
        turn = await process.begin(prompt_blocks(order, self._manifest, token_hex(6)))
        try:
            while True:
                piece = await turn.next()
                if isinstance(piece, EndPiece):
                    self._crashes = 0
                yield piece
                if isinstance(piece, EndPiece):
                    return
        finally:
            await turn.close()

    async def aclose(self) -> None:
        """End the agent; the next answer would start another one."""
        process, self._process = self._process, None
        if process is not None and process.loop is asyncio.get_running_loop():
            await process.end()
            self._stderr = process.stderr or self._stderr

    async def _reached(self) -> AgentProcess:
        process = self._process
        if process is None or process.is_over or process.loop is not asyncio.get_running_loop():
            process = self._process = self._start(process)
        try:
            await process.ready()
        except BackendError:
            # An agent that does not introduce itself is of no use; the next answer tries another one.
            if not process.is_over:
                process.spawn(process.end())
            raise
        self._manifest = self._with(process.capabilities)
        return process

    def _start(self, before: AgentProcess | None) -> AgentProcess:
        pause_s = 0.0
        if before is not None:
            self._stderr = before.stderr or self._stderr
            if before.has_crashed:
                pause_s = min(FIRST_PAUSE_S * 2**self._crashes, MAX_PAUSE_S) - (self._timing.clock() - before.ended_at)
                self._crashes += 1
        return AgentProcess(self.name, self.launch, self._timing, pause_s=pause_s)

    def _with(self, capabilities: AgentCapabilities) -> CapabilityManifest:
        operator = from_operator(self._declared)
        told = from_operator(agent_manifest(capabilities), source=DECLARED)
        own = {name: evidence for name, evidence in told.items() if ALIASES.get(name) not in operator}
        self.evidence = gather(operator, own)
        return manifest_of(self.evidence)
