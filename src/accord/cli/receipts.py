"""`accord receipts`: check that receipts are as they were sealed, show one, make a key to sign them with.

Exit status of `verify`: 0 in order, 1 not, 3 nothing to verify.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from rich.console import Group, RenderableType
from rich.json import JSON
from rich.table import Table

from accord.assembly.signing import make_key, signature_check
from accord.cli.options import ConfigOption, StoreOption, load_if_trusted
from accord.core.receipt import SHOWN_CHARS, ReceiptFinding, ReceiptState, Verification, has_valid_hash, verify
from accord.core.summarise import summarise_work
from accord.errors import StoreError, UsageError
from accord.files import parse_message, read_text
from accord.ports import Store
from accord.terminal import Cell, Console, escape_line, format_count, styled, styled_line
from accord.wire.agent_work import PermissionRecord
from accord.wire.message import Message
from accord.wire.receipt import Receipt, Work

COLOURS: Final = {ReceiptState.OK: "green", ReceiptState.MISSING: "yellow", ReceiptState.OUT_OF_ORDER: "yellow"}

receipts_app = typer.Typer(
    help="Check and show receipts.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


EXIT_WRONG: Final = 1
EXIT_EMPTY: Final = 3


@receipts_app.command("verify")
def verify_command(  # noqa: PLR0913 - one flag each
    file: Annotated[str, typer.Argument(help="Receipts, one a line or as an array; - for standard input.")],
    *,
    last: Annotated[str | None, typer.Option(help="The hash that the last receipt must have.")] = None,
    public_key: Annotated[
        list[str] | None,
        typer.Option(help="A public key's file: every receipt needs its signature; may be repeated."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not compare with the store.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings for a program.")] = False,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Check that receipts are as they were sealed, whole and in order, and end where the store says.

    A chain that was cut shows against the store or --last; one that was written anew shows against --public-key.
    """
    verify_signature, receipts = signature_check(public_key or ()), read_receipts(file)
    ends, note = ({}, "") if offline else _ends_in_store(receipts, config, store)
    found = verify(receipts, last=last, ends=ends, verify_signature=verify_signature)
    _print_json(found, ends) if as_json else _print_findings(found)
    if note:
        print(f"accord: {escape_line(note)}", file=sys.stderr)
    if not found.ok:
        raise typer.Exit(EXIT_WRONG if found.findings else EXIT_EMPTY)


def _ends_in_store(receipts: list[Any], config: str | None, store: str | None) -> tuple[dict[str, str], str]:
    """The hash with which each of these sessions ends in the store, and what could not be compared."""
    from accord.assembly.opening import run_with_store  # noqa: PLC0415 - a store takes a while to load

    items = (cast("Mapping[str, Any]", receipt) for receipt in receipts if isinstance(receipt, Mapping))
    sessions = dict.fromkeys(session for item in items if isinstance(session := item.get("session_id"), str))

    async def ask(opened: Store) -> dict[str, str | None]:
        return {session: await opened.last_receipt_hash(session) for session in sessions}

    if not sessions:
        return {}, ""
    try:
        known = run_with_store(load_if_trusted(config, store=store), ask)
    except (UsageError, StoreError) as error:
        if config is not None or store is not None:
            raise
        return {}, f"not compared with a store: {error.message}"
    unknown = [session for session, end in known.items() if end is None]
    note = f"the store does not know {', '.join(unknown[:5])}: not compared" if unknown else ""
    return {session: end for session, end in known.items() if end is not None}, note


@receipts_app.command("keygen")
def keygen_command(
    file: Annotated[Path, typer.Argument(help="Where to write the private key; the public one goes beside it.")] = Path(
        "accord-signing-key.pem"
    ),
) -> None:
    """Make an Ed25519 key to sign receipts with: name its file as `signing_key` in the configuration."""
    public = make_key(file)
    print(f"Wrote {file}, a secret: set signing_key to it. Verify with `accord receipts verify --public-key {public}`")


@receipts_app.command("show")
def show_command(
    file: Annotated[str, typer.Argument(help="Receipts, one a line or as an array; - for standard input.")],
    number: Annotated[int | None, typer.Argument(min=1, help="Which one, from 1; the last unless given.")] = None,
) -> None:
    """Print one receipt so that it can be read."""
    receipts = read_receipts(file)
    which = len(receipts) if number is None else number
    if not receipts:
        print(f"{escape_line(file)}: no receipts yet; `accord sessions receipts SESSION` writes them")
        return
    if which > len(receipts):
        raise UsageError(f"{file}: there is no receipt {which}; the file has {format_count(len(receipts), 'receipt')}")
    receipt = parse_message(receipts[which - 1], Receipt, f"{file}: receipt {which}")
    Console().print(_page(receipt, genuine=has_valid_hash(receipts[which - 1])))


def read_receipts(file: str) -> list[Any]:
    """The receipts in a file as plain values: an array, one object a line, or a single object."""
    text = read_text(file)
    if text.lstrip().startswith("["):
        return cast("list[Any]", _json(text, file))
    if text.lstrip().partition("\n")[0].rstrip() == "{":
        return [_json(text, file)]  # one receipt, spread over lines
    lines = enumerate(text.split("\n"), 1)
    return [_json(line, f"{file}:{number}") for number, line in lines if line.strip()]


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant)
    except RecursionError:
        raise UsageError(f"{place}: expected JSON: nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{place}: expected JSON: {error}") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, if no name is in it twice: which of the two was hashed could not be told."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name stands in an object twice")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


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
    told = {"ok": found.ok, "count": found.count, "last": found.last, "compared": [*ends], "findings": findings}
    print(json.dumps(told, indent=2, ensure_ascii=False))


