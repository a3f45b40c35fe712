"""`accord tokens`: manage API tokens. A token is shown once, when it is made; the store has its hash only."""

import json
import secrets
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from accord.assembly.opening import is_absent, run_with_store
from accord.cli.options import ConfigOption, StoreOption, TrustOption, load
from accord.config import StoreKind
from accord.errors import StoreConflictError, UsageError
from accord.files import parse_message
from accord.terminal import Cell, Console, format_count, styled, styled_line
from accord.wire.session import PREFIX, SECRET_BYTES, TokenRecord, token_digest

NONE_LEFT = "No token is left, so every request is refused. To allow access without tokens: accord tokens open"

tokens_app = typer.Typer(help="Manage API tokens.", no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@tokens_app.command("add")
def add_command(  # noqa: PLR0913 - one flag each
    user: Annotated[str, typer.Argument(help="Who its bearer is: the `user` of their requests.")],
    *,
    label: Annotated[str, typer.Option(help="What it is for, to know it by in the list.")] = "",
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Good for so long; else until revoked.")] = None,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Make a token and print it. It is not shown again."""
    loaded = load(config, trusts=trust, store=store)
    if loaded.config.store.kind is StoreKind.MEMORY:
        raise UsageError("The store is memory: it would forget the token at once. Choose sqlite or postgres")
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
    run_with_store(loaded, lambda opened: opened.put_token(record), create=True)
    print(token)
    print(_advice(record), file=sys.stderr)


@tokens_app.command("list")
def list_command(
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records for a program.")] = False,
) -> None:
    """List the tokens, the oldest first. None of them can be read from here."""
    loaded, now = load(config, trusts=trust, store=store), datetime.now(UTC)
    found = [] if is_absent(loaded) else run_with_store(loaded, lambda opened: opened.tokens())
    if as_json:
        print(json.dumps([_shown(token, now) for token in found], indent=2, ensure_ascii=False))
        return
    if found:
        _print_table(found, now)
    print(format_count(len(found), "token") if found else "No tokens yet; `accord tokens add USER` makes one")


@tokens_app.command("revoke")
def revoke_command(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, as the list has it.")],
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Revoke a token; a running server notices within seconds.

    A service whose last token is revoked refuses everybody until one is added, or until `accord tokens open`.
    """
    loaded = load(config, trusts=trust, store=store)
    if is_absent(loaded) or not run_with_store(loaded, lambda opened: opened.revoke_token(token_id)):
        print(f"accord: there is no token {token_id}; `accord tokens list` has them all", file=sys.stderr)
        raise typer.Exit(1)
    print(f"Revoked {token_id}")
    if not run_with_store(loaded, lambda opened: opened.tokens()):
        print(NONE_LEFT, file=sys.stderr)


@tokens_app.command("open")
def open_command(*, config: ConfigOption = None, trust: TrustOption = False, store: StoreOption = None) -> None:
    """Allow access without tokens again, after the last token was revoked. Takes effect at the next `accord serve`.

    Once a token was added, a service requires tokens for good; only this command changes that.
    """
    loaded = load(config, trusts=trust, store=store)
    try:
        if not is_absent(loaded):  # a service on a new store is open
            run_with_store(loaded, lambda opened: opened.allow_open())
    except StoreConflictError:
        print("accord: there are tokens; revoke each of them first (`accord tokens list`)", file=sys.stderr)
        raise typer.Exit(1) from None
    print("The service is open: no token is required from the next `accord serve` on")


def _advice(token: TokenRecord) -> str:
    good = f"good until {_day(token.expires_at)}" if token.expires_at else "good until it is revoked"
    return (
        f"This is token {token.token_id} of {token.user}, {good}. Keep it now: it is not shown again.\n"
        f"Send it as `Authorization: Bearer <token>`; end it with `accord tokens revoke {token.token_id}`."
    )


def _shown(token: TokenRecord, now: datetime) -> dict[str, Any]:
    fields = {name: value for name, value in token.dump().items() if name != "digest"}
    return {**fields, "expired": token.is_expired(now)}


def _print_table(tokens: list[TokenRecord], now: datetime) -> None:
    rows = [
        (
            token.token_id,
            styled_line(token.user),
            styled_line(token.label),
            _day(token.created_at),
            _expiry(token, now),
        )
        for token in tokens
    ]
    Console().print_table(("id", "user", "label", "created", "expires"), rows)


def _expiry(token: TokenRecord, now: datetime) -> Cell:
    if token.expires_at is None:
        return styled("never")
    day = _day(token.expires_at)
    return styled(f"expired {day}", "red") if token.is_expired(now) else styled(day)


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
