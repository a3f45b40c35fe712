"""`accord receipts`: verify and show receipts, and make keys to sign them with."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from rich.console import Group, RenderableType
from rich.json import JSON
from rich.table import Table

from accord.assembly.signing import make_key, make_signature_check
from accord.assembly.store import run_with_store
from accord.cli.options import ConfigOption, JsonOption, StoreOption, load_if_trusted
from accord.console import Cell, Console, styled, styled_line
from accord.core.receipt import SHOWN_CHARS, Verification, has_valid_hash, parse_receipt, verify
from accord.core.summarise import summarise_work
from accord.errors import StoreError, UsageError
from accord.files import parse_message, read_text
from accord.ports import Store
from accord.terminal import escape_line, format_count
from accord.wire.agent_work import PermissionRecord
from accord.wire.message import Message
from accord.wire.receipt import Receipt, ReceiptState, Work

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
    Console().print(_render(receipt, is_intact=has_valid_hash(receipts[number - 1])))


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


def _render(receipt: Receipt, *, is_intact: bool) -> Group:
    """Lay out a receipt: a table of facts, then each request to a backend."""
    facts = Table.grid(padding=(0, 2))
    for _ in range(2):
        facts.add_column(overflow="fold")
    request, agent, outcome, timings = receipt.request, receipt.parties.agent, receipt.outcome, receipt.timings
    blocks = "".join(f", {count} {kind}" for kind, count in request.blocks.items())
    size = f"{format_count(request.text_chars, 'character')}{blocks}, {format_count(request.files, 'file')}"
    first = "" if timings.first_packet_ms is None else f", first packet after {timings.first_packet_ms} ms"
    why = f": {outcome.code}, {outcome.message or 'no message'}" if outcome.code else ""
    rows = {
        "receipt": receipt.hash,
        "seal": "intact" if is_intact else "broken: the content does not have this hash",
        "signature": receipt.signature or "none",
        "previous": receipt.previous or "none: the first of its session",
        "session": receipt.session_id,
        "request": f"{receipt.request_id}, {receipt.created_at.isoformat()}",
        "prompt": f"{size}; digest {request.digest[:SHOWN_CHARS]}…",
        "agent": f"{agent.name}, accepts {', '.join(agent.accepts) or 'nothing'}",
        "client": f"assumed: {', '.join(receipt.parties.client.assumed) or 'nothing'}",
        "work orders": str(len(receipt.work)),
        "permissions": "\n".join(map(_format_permission, receipt.permissions or ())) or "none requested",
        "time": f"plan {timings.plan_ms} ms{first}, total {timings.total_ms} ms",
        "outcome": f"{outcome.status}{why}",
    }
    for name, value in rows.items():
        facts.add_row(styled(name, "bold"), styled(value))
    work: list[RenderableType] = []
    for number, each in enumerate(receipt.work, start=1):
        work += [styled(f"\nWork order {number}", "bold"), *_render_work(each)]
    return Group(facts, *work, *_render_json({"Adaptation": receipt.adaptation}))


def _format_permission(record: PermissionRecord) -> str:
    offered = ", ".join(f"{option.id} ({option.kind})" for option in record.options)
    answer = f"chose {record.chosen}" if record.chosen is not None else record.why or "no reason given"
    return f"{record.title}: {record.status}, {answer}, after {record.waited_ms} ms; offered {offered}"


def _render_work(work: Work) -> list[RenderableType]:
    summary = summarise_work(work.dump())
    model = f" ({summary['model']})" if "model" in summary else ""
    answered = f"answered by {summary['backend']}{model}" if "backend" in summary else "not answered"
    needs = ", ".join(f"{need.capability} ({need.because})" for need in work.needs) or "nothing in particular"
    parts: list[RenderableType] = [styled(f"{answered}; needed {needs}")]
    if work.candidates:
        table = Table(title="Candidates", title_justify="left")
        for column in ("backend", "chosen", "outcome", "why"):
            table.add_column(column, overflow="fold")
        outcomes = {each.backend: "skipped" if each.skipped else f"failed: {each.code}" for each in work.fallbacks}
        outcomes |= {summary["backend"]: "answered"} if "backend" in summary else {}
        for candidate in work.candidates:
            chosen, outcome = "yes" if candidate.chosen else "no", outcomes.get(candidate.backend, "not called")
            table.add_row(styled(candidate.backend), chosen, styled(outcome), styled(candidate.why))
        parts.append(table)
    for failed in work.fallbacks:
        message = f" ({failed.endpoint_message})" if failed.endpoint_message else ""
        what = "was skipped" if failed.skipped else "failed"
        parts.append(styled_line(f"{failed.backend} {what}: {failed.message or failed.code}{message}"))
    members = {"Negotiation": work.negotiation, "Emulations": work.emulations, "Usage": work.usage}
    return parts + _render_json(members)


def _render_json(values: Mapping[str, Any]) -> list[RenderableType]:
    """Render each value that is there as JSON under its title."""
    parts: list[RenderableType] = []
    for title, value in values.items():
        if data := value.dump() if isinstance(value, Message) else value:
            parts += [styled(f"\n{title}", "bold"), JSON.from_data(data, highlight=False)]
    return parts
