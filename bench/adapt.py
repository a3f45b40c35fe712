"""What adapting costs: microseconds a delta and an event, for clients that show everything, something and nothing.

All clients take turns in one process, many rounds, and the best round of each counts: the machine is shared. What the
text itself costs without markdown is measured where the stripper is.
"""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Final

from accord.core.output import ClientAdapter
from accord.wire.packet import DeltaPacket, EventPacket, StreamPacket
from accord.wire.request import ClientCapabilities

ROUNDS: Final = 15
GOAL_US: Final = 2.0

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


def seconds(declared: ClientCapabilities | None, packets: Sequence[StreamPacket]) -> float:
    """Seconds a packet takes on average."""
    feed = ClientAdapter(declared).feed
    start = perf_counter()
    for packet in packets:
        feed(packet)
    return (perf_counter() - start) / len(packets)


def main() -> None:
    """Print the table."""
    cells = [(client, stream) for client in CLIENTS for stream in STREAMS]
    best = dict.fromkeys(cells, float("inf"))
    for _ in range(ROUNDS):
        for client, stream in cells:
            best[client, stream] = min(best[client, stream], seconds(CLIENTS[client], STREAMS[stream]))
    print(f"{'client':28}" + "".join(f"{column:>14}" for column in ("µs/delta", "µs/source", "µs/tick", "events/s")))
    for client in CLIENTS:
        times = [best[client, stream] for stream in STREAMS]
        events = 2 / (times[1] + times[2])
        print(f"{client:28}" + "".join(f"{time * 1e6:14.2f}" for time in times) + f"{events:14,.0f}")
    reached = best["shows everything", "delta"] * 1e6
    print(f"\na delta for a client that shows everything: {reached:.2f} µs (goal: at most {GOAL_US:.0f})")


if __name__ == "__main__":
    main()
