"""Whether a service is well: it probes the store and every backend, all at once, and remembers the answer for a while.

Anybody may ask, as often as they like, so that asking must not reach a backend each time, and the answer says only that
something is not well; what it is goes to the log. It does not know how the answer travels.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from accord.servers.service import Service
from accord.wire.health import HealthCheckResponse, HealthCheckStatus

REMEMBERED_S: Final = 5.0
PROBE_S: Final = 2.0

_LOGGER: Final = logging.getLogger("accord.health")


class Health:
    """The health of one service."""

    def __init__(self, service: Service, *, probe_s: float = PROBE_S, remembered_s: float = REMEMBERED_S) -> None:
        self._service: Final = service
        self._clock: Final = service.sessions.engine.clock
        self._probe_s: Final = probe_s
        self._remembered_s: Final = remembered_s
        self._began_at: Final = self._clock.monotonic()
        self._looked_at: float | None = None
        self._is_well = True
        self._looking: asyncio.Task[None] | None = None
        self._probing: Final[dict[str, asyncio.Task[None]]] = {}

    async def check(self) -> HealthCheckResponse:
        """How the service is, as of a few seconds ago at most."""
        return HealthCheckResponse(
            status=await self._status(),
            agent_id=self._service.agent_id,
            version=self._service.version,
            uptime_seconds=round(max(0.0, self._clock.monotonic() - self._began_at), 3),
        )

    async def _status(self) -> HealthCheckStatus:
        if self._service.is_draining:
            return HealthCheckStatus.MAINTENANCE
        if self._looked_at is None or self._clock.monotonic() - self._looked_at >= self._remembered_s:
            await self._look_once()
        return HealthCheckStatus.OK if self._is_well else HealthCheckStatus.DEGRADED

    async def _look_once(self) -> None:
        """Look, together with whoever else wants to know; one that leaves meanwhile stops nobody's look."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        await asyncio.shield(self._looking)

    async def _look(self) -> None:
        tasks = [self._probe(name, probe) for name, probe in self._parts().items()]
        await asyncio.wait(tasks, timeout=self._probe_s)
        failed = {name: _failure(task) for name, task in self._probing.items()}
        for name, why in failed.items():
            if why is not None:
                _LOGGER.warning("a probe failed", extra={"fields": {"part": name, "why": why}})
        for task in self._probing.values():
            task.cancel()
        self._is_well = not any(failed.values())
        self._looked_at = self._clock.monotonic()

    def _parts(self) -> dict[str, Callable[[], Awaitable[None]]]:
        sessions = self._service.sessions
        backends = sessions.engine.dispatcher.backends
        return {"store": sessions.store.probe, **{f"backend {name}": part.probe for name, part in backends.items()}}

    def _probe(self, name: str, probe: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """The probe of this part; one that was told to stop and has not is waited for, never doubled."""
        task = self._probing.get(name)
        if task is None or task.done():
            task = self._probing[name] = asyncio.create_task(_run(probe))
            # One that fails after its time is nobody's news; asyncio would print what it said.
            task.add_done_callback(_failure)
        return task


async def _run(probe: Callable[[], Awaitable[None]]) -> None:
    await probe()


def _failure(task: asyncio.Task[None]) -> str | None:
    """Why this probe is no good, by kind: what an endpoint said may be anything."""
    if not task.done():
        return "too slow"
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    return type(error).__name__ if error is not None else None
