"""`accord tokens`: manage API tokens. A token is printed once, when it is made; the store has only its hash."""

import json
import secrets
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from accord.assembly.store import is_store_missing, run_with_store
from accord.cli.options import ConfigOption, JsonOption, StoreOption, TrustOption, load
from accord.config import StoreKind
from accord.errors import StoreConflictError, UsageError
from accord.files import parse_message
from accord.terminal import Cell, Console, format_count, styled, styled_line
from accord.wire.session import PREFIX, SECRET_BYTES, TokenRecord, token_digest

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
    if loaded.config.store.kind is StoreKind.MEMORY:
        raise UsageError("The store is memory, which would lose the token at once; use sqlite or postgres")
    now = datetime.now(UTC)
    token = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    fields = {
        "token_id": secrets.token_hex(6),
        "user": user,
        "label": label,
        "digest": token_digest(token),
        "created_at": now,
        "expires_at": None if days is None else now + timedelta(days=days),
    }
    record = parse_message(fields, TokenRecord, "tokens add")
    run_with_store(loaded, lambda store: store.put_token(record), create=True)
    print(token)
    validity = f"valid until {_format_time(record.expires_at)}" if record.expires_at else "valid until it is revoked"
    print(
        f"This is token {record.token_id} of {user}, {validity}. Save it now: it is not shown again.\n"
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
                _format_time(token.created_at),
                _format_expiry(token, now),
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
    loaded = load(config, trusted=trust, store=store)
    if is_store_missing(loaded) or not run_with_store(loaded, lambda store: store.revoke_token(token_id)):
        print(f"accord: there is no token {token_id}; `accord tokens list` lists them", file=sys.stderr)
        raise typer.Exit(1)
    print(f"Revoked {token_id}")
    if not run_with_store(loaded, lambda store: store.tokens()):
        print(NONE_LEFT, file=sys.stderr)


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


def _format_expiry(token: TokenRecord, now: datetime) -> Cell:
    if token.expires_at is None:
        return styled("never")
    day = _format_time(token.expires_at)
    return styled(f"expired {day}", "red") if token.is_expired(now) else styled(day)


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
