"""Metrics for Prometheus, in a registry of their own: nothing is global, so that two services do not mix.

All numbers of a turn or a model API call come from its receipt. The values of every label are bounded, since a series
stays for ever once it exists, and clients choose many of the names. The endpoint is in `servers/http/information.py`.
"""

import asyncio
import os
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from accord.errors import ErrorCode, StoreError
from accord.ports import Channel, LinkCounts, StoredTotal, WaitingRuns
from accord.servers.observability.calls import OTHER, costs_of, count_tokens, cut_name, field_label, part_label
from accord.servers.service import NullObserver
from accord.wire.adaptation import Rung
from accord.wire.capability import Capability
from accord.wire.receipt import OutcomeStatus

NO_NAME: Final = "none"
"""The backend of a call that no backend got, and the model of one whose model is not known."""
TURN: Final = "turn"
"""The API of a question that an agent asks in a turn."""
MAX_UNKNOWN: Final = 50
"""How many names that are not known beforehand get a series of their own."""
MAX_MODELS: Final = 200
MAX_KEYS: Final = 1_000
"""Models and keys are named by the operator and the endpoints, not by clients."""

WAITING_CACHED_S: Final = 5.0
STORED_CACHED_S: Final = 60.0
STORE_READ_S: Final = 2.0
"""How long the number of waiting turns and the stored bytes are not read again, and how long reading may take."""

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TRANSPORTS: Final = ("sse", "websocket")

_QUICK_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW_S: Final = (30.0, 60.0, 120.0, 300.0, 600.0)


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


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


@dataclass(slots=True)
class _CallTotals:
    """Sums over the calls of one series. Tokens are by kind; the cost is None while no price was known."""

    requests: int = 0
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    cost_usd: float | None = None

    def add(self, tokens: Mapping[str, int], cost_usd: float | None) -> None:
        """Add one call."""
        self.requests += 1
        own = self.tokens
        for kind, count in tokens.items():
            own[kind] = own.get(kind, 0) + count
        if cost_usd is not None:
            self.cost_usd = cost_usd + (self.cost_usd or 0.0)


class _Times:
    """A histogram of seconds."""

    __slots__ = ("bounds", "counts", "total_s")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Final = bounds
        self.counts: Final = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_s += seconds

    def cumulated(self) -> list[tuple[str, float]]:
        """The upper bound of each bucket, and how many durations were not above it."""
        return [*zip([*map(str, self.bounds), "+Inf"], accumulate(self.counts), strict=True)]


