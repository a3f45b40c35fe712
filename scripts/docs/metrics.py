"""docs/reference/metrics.md: every metric with its labels, from a registry in which each was counted once."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from scripts.docs.markdown import code, head, table

from accord.errors import ErrorCode
from accord.ports import Channel, LinkCounts, StoredTotal, WaitingRuns
from accord.servers.observability.calls import TOKEN_COUNTS
from accord.servers.observability.metrics import (
    MAX_KEYS,
    MAX_MODELS,
    MAX_UNKNOWN,
    METHODS,
    TRANSPORTS,
    Metrics,
    StoreReading,
)
from accord.wire.adaptation import Rung
from accord.wire.disposition import SERVED, AnswerDisposition, Api, Disposition
from accord.wire.receipt import OutcomeStatus
from accord.wire.session import SessionKind

INTRODUCTION: Final = """
`GET /metrics` answers in the text format of Prometheus. [observability.md](../observability.md) is the guide, also to
logs and traces. Each process has its own numbers, which begin at 0 when it starts; `accord_process_info` names it.
On Linux there are also the `process_…` metrics of the Prometheus client: memory, processor time, open files.
"""
KINDS: Final[Mapping[str, str]] = {"counter": "_total", "info": "_info"}
"""What is added to the name of a metric of this kind."""


class DocumentedChannel:
    """A channel to other processes that is connected; nothing is sent."""

    is_connected = True
    max_bytes = 0


def page() -> str:
    """The whole page."""
    rows: list[list[str]] = []
    labels: dict[str, None] = {}
    for metric in counted().registry.collect():
        if not metric.name.startswith("accord_"):
            continue  # those of the process depend on the system
        if not metric.samples:
            raise LookupError(f"{metric.name} has no sample: count it in {__file__}")
        names = [name for name in metric.samples[0].labels if name != "le"]
        labels |= dict.fromkeys(names)
        full = f"{metric.name}{KINDS.get(metric.type, '')}"
        rows.append([code(full), metric.type, ", ".join(map(code, names)), metric.documentation])
    meanings = label_meanings()
    return "\n".join(
        [
            head("Metrics", "src/accord/servers/observability/metrics.py", INTRODUCTION),
            table(["metric", "kind", "labels", "meaning"], sorted(rows)),
            "## Labels\n",
            "The number of values of every label is limited; what comes after them is counted as `other`.\n",
            table(["label", "values"], ([code(name), meanings[name]] for name in sorted(labels))),
        ]
    )


def label_meanings() -> dict[str, str]:
    """What the values of each label are."""
    return {
        "api": _values(SERVED),
        "backend": f"A backend of the configuration; `none` if no backend got the call. At most {MAX_UNKNOWN}.",
        "capability": f"A name of [capabilities.md](capabilities.md), and at most {MAX_UNKNOWN} others.",
        "code": f"A code of [errors.md](errors.md), such as `{ErrorCode.CAPABILITY_UNSUPPORTED}`.",
        "disposition": _values([*list(Disposition)[1:], *list(AnswerDisposition)[1:]]),
        "field": "A field of [dispositions.md](../dispositions.md).",
        "holds": _values(SessionKind),
        "key": f"The id of a key. At most {MAX_KEYS:,}.",
        "kind": _values(TOKEN_COUNTS),
        "method": _values(METHODS),
        "model": f"The model that answered; `none` if it is not known. At most {MAX_MODELS}.",
        "outcome": _values(OutcomeStatus),
        "part": "A part of an answer, as the tables of answers name it ([answers.md](../answers.md)).",
        "pid": "The id of the process.",
        "route": "A path of [http.md](http.md), with the names of its parameters.",
        "rung": _values(Rung),
        "status": "The status of the answer.",
        "transport": _values(TRANSPORTS),
        "version": "The version of Accord.",
    }


def _values(values: Any) -> str:
    return ", ".join(code(each) for each in values)


def counted() -> Metrics:
    """The metrics of a service in which each has been counted once."""
    metrics = Metrics(version="1")
    metrics.report_backends(lambda: {"local": False})
    waiting = StoreReading(_no_turns)
    waiting.value = WaitingRuns(0, 0.0)
    stored = StoreReading(_no_totals)
    stored.value = [StoredTotal(kind, 1, 1, datetime.now(UTC)) for kind in SessionKind]
    metrics.report_stored(stored)
    channel: Any = DocumentedChannel()
    typed: Channel = channel
    metrics.report_links(typed, LinkCounts(), waiting)
    timings = {"plan_ms": 1, "first_packet_ms": 1, "total_ms": 1}
    work = {
        "fallbacks": [{"backend": "local"}, {"backend": "local", "skipped": True}],
        "emulations": {"emulated": [{"capability": "tool_use"}]},
        "usage": {"input_tokens": 1},
        "dispositions": [{"field": "seed", "disposition": "dropped"}],
        "answer": [{"part": "citations", "disposition": "lost"}],
    }
    call = {"api": Api.CHAT.value, "served_by": "local", "model": "m", "key": "k", "cost_usd": 1.0}
    done = {"outcome": {"status": "done"}, "timings": timings, "work": [work]}
    metrics.turn_ended(done)
    metrics.turn_ended({**done, "call": call})
    metrics.request_done("GET", "/", 200, 0.1)
    return metrics


async def _no_turns() -> WaitingRuns:
    return WaitingRuns(0, 0.0)


async def _no_totals() -> list[StoredTotal]:
    return []
