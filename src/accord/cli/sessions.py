"""`accord sessions`: list, export and delete the sessions in the store of the configuration."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Annotated, Any

import typer
from msgspec.structs import asdict
from pydantic_core import to_jsonable_python

from accord.assembly.opening import is_absent, run_with_store
from accord.cli.options import ConfigOption, StoreOption, TrustOption, load
from accord.errors import UsageError
from accord.ports import DeletionProgress
from accord.terminal import escape_line, format_count, unfiltered
from accord.wire.session import DeletionCounts, SessionRecord

PAGE = 100
PROGRESS_EVERY_S = 0.2
CLEAR_LINE = "\r\x1b[K"
NOTHING_STORED = "Deleted nothing: no sessions yet"

sessions_app = typer.Typer(
    help="List, export and delete stored sessions.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


@sessions_app.command("list")
def list_command(
    owner: Annotated[str, typer.Argument(help="Whose sessions.")],
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records for a program.")] = False,
) -> None:
    """List the sessions of a user, the newest first."""
    loaded = load(config, trusts=trust, store=store)
    found = [] if is_absent(loaded) else run_with_store(loaded, lambda opened: opened.sessions(owner, limit=PAGE))
    if as_json:
        print(json.dumps([_plain(session) for session in found], indent=2, ensure_ascii=False))
        return
    for session in found:
        print(escape_line(f"{session.session_id}  {session.agent}  {session.updated_at:%Y-%m-%d %H:%M}"))
    print(format_count(len(found), "session") if found else f"No sessions of {escape_line(owner)} yet")


@sessions_app.command("receipts")
def receipts_command(
    session: Annotated[str, typer.Argument(help="The session.")],
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Write the receipts of a session, one a line, as `accord receipts verify` reads them."""
    loaded = load(config, trusts=trust, store=store)
    found = [] if is_absent(loaded) else run_with_store(loaded, lambda opened: opened.receipts(session))
    for record in found:
        print(record.body)
    if not found:  # on standard error: standard output is for receipts, and a program may read it
        print(
            f"No receipts of session {escape_line(session)} yet; `accord sessions list USER` lists them",
            file=sys.stderr,
        )


@sessions_app.command("delete-user")
def delete_user_command(
    owner: Annotated[str, typer.Argument(help="Whose data.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Delete everything of one user: sessions, turns, packets, messages, receipts, tokens."""
    if not yes:
        typer.confirm(f"Delete everything of {owner}?", abort=True)
    loaded = load(config, trusts=trust, store=store)
    if is_absent(loaded):
        print(NOTHING_STORED)
        return
    with _shown_progress() as progress:
        erased = run_with_store(loaded, lambda opened: opened.delete_user(owner, progress=progress))
    print(_summary(erased))


@sessions_app.command("expire")
def expire_command(
    *,
    days: Annotated[int | None, typer.Option(min=1, help="Older than this; else retention_days of the file.")] = None,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Delete the sessions that nothing has happened in for so long."""
    loaded = load(config, trusts=trust, store=store)
    kept_days = days if days is not None else loaded.config.retention_days
    if kept_days is None:
        raise UsageError("How old? Give --days, or set retention_days in the configuration")
    before = datetime.now(UTC) - timedelta(days=kept_days)
    if is_absent(loaded):
        print(NOTHING_STORED)
        return
    with _shown_progress() as progress:
        erased = run_with_store(loaded, lambda opened: opened.expire(before, progress=progress))
    print(_summary(erased))


@contextmanager
def _shown_progress() -> Generator[DeletionProgress | None]:
    """Show on a terminal how far a deletion has come, in one line that is rewritten and finally removed."""
    terminal = unfiltered(sys.stderr)
    if not terminal.isatty():
        yield None
        return
    shown_at = -PROGRESS_EVERY_S

    def show(erased: DeletionCounts) -> None:
        nonlocal shown_at
        if monotonic() - shown_at >= PROGRESS_EVERY_S:
            shown_at = monotonic()
            print(f"{CLEAR_LINE}{_summary(erased)} so far", end="", file=terminal, flush=True)

    try:
        yield show
    finally:
        print(CLEAR_LINE, end="", file=terminal, flush=True)


def _summary(erased: DeletionCounts) -> str:
    counts = ", ".join(format_count(count, name.removesuffix("s")) for name, count in erased.dump().items() if count)
    return f"Deleted {counts or 'nothing'}"


def _plain(session: SessionRecord) -> Any:
    """The session as plain JSON values, without what it does not have."""
    held = {name: value for name, value in asdict(session).items() if value is not None}
    return to_jsonable_python(held, exclude_none=True)
