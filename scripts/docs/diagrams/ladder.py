"""docs/diagrams/ladder.svg: the rung on which each kind of event reaches each kind of client, by `ClientAdapter`."""

import json
from pathlib import Path
from typing import Any, Final

from scripts.docs.svg import Drawing
from tests.wire import test_golden

from accord.core.output import ClientAdapter
from accord.core.output.profile import NAMED_CLIENTS
from accord.wire.adaptation import Rung
from accord.wire.event import PresentationEventType
from accord.wire.packet import ClosePacket, EventPacket
from accord.wire.request import ClientCapabilities

GOLDEN: Final = Path(test_golden.__file__).parent / "golden"
CLIENTS: Final[dict[str, tuple[str, ClientCapabilities | None]]] = {
    "web": ("declares nothing", NAMED_CLIENTS["web"]),
    "plain text": ("all events, no markdown", ClientCapabilities(prefers_markdown=False)),
    "cli": ("markdown, progress", NAMED_CLIENTS["cli"]),
    "voice": ("no events, no markdown", NAMED_CLIENTS["voice"]),
}
COLOURS: Final = {
    Rung.NATIVE: "green",
    Rung.SIMPLIFIED: "blue",
    Rung.SUBSTITUTED: "yellow",
    Rung.DESCRIBED: "yellow",
    Rung.DEFERRED: "orange",
    Rung.DROPPED: "grey",
    Rung.REFUSED: "red",
}
MEANINGS: Final = {
    Rung.NATIVE: "as it is",
    Rung.SIMPLIFIED: "less of it",
    Rung.SUBSTITUTED: "another event",
    Rung.DESCRIBED: "as text",
    Rung.DEFERRED: "to be read later",
    Rung.DROPPED: "not sent",
    Rung.REFUSED: "ends the stream",
}
LEGEND: Final = "From the best rung to the worst. Below the min_fidelity of a client, an event is refused:"
LEFT, CELL, ROW, GAP, TOP = 208, 148, 40, 6, 92


def page() -> str:
    """The picture."""
    events = example_events()
    height = TOP + len(events) * (ROW + GAP) + 98
    title = "The ladder: what a client gets of an event"
    rungs = {name: [rung_of(event, declared) for _, declared in CLIENTS.values()] for name, event in events.items()}
    described = "; ".join(
        f"{name}: {', '.join(f'{client} {rung}' for client, (rung, _) in zip(CLIENTS, row, strict=True))}"
        for name, row in rungs.items()
    )
    drawing = Drawing(title, described, 840, height)
    drawing.text(24, 34, title, "title")
    for column, (client, (declares, _)) in enumerate(CLIENTS.items()):
        x = LEFT + column * (CELL + GAP)
        drawing.text(x + CELL / 2, 62, client, "bold middle")
        drawing.text(x + CELL / 2, 79, declares, "small muted middle")
    for index, (name, row) in enumerate(rungs.items()):
        y = TOP + index * (ROW + GAP)
        kind, _, rest = name.partition(", ")
        if rest:
            drawing.text(24, y + 18, kind, "code")
            drawing.text(24, y + 33, rest, "small muted")
        else:
            drawing.text(24, y + 25, kind, "code")
        for column, (rung, reason) in enumerate(row):
            x = LEFT + column * (CELL + GAP)
            lines = [rung.value, reason.replace("_", " ")]
            drawing.box(x, y, CELL, ROW, lines, colour=COLOURS[rung])
    _draw_legend(drawing, TOP + len(events) * (ROW + GAP) + 14)
    return drawing.svg()


def _draw_legend(drawing: Drawing, y: float) -> None:
    drawing.text(24, y + 14, LEGEND, "small muted")
    width = (LEFT + len(CLIENTS) * (CELL + GAP) - GAP - 24 - GAP * (len(Rung) - 1)) / len(Rung)
    for index, rung in enumerate(Rung):
        lines = [rung.value, MEANINGS[rung]]
        drawing.box(24 + index * (width + GAP), y + 24, width, ROW, lines, colour=COLOURS[rung])


def example_events() -> dict[str, dict[str, Any]]:
    """An event of every type, from the golden files, and events that need more than their type."""
    events = {
        str(kind): json.loads((GOLDEN / f"event_{kind}.json").read_text(encoding="utf-8"))
        for kind in PresentationEventType
    }
    citation, custom = events[PresentationEventType.CITATION_BLOCK], {"type": "weather", "data": {"degrees": 21}}
    broken = {**citation["data"]["items"][0], "uri": "javascript:alert(1)"}
    return {
        **events,
        "citation_block, one item malformed": {**citation, "data": {"items": [*citation["data"]["items"], broken]}},
        "weather, an unknown type": custom,
        "weather, with fallback_text": {**custom, "fallback_text": "It is 21 °C."},
        "weather, with a fallback event": {**custom, "fallback": citation},
    }


def rung_of(event: dict[str, Any], declared: ClientCapabilities | None) -> tuple[Rung, str]:
    """The rung of an event for a client, and the reason."""
    adapter = ClientAdapter(declared)
    for packet in (EventPacket(p=event), ClosePacket()):
        adapter.feed(packet)
    entry = adapter.report.entries[0]
    return entry.rung, str(entry.reason)
