"""`accord receipts`: verify and show receipts, and make keys to sign them with."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from accord.assembly.signing import make_key, make_signature_check
from accord.assembly.store import run_with_store
from accord.cli.configuration import load_if_trusted
from accord.cli.options import ConfigOption, JsonOption, StoreOption
from accord.cli.receipt_view import print_receipt
from accord.console import Cell, Console, styled, styled_line
from accord.core.receipt import SHOWN_CHARS, Verification, has_valid_hash, parse_receipt, verify
from accord.errors import StoreError, UsageError
from accord.files import parse_message, read_text
from accord.ports import Store
from accord.terminal import escape_line, format_count
from accord.wire.receipt import Receipt, ReceiptState

COLOURS: Final = {ReceiptState.OK: "green", ReceiptState.MISSING: "yellow", ReceiptState.OUT_OF_ORDER: "yellow"}

EXIT_INVALID: Final = 1
EXIT_EMPTY: Final = 3

receipts_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)

ReceiptsArgument = Annotated[
    str, typer.Argument(help="File with receipts, one per line or as an array; - reads standard input.")
]


@receipts_app.callback()
def _receipts() -> None:
    """Verify and show receipts; make signing keys.

    Example:
      accord sessions receipts first-me | accord receipts verify -
    """


@receipts_app.command("verify")
def verify_command(  # noqa: PLR0913 - one flag each
    file: ReceiptsArgument,
    *,
    last: Annotated[str | None, typer.Option(metavar="HASH", help="Hash that the last receipt must have.")] = None,
    public_key: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Public key that must have signed every receipt; repeatable."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not compare with the store.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Check that receipts are unaltered, complete and in order.

    A missing end is found by comparing with the store or --last, a chain written anew with --public-key. Exit status 1
    if something is wrong, 3 if the file has no receipts.

    Examples:
      accord receipts verify receipts.jsonl
      accord receipts verify receipts.jsonl --public-key key.pem.pub
    """
    verify_signature, receipts = make_signature_check(public_key or ()), read_receipts(file)
    ends, note = ({}, "") if offline else _read_last_hashes(receipts, config, store)
    found = verify(receipts, last=last, ends=ends, verify_signature=verify_signature)
    _print_json(found, ends) if as_json else _print_findings(found)
    if note:
        print(f"accord: {escape_line(note)}", file=sys.stderr)
    if not found.ok:
        raise typer.Exit(EXIT_INVALID if found.findings else EXIT_EMPTY)


def _read_last_hashes(receipts: list[Any], config: str | None, store: str | None) -> tuple[dict[str, str], str]:
    """Return the hash of the last receipt of each session in the store, and a note on what could not be compared."""
    items = (cast("Mapping[str, Any]", receipt) for receipt in receipts if isinstance(receipt, Mapping))
    sessions = dict.fromkeys(session for item in items if isinstance(session := item.get("session_id"), str))

    async def read_hashes(opened: Store) -> dict[str, str | None]:
        return {session: await opened.last_receipt_hash(session) for session in sessions}

    if not sessions:
        return {}, ""
    try:
        hashes = run_with_store(load_if_trusted(config, store=store), read_hashes)
    except (UsageError, StoreError) as error:
        if config is not None or store is not None:
            raise
        return {}, f"not compared with a store: {error.message}"
    missing = [session for session, last in hashes.items() if last is None]
    note = f"not compared: the store has no session {', '.join(missing[:5])}" if missing else ""
    return {session: last for session, last in hashes.items() if last is not None}, note


@receipts_app.command("keygen")
def keygen_command(
    file: Annotated[Path, typer.Argument(help="File for the private key; the public key is written beside it.")] = Path(
        "accord-signing-key.pem"
    ),
) -> None:
    """Make an Ed25519 key to sign receipts with.

    Set signing_key of the configuration to its file.

    Example:
      accord receipts keygen
    """
    public = make_key(file)
    print(f"Wrote {file} (secret: set signing_key to it) and {public} (for `accord receipts verify --public-key`)")


@receipts_app.command("show")
def show_command(
    file: ReceiptsArgument,
    number: Annotated[int | None, typer.Argument(min=1, help="Number of the receipt; by default the last.")] = None,
) -> None:
    """Print one receipt in readable form.

    Example:
      accord receipts show receipts.jsonl 1
    """
    receipts = read_receipts(file)
    if not receipts:
        print(f"{escape_line(file)}: no receipts; `accord sessions receipts SESSION` prints those of a session")
        return
    number = len(receipts) if number is None else number
    if number > len(receipts):
        raise UsageError(f"{file}: there is no receipt {number}; the file has {format_count(len(receipts), 'receipt')}")
    receipt = parse_message(receipts[number - 1], Receipt, f"{file}: receipt {number}")
    print_receipt(Console(), receipt, is_intact=has_valid_hash(receipts[number - 1]))


def read_receipts(file: str) -> list[Any]:
    """Read receipts as JSON values: an array, one object per line, or a single object."""
    text = read_text(file)
    if text.lstrip().startswith("["):
        return cast("list[Any]", _parse_json(text, file))
    if text.lstrip().partition("\n")[0].rstrip() == "{":
        return [_parse_json(text, file)]  # one receipt over several lines
    lines = enumerate(text.split("\n"), 1)
    return [_parse_json(line, f"{file}:{number}") for number, line in lines if line.strip()]


def _parse_json(text: str, place: str) -> Any:
    try:
        return parse_receipt(text)
    except ValueError as error:
        raise UsageError(f"{place}: expected JSON: {error}") from None


def _print_json(found: Verification, ends: Mapping[str, str]) -> None:
    findings = [
        {
            "number": finding.index + 1,
            "state": str(finding.state),
            "reason": finding.reason,
            "session_id": finding.session_id,
            "hash": finding.hash,
        }
        for finding in found.findings
    ]
    members = {"ok": found.ok, "count": found.count, "last": found.last, "compared": [*ends], "findings": findings}
    print(json.dumps(members, indent=2, ensure_ascii=False))


def _print_findings(found: Verification) -> None:
    console = Console()
    rows: list[tuple[Cell, ...]] = [
        (
            styled(str(finding.index + 1)),
            styled_line(finding.session_id or ""),
            styled((finding.hash or "")[:SHOWN_CHARS]),
            styled(str(finding.state), COLOURS.get(finding.state, "red")),
            styled(finding.reason),
        )
        for finding in found.findings
    ]
    if not rows:
        summary = "No receipts, so nothing was verified; `accord sessions receipts SESSION` prints those of a session"
    elif found.ok:
        end = f", ending with {found.last}" if found.last else ""
        summary = f"{format_count(len(rows), 'receipt')}, all in order{end}"
    else:
        counts = {state: sum(finding.state is state for finding in found.findings) for state in ReceiptState}
        summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    if rows:
        console.print_table(("#", "session", "hash", "state", "why"), rows)
    console.print(summary, soft_wrap=True)
