"""The watch: everybody is told, and whoever fails fails alone."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from accord.servers.observability import Log, Metrics, Observers, Traces
from accord.servers.service import NullObserver, Observer
from tests.servers.observability.turns import SAID, an_eventful_turn


class Listening(NullObserver):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        self.told.append(("turn", receipt["request_id"]))

    def turn_started(self, request_id: str) -> None:
        self.told.append(("started", request_id))

    def request_done(
        self, method: str, route: str, status: int, seconds: float, *, started_turn: str | None = None
    ) -> None:
        self.told.append((method, route, status, seconds, started_turn))

    def stream_opened(self, transport: str) -> None:
        self.told.append(("opened", transport))

    def stream_closed(self, transport: str) -> None:
        self.told.append(("closed", transport))


class Broken(NullObserver):
    """Cannot stand turns."""

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        raise ValueError(SAID, receipt)


def tell(watch: Observer) -> None:
    watch.turn_started("r0")
    watch.stream_opened("sse")
    watch.turn_ended(an_eventful_turn())
    watch.stream_closed("sse")
    watch.request_done("POST", "/v1/assist", 200, 0.5, started_turn="r0")


EVERYTHING = [
    ("started", "r0"),
    ("opened", "sse"),
    ("turn", "r0"),
    ("closed", "sse"),
    ("POST", "/v1/assist", 200, 0.5, "r0"),
]


def test_everybody_is_told_everything():
    first, second = Listening(), Listening()
    tell(Observers(first, second))
    assert first.told == second.told == EVERYTHING


def test_one_that_fails_is_named_once_and_stops_nobody(caplog: pytest.LogCaptureFixture):
    listening = Listening()
    watch = Observers(Broken(), listening)
    with caplog.at_level(logging.ERROR, "accord.observers"):
        tell(watch)
        tell(watch)
    assert listening.told == EVERYTHING * 2
    (record,) = caplog.records
    assert vars(record)["fields"] == {"observer": "Broken"}


def test_the_three_watch_together():
    metrics = Metrics(version="1")
    tell(Observers(metrics, Log(), Traces()))
    assert metrics.registry.get_sample_value("accord_turns_total", {"outcome": "done"}) == 1
    assert metrics.registry.get_sample_value("accord_active_streams", {"transport": "sse"}) == 0
