"""`accord tokens`: manage API tokens. A token is printed once, when it is made; the store has only its hash."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from accord.assembly.store import is_store_missing, run_with_store
from accord.cli.configuration import load
from accord.cli.options import ConfigOption, JsonOption, StoreOption, TrustOption
from accord.config import LoadedConfig, StoreKind
from accord.console import Cell, Console, styled, styled_line
from accord.errors import StoreConflictError, UsageError
from accord.files import parse_message
from accord.run.keys import new_token
from accord.terminal import format_count
from accord.wire.session import TokenRecord

NONE_LEFT = "No token is left, so every request is refused. To allow access without tokens: accord tokens open"

tokens_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@tokens_app.callback()
def _tokens() -> None:
    """Manage API tokens.

    Once a token was added, the service requires tokens, also after the last one was revoked, until `tokens open`.

    Example:
      accord tokens add ada
    """


@tokens_app.command("add")
def add_command(  # noqa: PLR0913 - one flag each
    user: Annotated[str, typer.Argument(help="User that the token authenticates.")],
    *,
    label: Annotated[str, typer.Option(help="Note for `tokens list`, such as what the token is for.")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Days until it expires; by default it does not.")
    ] = None,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Make a token and print it; it is not shown again.

    Example:
      accord tokens add ada --label laptop --days 90
    """
    loaded = load(config, trusted=trust, store=store)
    record = add_token(loaded, "token", {"user": user, "label": label}, days)
    print(
        f"Send it as `Authorization: Bearer <token>`; `accord tokens revoke {record.token_id}` revokes it.",
        file=sys.stderr,
    )


@tokens_app.command("list")
def list_command(
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tokens, oldest first, without their secrets.

    Example:
      accord tokens list
    """
    loaded, now = load(config, trusted=trust, store=store), datetime.now(UTC)
    found = [] if is_store_missing(loaded) else run_with_store(loaded, lambda store: store.tokens())
    if as_json:
        records = [{**token.dump(), "expired": token.is_expired(now)} for token in found]
        for record in records:
            del record["digest"]
        print(json.dumps(records, indent=2, ensure_ascii=False))
        return
    if found:
        rows = [
            (
                token.token_id,
                styled_line(token.user),
                styled_line(token.label),
                format_time(token.created_at),
                format_expiry(token.expires_at, now),
            )
            for token in found
        ]
        Console().print_table(("id", "user", "label", "created", "expires"), rows)
    print(format_count(len(found), "token") if found else "No tokens yet; `accord tokens add USER` makes one")


@tokens_app.command("revoke")
def revoke_command(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as `accord tokens list` shows it.")],
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Revoke a token; a running service notices within seconds.

    Without any token left, the service refuses every request until one is added, or until `accord tokens open`.

    Example:
      accord tokens revoke 3f9a1c
    """
    revoke_token(load(config, trusted=trust, store=store), "token", token_id)


@tokens_app.command("open")
def open_command(*, config: ConfigOption = None, trust: TrustOption = False, store: StoreOption = None) -> None:
    """Allow access without tokens, after the last one was revoked.

    Once a token was added, the service requires tokens; only this command changes that, at the next `accord serve`.

    Example:
      accord tokens open
    """
    loaded = load(config, trusted=trust, store=store)
    try:
        if not is_store_missing(loaded):  # without a store there are no tokens
            run_with_store(loaded, lambda store: store.allow_open())
    except StoreConflictError:
        print("accord: there are tokens; revoke all of them first (`accord tokens list`)", file=sys.stderr)
        raise typer.Exit(1) from None
    print("No token is required from the next `accord serve` on")


def add_token(loaded: LoadedConfig, word: str, fields: Mapping[str, Any], days: int | None) -> TokenRecord:
    """Make and store a token, which messages call by this word; print it, and what it is."""
    if loaded.config.store.kind is StoreKind.MEMORY:
        raise UsageError(f"The store is memory, which would lose the {word} at once; use sqlite or postgres")
    now = datetime.now(UTC)
    token, made = new_token()
    expires_at = None if days is None else now + timedelta(days=days)
    values = {**fields, **made, "created_at": now, "expires_at": expires_at}
    record = parse_message(values, TokenRecord, f"{word}s add")
    run_with_store(loaded, lambda store: store.put_token(record), create=True)
    print(token)
    validity = f"valid until {format_time(expires_at)}" if expires_at else "valid until it is revoked"
    what = f"This is {word} {record.token_id} of {record.user}, {validity}"
    print(f"{what}. Save it now: it is not shown again.", file=sys.stderr)
    return record


def revoke_token(loaded: LoadedConfig, word: str, token_id: str) -> None:
    """Revoke a token, which messages call by this word."""
    if is_store_missing(loaded) or not run_with_store(loaded, lambda store: store.revoke_token(token_id)):
        print(f"accord: there is no {word} {token_id}; `accord {word}s list` lists them", file=sys.stderr)
        raise typer.Exit(1)
    print(f"Revoked {token_id}")
    if not run_with_store(loaded, lambda store: store.tokens()):
        print(NONE_LEFT, file=sys.stderr)


def format_expiry(expires_at: datetime | None, now: datetime) -> Cell:
    """Format when a token expires."""
    if expires_at is None:
        return styled("never")
    day = format_time(expires_at)
    return styled(f"expired {day}", "red") if now >= expires_at else styled(day)


def format_time(moment: datetime) -> str:
    """Format a moment to the minute."""
    return f"{moment:%Y-%m-%d %H:%M}"
