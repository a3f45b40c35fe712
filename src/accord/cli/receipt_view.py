"""A receipt for people: in full, and as the lines that a user should see after a turn.

For `accord receipts show`, `accord chat`, `accord ask` and `accord render`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rich.table import Table

from accord.console import Console, styled, styled_line
from accord.core.receipt import SHOWN_CHARS
from accord.core.summarise import summarise_work
from accord.terminal import format_count
from accord.wire.adaptation import AdaptationReport, Rung
from accord.wire.agent_work import PermissionRecord
from accord.wire.emulation import Attempt, Effect, EmulationRecord
from accord.wire.manifest import NegotiationResult
from accord.wire.receipt import OutcomeStatus, Receipt, Work

COLOURS: Final = {
    Rung.NATIVE: "green",
    Rung.SIMPLIFIED: "cyan",
    Rung.SUBSTITUTED: "cyan",
    Rung.DESCRIBED: "yellow",
    Rung.DEFERRED: "magenta",
    Rung.DROPPED: "red",
    Rung.REFUSED: "red",
}
"""The colour of each rung of the ladder."""


def account(receipt: Receipt) -> Iterator[str]:
    """Yield a line for each thing that the user should know: failures, emulations, losses, a bad outcome."""
    outcome = receipt.outcome
    for work in receipt.work:
        for failed in work.fallbacks:
            if failed.message != outcome.message:  # otherwise it is printed as the outcome
                yield f"{'skipped' if failed.skipped else 'failed'}: {failed.message or failed.code}"
            if failed.endpoint_message:
                yield f"{failed.backend} says: {failed.endpoint_message}"
        yield from _compromises(summarise_work(work.dump()))
    if outcome.status is not OutcomeStatus.DONE:
        yield f"{outcome.status}: {outcome.message or outcome.code}"


def _compromises(summary: Mapping[str, Any]) -> Iterator[str]:
    for each in summary.get("emulated", ()):
        how = each["reason"] if each["by"] == "accord" else f"by {summary['backend']}: {each['strategy']}"
        yield f"emulated: {each['capability']} ({how})"
    for tried in summary.get("tried", ()):
        yield f"tried: {tried} (no source says whether {summary['backend']} supports it)"
    for lost in summary.get("lost", ()):
        count = f", {lost['count']}" if "count" in lost else ""
        yield f"lost: {lost['capability']} ({lost['reason']}{count})"


def print_receipt(console: Console, receipt: Receipt, *, is_intact: bool) -> None:
    """Print a receipt: a table of facts, each request to a backend, and what the client got."""
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
    console.print(facts)
    for number, work in enumerate(receipt.work, start=1):
        console.print(styled(f"\nWork order {number}", "bold"))
        _print_work(console, work)
    if receipt.adaptation is not None:
        console.print()
        print_adaptation(console, receipt.adaptation)


def _format_permission(record: PermissionRecord) -> str:
    offered = ", ".join(f"{option.id} ({option.kind})" for option in record.options)
    answer = f"chose {record.chosen}" if record.chosen is not None else record.why or "no reason given"
    return f"{record.title}: {record.status}, {answer}, after {record.waited_ms} ms; offered {offered}"


def _print_work(console: Console, work: Work) -> None:
    summary = summarise_work(work.dump())
    model = f" ({summary['model']})" if "model" in summary else ""
    answered = f"answered by {summary['backend']}{model}" if "backend" in summary else "not answered"
    needs = ", ".join(f"{need.capability} ({need.because})" for need in work.needs) or "nothing in particular"
    _print_lines(console, [f"{answered}; needed {needs}"])
    if work.candidates:
        outcomes = {each.backend: "skipped" if each.skipped else f"failed: {each.code}" for each in work.fallbacks}
        outcomes |= {summary["backend"]: "answered"} if "backend" in summary else {}
        rows = [
            (each.backend, "yes" if each.chosen else "no", outcomes.get(each.backend, "not called"), each.why)
            for each in work.candidates
        ]
        console.print_table(("backend", "chosen", "outcome", "why"), rows, title="Candidates")
    for failed in work.fallbacks:
        message = f" ({failed.endpoint_message})" if failed.endpoint_message else ""
        what = "was skipped" if failed.skipped else "failed"
        _print_lines(console, [f"{failed.backend} {what}: {failed.message or failed.code}{message}"])
    if work.negotiation is not None:
        _print_lines(console, _negotiation_lines(work.negotiation), "Negotiation")
    if work.emulations is not None:
        _print_lines(console, _emulation_lines(work.emulations), "Emulations")
    if work.usage:
        _print_lines(console, [json.dumps(work.usage, ensure_ascii=False)], "Usage")
    if work.calls:
        _print_lines(console, [json.dumps(each.dump(), ensure_ascii=False) for each in work.calls], "Requests")


def _print_lines(console: Console, lines: Iterable[str], title: str | None = None) -> None:
    for number, line in enumerate(lines):
        if title is not None and number == 0:
            console.print(styled(f"\n{title}", "bold"))
        console.print(styled_line(line), overflow="fold")


def _negotiation_lines(result: NegotiationResult) -> Iterator[str]:
    if result.native:
        yield f"native: {', '.join(result.native)}"
    for name in result.emulatable:
        yield f"emulated: {name} ({result.strategies.get(name, 'adapter')})"
    for name in result.unsupported:
        yield f"unsupported: {name} ({result.reasons.get(name, 'no reason given')})"


def _emulation_lines(record: EmulationRecord) -> Iterator[str]:
    for entry in record.emulated:
        details = {name: value for name, value in entry.strategy.dump().items() if name != "type"}
        yield f"{entry.capability}: {entry.strategy.type} ({', '.join(map(str, details.values()))})"
    yield from map(_format_attempt, record.attempts)
    yield from map(_format_effect, record.effects)


def _format_attempt(attempt: Attempt) -> str:
    of = "" if attempt.capability is None else f" of {attempt.capability}"
    problems = f": {'; '.join(attempt.problems)}" if attempt.problems else ""
    return f"attempt {attempt.number}{of}: {'accepted' if attempt.ok else 'rejected'}{problems}"


def _format_effect(effect: Effect) -> str:
    by = "" if effect.by is None else f" by {effect.by}"
    why = "" if effect.why is None else f": {effect.why}"
    return f"effect on {effect.capability}: {effect.kind}, {effect.count}{by}{why}"


def print_adaptation(console: Console, report: AdaptationReport) -> None:
    """Print what the client got of each item, and why."""
    rows = [
        (
            str(entry.position),
            styled_line(entry.type if entry.count == 1 else f"{entry.count} × {entry.type}"),
            styled(str(entry.rung), COLOURS[entry.rung]),
            str(entry.reason),
            styled_line(", ".join(entry.lost)),
        )
        for entry in report.entries
    ]
    console.print_table(("at", "item", "rung", "reason", "lost"), rows, title="Adaptation report")
    assumed = f"; assumed: {', '.join(report.assumed)}" if report.assumed else ""
    console.print(f"{format_count(report.total(), 'packet')}: {format_totals(report) or 'none'}{assumed}")


def format_totals(report: AdaptationReport, *, without: Rung | None = None) -> str:
    """How many packets are on each rung, such as `3 native, 1 described`."""
    return ", ".join(f"{count} {rung}" for rung, count in report.totals.items() if count and rung is not without)
