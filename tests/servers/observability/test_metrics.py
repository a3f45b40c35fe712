"""Metrics: every number comes from a receipt or a transport, and the values of every label are bounded."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from accord.errors import ErrorCode, StoreError
from accord.ports import LinkCounts, WaitingRuns
from accord.servers.observability.metrics import (
    MAX_UNKNOWN,
    OTHER,
    WAITING_CACHED_S,
    LabelNames,
    Metrics,
    StoreReading,
)
from accord.wire.receipt import Fallback, Timings, Work
from tests.linked_channel import ChannelHub
from tests.receipts import a_body
from tests.servers.observability.turns import CANCELLED, FAILED, REFUSED, an_eventful_turn, backend, emulating


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="1.2.3")


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("accord_turns_total", {"outcome": "done"}, 1),
        ("accord_turns_total", {"outcome": "failed"}, 0),
        ("accord_emulations_total", {"capability": "json_mode"}, 1),
        ("accord_fallbacks_total", {"backend": "far"}, 1),
        ("accord_fallbacks_total", {"backend": "local"}, None),
        ("accord_adaptations_total", {"rung": "native"}, 5),
        ("accord_adaptations_total", {"rung": "described"}, 2),
        ("accord_adaptations_total", {"rung": "deferred"}, 0),
        ("accord_time_to_first_packet_seconds_count", {}, 1),
        ("accord_time_to_first_packet_seconds_sum", {}, 0.003),
        ("accord_turn_seconds_sum", {}, 0.0405),
        ("accord_build_info", {"version": "1.2.3"}, 1),
        ("accord_key_requests_total", {"key": "k1"}, 1),
        ("accord_key_cost_usd_total", {"key": "k1"}, 0.25),
        ("accord_key_tokens_total", {"key": "k1", "kind": "output"}, 9),
        ("accord_model_cost_usd_total", {"backend": "local", "model": "m"}, 0.25),
        ("accord_model_tokens_total", {"backend": "local", "model": "m", "kind": "input"}, 7),
    ],
)
def test_a_turn_is_counted_as_its_receipt_says(
    metrics: Metrics, name: str, labels: dict[str, str], expected: float | None
):
    metrics.turn_ended(an_eventful_turn())
    assert value(metrics, name, **labels) == expected


def test_a_skipped_backend_is_no_failed_request(metrics: Metrics):
    skipped = Fallback(backend="far", code=ErrorCode.UNAVAILABLE, message="far: skipped: down", skipped=True)
    metrics.turn_ended(a_body(work=[Work(fallbacks=[skipped])]).hashed())
    assert value(metrics, "accord_skips_total", backend="far") == 1
    assert value(metrics, "accord_fallbacks_total", backend="far") is None


@pytest.mark.parametrize(
    ("outcome", "refusals"), [(REFUSED, 1), (FAILED, 0), (CANCELLED, 0)], ids=["refused", "failed", "cancelled"]
)
def test_only_a_refusal_counts_as_one(metrics: Metrics, outcome: object, refusals: int):
    metrics.turn_ended(a_body(outcome=outcome).hashed())
    assert value(metrics, "accord_refusals_total", code="content_unsupported") == refusals
    assert value(metrics, "accord_turns_total", outcome="done") == 0


def test_a_turn_that_sent_nothing_has_no_time_to_its_first_packet(metrics: Metrics):
    metrics.turn_ended(a_body(timings=Timings(plan_ms=0, total_ms=1)).hashed())
    assert value(metrics, "accord_time_to_first_packet_seconds_count") == 0
    assert value(metrics, "accord_turn_seconds_count") == 1


def test_unknown_capabilities_share_one_series_when_there_are_too_many(metrics: Metrics):
    names = [f"invented_{number}" for number in range(MAX_UNKNOWN + 20)]
    metrics.turn_ended(a_body(work=[Work(backend=backend(), emulations=emulating(*names, "streaming"))]).hashed())
    assert value(metrics, "accord_emulations_total", capability="invented_0") == 1
    assert value(metrics, "accord_emulations_total", capability=names[-1]) is None
    assert value(metrics, "accord_emulations_total", capability=OTHER) == 20
    assert value(metrics, "accord_emulations_total", capability="streaming") == 1


def test_a_name_keeps_its_label():
    names = LabelNames(["known"], unknown=1)
    assert [names.label(name) for name in ("a", "b", "a", "known", "b")] == ["a", OTHER, "a", "known", OTHER]


def test_requests_are_counted_by_method_route_and_status(metrics: Metrics):
    metrics.request_done("GET", "/v1/requests/{request_id}", 200, 0.2)
    metrics.request_done("BREW", "/health", 405, 0.1)
    found = {"method": "GET", "route": "/v1/requests/{request_id}", "status": "200"}
    assert value(metrics, "accord_http_requests_total", **found) == 1
    assert value(metrics, "accord_http_requests_total", method=OTHER, route="/health", status="405") == 1
    assert value(metrics, "accord_http_seconds_sum", route="/health") == 0.1


def test_streams_are_counted_while_they_are_read(metrics: Metrics):
    for transport in ("sse", "sse", "websocket"):
        metrics.stream_opened(transport)
    metrics.stream_closed("sse")
    assert value(metrics, "accord_active_streams", transport="sse") == 1
    assert value(metrics, "accord_active_streams", transport="websocket") == 1


def test_running_turns_are_counted_when_metrics_are_read(metrics: Metrics):
    running = [1, 2]
    metrics.count_running(lambda: len(running), 7)
    assert (value(metrics, "accord_running_turns"), value(metrics, "accord_turn_limit")) == (2, 7)
    running.clear()
    assert value(metrics, "accord_running_turns") == 0


def test_what_is_rendered_can_be_read_by_prometheus(metrics: Metrics):
    metrics.turn_ended(an_eventful_turn())
    media_type, body = metrics.render()
    names = {family.name for family in text_string_to_metric_families(body.decode())}
    assert media_type.startswith("text/plain; version=0.0.4")
    assert {"accord_turns", "accord_running_turns", "accord_http_seconds", "accord_active_streams"} <= names


def test_two_services_do_not_share_their_numbers(metrics: Metrics):
    other = Metrics(version="2")
    other.turn_ended(an_eventful_turn())
    assert value(metrics, "accord_turns_total", outcome="done") == 0


def test_the_queue_is_read_at_most_every_few_seconds_and_missing_while_it_cannot_be_read(metrics: Metrics):
    clock, found, reads = Clock(), [3], list[int]()

    async def read() -> WaitingRuns:
        reads.append(1)
        if not found:
            raise StoreError("away")
        return WaitingRuns(found[0], 0.5)

    counts, channel = LinkCounts(), ChannelHub().channel()
    metrics.report_links(channel, counts, StoreReading(read, clock))
    assert value(metrics, "accord_waiting_turns") is None
    for seconds, expected, times in ((0.0, 3, 1), (WAITING_CACHED_S - 1, 3, 1), (1.0, 5, 2)):
        clock.now += seconds
        asyncio.run(metrics.refresh())
        assert (value(metrics, "accord_waiting_turns"), len(reads)) == (expected, times)
        assert value(metrics, "accord_oldest_waiting_seconds") == 0.5
        found[0] = 5
    found.clear()
    clock.now += WAITING_CACHED_S
    asyncio.run(metrics.refresh())
    assert value(metrics, "accord_waiting_turns") is None
    assert value(metrics, "accord_channel_up") == 1
    channel.is_connected = False
    assert value(metrics, "accord_channel_up") == 0
    counts.restarted, counts.given_up, counts.late_news, counts.store_took_over = 1, 2, 3, 4
    names = ("restarted_turns", "given_up_turns", "late_news", "store_takeovers")
    assert [value(metrics, f"accord_{name}_total") for name in names] == [1, 2, 3, 4]
