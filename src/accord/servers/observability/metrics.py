"""Counts for Prometheus, in a registry of their own: nothing of it is global, and two services do not mix.

All numbers of a turn come from its receipt. Whatever a label can hold is bounded, since a series that was once named
stays for ever and peers choose many of the names. It does not know how the numbers are fetched.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from accord.errors import ErrorCode
from accord.wire.adaptation import Rung
from accord.wire.capability import Capability
from accord.wire.receipt import OutcomeStatus

OTHER: Final = "other"
MAX_UNKNOWN: Final = 50
"""How many names that were not known beforehand get a series of their own."""

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TRANSPORTS: Final = ("sse", "websocket")

_QUICK_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW_S: Final = (30.0, 60.0, 120.0, 300.0, 600.0)


class Names:
    """Names that may be labels: the known ones, a few more as they come, and one word for all the rest."""

    def __init__(self, known: Iterable[str] = (), *, unknown: int = MAX_UNKNOWN) -> None:
        self._kept: Final = set(map(str, known))
        self._left = unknown

    def label(self, name: str) -> str:
        """The name itself, as long as there is room for it."""
        if name in self._kept:
            return name
        if not self._left:
            return OTHER
        self._left -= 1
        self._kept.add(name)
        return name


class Metrics:
    """The numbers of one service."""

    def __init__(self, *, version: str) -> None:
        self.registry: Final = CollectorRegistry()
        self._capabilities: Final = Names(Capability)
        self._backends: Final = Names()
        self._routes: Final = Names()
        self._methods: Final = Names(METHODS, unknown=0)
        self._transports: Final = Names(TRANSPORTS, unknown=0)
        self._of_turns()
        self._of_requests()
        Info("accord_build", "The version that is running.", registry=self.registry).info({"version": version})
        ProcessCollector(registry=self.registry)

    def _of_turns(self) -> None:
        own = self.registry
        turns = Counter("accord_turns", "Turns that ended, by how.", ["outcome"], registry=own)
        self._refusals = Counter("accord_refusals", "Turns that were refused, by why.", ["code"], registry=own)
        self._emulations = Counter(
            "accord_emulations", "Capabilities that Accord stood in for.", ["capability"], registry=own
        )
        adaptations = Counter(
            "accord_adaptations", "Packets by the rung on which they reached their client.", ["rung"], registry=own
        )
        self._fallbacks = Counter(
            "accord_fallbacks", "Times that a backend was given work and failed.", ["backend"], registry=own
        )
        self._first_packet = Histogram(
            "accord_time_to_first_packet_seconds",
            "From the start of a turn to its first packet.",
            buckets=(*_QUICK_S, 30.0, 60.0),
            registry=own,
        )
        self._duration = Histogram(
            "accord_turn_seconds", "How long turns took.", buckets=(*_QUICK_S, *_SLOW_S), registry=own
        )
        self._lag = Histogram(
            "accord_loop_lag_seconds",
            "How late the event loop ran its ten ticks a second; a blocking agent delays everyone.",
            buckets=(*_QUICK_S, 30.0, 60.0),
            registry=own,
        )
        self._running = Gauge("accord_running_turns", "Turns that run in this process.", registry=own)
        # A series that is there before anything happened can be told from one that is missing; and it is found quicker.
        self._by_outcome = {str(outcome): turns.labels(outcome) for outcome in OutcomeStatus}
        self._by_rung = {str(rung): adaptations.labels(rung) for rung in Rung}
        for code in ErrorCode:
            self._refusals.labels(code)

    def _of_requests(self) -> None:
        own = self.registry
        self._streams = Gauge("accord_active_streams", "Streams that clients read now.", ["transport"], registry=own)
        self._requests = Counter(
            "accord_http_requests", "HTTP requests that were answered.", ["method", "route", "status"], registry=own
        )
        self._seconds = Histogram(
            "accord_http_seconds",
            "How long HTTP requests took, streams to their end.",
            ["route"],
            buckets=(*_QUICK_S, *_SLOW_S),
            registry=own,
        )
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        for transport in TRANSPORTS:
            self._streams.labels(transport)

    def count_running(self, count: Callable[[], int]) -> None:
        """Ask this whenever somebody wants to know how many turns run."""
        self._running.set_function(count)

    def loop_lagged(self, seconds: float) -> None:
        """Count one tick of the event loop that came so late."""
        self._lag.observe(seconds)

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """Count what the receipt says."""
        outcome, timings = receipt["outcome"], receipt["timings"]
        self._by_outcome[outcome["status"]].inc()
        if outcome["status"] == OutcomeStatus.REFUSED:
            self._refusals.labels(outcome["code"]).inc()
        if "first_packet_ms" in timings:
            self._first_packet.observe(timings["first_packet_ms"] / 1_000)
        self._duration.observe(timings["total_ms"] / 1_000)
        if "adaptation" in receipt:
            for rung, count in receipt["adaptation"]["totals"].items():
                if count:
                    self._by_rung[rung].inc(count)
        for work in receipt["work"]:
            self._count_work(work)

    def _count_work(self, work: Mapping[str, Any]) -> None:
        for fallback in work["fallbacks"]:
            self._fallbacks.labels(self._backends.label(fallback["backend"])).inc()
        for entry in work["emulations"]["emulated"] if "emulations" in work else ():
            self._emulations.labels(self._capabilities.label(entry["capability"])).inc()

    def request_done(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        series = self._methods.label(method), self._routes.label(route), status
        found = self._answered.get(series)
        if found is None:
            found = self._requests.labels(series[0], series[1], str(status)), self._seconds.labels(series[1])
            self._answered[series] = found
        found[0].inc()
        found[1].observe(seconds)

    def stream_opened(self, transport: str) -> None:
        """One more reads."""
        self._streams.labels(self._transports.label(transport)).inc()

    def stream_closed(self, transport: str) -> None:
        """One fewer reads."""
        self._streams.labels(self._transports.label(transport)).dec()

    def render(self) -> tuple[str, bytes]:
        """The content type and the text that Prometheus reads.

        One format for everybody: the library's own choice by `Accept` fails on versions that are not numbers.
        """
        return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self.registry)