class CallMetrics:
    """The metrics of model API calls: by backend and model, by key, and what became of the fields.

    What a turn costs counts as well, by its key and by the backends that it asked.

    Plain sums, made into metrics when they are read: of a call they take 4 µs, the library's counters 16. They are
    written and read by the event loop only.
    """

    def __init__(self, backends: LabelNames) -> None:
        self._backends: Final = backends
        self._models: Final = LabelNames(unknown=MAX_MODELS)
        self._keys: Final = LabelNames(unknown=MAX_KEYS)
        self._by_model: Final[dict[tuple[str, str, str, str], _CallTotals]] = {}
        """By API, backend, model and outcome."""
        self._by_key: Final[dict[str, _CallTotals]] = {}
        self._dispositions: Final[dict[tuple[str, str, str], int]] = {}
        self._answer_parts: Final[dict[tuple[str, str, str], int]] = {}
        self._seconds: Final[dict[str, _Times]] = {}
        self._first_byte: Final[dict[str, _Times]] = {}

    def count(self, receipt: Mapping[str, Any]) -> None:
        """Count a turn or a call by its receipt."""
        costs, work, outcome = costs_of(receipt), receipt["work"], receipt["outcome"]["status"]
        cost_usd = costs.get("cost_usd")
        tokens = count_tokens(work)
        if "key" in costs:
            _entry(self._by_key, self._keys.label(costs["key"]), _CallTotals).add(tokens, cost_usd)
        if "call" in receipt:
            backend = self._backends.label(costs.get("served_by", NO_NAME))
            self._add((costs["api"], backend, costs.get("model", NO_NAME), outcome), tokens, cost_usd)
            self._count_call(receipt, costs["api"], backend)
        for each in work if "call" not in receipt else ():
            if (asked := each.get("backend")) is not None:
                labels = TURN, self._backends.label(asked["name"]), asked.get("model", NO_NAME), outcome
                self._add(labels, count_tokens([each]), each.get("cost_usd"))

    def _add(self, labels: tuple[str, str, str, str], tokens: Mapping[str, int], cost_usd: float | None) -> None:
        api, backend, model, outcome = labels
        labels = api, backend, self._models.label(cut_name(model)), outcome
        _entry(self._by_model, labels, _CallTotals).add(tokens, cost_usd)

    def _count_call(self, receipt: Mapping[str, Any], api: str, backend: str) -> None:
        timings = receipt["timings"]
        _entry(self._seconds, backend, _slow_times).add(timings["total_ms"] / 1_000)
        if "first_packet_ms" in timings:
            _entry(self._first_byte, backend, _quick_times).add(timings["first_packet_ms"] / 1_000)
        for work in receipt["work"]:
            for each in work.get("dispositions", ()):
                labels = api, field_label(api, each["field"]), each["disposition"]
                self._dispositions[labels] = self._dispositions.get(labels, 0) + 1
            for each in work.get("answer", ()):
                labels = api, part_label(each["part"]), each["disposition"]
                self._answer_parts[labels] = self._answer_parts.get(labels, 0) + 1

    def collect(self) -> Iterable[Metric]:
        """Every metric, with its series."""
        by_pair: dict[tuple[str, ...], _CallTotals] = {}
        requests = _counter(
            "accord_model_requests",
            "Model API calls that ended, and questions of agents (turn).",
            "api",
            "backend",
            "model",
            "outcome",
        )
        for labels, totals in self._by_model.items():
            requests.add_metric(labels, totals.requests)
            pair = _entry(by_pair, labels[1:3], _CallTotals)
            pair.add(totals.tokens, totals.cost_usd)
        yield requests
        yield from _sums("accord_model", "", by_pair, "backend", "model")
        by_key = {(key,): totals for key, totals in self._by_key.items()}
        key_requests = _counter("accord_key_requests", "Turns and model API calls with a key.", "key")
        for labels, totals in by_key.items():
            key_requests.add_metric(labels, totals.requests)
        yield key_requests
        yield from _sums("accord_key", " of turns and calls with a key", by_key, "key")
        dispositions = _counter(
            "accord_dispositions", "Fields of requests that were not native.", "api", "field", "disposition"
        )
        for labels, count in self._dispositions.items():
            dispositions.add_metric(labels, count)
        yield dispositions
        parts = _counter("accord_answer_parts", "Parts of answers that were not native.", "api", "part", "disposition")
        for labels, count in self._answer_parts.items():
            parts.add_metric(labels, count)
        yield parts
        for name, text, times in (
            ("accord_model_seconds", "How long model API calls took, streams to their end.", self._seconds),
            ("accord_model_first_byte_seconds", "From a call to the first byte of its stream.", self._first_byte),
        ):
            histogram = HistogramMetricFamily(name, text, labels=["backend"])
            for backend, each in times.items():
                histogram.add_metric([backend], each.cumulated(), each.total_s)
            yield histogram


def _slow_times() -> _Times:
    return _Times((*_QUICK_S, *_SLOW_S))


def _quick_times() -> _Times:
    return _Times((*_QUICK_S, 30.0, 60.0))


def _entry(entries: dict[_Key, _Value], key: _Key, make: Callable[[], _Value]) -> _Value:
    """The entry of this key, which is made first if there is none."""
    found = entries.get(key)
    if found is None:
        found = entries[key] = make()
    return found


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, labels=labels)


