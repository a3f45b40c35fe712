"""Health of a service: probes of the store and the backends, whose results are cached for seconds.

Anyone may ask, as often as they like. Therefore not every request probes, and the answer does not say which part fails;
the log does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from accord.errors import StoreError
from accord.ports import Backend, Clock
from accord.servers.service import Service
from accord.wire.service import HealthCheckResponse, HealthCheckStatus

BACKENDS_CACHED_S: Final = 5.0
STORE_CACHED_S: Final = 1.0
"""Shorter: a probe of the store costs little, and load balancers should not send turns to a failing store."""
PROBE_S: Final = 2.0

_LOGGER: Final = logging.getLogger("accord.health")

Probe = Callable[[], Awaitable[None]]


class Health:
    """The health of one service.

    It is *ready* if its store can be written and it is not stopping: otherwise another process may do better. A failing
    backend makes it *degraded* only: another process would use the same backend, and other backends still answer.
    """

    def __init__(
        self,
        service: Service,
        *,
        probe_s: float = PROBE_S,
        store_cached_s: float = STORE_CACHED_S,
        backends_cached_s: float = BACKENDS_CACHED_S,
    ) -> None:
        sessions = service.sessions
        self._service: Final = service
        self._clock: Final = sessions.engine.clock
        self._began_at: Final = self._clock.monotonic()
        self._store: Final = _ProbeGroup({"store": sessions.store.probe}, self._clock, probe_s, store_cached_s)
        self._probe_s: Final = probe_s
        self._backends_cached_s: Final = backends_cached_s
        self._backends: Mapping[str, Backend] = {}
        self._backend_probes = _ProbeGroup({}, self._clock, probe_s, backends_cached_s)

    async def is_ready(self) -> bool:
        """Whether this process can run turns, as of at most a second ago."""
        return not self._service.is_draining and await self._store.succeed()

    async def check(self) -> HealthCheckResponse:
        """Probe the store and the backends; the result is at most a few seconds old."""
        if self._service.is_draining:
            return self.report(HealthCheckStatus.MAINTENANCE)
        results = await asyncio.gather(self._store.succeed(), self._probes_of_backends().succeed())
        return self.report(self.status_of(is_well=all(results)))

    def _probes_of_backends(self) -> "_ProbeGroup":
        """The probes of the backends that the service has now; a new configuration may have replaced them."""
        backends = self._service.sessions.engine.dispatcher.backends
        if backends is not self._backends:
            probes = {f"backend {name}": backend.probe for name, backend in backends.items()}
            self._backends = backends
            self._backend_probes = _ProbeGroup(probes, self._clock, self._probe_s, self._backends_cached_s)
        return self._backend_probes

    def status_of(self, *, is_well: bool) -> HealthCheckStatus:
        """The status of a service whose probes succeed or not."""
        if self._service.is_draining:
            return HealthCheckStatus.MAINTENANCE
        return HealthCheckStatus.OK if is_well else HealthCheckStatus.DEGRADED

    def report(self, status: HealthCheckStatus) -> HealthCheckResponse:
        """The response with this status."""
        return HealthCheckResponse(
            status=status,
            agent_id=self._service.agent_id,
            version=self._service.version,
            uptime_seconds=round(max(0.0, self._clock.monotonic() - self._began_at), 3),
        )


class _ProbeGroup:
    """Probes that run together, with one cached result."""

    def __init__(self, probes: Mapping[str, Probe], clock: Clock, limit_s: float, cached_s: float) -> None:
        self._probes: Final = probes
        self._clock: Final = clock
        self._limit_s: Final = limit_s
        self._cached_s: Final = cached_s
        self._probed_at: float | None = None
        self._succeeded = True
        self._round: asyncio.Task[None] | None = None
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}

    async def succeed(self) -> bool:
        """Whether all of them succeed."""
        if self._probed_at is None or self._clock.monotonic() - self._probed_at >= self._cached_s:
            # One round for all requests meanwhile; a client that disconnects does not cancel it.
            if self._round is None or self._round.done():
                self._round = asyncio.create_task(self._probe_all())
            await asyncio.shield(self._round)
        return self._succeeded

    async def _probe_all(self) -> None:
        for name, probe in self._probes.items():
            # A probe that was cancelled and still runs is waited for; it is not started a second time.
            if (task := self._tasks.get(name)) is None or task.done():
                task = self._tasks[name] = asyncio.create_task(_run(probe))
                # A failure after the time limit is retrieved, or asyncio would log it.
                task.add_done_callback(_failure)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._limit_s)
        failed = {name: _failure(task) for name, task in self._tasks.items()}
        for name, why in failed.items():
            if why is not None:
                _LOGGER.warning("A health probe failed", extra={"fields": {"part": name, "why": why}})
        for task in self._tasks.values():
            task.cancel()
        self._succeeded = not any(failed.values())
        self._probed_at = self._clock.monotonic()


async def _run(probe: Probe) -> None:
    await probe()


def _failure(task: asyncio.Task[None]) -> str | None:
    """Why a probe failed: the message of a store, otherwise the type only, since a peer may have chosen the message."""
    if not task.done():
        return "too slow"
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    if isinstance(error, StoreError):
        return error.message
    return type(error).__name__ if error is not None else None
