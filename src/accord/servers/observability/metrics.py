"""Metrics for Prometheus, in a registry of their own: nothing is global, so that two services do not mix.

All numbers of a turn come from its receipt. The values of every label are bounded, since a series stays for ever once
it exists, and clients choose many of the names. The endpoint is in `servers/http/information.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from accord.errors import ErrorCode
from accord.servers.service import NullObserver
from accord.wire.adaptation import Rung
from accord.wire.capability import Capability
from accord.wire.receipt import OutcomeStatus

OTHER: Final = "other"
MAX_UNKNOWN: Final = 50
"""How many names that are not known beforehand get a series of their own."""

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TRANSPORTS: Final = ("sse", "websocket")

_QUICK_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW_S: Final = (30.0, 60.0, 120.0, 300.0, 600.0)


class LabelNames:
    """The values of a label: the known names, a limited number of others, and `other` for the rest."""

    def __init__(self, known: Iterable[str] = (), *, unknown: int = MAX_UNKNOWN) -> None:
        self._kept: Final = set(map(str, known))
        self._left = unknown

    def label(self, name: str) -> str:
        """The name itself, or `other` if there are too many."""
        if name in self._kept:
            return name
        if not self._left:
            return OTHER
        self._left -= 1
        self._kept.add(name)
        return name


class Metrics(NullObserver):
    """The metrics of one service."""

    def __init__(self, *, version: str) -> None:
        self.registry: Final = CollectorRegistry()
        self._capabilities: Final = LabelNames(Capability)
        self._backends: Final = LabelNames()
        self._routes: Final = LabelNames()
        self._methods: Final = LabelNames(METHODS, unknown=0)
        self._transports: Final = LabelNames(TRANSPORTS, unknown=0)
        self._register_turns()
        self._register_requests()
        Info("accord_build", "The version that is running.", registry=self.registry).info({"version": version})
        ProcessCollector(registry=self.registry)

    def _register_turns(self) -> None:
        registry = self.registry
        turns = Counter("accord_turns", "Turns that ended, by outcome.", ["outcome"], registry=registry)
        self._refusals = Counter(
            "accord_refusals", "Turns that were refused, by error code.", ["code"], registry=registry
        )
        self._emulations = Counter(
            "accord_emulations", "Capabilities that Accord emulated.", ["capability"], registry=registry
        )
        adaptations = Counter(
            "accord_adaptations",
            "Packets by the rung of the ladder on which they reached their client.",
            ["rung"],
            registry=registry,
        )
        self._fallbacks = Counter("accord_fallbacks", "Backend requests that failed.", ["backend"], registry=registry)
        self._skips = Counter(
            "accord_skips", "Requests that went past a backend because it was down.", ["backend"], registry=registry
        )
        self._first_packet = Histogram(
            "accord_time_to_first_packet_seconds",
            "From the start of a turn to its first packet.",
            buckets=(*_QUICK_S, 30.0, 60.0),
            registry=registry,
        )
        self._duration = Histogram(
            "accord_turn_seconds", "How long turns took.", buckets=(*_QUICK_S, *_SLOW_S), registry=registry
        )
        self._lag = Histogram(
            "accord_loop_lag_seconds",
            "How late the event loop ran its ten ticks a second; a blocking agent delays everyone.",
            buckets=(*_QUICK_S, 30.0, 60.0),
            registry=registry,
        )
        self._running = Gauge("accord_running_turns", "Turns that run in this process.", registry=registry)
        # Made beforehand: a series with the value 0 differs from a missing one, and these are found faster.
        self._by_outcome = {str(outcome): turns.labels(outcome) for outcome in OutcomeStatus}
        self._by_rung = {str(rung): adaptations.labels(rung) for rung in Rung}
        for code in ErrorCode:
            self._refusals.labels(code)

    def _register_requests(self) -> None:
        registry = self.registry
        self._streams = Gauge(
            "accord_active_streams", "Streams that clients are reading.", ["transport"], registry=registry
        )
        self._requests = Counter(
            "accord_http_requests",
            "HTTP requests that were answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "accord_http_seconds",
            "How long HTTP requests took, streams to their end.",
            ["route"],
            buckets=(*_QUICK_S, *_SLOW_S),
            registry=registry,
        )
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        for transport in TRANSPORTS:
            self._streams.labels(transport)

    def count_running(self, count: Callable[[], int]) -> None:
        """Report the result of this function as the number of running turns."""
        self._running.set_function(count)

    def loop_lagged(self, seconds: float) -> None:
        """Record the delay of one tick of the event loop."""
        self._lag.observe(seconds)

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """Count a turn by its receipt."""
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
            counter = self._skips if fallback.get("skipped") else self._fallbacks
            counter.labels(self._backends.label(fallback["backend"])).inc()
        for entry in work["emulations"]["emulated"] if "emulations" in work else ():
            self._emulations.labels(self._capabilities.label(entry["capability"])).inc()

    def request_done(
        self, method: str, route: str, status: int, seconds: float, *, started_turn: str | None = None
    ) -> None:
        """Count one request."""
        del started_turn
        series = self._methods.label(method), self._routes.label(route), status
        found = self._answered.get(series)
        if found is None:
            found = self._requests.labels(series[0], series[1], str(status)), self._seconds.labels(series[1])
            self._answered[series] = found
        found[0].inc()
        found[1].observe(seconds)

    def stream_opened(self, transport: str) -> None:
        """Count one more stream."""
        self._streams.labels(self._transports.label(transport)).inc()

    def stream_closed(self, transport: str) -> None:
        """Count one stream less."""
        self._streams.labels(self._transports.label(transport)).dec()

    def render(self) -> tuple[str, bytes]:
        """The content type and the text for Prometheus.

        Always the same format: the library's choice by `Accept` fails on versions that are not numbers.
        """
        return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self.registry)
