"""Read the configuration again while the service runs: new backends for new requests, and no request is lost.

    reread ──> build and start the new backends ──> swap ──> close the old ones when their last request has ended
                  a problem here changes nothing

What chooses and calls backends is replaced: the keys in `RELOADED`. Everything else needs a restart, and is named.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import BaseModel

from accord.assembly.parts import backend_groups, build_dispatcher
from accord.assembly.store import discover_all, managed_backends
from accord.config import Config, LoadedConfig
from accord.core.work.groups import BackendGroup, UnresolvedModel, model_names, resolve_model
from accord.errors import ConfigError, UsageError
from accord.ports import Clock, ManagedBackend
from accord.run import Dispatcher
from accord.run.model_calls import ModelCalls, ModelCallsRef
from accord.servers.service import Service

LOG: Final = logging.getLogger("accord.servers")
RELOADED: Final = frozenset({"policy", "unknown", "backends", "groups", "circuit", "emulation"})
"""The keys of the configuration that a reload changes."""
CHECK_S: Final = 0.2
"""How often it is checked whether the requests of the old backends have ended."""
NO_REREAD: Final = "This service was not started with a configuration that can be read again"


@dataclass(frozen=True, slots=True)
class ReloadSummary:
    """What a reload has changed: names of backends, and keys that differ but need a restart."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()

    def dump(self) -> dict[str, list[str]]:
        """The members that are not empty, as JSON values."""
        members = {name: list(getattr(self, name)) for name in self.__slots__}
        return {name: value for name, value in members.items() if value}


class Reloader:
    """Replaces the backends of a running service. `reread` reads the configuration as the command did."""

    def __init__(
        self, loaded: LoadedConfig, reread: Callable[[], LoadedConfig] | None, service: Service, calls: ModelCallsRef
    ) -> None:
        self._started_with: Final = loaded.config
        self._config = loaded.config
        self._reread: Final = reread
        self._service: Final = service
        self._calls: Final = calls
        self._lock: Final = asyncio.Lock()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._closable: Final[list[ManagedBackend]] = []
        """Every backend that a reload has started or replaced and that is not closed yet."""

    async def reload(self) -> ReloadSummary:
        """Replace the backends by those of the configuration as it is now; returns what has changed.

        Raises `UsageError` or `ConfigError` with every problem, and then nothing has changed.
        """
        if self._reread is None:
            raise UsageError(NO_REREAD)
        async with self._lock:
            # In a thread: reading facts about models takes a while, and turns are running.
            loaded, dispatcher = await asyncio.to_thread(self._build, self._reread)
            managed = managed_backends(dispatcher)
            try:
                await discover_all(managed)
            except BaseException:
                await _close_all(managed)
                raise
            summary = summarise_reload(self._started_with, self._config, loaded.config)
            self._swap(loaded, dispatcher)
            self._closable.extend(managed)
            return summary

    def reload_soon(self) -> None:
        """Reload in the background and log the outcome: the handler of a signal."""
        self._start(self._reload_and_log())

    async def close(self) -> None:
        """Stop waiting for requests, and close what is left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await _close_all(self._closable)

    def _build(self, reread: Callable[[], LoadedConfig]) -> tuple[LoadedConfig, Dispatcher]:
        loaded = reread()
        # What needs a restart stays the same in every part.
        config = loaded.config.model_copy(update={"limits": self._started_with.limits})
        engine = self._service.sessions.engine
        return loaded, build_dispatcher(replace(loaded, config=config), engine.agent, before=engine.dispatcher)

    def _swap(self, loaded: LoadedConfig, dispatcher: Dispatcher) -> None:
        """Use the new backends for every request that begins from now on. Nothing is awaited here."""
        sessions = self._service.sessions
        old = managed_backends(sessions.engine.dispatcher)
        calls = make_model_calls(loaded, dispatcher, sessions.engine.clock)
        dispatcher.refusals.clear()  # the endpoints may be others now, and the operator may want just this
        sessions.use_backends(dispatcher)
        self._calls.current, self._config = calls, loaded.config
        using = {request_id for running in self._service.runs.values() for request_id in running}
        self._closable.extend(each for each in old if each not in self._closable)
        self._start(self._close_unused(old, using))

    async def _close_unused(self, old: list[ManagedBackend], using: set[str]) -> None:
        """Close these backends when none of these requests runs any more."""
        running = self._service.runs
        while using := {each for each in using if any(each in ids for ids in running.values())}:  # noqa: ASYNC110 - below
            await asyncio.sleep(CHECK_S)  # cheaper than a callback in every request for the few that a reload meets
        await _close_all(old)
        for backend in old:
            self._closable.remove(backend)
        names = [backend.name for backend in old]
        LOG.info("Closed the backends of the earlier configuration", extra={"fields": {"backends": names}})

    async def _reload_and_log(self) -> None:
        try:
            summary = await self.reload()
        except ConfigError as error:
            for problem in error.problems:
                LOG.error("The configuration was not reloaded: %s", problem)
        except UsageError as error:
            LOG.error("The configuration was not reloaded: %s", error.message)
        except Exception:  # whatever a file or a backend does, the service goes on with what it has
            LOG.exception("The configuration was not reloaded")
        else:
            LOG.info("Reloaded the configuration", extra={"fields": summary.dump()})
            for key in summary.needs_restart:
                LOG.warning("%s has changed in the configuration; restart the service to use that", key)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def make_model_calls(loaded: LoadedConfig, dispatcher: Dispatcher, clock: Clock) -> ModelCalls:
    """Make the part that answers requests of the model APIs with these backends."""
    groups = backend_groups(loaded.config)

    def models() -> dict[str, str | None]:
        known = dispatcher.known
        return {each: known[each].model if each in known else None for each in dispatcher.backends}

    def resolve(name: str) -> BackendGroup | UnresolvedModel:
        return resolve_model(name, models(), groups)

    return ModelCalls(dispatcher, resolve, clock, names=lambda: model_names(models(), groups))


def summarise_reload(started_with: Config, before: Config, after: Config) -> ReloadSummary:
    """Return what differs: backends from those before, other keys from what the service was started with."""
    old = {backend.name: backend for backend in before.backends}
    new = {backend.name: backend for backend in after.backends}
    both = [name for name in new if name in old]
    needs_restart = [
        f"{name}.{key}" if key else name
        for name in Config.model_fields
        if name not in RELOADED and getattr(started_with, name) != getattr(after, name)
        for key in _changed_keys(getattr(started_with, name), getattr(after, name))
    ]
    return ReloadSummary(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(name for name in both if old[name] != new[name]),
        kept=tuple(name for name in both if old[name] == new[name]),
        needs_restart=tuple(needs_restart),
    )


def _changed_keys(before: Any, after: Any) -> list[str]:
    """The keys of a table that differ; an empty one for a value that is no table."""
    if not isinstance(before, BaseModel):
        return [""]
    return [key for key in type(before).model_fields if getattr(before, key) != getattr(after, key)]


async def _close_all(backends: list[ManagedBackend]) -> None:
    await asyncio.gather(*(backend.aclose() for backend in backends), return_exceptions=True)
