"""docs/observability.md tells the truth: it lists every metric, every attribute and every field of a call, and no other."""

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path

from accord.ports import LinkCounts, StoredTotal, WaitingRuns
from accord.servers.observability.logs import call_fields
from accord.servers.observability.metrics import Metrics, StoreReading
from accord.servers.observability.traces import TOKEN_ATTRIBUTES, call_attributes
from accord.wire.receipt import OutcomeStatus, Work
from accord.wire.session import SessionKind
from tests.linked_channel import ChannelHub
from tests.receipts import a_body
from tests.servers.observability.turns import FAILED, REFUSED, a_call, an_eventful_turn, emulating, fallback

PAGE = (Path(__file__).parent.parent / "docs/observability.md").read_text(encoding="utf-8")
ANSWER = [{"part": "work", "disposition": "lost", "reason": "the chat completions API has no place for it"}]
CALLS = [a_call(work={"emulations": emulating("json_mode"), "answer": ANSWER}), a_call(outcome=FAILED)]
"""Calls in which everything happened that can happen."""


def first_cells(heading: str) -> list[str]:
    """The names in the first column of the table with this heading."""
    _, _, rest = PAGE.partition(f"| {heading} |")
    table = rest.partition("\n\n")[0]
    return re.findall(r"`([^`]+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:]))


async def _one() -> WaitingRuns:
    return WaitingRuns(1, 2.5)


def test_the_page_lists_every_metric_with_its_labels():
    metrics = Metrics(version="1")
    metrics.report_backends(lambda: {"local": True})
    waiting = StoreReading(_one)
    asyncio.run(waiting.refresh())
    stored = StoreReading(_no_totals)
    stored.value = [StoredTotal(SessionKind.CALLS, 1, 1, datetime.now(UTC))]
    metrics.report_stored(stored)
    metrics.report_links(ChannelHub().channel(), LinkCounts(), waiting)
    skipped = fallback("far").model_copy(update={"skipped": True})
    for receipt in (
        *CALLS,
        an_eventful_turn(),
        an_eventful_turn(outcome=REFUSED),
        a_body(work=[Work(fallbacks=[skipped])]).hashed(),
    ):
        metrics.turn_ended(receipt)
    metrics.request_done("GET", "/health", 200, 0.1)
    found: set[str] = set()
    for family in metrics.registry.collect():
        sample = next(each for each in family.samples if not each.name.endswith("_created"))
        name = family.name if family.type in ("histogram", "gauge") else sample.name
        labels = ",".join(label for label in sample.labels if label != "le")
        if not name.startswith("process_"):
            found.add(f"{name}{{{labels}}}" if labels else name)
    listed = first_cells("metric")
    assert sorted(listed) == sorted(found)


def test_the_page_lists_every_attribute_of_a_call():
    found = {name for call in CALLS for name in call_attributes(call)} | {*TOKEN_ATTRIBUTES.values()}
    always = {"gen_ai.operation.name", "gen_ai.request.model"}
    assert {*first_cells("attribute")} == found | always


def test_the_page_lists_every_field_of_the_line_of_a_call():
    assert {*first_cells("field of a call")} == {name for call in CALLS for name in call_fields(call)}


def test_the_line_on_the_page_has_fields_that_exist():
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    line = json.loads(block)
    known = {*call_fields(a_call()), "method", "route", "status", "request_ms"}
    assert line["logger"] == "accord.call"
    assert {*line["fields"]} == known
    assert all(f"`turn {status}`" in PAGE for status in OutcomeStatus)


async def _no_totals() -> list[StoredTotal]:
    return []