def _print_findings(found: Verification) -> None:
    console = Console()
    if found.findings:
        console.print_table(("#", "session", "hash", "state", "why"), map(_row, found.findings))
    console.print(_summary(found), soft_wrap=True)


def _row(finding: ReceiptFinding) -> tuple[Cell, ...]:
    return (
        styled(str(finding.index + 1)),
        styled_line(finding.session_id or ""),
        styled((finding.hash or "")[:SHOWN_CHARS]),
        styled(str(finding.state), COLOURS.get(finding.state, "red")),
        styled(finding.reason),
    )


def _summary(found: Verification) -> str:
    if not found.findings:
        return "No receipts, so nothing was verified; `accord sessions receipts SESSION` writes them"
    if found.ok:
        end = f", ending with {found.last}" if found.last else ""
        return f"{format_count(len(found.findings), 'receipt')}, all in order{end}"
    counts = {state: sum(finding.state is state for finding in found.findings) for state in ReceiptState}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def _page(receipt: Receipt, *, genuine: bool) -> Group:
    facts = Table.grid(padding=(0, 2))
    for _ in range(2):
        facts.add_column(overflow="fold")
    outcome = receipt.outcome
    why = f": {outcome.code}, {outcome.message or 'no message'}" if outcome.code else ""
    rows = {
        "receipt": receipt.hash,
        "seal": "intact" if genuine else "broken: the content does not have this hash",
        "signature": receipt.signature or "none",
        "after": receipt.previous or "nothing: the first of its session",
        "session": receipt.session_id,
        "request": f"{receipt.request_id}, {receipt.created_at.isoformat()}",
        "asked": _asked(receipt),
        "agent": f"{receipt.parties.agent.name}, accepts {', '.join(receipt.parties.agent.accepts) or 'nothing'}",
        "client": f"assumed: {', '.join(receipt.parties.client.assumed) or 'nothing'}",
        "questions": str(len(receipt.work)),
        "permissions": _permissions(receipt),
        "took": _took(receipt),
        "outcome": f"{outcome.status}{why}",
    }
    for name, told in rows.items():
        facts.add_row(styled(name, "bold"), styled(told))
    return Group(facts, *_details(receipt))


def _asked(receipt: Receipt) -> str:
    request = receipt.request
    blocks = "".join(f", {count} {kind}" for kind, count in request.blocks.items())
    counts = f"{format_count(request.text_chars, 'character')}{blocks}, {format_count(request.files, 'file')}"
    return f"{counts}; digest {request.digest[:SHOWN_CHARS]}…"


def _permissions(receipt: Receipt) -> str:
    """What the agent asked its user leave for, a line each."""
    return "\n".join(_permission(asked) for asked in receipt.permissions or ()) or "none asked for"


def _permission(asked: PermissionRecord) -> str:
    offered = ", ".join(f"{option.id} ({option.kind})" for option in asked.options)
    came = f"chose {asked.chosen}" if asked.chosen is not None else asked.why or "no reason given"
    return f"{asked.title}: {asked.status}, {came}, after {asked.waited_ms} ms; offered {offered}"


def _took(receipt: Receipt) -> str:
    first = receipt.timings.first_packet_ms
    told = "" if first is None else f", first packet after {first} ms"
    return f"plan {receipt.timings.plan_ms} ms{told}, all {receipt.timings.total_ms} ms"


def _details(receipt: Receipt) -> list[RenderableType]:
    """The longer parts, each only where there is something to tell."""
    parts: list[RenderableType] = []
    for number, work in enumerate(receipt.work, start=1):
        parts += [styled(f"\nQuestion {number}", "bold"), *_work(work)]
    return parts + _free({"Adaptation": receipt.adaptation})


def _work(work: Work) -> list[RenderableType]:
    summary = summarise_work(work.dump())
    told = summary.get("backend", "nobody") + (f" ({summary['model']})" if "model" in summary else "")
    needs = ", ".join(f"{need.capability} ({need.because})" for need in work.needs) or "nothing in particular"
    parts: list[RenderableType] = [styled(f"answered by {told}; needed {needs}")]
    if work.candidates:
        table = Table(title="Candidates", title_justify="left")
        for column in ("backend", "chosen", "outcome", "why"):
            table.add_column(column, overflow="fold")
        outcomes = {failed.backend: f"failed: {failed.code}" for failed in work.fallbacks}
        outcomes |= {summary["backend"]: "answered"} if "backend" in summary else {}
        for candidate in work.candidates:
            chosen, outcome = "yes" if candidate.chosen else "no", outcomes.get(candidate.backend, "not asked")
            table.add_row(styled(candidate.backend), chosen, styled(outcome), styled(candidate.why))
        parts.append(table)
    for failed in work.fallbacks:
        said = f" ({failed.endpoint_message})" if failed.endpoint_message else ""
        parts.append(styled_line(f"{failed.backend} failed: {failed.message or failed.code}{said}"))
    return parts + _free(
        {
            "Negotiation": work.negotiation,
            "Emulations": work.emulations,
            "Usage": work.usage,
        }
    )


def _free(values: Mapping[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for title, value in values.items():
        if told := value.dump() if isinstance(value, Message) else value:
            parts += [styled(f"\n{title}", "bold"), JSON.from_data(told, highlight=False)]
    return parts
