"""The report of a run: a summary for the terminal, and docs/benchmarks.md with its plots."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from .contestants import CONTESTANTS, Contestant
from .measure import AT_ONCE, FAIR_SHARE, PACE_MS, STREAMS, Figures
from .plots import Bars, draw_bars
from .upstream import CHUNKS

BY_NAME: Final = {contestant.name: contestant for contestant in CONTESTANTS}


@dataclass(slots=True)
class Result:
    """The best figures of a contestant over all rounds, and what went wrong."""

    contestant: Contestant
    version: str
    figures: Figures = field(default_factory=Figures)
    problems: list[str] = field(default_factory=list[str])

    def add_round(self, figures: Figures) -> None:
        """Keep the better figure of each kind."""
        for key, value in figures.items():
            better = max if key.startswith(MORE_IS_BETTER) else min
            self.figures[key] = better(self.figures.get(key, value), value)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a reader must know to judge the figures."""

    date: str
    processors: int
    busy: float
    rounds: int
    seconds: float


MORE_IS_BETTER: Final = ("rate_", "chunk_rate", "share_")
Results = Mapping[str, Result]
Cell = Callable[[Result, Figures], float | None]
"""A figure of a result; the second argument is what was measured without a gateway."""


def figure(key: str) -> Cell:
    """A figure as it was measured."""
    return lambda result, _: result.figures.get(key)


def added(key: str) -> Cell:
    """A latency less that of the upstream alone."""

    def read(result: Result, direct: Figures) -> float | None:
        if key not in result.figures or key not in direct or result.contestant.launch is None:
            return None
        return result.figures[key] - direct[key]

    return read


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    title: str
    cell: Cell
    digits: int


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the page: what the figures are, and the table."""

    title: str
    text: str
    columns: Sequence[Column]
    plots: Sequence[str]


SECTIONS: Final = (
    Section(
        "Requests",
        """Requests per second, and the milliseconds that the gateway adds to the median and to the 99th percentile,
with 1, 16 and 64 requests at a time. The row without a gateway shows what the load generator and the upstream can do;
its latencies are the ones that are subtracted from the others.""",
        [
            *(Column(f"req/s, {number}", figure(f"rate_{number}"), 0) for number in AT_ONCE),
            *(Column(f"+p50 ms, {number}", added(f"p50_{number}"), 2) for number in AT_ONCE),
            *(Column(f"+p99 ms, {number}", added(f"p99_{number}"), 2) for number in AT_ONCE),
        ],
        ["requests", "latency"],
    ),
    Section(
        "Streams",
        f"""Streams of {CHUNKS} chunks, {STREAMS} at a time: chunks per second and the processor time of each, as fast
as the gateway goes; then, with a chunk every {PACE_MS} ms as a model would send them, the time to the first chunk and
the processor time of each chunk. Every stream is checked to carry all its chunks. As fast as it goes, a gateway reads
many chunks at once and the upstream is near its own limit; at the pace of a model each chunk costs a wake-up.""",
        [
            Column("chunks/s", figure("chunk_rate"), 0),
            Column("CPU µs per chunk", figure("chunk_cpu"), 1),
            Column("first chunk ms, paced", figure("first_chunk"), 2),
            Column("CPU µs per chunk, paced", figure("paced_cpu"), 1),
        ],
        ["streams"],
    ),
    Section(
        "Cost",
        """Processor time per request of the gateway and all its processes; how much of its processor it used with 64
