"""`accord sessions`: list, measure, export and delete stored sessions."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Annotated

import typer
from msgspec.structs import asdict
from pydantic_core import to_jsonable_python

from accord.assembly.store import is_store_missing, run_with_store
from accord.cli.configuration import confirm, load
from accord.cli.options import ConfigOption, JsonOption, StoreOption, TrustOption
from accord.console import Console
from accord.errors import UsageError
from accord.ports import DeletionProgress
from accord.terminal import escape_line, format_count, unfiltered
from accord.wire.session import DeletionCounts

PAGE = 100
PROGRESS_EVERY_S = 0.2
CLEAR_LINE = "\r\x1b[K"
NOTHING_STORED = "Deleted nothing: no sessions yet"

sessions_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@sessions_app.callback()
def _sessions() -> None:
    """List, export and delete stored sessions.

    Examples:
      accord sessions list ada
      accord sessions expire --days 30
    """


@sessions_app.command("list")
def list_command(
    owner: Annotated[str, typer.Argument(help="User whose sessions to list.")],
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the sessions of a user, newest first.

    Example:
      accord sessions list ada --json
    """
    loaded = load(config, trusted=trust, store=store)
    found = [] if is_store_missing(loaded) else run_with_store(loaded, lambda store: store.sessions(owner, limit=PAGE))
    if as_json:
        records = [{name: value for name, value in asdict(session).items() if value is not None} for session in found]
        print(json.dumps(to_jsonable_python(records, exclude_none=True), indent=2, ensure_ascii=False))
        return
    for session in found:
        print(escape_line(f"{session.session_id}  {session.agent}  {session.updated_at:%Y-%m-%d %H:%M}"))
    print(format_count(len(found), "session") if found else f"No sessions of {escape_line(owner)} yet")


@sessions_app.command("receipts")
def receipts_command(
    session: Annotated[str, typer.Argument(help="Id of the session.")],
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Print the receipts of a session, one per line.

    Example:
      accord sessions receipts first-me > receipts.jsonl
    """
    loaded = load(config, trusted=trust, store=store)
    found = [] if is_store_missing(loaded) else run_with_store(loaded, lambda store: store.receipts(session))
    for record in found:
        print(record.body)
    if not found:  # to standard error: a program may read receipts from standard output
        print(
            f"No receipts of session {escape_line(session)} yet; `accord sessions list USER` lists the sessions",
            file=sys.stderr,
        )


@sessions_app.command("usage")
def usage_command(
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the stored bytes by kind, and the oldest session.

    Bytes are those of packets, messages, receipts and prompts. On disk, receipts take less, and all else up to twice
    as much.

    Example:
      accord sessions usage --json
    """
    loaded = load(config, trusted=trust, store=store)
    totals = [] if is_store_missing(loaded) else run_with_store(loaded, lambda store: store.stored())
    if as_json:
        print(json.dumps(to_jsonable_python([asdict(total) for total in totals]), indent=2))
        return
    now = datetime.now(UTC)
    rows = [
        (total.kind.value, str(total.sessions), str(total.bytes), format_count((now - total.oldest).days, "day"))
        for total in totals
    ]
    if rows:
        Console().print_table(("kind", "sessions", "bytes", "oldest"), rows)
    else:
        print("No sessions yet")


@sessions_app.command("delete-user")
def delete_user_command(
    owner: Annotated[str, typer.Argument(help="User whose data to delete.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Delete all data of a user, tokens included.

    Deletes sessions, turns, packets, messages, receipts and tokens.

    Example:
      accord sessions delete-user ada
    """
    if not yes and not confirm(f"Delete all data of {owner}?"):
        print("accord: nothing was deleted; --yes deletes without asking", file=sys.stderr)
        raise typer.Exit(1)
    loaded = load(config, trusted=trust, store=store)
    if is_store_missing(loaded):
        print(NOTHING_STORED)
        return
    with _print_progress() as progress:
        erased = run_with_store(loaded, lambda store: store.delete_user(owner, progress=progress))
    print(_summary(erased))


@sessions_app.command("expire")
def expire_command(
    *,
    days: Annotated[
        int | None, typer.Option(min=1, help="Age in days; by default retention_days of the configuration.")
    ] = None,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Delete sessions without activity for a number of days.

    Example:
      accord sessions expire --days 30
    """
    loaded = load(config, trusted=trust, store=store)
    kept_days = days if days is not None else loaded.config.retention_days
    if kept_days is None:
        raise UsageError("The age is missing: give --days, or set retention_days in the configuration")
    before = datetime.now(UTC) - timedelta(days=kept_days)
    if is_store_missing(loaded):
        print(NOTHING_STORED)
        return
    with _print_progress() as progress:
        erased = run_with_store(loaded, lambda store: store.expire(before, progress=progress))
    print(_summary(erased))


@contextmanager
def _print_progress() -> Generator[DeletionProgress | None]:
    """On a terminal, show the progress of a deletion in one line, which is removed at the end."""
    terminal = unfiltered(sys.stderr)
    if not terminal.isatty():
        yield None
        return
    printed_at = -PROGRESS_EVERY_S

    def print_erased(erased: DeletionCounts) -> None:
        nonlocal printed_at
        if monotonic() - printed_at >= PROGRESS_EVERY_S:
            printed_at = monotonic()
            print(f"{CLEAR_LINE}{_summary(erased)} so far", end="", file=terminal, flush=True)

    try:
        yield print_erased
    finally:
        print(CLEAR_LINE, end="", file=terminal, flush=True)


def _summary(erased: DeletionCounts) -> str:
    counted = {("keys" if name == "tokens" else name): count for name, count in erased.dump().items() if count}
    counts = ", ".join(format_count(count, name.removesuffix("s")) for name, count in counted.items())
    return f"Deleted {counts or 'nothing'}"
