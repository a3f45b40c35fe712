"""Receipts of model API calls in metrics, log lines and spans: their own kind, with bounded names."""

import json
import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client.parser import text_string_to_metric_families

from accord.servers.observability.calls import MAX_COUNT, MAX_NAME_CHARS, OTHER, count_tokens, list_dispositions
from accord.servers.observability.logs import Log, call_fields
from accord.servers.observability.metrics import MAX_KEYS, MAX_MODELS, NO_NAME, Metrics
from accord.servers.observability.traces import Traces, continuing_trace
from accord.wire.receipt import Outcome, Work
from tests.receipts import NOON
from tests.servers.observability.turns import CANCELLED, FAILED, PRIVATE_TEXT, REFUSED, a_call

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = [(b"traceparent", f"00-{TRACE}-00f067aa0ba902b7-01".encode())]


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="1.2.3")


def span_of(receipt: Mapping[str, Any]) -> ReadableSpan:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    Traces(provider).turn_ended(receipt)
    (only,) = exporter.get_finished_spans()
    return only


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("accord_model_requests_total", {"api": "chat", "backend": "local", "model": "m-2026", "outcome": "done"}, 2),
        ("accord_model_tokens_total", {"backend": "local", "model": "m-2026", "kind": "input"}, 1400),
        ("accord_model_tokens_total", {"backend": "local", "model": "m-2026", "kind": "output"}, 180),
        ("accord_model_tokens_total", {"backend": "local", "model": "m-2026", "kind": "cached"}, 1024),
        ("accord_model_cost_usd_total", {"backend": "local", "model": "m-2026"}, 0.5),
        ("accord_model_seconds_count", {"backend": "local"}, 2),
        ("accord_model_seconds_sum", {"backend": "local"}, 0.081),
        ("accord_model_seconds_bucket", {"backend": "local", "le": "0.025"}, 0),
        ("accord_model_seconds_bucket", {"backend": "local", "le": "0.05"}, 2),
        ("accord_model_seconds_bucket", {"backend": "local", "le": "+Inf"}, 2),
        ("accord_model_first_byte_seconds_sum", {"backend": "local"}, 0.006),
        ("accord_key_requests_total", {"key": "k1"}, 2),
        ("accord_key_tokens_total", {"key": "k1", "kind": "output"}, 180),
        ("accord_key_cost_usd_total", {"key": "k1"}, 0.5),
        ("accord_dispositions_total", {"api": "chat", "field": "seed", "disposition": "dropped"}, 2),
        ("accord_dispositions_total", {"api": "chat", "field": OTHER, "disposition": "dropped"}, 2),
        ("accord_fallbacks_total", {"backend": "far"}, 2),
        ("accord_turns_total", {"outcome": "done"}, 0),
        ("accord_turn_seconds_count", {}, 0),
        ("accord_time_to_first_packet_seconds_count", {}, 0),
    ],
)
def test_a_call_is_counted_as_its_receipt_says_and_not_as_a_turn(
    metrics: Metrics, name: str, labels: dict[str, str], expected: float
):
    metrics.turn_ended(a_call())
    metrics.turn_ended(a_call())
    assert value(metrics, name, **labels) == pytest.approx(expected)


def test_a_call_that_no_backend_got_is_counted_without_tokens_and_costs(metrics: Metrics):
    metrics.turn_ended(
        a_call(work={"usage": None}, outcome=REFUSED, served_by=None, model=None, cost_usd=None, key=None)
    )
    labels = {"api": "chat", "backend": NO_NAME, "model": NO_NAME, "outcome": "refused"}
    assert value(metrics, "accord_model_requests_total", **labels) == 1
    assert value(metrics, "accord_refusals_total", code="content_unsupported") == 1
    _, text = metrics.render()
    assert b"accord_model_tokens_total{" not in text
    assert b"accord_model_cost_usd_total{" not in text
    assert b"accord_key_requests_total{" not in text


def test_an_unknown_price_does_not_count_as_no_cost(metrics: Metrics):
    metrics.turn_ended(a_call(cost_usd=None))
    assert value(metrics, "accord_model_cost_usd_total", backend="local", model="m-2026") is None
    metrics.turn_ended(a_call(cost_usd=0.0))
    assert value(metrics, "accord_model_cost_usd_total", backend="local", model="m-2026") == 0


def test_too_many_models_and_keys_share_one_series(metrics: Metrics):
    for number in range(MAX_MODELS + 3):
        metrics.turn_ended(a_call(model=f"m{number}" + "x" * 300, key=f"k{number}"))
    for number in range(MAX_KEYS):
        metrics.turn_ended(a_call(key=f"k{number}"))
    metrics.turn_ended(a_call(key="one too many"))
    first = "m0" + "x" * (MAX_NAME_CHARS - 2)
    labels = {"api": "chat", "backend": "local", "outcome": "done"}
    assert value(metrics, "accord_model_requests_total", model=first, **labels) == 1
    assert value(metrics, "accord_model_requests_total", model=OTHER, **labels) == 3 + MAX_KEYS + 1
    assert value(metrics, "accord_key_requests_total", key=OTHER) == 1


def test_which_backends_are_down_is_found_when_metrics_are_read(metrics: Metrics):
    states = {"a": False, "b": True}
    metrics.report_backends(lambda: states)
    assert (value(metrics, "accord_backend_down", backend="a"), value(metrics, "accord_backend_down", backend="b")) == (
        0,
        1,
    )
    del states["b"]
    assert value(metrics, "accord_backend_down", backend="b") is None


