"""Traces: spans with the names of the conventions, in the trace of the request, and nothing without the library."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from accord.backends.scripted import ScriptedBackend
from accord.errors import ErrorCode
from accord.run import Sessions
from accord.servers.observability.traces import Traces, continuing_trace, failure_of_work, incoming_context
from accord.stores.memory import MemoryStore
from accord.wire.receipt import Work
from tests.receipts import NOON, a_body
from tests.run.playing import STREAMS, asking, engine, relay, within
from tests.servers.observability.turns import (
    CANCELLED,
    FAILED,
    PRIVATE_TEXT,
    REFUSED,
    an_eventful_turn,
    backend,
    emulating,
    fallback,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = [(b"traceparent", f"00-{TRACE}-00f067aa0ba902b7-01".encode()), (b"authorization", b"Bearer secret")]


def watching() -> tuple[Traces, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Traces(provider), exporter


def spans(receipt: Mapping[str, Any]) -> tuple[ReadableSpan, ...]:
    """The spans of this turn: its questions, then the turn itself."""
    traces, exporter = watching()
    traces.turn_ended(receipt)
    return exporter.get_finished_spans()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_turn_is_a_span_with_its_start_and_end():
    (*_, turn) = spans(an_eventful_turn())
    noon = int(NOON.timestamp()) * 1_000_000_000
    assert (turn.start_time, turn.end_time) == (noon - 40_500_000, noon)
    assert (turn.name, turn.kind) == ("invoke_agent demo", SpanKind.INTERNAL)
    assert attributes(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "demo",
        "gen_ai.conversation.id": "s1",
        "accord.request_id": "r0",
        "accord.outcome": "done",
        "accord.adaptation.native": 5,
        "accord.adaptation.described": 2,
        "accord.adaptation.dropped": 1,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 9,
        "accord.key": "k1",
        "accord.cost_usd": 0.25,
    }


def test_a_question_is_a_child_with_the_conventions_names():
    question, turn = spans(an_eventful_turn())
    assert turn.context is not None
    assert question.parent is not None
    assert question.parent.span_id == turn.context.span_id
    assert (question.name, question.kind) == ("chat m", SpanKind.CLIENT)
    assert attributes(question) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "local",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 9,
        "accord.policy": "standard",
        "accord.emulations": ("json_mode",),
        "accord.fallbacks": ("far",),
    }


def test_a_question_that_no_backend_was_given_has_no_span():
    assert len(spans(a_body(work=[Work(), Work(backend=backend(model=None))]).hashed())) == 2


@pytest.mark.parametrize(
    ("outcome", "code", "status"),
    [
        (REFUSED, "content_unsupported", StatusCode.ERROR),
        (FAILED, "backend_failed", StatusCode.ERROR),
        (CANCELLED, "cancelled", StatusCode.UNSET),
    ],
    ids=["refused", "failed", "cancelled"],
)
def test_a_turn_that_is_not_done_says_why_by_its_code(outcome: object, code: str, status: StatusCode):
    (*_, turn) = spans(a_body(outcome=outcome).hashed())
    assert attributes(turn)["error.type"] == code
    assert turn.status.status_code is status
    assert PRIVATE_TEXT not in turn.to_json()


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (Work(backend=backend()), None),
        (Work(backend=backend(), fallbacks=[fallback("far")]), None),
        (Work(backend=backend(), fallbacks=[fallback("far"), fallback("local")]), ErrorCode.TIMED_OUT),
        (Work(backend=backend(), emulations=emulating("json_mode")), None),
        (Work(backend=backend(), emulations=emulating("json_mode", ok=False)), ErrorCode.EMULATION_FAILED),
    ],
    ids=["well", "fell back", "all failed", "emulated", "not emulated"],
)
def test_a_backend_request_failed_if_its_last_backend_did_not_answer(work: Work, code: ErrorCode | None):
    assert failure_of_work(work.dump()) == code
    question, _ = spans(a_body(work=[work]).hashed())
    assert attributes(question).get("error.type") == code
    assert question.status.is_ok is (code is None)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4)),
        ({"input_tokens": 0}, (0, None)),
        ({"input_tokens": "many", "output_tokens": True}, (None, None)),
        (None, (None, None)),
    ],
)
def test_tokens_are_attributes_where_they_are_numbers(usage: Any, tokens: tuple[int | None, int | None]):
    question, _ = spans(a_body(work=[Work(backend=backend(), usage=usage)]).hashed())
    reported = attributes(question)
    assert (reported.get("gen_ai.usage.input_tokens"), reported.get("gen_ai.usage.output_tokens")) == tokens


def test_a_turn_belongs_to_the_trace_of_its_request():
    with continuing_trace(PARENT):
        (*_, turn) = spans(a_body().hashed())
    assert turn.context is not None
    assert format(turn.context.trace_id, "032x") == TRACE
    assert turn.parent is not None
    assert format(turn.parent.span_id, "016x") == "00f067aa0ba902b7"
    (*_, later) = spans(a_body().hashed())
    assert later.parent is None


def test_a_turn_remembers_the_trace_in_which_it_was_begun():
    traces, exporter = watching()
    backend = ScriptedBackend("local", [["hello"]], STREAMS)

    async def one_turn() -> None:
        store = MemoryStore()
        await store.open()
        sessions = Sessions(engine(relay, backend), store, on_turn_ended=traces.turn_ended)
        with continuing_trace(PARENT):
            turn = await sessions.begin(asking())
        assert (await sessions.collect(turn)).output

    within(one_turn)
    question, turn = exporter.get_finished_spans()
    assert [format(span.context.trace_id, "032x") for span in (question, turn) if span.context] == [TRACE, TRACE]


@pytest.mark.parametrize(
    "headers",
    [[], [(b"tracestate", b"a=b")], [(b"traceparent", b"")], [(b"traceparent", b"\xff\x00nonsense")]],
    ids=["none", "state only", "empty", "bytes"],
)
def test_headers_that_name_no_trace_begin_a_new_one(headers: list[tuple[bytes, bytes]]):
    with continuing_trace(headers):
        (*_, turn) = spans(a_body().hashed())
    assert turn.parent is None


def test_other_headers_are_not_carried():
    assert incoming_context([(b"baggage", b"name=ada"), (b"authorization", b"Bearer secret")]) is None


def test_without_an_sdk_nothing_happens():
    Traces().turn_ended(an_eventful_turn())


def test_without_opentelemetry_nothing_happens():
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from accord.servers.observability.traces import Traces, continuing_trace\n"
        "from tests.servers.observability.turns import an_eventful_turn\n"
        "Traces().turn_ended(an_eventful_turn())\n"
        "with continuing_trace([(b'traceparent', b'00-1-2-01')]): print('well')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "well\n"