def _sums(prefix: str, which: str, series: Mapping[tuple[str, ...], _CallTotals], *labels: str) -> Iterable[Metric]:
    """The tokens and costs of these series; what was never known has none."""
    tokens = _counter(f"{prefix}_tokens", f"Tokens{which}; cached ones are also input.", *labels, "kind")
    costs = _counter(f"{prefix}_cost_usd", f"Cost{which}, where the price is known.", *labels)
    for values, totals in series.items():
        for kind, count in totals.tokens.items():
            tokens.add_metric((*values, kind), count)
        if totals.cost_usd is not None:
            costs.add_metric(values, totals.cost_usd)
    return tokens, costs


class _BackendStates:
    """Collects which backends are down when metrics are read, so that those of a new configuration are included."""

    def __init__(self, states: Callable[[], Mapping[str, bool]]) -> None:
        self._states: Final = states

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The states as one metric."""
        down = GaugeMetricFamily("accord_backend_down", "1 while the circuit of a backend is open.", labels=["backend"])
        for name, is_down in self._states().items():
            down.add_metric([name], float(is_down))
        return [down]


class StoreReading(Generic[_Value]):
    """What the store tells, such as how many turns wait: read from it at most every few seconds."""

    def __init__(
        self,
        read: Callable[[], Awaitable[_Value]],
        clock: Callable[[], float] = monotonic,
        *,
        cached_s: float = WAITING_CACHED_S,
    ) -> None:
        self.value: _Value | None = None
        """None while it is not known."""
        self._read: Final = read
        self._clock: Final = clock
        self._cached_s: Final = cached_s
        self._read_at = -inf

    async def refresh(self) -> None:
        """Read the value again if it is too old; requests meanwhile get the older one."""
        if self._clock() - self._read_at < self._cached_s:
            return
        self._read_at = self._clock()
        try:
            async with asyncio.timeout(STORE_READ_S):
                self.value = await self._read()
        except (StoreError, TimeoutError):
            self.value = None


class _StoredMetrics:
    """Collects what the sessions in the store hold."""

    def __init__(self, stored: StoreReading[list[StoredTotal]]) -> None:
        self._stored: Final = stored

    def collect(self) -> Iterable[Metric]:
        """Every metric, by the kind of session."""
        size = GaugeMetricFamily("accord_stored_bytes", "Bytes in sessions, by what they hold.", labels=["holds"])
        began = GaugeMetricFamily(
            "accord_stored_oldest_timestamp_seconds", "When the oldest session began.", labels=["holds"]
        )
        for total in self._stored.value or ():
            size.add_metric([total.kind], total.bytes)
            began.add_metric([total.kind], total.oldest.timestamp())
        return size, began


class _LinkMetrics:
    """Collects what is known of the other processes: the channel to them, the queue, and what went wrong."""

    def __init__(self, channel: Channel, counts: LinkCounts, waiting: StoreReading[WaitingRuns]) -> None:
        self._channel: Final = channel
        self._counts: Final = counts
        self._waiting: Final = waiting

    def collect(self) -> Iterable[Metric]:
        """Every metric."""
        up = float(self._channel.is_connected)
        yield GaugeMetricFamily("accord_channel_up", "1 while this process is connected to the others.", up)
        if self._waiting.value is not None:
            text = "Turns that wait in the queue of the service, for any process."
            yield GaugeMetricFamily("accord_waiting_turns", text, self._waiting.value.total)
            text = "How long the first of the waiting turns has waited."
            yield GaugeMetricFamily("accord_oldest_waiting_seconds", text, self._waiting.value.oldest_s)
        counts = self._counts
        for name, text, value in (
            (
                "restarted_turns",
                "Turns that went back to the queue when their worker was gone.",
                counts.restarted,
            ),
            ("given_up_turns", "Queued turns that were ended because their workers died.", counts.given_up),
            ("late_news", "Times that a reader read the store because news was late.", counts.late_news),
            ("store_takeovers", "Batches that the store took because JetStream did not.", counts.store_took_over),
        ):
            yield CounterMetricFamily(f"accord_{name}", text, value)


class Metrics(NullObserver):
    """The metrics of one service."""

    def __init__(self, *, version: str) -> None:
        self.registry: Final = CollectorRegistry()
        self._capabilities: Final = LabelNames(Capability)
        self._backends: Final = LabelNames()
        self._routes: Final = LabelNames()
        self._methods: Final = LabelNames(METHODS, unknown=0)
        self._transports: Final = LabelNames(TRANSPORTS, unknown=0)
        self._readings: Final[list[StoreReading[Any]]] = []
        self._register_turns()
        self._register_requests()
        self._calls: Final = CallMetrics(self._backends)
        self.registry.register(self._calls)
        Info("accord_build", "The version that is running.", registry=self.registry).info({"version": version})
        about = "The process whose numbers these are; each process of a service has its own."
        Info("accord_process", about, registry=self.registry).info({"pid": str(os.getpid())})
        ProcessCollector(registry=self.registry)

    def _register_turns(self) -> None:
        registry = self.registry
        turns = Counter("accord_turns", "Turns that ended, by outcome.", ["outcome"], registry=registry)
        self._refusals = Counter(
            "accord_refusals",
            "Turns and model API calls that were refused, by error code.",
            ["code"],
            registry=registry,
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
        self._waited = Histogram(
            "accord_queue_seconds",
            "How long the turns that this process took from the queue had waited there.",
            buckets=(*_QUICK_S, *_SLOW_S),
            registry=registry,
        )
        self._running = Gauge("accord_running_turns", "Turns that run in this process.", registry=registry)
        about = "How many turns may run in this process at once; 0 if it hands them to a queue."
        self._turn_limit = Gauge("accord_turn_limit", about, registry=registry)
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

    def report_backends(self, states: Callable[[], Mapping[str, bool]]) -> None:
        """Report which backends are down by the result of this function: their names, and whether they are."""
        self.registry.register(_BackendStates(states))

    def report_stored(self, stored: StoreReading[list[StoredTotal]]) -> None:
        """Report what the sessions in the store hold."""
        self._readings.append(stored)
        self.registry.register(_StoredMetrics(stored))

    def report_links(self, channel: Channel, counts: LinkCounts, waiting: StoreReading[WaitingRuns]) -> None:
        """Report the channel to other processes, the queue, and what went wrong between them."""
        self._readings.append(waiting)
        self.registry.register(_LinkMetrics(channel, counts, waiting))

    async def refresh(self) -> None:
        """Read what has to be read from the store; to be called before `render`."""
        for reading in self._readings:
            await reading.refresh()

    def count_running(self, count: Callable[[], int], limit: int) -> None:
        """Report the result of this function as the number of running turns, and how many may run at once."""
        self._running.set_function(count)
        self._turn_limit.set(limit)

    def turn_waited(self, seconds: float) -> None:
        """Record how long a turn was in the queue."""
        self._waited.observe(seconds)

    def loop_lagged(self, seconds: float) -> None:
        """Record the delay of one tick of the event loop."""
        self._lag.observe(seconds)

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """Count a turn or a model API call by its receipt."""
        outcome = receipt["outcome"]
        if outcome["status"] == OutcomeStatus.REFUSED:
            self._refusals.labels(outcome["code"]).inc()
        self._calls.count(receipt)
        if "call" not in receipt:
            self._count_turn(receipt)
        for work in receipt["work"]:
            self._count_work(work)

    def _count_turn(self, receipt: Mapping[str, Any]) -> None:
        timings = receipt["timings"]
        self._by_outcome[receipt["outcome"]["status"]].inc()
        if "first_packet_ms" in timings:
            self._first_packet.observe(timings["first_packet_ms"] / 1_000)
        self._duration.observe(timings["total_ms"] / 1_000)
        if "adaptation" in receipt:
            for rung, count in receipt["adaptation"]["totals"].items():
                if count:
                    self._by_rung[rung].inc(count)

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