def test_what_is_rendered_of_calls_can_be_read_by_prometheus(metrics: Metrics):
    metrics.turn_ended(a_call(model='m"\n\\ü'))
    families = {family.name: family for family in text_string_to_metric_families(metrics.render()[1].decode())}
    models = {sample.labels["model"] for sample in families["accord_model_tokens"].samples}
    assert models == {'m"\n\\ü'}
    assert families["accord_model_seconds"].type == "histogram"
    assert families["accord_model_requests"].type == "counter"


@pytest.mark.parametrize(
    ("usages", "counts"),
    [
        ([], {}),
        ([None], {}),
        ([{"input_tokens": 3}], {"input": 3}),
        ([{"input_tokens": 3, "output_tokens": 0}, {"input_tokens": 4}], {"input": 7, "output": 0}),
        ([{"input_tokens": "many", "output_tokens": True, "cached_input_tokens": -1}], {}),
        ([{"input_tokens": 10**400}], {"input": MAX_COUNT}),
    ],
)
def test_each_count_that_is_a_number_is_added_up(usages: list[Any], counts: dict[str, int]):
    assert count_tokens([Work(usage=usage).dump() for usage in usages]) == counts


def test_the_line_of_a_call_says_who_answered_for_how_much():
    assert call_fields(a_call()) == {
        "outcome": "done",
        "api": "chat",
        "requested": "auto",
        "served_by": "local",
        "model": "m-2026",
        "input_tokens": 700,
        "output_tokens": 90,
        "cached_input_tokens": 512,
        "cost_usd": 0.25,
        "key": "k1",
        "dispositions": "seed=dropped, other=dropped",
        "fallbacks": "far",
        "ms": 40.5,
        "first_byte_ms": 3,
    }
    unknown: dict[str, Any] = {"served_by": None, "model": None, "key": None, "cost_usd": None}
    work: dict[str, Any] = {"fallbacks": [], "usage": None, "dispositions": None}
    assert call_fields(a_call(work=work, requested="x" * 1_000, outcome=REFUSED, **unknown)) == {
        "outcome": "refused",
        "code": "content_unsupported",
        "api": "chat",
        "requested": "x" * MAX_NAME_CHARS,
        "ms": 40.5,
        "first_byte_ms": 3,
    }


@pytest.mark.parametrize(
    ("outcome", "message", "level"),
    [
        (None, "model call done", logging.INFO),
        (REFUSED, "model call refused", logging.INFO),
        (FAILED, "model call failed", logging.WARNING),
        (CANCELLED, "model call cancelled", logging.INFO),
    ],
    ids=["done", "refused", "failed", "cancelled"],
)
def test_the_message_of_a_call_says_how_it_ended(
    caplog: pytest.LogCaptureFixture, outcome: Outcome | None, message: str, level: int
):
    with caplog.at_level(logging.INFO, logger="accord"):
        Log().turn_ended(a_call(outcome=outcome))
    last = caplog.records[-1]
    assert (last.name, last.getMessage(), last.levelno) == ("accord.call", message, level)
    assert PRIVATE_TEXT not in json.dumps(vars(last)["fields"])


def test_a_call_is_one_span_with_the_conventions_names():
    span = span_of(a_call())
    noon = int(NOON.timestamp()) * 1_000_000_000
    assert (span.name, span.kind, span.start_time, span.end_time) == (
        "chat auto",
        SpanKind.SERVER,
        noon - 40_500_000,
        noon,
    )
    attributes = dict(span.attributes or {})
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "local",
        "gen_ai.request.model": "auto",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m-2026",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.003,
        "gen_ai.usage.input_tokens": 700,
        "gen_ai.usage.output_tokens": 90,
        "gen_ai.usage.cache_read.input_tokens": 512,
        "accord.api": "chat",
        "accord.served_by": "local",
        "accord.policy": "labelled",
        "accord.key": "k1",
        "accord.outcome": "done",
        "accord.request_id": "r0",
        "accord.receipt": "/v1/requests/r0/receipt",
        "accord.cost_usd": 0.25,
        "accord.dispositions": ("seed=dropped", "other=dropped"),
        "accord.fallbacks": ("far",),
    }
    # The names as OpenTelemetry publishes them; they are not stable yet, so that its module is not a public one.
    published = vars(import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes"))
    conventional = {text for name, text in published.items() if name.startswith("GEN_AI_")}
    assert {name for name in attributes if not name.startswith("accord.")} <= conventional
    assert span.status.is_ok


@pytest.mark.parametrize(
    ("outcome", "status"),
    [(REFUSED, StatusCode.ERROR), (FAILED, StatusCode.ERROR), (CANCELLED, StatusCode.UNSET)],
    ids=["refused", "failed", "cancelled"],
)
def test_a_call_that_is_not_done_says_why_by_its_code(outcome: Outcome, status: StatusCode):
    span = span_of(a_call(outcome=outcome))
    assert (span.attributes or {})["error.type"] == outcome.code
    assert span.status.status_code is status
    assert PRIVATE_TEXT not in span.to_json()


def test_a_call_belongs_to_the_trace_of_its_request():
    with continuing_trace(PARENT):
        span = span_of(a_call())
    assert span.context is not None
    assert span.parent is not None
    assert format(span.context.trace_id, "032x") == TRACE
    assert format(span.parent.span_id, "016x") == "00f067aa0ba902b7"


def test_each_field_is_listed_once_and_by_its_own_name_only_if_the_table_has_it():
    assert list_dispositions(a_call()) == ["seed=dropped", "other=dropped"]
    assert list_dispositions(a_call(api="messages")) == ["other=dropped"]
