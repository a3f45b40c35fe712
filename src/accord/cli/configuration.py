"""The configuration that a command runs with: its file, its flags, and whether the user trusts it."""

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from accord.config import LoadedConfig, QueueKind, StoreKind, load_config
from accord.config.model import QUEUE_URL_VARIABLE, STORE_URL_VARIABLE
from accord.config.trust import describe_effects, is_trusted, trust
from accord.errors import UsageError
from accord.terminal import escape_line


def load(
    config: str | None,
    *,
    trusted: bool,
    store: str | None = None,
    queue: str | None = None,
    flags: Iterable[tuple[tuple[str, ...], Any, str]] = (),
) -> LoadedConfig:
    """Load the configuration of a command; ask the user whether a file that was merely found is trusted."""
    loaded = _load(config, store, flags, queue)
    if not is_trusted(loaded, os.environ):
        if not trusted:
            _confirm_trust(loaded)
        trust(loaded.file or "", loaded.digest or "", os.environ)
    return loaded


def load_if_trusted(config: str | None, *, store: str | None = None, queue: str | None = None) -> LoadedConfig:
    """Load the configuration of a command that also works without one; raise `UsageError` if it is not trusted."""
    loaded = _load(config, store, (), queue)
    if not is_trusted(loaded, os.environ):
        raise UsageError(f"{loaded.file} is not trusted; `accord config trust` trusts it")
    return loaded


def _load(
    config: str | None,
    store: str | None,
    flags: Iterable[tuple[tuple[str, ...], Any, str]],
    queue: str | None = None,
) -> LoadedConfig:
    if queue is not None and is_postgres(queue):
        if store is not None and store != queue:
            raise UsageError("--queue postgresql://… is the database of the store: give --store the same, or nothing")
        store = queue
    return load_config(config, environ=os.environ, flags=[*flags, *_store_flags(store), *_queue_flags(queue)])


def is_postgres(address: str) -> bool:
    """Whether this is the address of a PostgreSQL database."""
    return urlsplit(address).scheme in ("postgresql", "postgres")


def _store_flags(store: str | None) -> list[tuple[tuple[str, ...], Any, str]]:
    if store is None:
        return []
    if is_postgres(store):
        # Addresses may have passwords, which a configuration never holds.
        os.environ[STORE_URL_VARIABLE] = store
        kind = (("store", "kind"), StoreKind.POSTGRES.value, "--store")
        return [kind, (("store", "url_env"), STORE_URL_VARIABLE, "--store")]
    if "://" in store:
        raise UsageError(
            f"--store {store.partition('://')[0]}://…: expected a file, or postgresql://user@host/database"
        )
    if store == StoreKind.MEMORY.value:  # a file of this name is ./memory
        return [(("store", "kind"), store, "--store")]
    # Relative to the working directory; a path in the file is relative to that file.
    path = str(Path(store).expanduser().absolute())
    return [(("store", "kind"), StoreKind.SQLITE.value, "--store"), (("store", "path"), path, "--store")]


def _queue_flags(queue: str | None) -> list[tuple[tuple[str, ...], Any, str]]:
    if queue is None:
        return []
    if is_postgres(queue):
        return [(("queue", "kind"), QueueKind.POSTGRES.value, "--queue")]
    if urlsplit(queue).scheme not in ("nats", "tls"):
        raise UsageError("--queue: expected nats://host:4222, tls://host:4222 or postgresql://user@host/database")
    os.environ[QUEUE_URL_VARIABLE] = queue
    kind = (("queue", "kind"), QueueKind.NATS.value, "--queue")
    return [kind, (("queue", "url_env"), QUEUE_URL_VARIABLE, "--queue")]


def _confirm_trust(loaded: LoadedConfig) -> None:
    """Ask the user to trust this file; raise `UsageError` if the answer is no or there is no terminal."""
    path = Path(loaded.file or "").resolve()
    effects = [escape_line(effect) for effect in describe_effects(loaded)]
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{path} is in the working directory and not trusted; it {'; it '.join(effects)}. If you want that, run "
            f"`accord config trust {shlex.quote(str(path))}`, or use --trust or --config"
        )
    print(f"{escape_line(str(path))} is in the working directory and not trusted yet. It", file=sys.stderr)
    for effect in effects:
        print(f"  {effect}", file=sys.stderr)
    if not confirm("Trust this file until its content changes?"):
        raise UsageError(f"{path} is not trusted, so nothing was done; --config FILE uses another configuration")


def confirm(question: str) -> bool:
    """Ask a yes-or-no question on the terminal; the end of standard input counts as no."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        print(file=sys.stderr)
        return False
