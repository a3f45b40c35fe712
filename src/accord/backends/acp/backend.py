"""The backend for an ACP agent: started when first needed and again after a crash, one session for each answer.

Before the agent has started, the manifest is what the operator declared and what holds for every agent;
afterwards also what the agent declared. The operator's declaration counts first.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Final

from accord.acp.schema_v1 import AgentCapabilities
from accord.backends.acp.permissions import AgentPermissions
from accord.backends.acp.process import AgentLaunch, AgentProcess, AgentTiming
from accord.backends.acp.request import agent_manifest, prompt_blocks
from accord.backends.evidence import from_operator, gather, manifest_of
from accord.core.work.evidence import Layer
from accord.errors import BackendError
from accord.wire.capability import ALIASES
from accord.wire.disposition import Api
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

FIRST_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 30.0
DECLARED: Final = "the agent's own declaration"


class AcpBackend:
    """An ACP agent that `command` starts. `declared` is the operator's manifest."""

    def __init__(  # noqa: PLR0913 - parts are handed in
        self,
        name: str,
        command: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
        permissions: AgentPermissions | None = None,
        declared: CapabilityManifest | None = None,
        timing: AgentTiming | None = None,
    ) -> None:
        self.name: Final = name
        self.launch: Final = AgentLaunch(
            command=tuple(command),
            cwd=str(Path(cwd or ".").resolve()),
            environ=None if environ is None else dict(environ),
            permissions=permissions or AgentPermissions(),
        )
        self._declared: Final = declared or CapabilityManifest({})
        self._timing: Final = timing or AgentTiming()
        self.model: Final = None
        self.api_name: Final = Api.ACP
        self.evidence: Layer = {}
        self._manifest = self._update_manifest(AgentCapabilities())
        self._process: AgentProcess | None = None
        self._crashes = 0

    @property
    def manifest(self) -> CapabilityManifest:
        """The capabilities that are known so far."""
        return self._manifest

    async def discover(self) -> CapabilityManifest:
        """Return the manifest after the handshake; raise `BackendError` if the agent does not start."""
        await self._running_agent()
        return self._manifest

    async def probe(self) -> None:
        """Return if the agent runs and the handshake is done; raise `BackendError` if not."""
        await self._running_agent()

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Yield the pieces of the agent's answer as they arrive, from a session of its own."""
        process = await self._running_agent()
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
        """End the agent; a later answer starts another one."""
        process, self._process = self._process, None
        if process is not None and process.loop is asyncio.get_running_loop():
            await process.end()

    async def _running_agent(self) -> AgentProcess:
        process = self._process
        if process is None or process.is_over or process.loop is not asyncio.get_running_loop():
            process = self._process = self._start(process)
        try:
            await process.ready()
        except BackendError:
            # Without a handshake the agent is useless; the next answer starts another one.
            if not process.is_over:
                process.spawn(process.end())
            raise
        self._manifest = self._update_manifest(process.capabilities)
        return process

    def _start(self, before: AgentProcess | None) -> AgentProcess:
        pause_s = 0.0
        if before is not None and before.has_crashed:
            pause_s = min(FIRST_PAUSE_S * 2**self._crashes, MAX_PAUSE_S) - (self._timing.clock() - before.ended_at)
            self._crashes += 1
        return AgentProcess(self.name, self.launch, self._timing, pause_s=pause_s)

    def _update_manifest(self, capabilities: AgentCapabilities) -> CapabilityManifest:
        operator = from_operator(self._declared)
        agent = from_operator(agent_manifest(capabilities), source=DECLARED)
        self.evidence = gather(
            operator, {name: evidence for name, evidence in agent.items() if ALIASES.get(name) not in operator}
        )
        return manifest_of(self.evidence)
