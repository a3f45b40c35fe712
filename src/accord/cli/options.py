"""Options that several commands share: configuration and trust, store, requirements, logs, JSON."""

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from accord.config import LoadedConfig, QueueKind, StoreKind, load_config
from accord.config.trust import describe_effects, is_trusted, trust
from accord.core.output.profile import NAMED_CLIENTS
from accord.core.vocabulary import unknown_names
from accord.errors import UsageError
from accord.files import STDIN, parse_message, path_exists, read_message
from accord.terminal import escape_line
from accord.wire.capability import KNOWN_CAPABILITIES
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements, MinSupport
from accord.wire.request import ClientCapabilities

MINIMUM_LEVELS: Final = tuple(map(str, MinSupport))
STORE_VARIABLE: Final = "ACCORD_STORE_URL"
QUEUE_VARIABLE: Final = "ACCORD_QUEUE_URL"
"""Variables that hold the addresses of --store and --queue."""
LEVELS: Final = ("native", "emulated", "unsupported")
EXPECTED_REQUIREMENTS: Final = "capabilities such as tool_use=native,streaming, or a file with requirements"

AgentArgument = Annotated[
    str | None,
    typer.Argument(help="module:name, file.py:name or a name of the configuration; by default its default_agent."),
]
ConfigOption = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Configuration; by default $ACCORD_CONFIG, else ./accord.toml."),
]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Trust ./accord.toml without asking, until its content changes.")
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="STORE", help="SQLite file, postgresql://… or memory, instead of the configured store."
    ),
]
QueueOption = Annotated[
    str | None,
    typer.Option("--queue", metavar="URL", help="Queue for workers: nats://…, or the postgresql://… of the store."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LogJsonOption = Annotated[bool, typer.Option("--log-json", help="Write log lines as JSON.")]
LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
SnapshotOption = Annotated[
    str | None, typer.Option("--snapshot", metavar="FILE", help="Model facts to use instead of the shipped ones.")
]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="NAME[=LEVEL]",
        help="Required capability, such as tool_use or tool_use=native, or a file with requirements; repeatable.",
    ),
]


def read_client(value: str, option: str) -> ClientCapabilities | None:
    """Parse the capabilities of a client: `web` (which declares nothing), `cli`, `voice`, or a file with them."""
    if value in NAMED_CLIENTS:
        return NAMED_CLIENTS[value]
    if not path_exists(value):
        raise UsageError(f"{option} {value}: expected {', '.join(NAMED_CLIENTS)}, or a file with ClientCapabilities")
    return read_message(value, ClientCapabilities)


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
        os.environ[STORE_VARIABLE] = store
        kind = (("store", "kind"), StoreKind.POSTGRES.value, "--store")
        return [kind, (("store", "url_env"), STORE_VARIABLE, "--store")]
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
    os.environ[QUEUE_VARIABLE] = queue
    kind = (("queue", "kind"), QueueKind.NATS.value, "--queue")
    return [kind, (("queue", "url_env"), QUEUE_VARIABLE, "--queue")]


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


def read_requirements(given: Iterable[str]) -> CapabilityRequirements:
    """Parse the values of `--require`: `NAME` (accepts emulation), `NAME=LEVEL`, several with commas, or a file."""
    requirements = CapabilityRequirements()
    for value in given:
        if value == STDIN or (value and path_exists(value) and value not in KNOWN_CAPABILITIES):
            more = read_message(value, CapabilityRequirements)
            check_spelling((need.capability for need in (*more.required, *more.preferred)), value)
        elif "/" in value or value.endswith(".json"):  # no capability has such a name
            raise UsageError(f"--require {value}: No such file; expected {EXPECTED_REQUIREMENTS}")
        else:
            more = _parse_requirements(value)
        requirements = CapabilityRequirements(
            required=[*requirements.required, *more.required], preferred=[*requirements.preferred, *more.preferred]
        )
    return requirements


def _parse_requirements(value: str) -> CapabilityRequirements:
    required: list[dict[str, str]] = []
    for item in filter(None, map(str.strip, value.split(","))):
        name, level = split_level(item)
        check_spelling([name], f"--require {item}")
        if level is not None and level not in MINIMUM_LEVELS:
            raise UsageError(f'--require {item}: unknown level "{level}"; use {" or ".join(MINIMUM_LEVELS)}')
        required.append({"capability": name, "min_support": level or MinSupport.EMULATED})
    if not required:
        raise UsageError(f'--require "{value}": names no capability; expected {EXPECTED_REQUIREMENTS}')
    return parse_message({"required": required}, CapabilityRequirements, f"--require {value}")


def parse_levels(given: Iterable[str]) -> CapabilityManifest:
    """Parse the values of `--override`: `NAME=LEVEL` each."""
    levels: dict[str, str] = {}
    for item in given:
        name, level = split_level(item)
        if level is None:
            raise UsageError(f"--override {item}: expected NAME=LEVEL, such as streaming=native")
        check_spelling([name], f"--override {item}")
        if level not in LEVELS:
            raise UsageError(f'--override {item}: unknown level "{level}"; use {", ".join(LEVELS)}')
        levels[name] = level
    return parse_message(levels, CapabilityManifest, "--override")


def split_level(item: str) -> tuple[str, str | None]:
    """Split `NAME=LEVEL` into its two parts; the level is None if there is none.

    `NAME:LEVEL` is accepted as well: earlier versions of `accord ask` had it.
    """
    name, separator, level = item.replace(":", "=", 1).partition("=")
    return name.strip(), level.strip() if separator else None


def check_spelling(names: Iterable[str], place: str) -> None:
    """Raise `UsageError` if a name is nearly that of a known capability."""
    for unknown in unknown_names(names):
        if unknown.is_misspelling:
            raise UsageError(f"{place}: {unknown}")
