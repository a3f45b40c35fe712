"""What adapting costs, for clients that show everything, something and nothing.

First real answers of models in deltas of eight characters: `ClientAdapter.feed` gets a packet and returns those to
send, with and without making the packet that it gets. Beside it the stripper alone, and markdown-it-py, which parses
every answer whole. Then microseconds of one delta and one event of each kind.

All take turns in one process, many rounds, and the best round of each counts, in CPU time: the machine may be shared.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from markdown_it import MarkdownIt

from accord.core.output import ClientAdapter
from accord.core.output.markdown import Profile
from accord.wire.packet import DeltaPacket, EventPacket, StreamPacket
from accord.wire.request import ClientCapabilities
from strip import PIECE, feed, pieces_of, read_answers, timed

ROUNDS: Final = 15
GOAL_US: Final = 2.0
GOAL_RATIO: Final = 0.8

CLIENTS: Final[Mapping[str, ClientCapabilities | None]] = {
    "shows everything": None,
    "terminal, shows progress": ClientCapabilities(supported_events=["PROGRESS_INDICATOR"]),
    "plain text": ClientCapabilities(supported_events=["PROGRESS_INDICATOR"], prefers_markdown=False),
    "voice": ClientCapabilities(supported_events=[], prefers_markdown=False),
}

PROSE: Final = "The results grew by four per cent, which is **more** than last year.\n\nSee the table below.\n"


def deltas(count: int) -> list[StreamPacket]:
    """Text in pieces of eight characters."""
    text = PROSE * (count * 8 // len(PROSE) + 1)
    return [DeltaPacket(p=text[at : at + 8]) for at in range(0, count * 8, 8)]


def source(number: int) -> StreamPacket:
    """A citation of one source."""
    item = {"source_id": f"s{number}", "uri": f"https://example.com/{number}", "title": f"Source {number}"}
    return EventPacket(p={"type": "citation_block", "id": f"c{number}", "data": {"items": [item]}})


def tick(number: int) -> StreamPacket:
    """A tick of progress, ten a second."""
    seconds, tenths = divmod(number, 10)
    stamp = f"2026-01-01T00:{seconds // 60 % 60:02}:{seconds % 60:02}.{tenths}00000+00:00"
    data = {"label": "Fetching", "status": "running", "progress_percent": number % 100 / 100}
    return EventPacket(p={"type": "progress_indicator", "timestamp": stamp, "data": data})


STREAMS: Final[Mapping[str, Sequence[StreamPacket]]] = {
    "delta": deltas(20_000),
    "source": [source(number) for number in range(2_000)],
    "tick": [tick(number) for number in range(2_000)],
}


def adapt(packets: Iterable[StreamPacket], declared: ClientCapabilities | None) -> None:
    """Adapt one answer for one client."""
    adapter = ClientAdapter(declared)
    for packet in packets:
        adapter.feed(packet)
    adapter.close()


def make_packets(pieces: Sequence[str]) -> Iterator[StreamPacket]:
    """Make the packets of an answer one by one."""
    for piece in pieces:
        yield DeltaPacket(p=piece)


def compare_with_parser() -> None:
    """Print the cost of a delta of real answers, and the throughput relative to markdown-it-py."""
    answers = read_answers()
    cut = [pieces_of(answer) for answer in answers]
    made = [list(make_packets(pieces)) for pieces in cut]
    parser = MarkdownIt("commonmark").enable("table")
    works: dict[str, Callable[[], object]] = {"markdown-it-py, whole": lambda: [parser.parse(text) for text in answers]}
    for profile in Profile:
        works[f"stripper alone, {profile}"] = lambda profile=profile: [feed(pieces, profile) for pieces in cut]
    for client, declared in CLIENTS.items():
        works[f"adapter, {client}"] = lambda declared=declared: [adapt(packets, declared) for packets in made]
        works[f"  packets made, {client}"] = lambda declared=declared: [
            adapt(make_packets(pieces), declared) for pieces in cut
        ]
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            gc.collect()
            best[name] = min(best[name], timed(work))
    deltas_fed = sum(map(len, cut))
    parsed = best["markdown-it-py, whole"]
    print(f"{len(answers)} answers, {PIECE}-character deltas{'µs/delta':>14}{'x markdown-it-py':>20}")
    for name, seconds in best.items():
        print(f"{name:38}{seconds / deltas_fed * 1e6:10.2f}{parsed / seconds:20.2f}")
    print(f"goal for the adapter, plain text and voice: at least {GOAL_RATIO} x markdown-it-py\n")


def seconds_each(declared: ClientCapabilities | None, packets: Sequence[StreamPacket]) -> float:
    """Seconds a packet takes on average."""
    take = ClientAdapter(declared).feed
    return timed(lambda: [take(packet) and None for packet in packets]) / len(packets)


def show_kinds() -> None:
    """Print what one delta and one event of each kind cost."""
    cells = [(client, stream) for client in CLIENTS for stream in STREAMS]
    best = dict.fromkeys(cells, float("inf"))
    for _ in range(ROUNDS):
        for client, stream in cells:
            best[client, stream] = min(best[client, stream], seconds_each(CLIENTS[client], STREAMS[stream]))
    print(f"{'client':28}" + "".join(f"{column:>14}" for column in ("µs/delta", "µs/source", "µs/tick", "events/s")))
    for client in CLIENTS:
        times = [best[client, stream] for stream in STREAMS]
        events = 2 / (times[1] + times[2])
        print(f"{client:28}" + "".join(f"{time * 1e6:14.2f}" for time in times) + f"{events:14,.0f}")
    reached = best["shows everything", "delta"] * 1e6
    print(f"\na delta for a client that shows everything: {reached:.2f} µs (goal: at most {GOAL_US:.0f})")


if __name__ == "__main__":
    compare_with_parser()
    show_kinds()
