"""The store of a configuration: where its file is, and opening it, alone or together with the backends."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, TypeVar

from accord.config import LoadedConfig, OriginKind, StoreKind
from accord.config.trust import PRIVATE_FILE, make_state_folder, state_folder
from accord.errors import BackendError, UsageError
from accord.extras import naming_extra
from accord.ports import DescribedBackend, ManagedBackend, SlotStore, Store
from accord.run import Dispatcher, Engine
from accord.run.slots import BackendSlots
from accord.stores import opened_store
from accord.terminal import escape_line

ResultT = TypeVar("ResultT")

FILE_NAME: Final = "accord.db"
SUFFIXES: Final = ("", "-wal", "-shm", "-lock")
"""What is appended to the name of a file for SQLite's log and index and for our lock; all have the file's own mode."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
EXIT_SIGNAL: Final = 128
DISCOVERY_S: Final = 5.0
"""Seconds that the endpoint of a model may take to describe itself before the first turn."""

LOG: Final = logging.getLogger("accord.backends")


def make_store(loaded: LoadedConfig, *, create: bool = True) -> Store:
    """Make the configured store, not opened yet; without `create`, a SQLite file must exist."""
    store = loaded.config.store
    if store.kind is StoreKind.MEMORY:
        from accord.stores.memory import MemoryStore  # noqa: PLC0415 - most services keep what they store

        return MemoryStore()
    if store.kind is StoreKind.SQLITE:
        from accord.stores.sqlite import SqliteStore  # noqa: PLC0415 - `accord ask` needs no database

        return SqliteStore(prepare_store_file(loaded, create=create), create=create)
    address = os.environ.get(store.url_env)
    if not address:
        raise UsageError(f"The store is postgres: set {store.url_env} to its address")
    with naming_extra("The store postgres"):
        from accord.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra
    return PostgresStore(address)


def store_path(loaded: LoadedConfig) -> Path:
    """Return the SQLite file: the configured one, else `accord.db` in the user's state folder."""
    configured = loaded.config.store.path
    return state_folder(os.environ) / FILE_NAME if configured is None else loaded.path_of(configured)


def prepare_store_file(loaded: LoadedConfig, *, create: bool) -> Path:
    """Return the SQLite file, private to its owner: it holds conversations and hashes of tokens."""
    is_default, path = loaded.config.store.path is None, store_path(loaded)
    if is_default:
        older = loaded.path_of(FILE_NAME)  # where earlier versions kept sessions
        if older.is_file():
            _warn(f"sessions are kept in {path} now, and {older} is not used; --store {older} uses it")
        if create:
            make_state_folder(os.environ)
    if path.exists():
        _make_private(path, is_default=is_default)
    elif create and path.parent.is_dir():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, PRIVATE_FILE))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    return path


def _make_private(path: Path, *, is_default: bool) -> None:
    if os.name != "posix" or not path.is_file() or not path.stat().st_mode & 0o077:
        return
    if not is_default:  # the user chose the place, and may have chosen the readers
        _warn(f"{path} can be read by other users of this machine; `chmod 600 {path}` changes that")
        return
    for suffix in SUFFIXES:
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.chmod(PRIVATE_FILE)


def _warn(message: str) -> None:
    print(f"accord: {escape_line(message)}", file=sys.stderr)


def is_store_missing(loaded: LoadedConfig) -> bool:
    """Whether nothing was stored yet: the SQLite file does not exist, and --store does not name it.

    A file that --store names must exist: opening it raises the error.
    """
    is_named = loaded.origin(("store", "path")).kind is OriginKind.FLAG
    return loaded.config.store.kind is StoreKind.SQLITE and not is_named and not store_path(loaded).exists()


def run_with_store(
    loaded: LoadedConfig, operation: Callable[[Store], Awaitable[ResultT]], *, create: bool = False
) -> ResultT:
    """Open the store, run one operation on it, close it, and return the result."""

    async def run() -> ResultT:
        store = make_store(loaded, create=create)
        async with opened_store(store):
            return await operation(store)

    return asyncio.run(run())


@asynccontextmanager
async def open_store_and_backends(loaded: LoadedConfig, engine: Engine) -> AsyncGenerator[Store]:
    """Open the store and the backends, whose concurrent calls are counted in it."""
    store = make_store(loaded)
    async with opened_store(store), open_backends(loaded, engine, store):
        yield store


@asynccontextmanager
async def open_backends(loaded: LoadedConfig, engine: Engine, store: SlotStore) -> AsyncGenerator[None]:
    """Start every backend that needs it; raise `UsageError` for one that cannot be started.

    A signal while backends are being started ends them, too; one while they are being closed is ignored, since closing
    takes seconds at most.
    """
    config, managed = loaded.config, managed_backends(engine.dispatcher)
    slots = BackendSlots(store, lease_s=config.server.lease_s, wait_s=config.limits.slot_wait_s)
    engine.dispatcher.slots = slots
    try:
        with _exit_on_signal() if managed else nullcontext():
            await discover_all(managed)
            yield
    finally:
        await _close(managed)
        await slots.close()


def managed_backends(dispatcher: Dispatcher) -> list[ManagedBackend]:
    """Return the backends that are started and closed."""
    return [each for each in dispatcher.backends.values() if isinstance(each, ManagedBackend)]


async def discover_all(managed: Iterable[ManagedBackend]) -> None:
    """Start these backends and read their capabilities; raise `UsageError` for one that cannot be started."""
    tasks = [asyncio.create_task(_discover(backend)) for backend in managed]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _discover(backend: ManagedBackend) -> None:
    is_model = isinstance(backend, DescribedBackend) and backend.model is not None
    try:
        # A model that does not answer now may do so later; what is known of it does not depend on that.
        async with asyncio.timeout(DISCOVERY_S if is_model else None):
            await backend.discover()
    except TimeoutError:
        LOG.warning("backends.%s: did not answer within %g s at the start", backend.name, DISCOVERY_S)
    except BackendError as error:
        raise UsageError(f"backends.{backend.name}: {error.message}") from error


async def _close(managed: Iterable[ManagedBackend]) -> None:
    with _handle_signals(lambda _: None):
        await asyncio.gather(*(backend.aclose() for backend in managed), return_exceptions=True)


@contextmanager
def _exit_on_signal() -> Generator[None]:
    """Cancel this task on a signal and exit with its status, until a server installs its handlers."""
    task, received = asyncio.current_task(), list[signal.Signals]()

    def stop(number: signal.Signals) -> None:
        received.append(number)
        if task is not None:
            task.cancel()

    with _handle_signals(stop):
        try:
            yield
        except asyncio.CancelledError:
            if received:
                raise SystemExit(EXIT_SIGNAL + received[0]) from None
            raise


@contextmanager
def _handle_signals(handler: Callable[[signal.Signals], None]) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals, and its command handles them
        return
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # not on every system
        for number in SIGNALS:
            loop.add_signal_handler(number, handler, number)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            for number in SIGNALS:
                loop.remove_signal_handler(number)