requests at a time (clearly less than 100 % means that other programs were using it, and its rate would be higher
on a quiet machine); resident memory a second after the start and after all loads; seconds from the start of the program
to its first answer.""",
        [
            *(Column(f"CPU ms per request, {number}", figure(f"cpu_{number}"), 3) for number in AT_ONCE),
            Column("% of its processor, 64", figure("share_64"), 0),
            Column("idle MB", figure("idle_mb"), 0),
            Column("MB after load", figure("loaded_mb"), 0),
            Column("start s", figure("start_s"), 2),
        ],
        ["cpu", "memory", "start"],
    ),
)


@dataclass(frozen=True, slots=True)
class Plot:
    """A bar chart of some columns."""

    file: str
    title: str
    note: str
    series: Sequence[tuple[str, Cell]]
    digits: int


PLOTS: Final = (
    Plot(
        "requests",
        "Requests per second",
        "One processor for the gateway. More is better.",
        [(f"{number} at a time", figure(f"rate_{number}")) for number in AT_ONCE],
        0,
    ),
    Plot(
        "latency",
        "Added latency in ms, one request at a time",
        "Compared with the upstream alone. Less is better.",
        [("median", added("p50_1")), ("99th percentile", added("p99_1"))],
        2,
    ),
    Plot(
        "cpu",
        "Processor time per request in ms",
        "64 requests at a time. Less is better.",
        [("CPU", figure("cpu_64"))],
        3,
    ),
    Plot(
        "streams",
        "Chunks per second",
        f"{STREAMS} streams of {CHUNKS} chunks at a time. More is better.",
        [("chunks", figure("chunk_rate"))],
        0,
    ),
    Plot(
        "memory",
        "Resident memory in MB",
        "Less is better.",
        [("idle", figure("idle_mb")), ("after load", figure("loaded_mb"))],
        0,
    ),
    Plot("start", "Seconds from start to first answer", "Less is better.", [("start", figure("start_s"))], 2),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of Accord, alone or as a ratio to another contestant's, that must reach a bound."""

    text: str
    key: str
    sign: Literal["≥", "≤", "<"]
    bound: float
    unit: str
    other: str | None = None
    how: Literal["ratio", "inverse", "added"] = "ratio"
    """How our figure is compared with the other's: ours / theirs, theirs / ours, or ours - theirs."""

    def value(self, results: Results) -> float | None:
        """The measured value; None if something is missing."""
        ours = results["accord"].figures.get(self.key) if "accord" in results else None
        if ours is None or self.other is None:
            return ours
        theirs = results[self.other].figures.get(self.key) if self.other in results else None
        if not theirs:
            return None
        return {"ratio": ours / theirs, "inverse": theirs / ours, "added": ours - theirs}[self.how]

    def starved(self, results: Results) -> str | None:
        """Whose rate says nothing because other programs used its processor."""
        if self.key != f"rate_{AT_ONCE[-1]}":
            return None
        return next(
            (results[name].contestant.title for name in ("accord", self.other or "") if is_starved(results, name)), None
        )

    def is_met(self, value: float) -> bool:
        """Whether this value is good enough."""
        return {"≥": value >= self.bound, "≤": value <= self.bound, "<": value < self.bound}[self.sign]


GOALS: Final = (
    Goal("requests/s at 64, compared with LiteLLM", "rate_64", "≥", 25, "×", "litellm"),
    Goal("the same by processor time", "cpu_64", "≥", 25, "×", "litellm", "inverse"),
    Goal("requests/s at 64, compared with Portkey", "rate_64", "≥", 2, "×", "portkey"),
    Goal("the same by processor time", "cpu_64", "≥", 2, "×", "portkey", "inverse"),
    Goal("requests/s at 64, compared with smg", "rate_64", "≥", 0.6, "×", "smg"),
    Goal("the same by processor time", "cpu_64", "≥", 0.6, "×", "smg", "inverse"),
    Goal("added median latency, one at a time", "p50_1", "≤", 1.0, "ms", "direct", "added"),
    Goal("CPU per request at 64, compared with the bare pass-through", "cpu_64", "≤", 2, "×", "bare"),
    Goal("the same, further goal", "cpu_64", "≤", 1.5, "×", "bare"),
    Goal("chunks/s, compared with the bare pass-through", "chunk_rate", "≥", 0.7, "×", "bare"),
    Goal("the same by processor time", "chunk_cpu", "≥", 0.7, "×", "bare", "inverse"),
    Goal("idle memory", "idle_mb", "<", 90, "MB"),
    Goal("start to first answer", "start_s", "<", 1.0, "s"),
)


