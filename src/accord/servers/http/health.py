"""Whether a service is live, ready and well: probes of the store and the backends, remembered for a while.

Anybody may ask, as often as they like, so that asking must not reach a part each time, and the answer says only that
something is not well; what it is goes to the log. It does not know how the answer travels.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from accord.errors import StoreError
from accord.ports import Clock
from accord.servers.service import Service
from accord.wire.service import HealthCheckResponse, HealthCheckStatus

BACKENDS_REMEMBERED_S: Final = 5.0
STORE_REMEMBERED_S: Final = 1.0
"""Shorter: a probe of the store costs little, and load balancers should not send turns to a store that fails."""
PROBE_S: Final = 2.0

_LOGGER: Final = logging.getLogger("accord.health")

Probe = Callable[[], Awaitable[None]]


class Health:
    """The health of one service.

    It is *ready* if its store can be written and it is not being stopped: otherwise another process may do better. A
    backend that fails makes it *degraded* only: another process would ask the same backend, and other backends answer.
    """

    def __init__(
        self,
        service: Service,
        *,
        probe_s: float = PROBE_S,
        store_remembered_s: float = STORE_REMEMBERED_S,
        backends_remembered_s: float = BACKENDS_REMEMBERED_S,
    ) -> None:
        sessions = service.sessions
        backends = sessions.engine.dispatcher.backends
        self._service: Final = service
        self._clock: Final = sessions.engine.clock
        self._began_at: Final = self._clock.monotonic()
        self._store: Final = _Probes({"store": sessions.store.probe}, self._clock, probe_s, store_remembered_s)
        probes = {f"backend {name}": backend.probe for name, backend in backends.items()}
        self._backends: Final = _Probes(probes, self._clock, probe_s, backends_remembered_s)

    async def is_ready(self) -> bool:
        """Whether this process can take turns, as of a second ago at most."""
        return not self._service.is_draining and await self._store.succeed()

    async def check(self) -> HealthCheckResponse:
        """How the service is, as of a few seconds ago at most."""
        if self._service.is_draining:
            return self.report(HealthCheckStatus.MAINTENANCE)
        results = await asyncio.gather(self._store.succeed(), self._backends.succeed())
        return self.report(self.status_of(is_well=all(results)))

    def status_of(self, *, is_well: bool) -> HealthCheckStatus:
        """The word for a service that is well, being stopped, or neither."""
        if self._service.is_draining:
            return HealthCheckStatus.MAINTENANCE
        return HealthCheckStatus.OK if is_well else HealthCheckStatus.DEGRADED

    def report(self, status: HealthCheckStatus) -> HealthCheckResponse:
        """The answer with this status."""
        return HealthCheckResponse(
            status=status,
            agent_id=self._service.agent_id,
            version=self._service.version,
            uptime_seconds=round(max(0.0, self._clock.monotonic() - self._began_at), 3),
        )


class _Probes:
    """Probes that are made together, and whose result is remembered."""

    def __init__(self, probes: Mapping[str, Probe], clock: Clock, limit_s: float, remembered_s: float) -> None:
        self._probes: Final = probes
        self._clock: Final = clock
        self._limit_s: Final = limit_s
        self._remembered_s: Final = remembered_s
        self._probed_at: float | None = None
        self._succeeded = True
        self._round: asyncio.Task[None] | None = None
        self._running: Final[dict[str, asyncio.Task[None]]] = {}

    async def succeed(self) -> bool:
        """Whether all of them succeed."""
        if self._probed_at is None or self._clock.monotonic() - self._probed_at >= self._remembered_s:
            # One round for everybody who asks meanwhile; one who leaves stops nobody's round.
            if self._round is None or self._round.done():
                self._round = asyncio.create_task(self._probe_all())
            await asyncio.shield(self._round)
        return self._succeeded

    async def _probe_all(self) -> None:
        if tasks := [self._begin(name, probe) for name, probe in self._probes.items()]:
            await asyncio.wait(tasks, timeout=self._limit_s)
        failed = {name: _failure(task) for name, task in self._running.items()}
        for name, why in failed.items():
            if why is not None:
                _LOGGER.warning("a probe failed", extra={"fields": {"part": name, "why": why}})
        for task in self._running.values():
            task.cancel()
        self._succeeded = not any(failed.values())
        self._probed_at = self._clock.monotonic()

    def _begin(self, name: str, probe: Probe) -> asyncio.Task[None]:
        """The task of this probe; one that was cancelled and still runs is waited for, never doubled."""
        task = self._running.get(name)
        if task is None or task.done():
            task = self._running[name] = asyncio.create_task(_run(probe))
            # A failure after the time limit is retrieved, or asyncio would print it.
            task.add_done_callback(_failure)
        return task


async def _run(probe: Probe) -> None:
    await probe()


def _failure(task: asyncio.Task[None]) -> str | None:
    """Why a probe failed: a store's own words; of anything else only its kind, since an endpoint may say anything."""
    if not task.done():
        return "too slow"
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    if isinstance(error, StoreError):
        return error.message
    return type(error).__name__ if error is not None else None
