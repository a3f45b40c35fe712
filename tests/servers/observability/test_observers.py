"""Several observers: each gets every call, and a failing one affects no other."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from accord.servers.observability import Log, Observers, Traces
from accord.servers.observability.metrics import Metrics
from accord.servers.service import NullObserver, Observer
from tests.servers.observability.turns import PRIVATE_TEXT, an_eventful_turn


class RecordingObserver(NullObserver):
    """Records every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        self.calls.append(("turn", receipt["request_id"]))

    def turn_started(self, request_id: str) -> None:
        self.calls.append(("started", request_id))

    def request_done(
        self, method: str, route: str, status: int, seconds: float, *, started_turn: str | None = None
    ) -> None:
        self.calls.append((method, route, status, seconds, started_turn))

    def stream_opened(self, transport: str) -> None:
        self.calls.append(("opened", transport))

    def stream_closed(self, transport: str) -> None:
        self.calls.append(("closed", transport))


class BrokenObserver(NullObserver):
    """Fails at the end of every turn."""

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        raise ValueError(PRIVATE_TEXT, receipt)


def notify_all(observers: Observer) -> None:
    observers.turn_started("r0")
    observers.stream_opened("sse")
    observers.turn_ended(an_eventful_turn())
    observers.stream_closed("sse")
    observers.request_done("POST", "/v1/assist", 200, 0.5, started_turn="r0")


EVERYTHING = [
    ("started", "r0"),
    ("opened", "sse"),
    ("turn", "r0"),
    ("closed", "sse"),
    ("POST", "/v1/assist", 200, 0.5, "r0"),
]


def test_every_observer_gets_every_call():
    first, second = RecordingObserver(), RecordingObserver()
    notify_all(Observers(first, second))
    assert first.calls == second.calls == EVERYTHING


def test_a_failing_observer_is_logged_once_and_affects_no_other(caplog: pytest.LogCaptureFixture):
    recording = RecordingObserver()
    observers = Observers(BrokenObserver(), recording)
    with caplog.at_level(logging.ERROR, "accord.observers"):
        notify_all(observers)
        notify_all(observers)
    assert recording.calls == EVERYTHING * 2
    (record,) = caplog.records
    assert vars(record)["fields"] == {"observer": "BrokenObserver"}


def test_metrics_log_and_traces_work_together():
    metrics = Metrics(version="1")
    notify_all(Observers(metrics, Log(), Traces()))
    assert metrics.registry.get_sample_value("accord_turns_total", {"outcome": "done"}) == 1
    assert metrics.registry.get_sample_value("accord_active_streams", {"transport": "sse"}) == 0