def is_starved(results: Results, name: str) -> bool:
    """Whether a gateway had too little of its processor under full load."""
    share = results[name].figures.get(f"share_{AT_ONCE[-1]}") if name in results else None
    return share is not None and share < FAIR_SHARE * 100


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = ["| " + " | ".join(headers) + " |", "|---|" + "---:|" * (len(headers) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def figures_table(results: Results, columns: Sequence[Column]) -> str:
    """One row for each contestant."""
    direct = results["direct"].figures if "direct" in results else {}
    rows = [
        [result.contestant.title, *(number(column.cell(result, direct), column.digits) for column in columns)]
        for result in results.values()
    ]
    return table(["", *(column.title for column in columns)], rows)


def number(value: float | None, digits: int) -> str:
    """A figure for a table; a dash if there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def goals_table(results: Results) -> str:
    """Each goal, what was measured, and whether it is met."""
    rows: list[list[str]] = []
    for goal in GOALS:
        value = goal.value(results)
        met = "not measured" if value is None else "yes" if goal.is_met(value) else "**no**"
        if value is not None and (name := goal.starved(results)):
            met = f"not comparable: other programs used the processor of {name}"
        bound = f"{goal.sign} {goal.bound:g} {goal.unit}"
        rows.append([goal.text, bound, "–" if value is None else f"{value:,.2f} {goal.unit}", met])
    return table(["Accord's", "goal", "measured", "met"], rows)


def problems_of(results: Results) -> str:
    """What could not be measured, and why."""
    lines = [f"- {result.contestant.title}: {text}" for result in results.values() for text in unique(result.problems)]
    return "\n".join(["Not measured:", *lines]) + "\n" if lines else ""


def unique(texts: Sequence[str]) -> list[str]:
    """Each text once, in order, in one line of readable length."""
    return [*dict.fromkeys(" ".join(text.split())[:400] for text in texts)]


def summary(results: Results) -> str:
    """Everything for the terminal."""
    parts = [f"{section.title}\n{figures_table(results, section.columns)}" for section in SECTIONS]
    return "\n".join([*parts, goals_table(results), problems_of(results)])


def write_report(results: Results, machine: Machine, docs: Path) -> None:
    """Write docs/benchmarks.md and its plots."""
    folder = docs / "benchmarks"
    folder.mkdir(exist_ok=True)
    for plot in PLOTS:
        (folder / f"{plot.file}.svg").write_text(draw(plot, results), encoding="utf-8")
    (docs / "benchmarks.md").write_text(document(results, machine), encoding="utf-8")


def draw(plot: Plot, results: Results) -> str:
    """One chart; the load without a gateway is not in it."""
    direct = results["direct"].figures if "direct" in results else {}
    rows = [
        Bars(result.contestant.title, [cell(result, direct) for _, cell in plot.series], name == "accord")
        for name, result in results.items()
        if name != "direct"
    ]
    return draw_bars(plot.title, plot.note, [name for name, _ in plot.series], rows, plot.digits)


def document(results: Results, machine: Machine) -> str:
    """The page."""
    placed = (
        "The gateway has one processor; the load generator and the upstream share the other."
        if machine.processors > 1
        else "There is only one processor: the gateway, the load generator and the upstream share it."
    )
    return f"""# Gateways side by side

`make bench-gateways` wrote this page on {machine.date}; do not edit it. One run on a machine with {machine.processors}
processors, whose load average at the start was {machine.busy:.1f}.
{placed}
The upstream is a local program that answers with prepared bytes, so the figures are what a gateway adds and not what a
model takes. Each contestant was started, measured and ended in turn, {machine.rounds} times, and its best figure of
each kind counts; each load took {machine.seconds:g} s.

Accord runs with everything on: negotiation, receipts, a token, SQLite and logs. The others run as lean as they can: one
process, no keys, no database, few logs. The bare pass-through is forty lines of Starlette and aiohttp that read no
JSON and keep no record; Caddy is a reverse proxy that knows nothing of models.

## Goals

{goals_table(results)}
By processor time: the processor time of the other contestant for the same work, divided by Accord's. It does not depend
on how busy the machine was, nor on the limit of the load generator, which the fastest streams come near to.

{problems_of(results)}
{"".join(page_section(section, results) for section in SECTIONS)}## Versions

{versions_table(results)}
Portkey's gateway is installed with `@hono/node-server` 1.14.1: with the newest version that its package accepts, every
stream ends with status 500 (`TypeError: immutable`, Portkey-AI/gateway issue 1389).

A quick run that leaves this page as it is: `ONLY=direct,bare,accord ROUNDS=1 SECONDS=1 make bench-gateways`.
"""


def page_section(section: Section, results: Results) -> str:
    """One section of the page with its table and plots."""
    titles = {plot.file: plot.title for plot in PLOTS}
    images = "".join(f"![{titles[file]}](benchmarks/{file}.svg)\n\n" for file in section.plots)
    return f"## {section.title}\n\n{section.text}\n\n{figures_table(results, section.columns)}\n{images}"


def versions_table(results: Results) -> str:
    """What was measured."""
    rows = [
        [result.contestant.title, result.contestant.language or "–", result.version or "–"]
        for result in results.values()
    ]
    return table(["contestant", "language", "version"], rows)
