"""`accord top`: watch the processes of a service, its running turns and its queue."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import time
from typing import Annotated, Final, Generic, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from accord.assembly.top import ServiceView, open_service_view
from accord.cli.configuration import load
from accord.cli.options import ConfigOption, JsonOption, QueueOption, StoreOption, TrustOption
from accord.console import Console, styled_line
from accord.ports import ListedRun, QueueDepth
from accord.servers.observability.overview import Overview, ProcessRow
from accord.servers.observability.status import Percentiles
from accord.terminal import format_count

RowT = TypeVar("RowT")

GAP: Final = 2
MIN_NAME: Final = 16
"""A name is cut to half of the terminal's width, but not below this; `--json` has all of it."""
NO_TEXT: Final = styled_line("")
EXIT_TERMINATED: Final = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Column(Generic[RowT]):
    """A column of a table. On a terminal that is too narrow, those of the highest rank are left out first."""

    title: str
    cell: Callable[[RowT], str]
    rank: int = 0
    is_number: bool = False


def top_command(  # noqa: PLR0913 - one flag each
    *,
    queue: QueueOption = None,
    store: StoreOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print the state once and exit; also if standard output is no terminal.")
    ] = False,
    as_json: JsonOption = False,
    interval: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two reads of the store.")] = 2.0,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Watch servers, workers, running turns and the queue.

    Give the --queue and --store of the service. Ctrl-C ends it.

    Examples:
      accord top --queue nats://db --store postgresql://db/accord
      accord top --store postgresql://db/accord --json
    """
    loaded = load(config, trusted=trust, store=store, queue=queue)
    console = Console()

    async def run() -> None:
        async with open_service_view(loaded) as view:
            await view.wait_for_answers()
            if as_json:
                print((await view.read()).to_json())
            elif once or not console.is_terminal or console.is_dumb_terminal:
                console.print(draw(await view.read(), console.width))
            else:
                await watch(view, console, interval)

    asyncio.run(run())


async def watch(view: ServiceView, console: Console, interval_s: float) -> None:
    """Draw the service again and again, and at once when the terminal has another size, until a signal comes."""
    resized, task, loop = asyncio.Event(), asyncio.current_task(), asyncio.get_running_loop()
    is_terminated = False

    def terminate() -> None:
        nonlocal is_terminated
        is_terminated = True
        if task is not None:
            task.cancel()

    with suppress(NotImplementedError, AttributeError):  # not on every system
        loop.add_signal_handler(signal.SIGTERM, terminate)
        loop.add_signal_handler(signal.SIGWINCH, resized.set)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                overview = await view.read()
                live.update(draw(overview, console.width, console.height), refresh=True)
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval_s):
                        while True:
                            await resized.wait()
                            resized.clear()
                            live.update(draw(overview, console.width, console.height), refresh=True)
    except asyncio.CancelledError:
        if is_terminated:
            raise SystemExit(EXIT_TERMINATED) from None
        raise


def draw(overview: Overview, width: int, height: int | None = None) -> Group:
    """The overview for a terminal of this size; without a height, all of it."""
    parts: list[RenderableType] = [styled_line(summarise(overview), "bold")]
    if overview.problem is not None:
        parts.append(styled_line(f"The store cannot be read: {overview.problem}", "red"))
    if overview.processes:
        parts += [NO_TEXT, make_table(PROCESS_COLUMNS, overview.processes, width, row_style=_process_style)]
    else:
        parts.append(styled_line("No process has sent a status; --queue has to be that of the service."))
    if overview.depths:
        parts += [NO_TEXT, make_table(QUEUE_COLUMNS, overview.depths, width)]
    turns = overview.turns.oldest
    if height is not None:
        used = len(parts) + len(overview.processes) + len(overview.depths) + 5
        turns = turns[: max(1, height - used)]
    if turns:
        process: Column[ListedRun] = Column("PROCESS", overview.process_of, 2)
        parts += [NO_TEXT, make_table([*TURN_COLUMNS, process], turns, width)]
        if len(turns) < overview.turns.total:
            parts.append(styled_line(f"… and {overview.turns.total - len(turns)} more turns"))
    return Group(*parts)


def summarise(overview: Overview) -> str:
    """The sums in one sentence."""
    totals = overview.totals
    limit = "" if totals.turn_limit is None else f" of at most {totals.turn_limit}"
    silent = f" ({totals.silent} silent)" if totals.silent else ""
    oldest = f" (the first for {format_seconds(totals.oldest_s)})" if totals.waiting else ""
    return (
        f"{totals.processes} process{'' if totals.processes == 1 else 'es'}{silent} · "
        f"{totals.running}{limit} turns running · {totals.waiting} waiting{oldest} · {totals.done} done, "
        f"{totals.failed} failed, {totals.cancelled} cancelled, {totals.refused} refused · "
        f"{format_count(totals.streams, 'stream')}"
    )


def make_table(
    columns: Sequence[Column[RowT]],
    rows: Sequence[RowT],
    width: int,
    *,
    row_style: Callable[[RowT], str] = lambda _: "",
) -> Table:
    """A table of these rows with as many columns as fit, the most important ones."""
    cells = {column.title: [styled_line(column.cell(row)) for row in rows] for column in columns}
    for column in cells.values():
        for cell in column:
            cell.truncate(max(MIN_NAME, width // 2), overflow="ellipsis")
    widths = {title: max(len(title), *(cell_len(cell.plain) for cell in cells[title])) for title in cells}
    shown = list(columns)
    while len(shown) > 1 and sum(widths[each.title] + GAP for each in shown) - GAP > width:
        shown.remove(max(reversed(shown), key=lambda each: each.rank))
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold cyan")
    for column in shown:
        table.add_column(
            column.title, justify="right" if column.is_number else "left", no_wrap=True, overflow="ellipsis"
        )
    for number, row in enumerate(rows):
        table.add_row(*(cells[column.title][number] for column in shown), style=row_style(row))
    return table


def format_seconds(seconds: float) -> str:
    """A duration in at most five characters."""
    for limit, unit, name in ((1, 0.001, "ms"), (100, 1, "s"), (6_000, 60, "m"), (360_000, 3_600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.1f}{name}" if name == "s" else f"{seconds / unit:.0f}{name}"
    return f"{min(seconds / 86_400, 999):.0f}d"


def _percentiles(found: Percentiles | None) -> str:
    return "–" if found is None else f"{format_seconds(found.p50_s)} {format_seconds(found.p99_s)}"


def _running(row: ProcessRow) -> str:
    limit = row.status.turn_limit
    return str(row.status.running) if limit is None else f"{row.status.running}/{limit}"


def _process_style(row: ProcessRow) -> str:
    return "red" if row.is_silent else ""


PROCESS_COLUMNS: Final[Sequence[Column[ProcessRow]]] = (
    Column("PROCESS", lambda row: row.name),
    Column("STATE", lambda row: f"silent {format_seconds(row.age_s)}" if row.is_silent else "ok", 1),
    Column("ROLE", lambda row: row.status.role.value, 5),
    Column("TURNS", _running, 0, is_number=True),
    Column("DONE", lambda row: str(row.status.done), 6, is_number=True),
    Column("FAILED", lambda row: str(row.status.failed), 3, is_number=True),
    Column("CANCELLED", lambda row: str(row.status.cancelled), 9, is_number=True),
    Column("WAIT p50 p99", lambda row: _percentiles(row.status.waited), 4, is_number=True),
    Column("FIRST p50 p99", lambda row: _percentiles(row.status.first_packet), 7, is_number=True),
    Column("TURN p50 p99", lambda row: _percentiles(row.status.turn), 2, is_number=True),
    Column(
        "CPU", lambda row: "–" if row.status.cpu_share is None else f"{row.status.cpu_share:.0%}", 2, is_number=True
    ),
    Column("MB", lambda row: f"{row.status.memory_mb:.0f}", 7, is_number=True),
    Column("STREAMS", lambda row: str(row.status.streams), 8, is_number=True),
    Column("UP", lambda row: format_seconds(max(0.0, time() - row.status.started_at)), 8, is_number=True),
    Column("AGENTS", lambda row: " ".join(row.status.agents), 8),
    Column("VERSION", lambda row: row.status.version, 10),
)
QUEUE_COLUMNS: Final[Sequence[Column[QueueDepth]]] = (
    Column("AGENT", lambda depth: depth.agent),
    Column("WAITING", lambda depth: str(depth.waiting), is_number=True),
    Column("OLDEST", lambda depth: format_seconds(depth.oldest_s), 1, is_number=True),
)
TURN_COLUMNS: Final[Sequence[Column[ListedRun]]] = (
    Column("AGE", lambda turn: format_seconds(turn.age_s), is_number=True),
    Column("OWNER", lambda turn: turn.owner),
    Column("AGENT", lambda turn: turn.agent, 1),
    Column("PACKETS", lambda turn: str(turn.last_seq), 4, is_number=True),
    Column("EPOCH", lambda turn: str(turn.epoch), 5, is_number=True),
    Column("REQUEST", lambda turn: turn.request_id, 6),
)
