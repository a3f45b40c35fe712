"""Parsing and serialising each message against `json.loads` and `json.dumps` of the same bytes, as ratios.

Both sides run in turn in one process, many rounds, and the best round of each counts: the machine is shared.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from accord.wire.conversation import Conversation
from accord.wire.event import PresentationEvent
from accord.wire.manifest import CompatibilityReport
from accord.wire.message import Message
from accord.wire.packet import StreamPacket
from accord.wire.request import ClientCapabilities, ServiceRequest, ServiceResponse
from accord.wire.service import HealthCheckResponse

ROUNDS: Final = 40
ROUND_S: Final = 0.004
IMPORTS: Final = 15
GOLDEN: Final = Path(__file__).parent.parent / "tests" / "wire" / "golden"

TEN_CITATIONS: Final = {
    "id": "123e4567-e89b-12d3-a456-426614174000",
    "timestamp": "2023-10-27T10:00:00Z",
    "type": "citation_block",
    "data": {
        "items": [
            {
                "source_id": f"doc-{number}",
                "uri": f"https://example.com/reports/annual-{number}.pdf",
                "title": f"Annual Report {number}",
                "snippet": "Revenue grew by ten percent over the previous year.",
            }
            for number in range(10)
        ]
    },
}


def golden(name: str) -> bytes:
    """A message of the specification, as it comes over the wire."""
    return json.dumps(json.loads((GOLDEN / f"{name}.json").read_text()), separators=(",", ":")).encode()


CASES: Final[list[tuple[str, type[Message], bytes, float | None]]] = [
    ("ServiceRequest", ServiceRequest, golden("service_request"), 1.3),
    ("delta packet", StreamPacket, golden("packet_delta"), 0.8),
    ("event with ten citations", PresentationEvent, json.dumps(TEN_CITATIONS).encode(), 1.5),
    ("event packet", StreamPacket, golden("packet_event"), None),
    ("error packet", StreamPacket, golden("packet_error"), None),
    ("close packet", StreamPacket, golden("packet_close"), None),
    ("ServiceRequest, everything in it", ServiceRequest, golden("service_request_full"), None),
    ("ServiceResponse", ServiceResponse, golden("service_response"), None),
    ("ClientCapabilities", ClientCapabilities, golden("client_capabilities_web"), None),
    ("HealthCheckResponse", HealthCheckResponse, golden("health_check_response"), None),
    ("CompatibilityReport", CompatibilityReport, golden("compatibility_report"), None),
    ("Conversation", Conversation, golden("conversation"), None),
]


def main() -> None:
    """Print both tables."""
    columns = ("parse", "json", "ratio", "goal", "write", "json", "ratio", "goal")
    print(f"{'message':34}" + "".join(f"{column:>9}" for column in columns))
    for name, model, raw, goal in CASES:
        parse, loads = interleaved(partial(model.parse, raw), partial(json.loads, raw))
        write, dumps = interleaved(model.parse(raw).to_json, partial(json.dumps, json.loads(raw)))
        cells = (
            us(parse),
            us(loads),
            f"{parse / loads:.2f}",
            format_goal(goal),
            us(write),
            us(dumps),
            f"{write / dumps:.2f}",
        )
        print(f"{name:34}" + "".join(f"{cell:>9}" for cell in (*cells, format_goal(1.0))))
    print(f"\nimport accord               {import_ms('import accord'):6.1f} ms (goal 150)")
    print(f"from accord import *        {import_ms('from accord import *'):6.1f} ms")
    print(f"import pydantic (for scale) {import_ms('import pydantic.main'):6.1f} ms")


def format_goal(goal: float | None) -> str:
    """A goal as a column."""
    return f"≤ {goal:.1f}" if goal else "-"


def us(seconds: float) -> str:
    """A time as a column."""
    return f"{seconds * 1e6:.2f} µs"


def interleaved(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Seconds a call of each takes, the best of many rounds taken in turn."""
    count = max(1, int(ROUND_S / once(theirs)))
    rounds = [(timed(ours, count), timed(theirs, count)) for _ in range(ROUNDS)]
    return min(ours_s for ours_s, _ in rounds), min(theirs_s for _, theirs_s in rounds)


def once(call: Callable[[], Any]) -> float:
    """Seconds a call takes, roughly."""
    return timed(call, 100)


def timed(call: Callable[[], Any], count: int) -> float:
    """Seconds a call takes on average over this many."""
    start = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - start) / count


def import_ms(statement: str) -> float:
    """Milliseconds the statement takes in a fresh process, the best of several."""
    script = f"from time import perf_counter as t; s = t(); {statement}; print(t() - s)"
    return min(float(subprocess.check_output([sys.executable, "-c", script])) for _ in range(IMPORTS)) * 1e3


if __name__ == "__main__":
    main()
