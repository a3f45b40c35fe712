"""Open the store and the backends before the first turn, and close them after the last."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Final, TypeVar

from accord.assembly.parts import open_store, store_path
from accord.config import LoadedConfig, OriginKind, StoreKind
from accord.engine import Engine
from accord.errors import BackendError, UsageError
from accord.ports import DescribedBackend, ManagedBackend, Store
from accord.stores import opened_store

# Opens what was assembled before the first turn and closes it after the last: the store, and agents that are
# programs.
#
# One place for every command that runs turns. A signal that comes while agents are still being started ends them,
# too; one that comes while they are being ended changes nothing, since ending them takes seconds at most.

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
STOPPED: Final = 128
MODEL_S: Final = 5.0
"""How long a model's endpoint may take to tell what it has before the first turn."""

LOG: Final = logging.getLogger("accord.backends")


@asynccontextmanager
async def open_store_and_backends(loaded: LoadedConfig, engine: Engine) -> AsyncGenerator[Store]:
    """The store, open, while every backend that has to be reached is; raises `UsageError` for one that is not there."""
    async with AsyncExitStack() as stack:
        store = open_store(loaded)
        await stack.enter_async_context(opened_store(store))
        living = [each for each in engine.dispatcher.backends.values() if isinstance(each, ManagedBackend)]
        stack.push_async_callback(_close, living)
        with _ending_on_signal() if living else nullcontext():
            await _reach(living)
            yield store


async def _reach(living: Iterable[ManagedBackend]) -> None:
    """Ask each of them what it can do, all at once."""
    tasks = [asyncio.create_task(_discover(backend)) for backend in living]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _discover(backend: ManagedBackend) -> None:
    is_model = isinstance(backend, DescribedBackend) and backend.model is not None
    try:
        # A model that does not answer now may do so later, and what is known of it is known without.
        async with asyncio.timeout(MODEL_S if is_model else None):
            await backend.discover()
    except TimeoutError:
        LOG.warning("backends.%s: did not answer within %g s at the start", backend.name, MODEL_S)
    except BackendError as error:
        raise UsageError(f"backends.{backend.name}: {error.message}") from error


async def _close(living: Iterable[ManagedBackend]) -> None:
    with _hearing(lambda _: None):
        await asyncio.gather(*(backend.aclose() for backend in living), return_exceptions=True)


@contextmanager
def _ending_on_signal() -> Generator[None]:
    """Until somebody else listens, a signal ends this command as it would have anyway, and what it started with it."""
    task, heard = asyncio.current_task(), list[signal.Signals]()

    def stop(which: signal.Signals) -> None:
        heard.append(which)
        if task is not None:
            task.cancel()

    with _hearing(stop):
        try:
            yield
        except asyncio.CancelledError:
            if heard:
                raise SystemExit(STOPPED + heard[0]) from None
            raise


@contextmanager
def _hearing(hear: Callable[[signal.Signals], None]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # not on every system
        for which in SIGNALS:
            loop.add_signal_handler(which, hear, which)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            for which in SIGNALS:
                loop.remove_signal_handler(which)


# Run one operation on the configured store, for a command: open it, run, close it.

ResultT = TypeVar("ResultT")


def is_absent(loaded: LoadedConfig) -> bool:
    """Whether nothing was stored yet: the SQLite file is not there, at a place that nobody named on the command line.

    A file that --store names must exist; a name that does not is a mistake, and opening it says so.
    """
    is_named = loaded.origin(("store", "path")).kind is OriginKind.FLAG
    return loaded.config.store.kind is StoreKind.SQLITE and not is_named and not store_path(loaded).exists()


def run_with_store(
    loaded: LoadedConfig, ask: Callable[[Store], Awaitable[ResultT]], *, create: bool = False
) -> ResultT:
    """What the store answers; a file that is not there is made only if asked."""
    # SQLAlchemy and the engine take half a second to load, which no other command should wait for.
    from accord.assembly.parts import open_store  # noqa: PLC0415

    async def asked() -> ResultT:
        store = open_store(loaded, create=create)
        async with opened_store(store):
            return await ask(store)

    return asyncio.run(asked())
