"""OpenTelemetry spans, made from receipts: one for a turn and one for each of its backend requests, one for a call.

An extra: without `opentelemetry` nothing happens, and without an SDK the API does nothing. The names are those of the
generative-AI conventions (`gen_ai.*`); Accord's own begin with `accord.`. No span contains text of users or models.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from accord.errors import ErrorCode
from accord.servers.observability.calls import (
    costs_of,
    count_tokens,
    cut_name,
    list_answer_parts,
    list_dispositions,
    list_emulated,
    list_failed,
)
from accord.servers.service import NullObserver
from accord.version import package_version
from accord.wire.receipt import OutcomeStatus
from accord.wire.routes import receipt_path

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

Attributes = dict[str, str | bool | int | float | list[str]]

RECHECK_S: Final = 1.0
"""How often a service without OpenTelemetry's SDK looks for it: an empty span takes 6 µs, looking for the SDK 3."""

CARRIED: Final = frozenset({b"traceparent", b"tracestate"})

TOKENS: Final[Mapping[str, tuple[str, ...]]] = {
    "gen_ai.usage.input_tokens": ("input_tokens", "prompt_tokens"),
    "gen_ai.usage.output_tokens": ("output_tokens", "completion_tokens"),
}
"""The names under which backends report tokens."""

TOKEN_ATTRIBUTES: Final[Mapping[str, str]] = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cached": "gen_ai.usage.cache_read.input_tokens",
}
"""The attribute for each kind of tokens of a turn or a call."""

_FAILED: Final = frozenset({OutcomeStatus.FAILED, OutcomeStatus.REFUSED})


class Traces(NullObserver):
    """Makes spans if OpenTelemetry is installed; `provider` is OpenTelemetry's global one by default.

    One that is set while turns run is noticed within `RECHECK_S`.

    Spans of HTTP requests are left to OpenTelemetry's ASGI instrumentation.
    """

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415 - an extra
        except ImportError:
            self._trace = None
            return
        self._trace = trace
        self._has_sdk = provider is not None
        self._checked_at = -inf
        self._tracer = trace.get_tracer("accord", package_version(), tracer_provider=provider)

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """Make one span for the turn and one for each request to a backend; for a model API call only one."""
        if self._trace is None or not self._records():
            return
        if "call" in receipt:
            self._span_of_call(receipt)
            return
        began, ended = span_times(receipt)
        agent, outcome = receipt["parties"]["agent"]["name"], receipt["outcome"]
        span = self._tracer.start_span(
            f"invoke_agent {agent}",
            kind=self._trace.SpanKind.INTERNAL,
            attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent},
            start_time=began,
        )
        if span.is_recording():
            span.set_attributes(turn_attributes(receipt))
            if outcome["status"] in _FAILED:
                self._mark_failed(span, outcome.get("code"))
            for work in receipt["work"]:
                self._span_of_work(work, span, began, ended)
        span.end(ended)

    def _span_of_call(self, receipt: Mapping[str, Any]) -> None:
        if self._trace is None:
            return
        began, ended = span_times(receipt)
        outcome, requested = receipt["outcome"], cut_name(receipt["call"]["requested"])
        # Of the kind SERVER: its parent is the span of the client, which `traceparent` names.
        span = self._tracer.start_span(
            f"chat {requested}",
            kind=self._trace.SpanKind.SERVER,
            attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": requested},
            start_time=began,
        )
        if span.is_recording():
            span.set_attributes(call_attributes(receipt))
            if outcome["status"] in _FAILED:
                self._mark_failed(span, outcome.get("code"))
        span.end(ended)

    def _records(self) -> bool:
        """Whether there is an SDK: without one, which most services do not have, every span would be empty."""
        if not self._has_sdk and self._trace is not None and monotonic() - self._checked_at > RECHECK_S:
            self._checked_at = monotonic()
            self._has_sdk = not isinstance(self._trace.get_tracer_provider(), self._trace.ProxyTracerProvider)
        return self._has_sdk

    def _span_of_work(self, work: Mapping[str, Any], turn: "Span", began: int, ended: int) -> None:
        if self._trace is None or "backend" not in work:
            return
        model = work["backend"].get("model")
        # A receipt does not contain the times of each request, so that all of them span their turn.
        span = self._tracer.start_span(
            f"chat {model}" if model else "chat",
            context=self._trace.set_span_in_context(turn),
            kind=self._trace.SpanKind.CLIENT,
            attributes=work_attributes(work),
            start_time=began,
        )
        if code := failure_of_work(work):
            self._mark_failed(span, code)
        span.end(ended)

    def _mark_failed(self, span: "Span", code: str | None) -> None:
        if self._trace is not None:
            span.set_status(self._trace.StatusCode.ERROR, str(code))


def span_times(receipt: Mapping[str, Any]) -> tuple[int, int]:
    """The beginning and the end of a turn or a call, in nanoseconds. A receipt is made at the end."""
    ended = round(datetime.fromisoformat(receipt["created_at"]).timestamp() * 1_000_000) * 1_000
    return ended - round(receipt["timings"]["total_ms"] * 1_000_000), ended


def turn_attributes(receipt: Mapping[str, Any]) -> Attributes:
    """The attributes of a turn's span, besides the agent."""
    outcome = receipt["outcome"]
    totals: Mapping[str, int] = receipt["adaptation"]["totals"] if "adaptation" in receipt else {}
    attributes: Attributes = {
        "gen_ai.conversation.id": receipt["session_id"],
        "accord.request_id": receipt["request_id"],
        "accord.outcome": outcome["status"],
        **{f"accord.adaptation.{rung}": count for rung, count in totals.items() if count},
    }
    if "code" in outcome:
        attributes["error.type"] = outcome["code"]
    return attributes | cost_attributes(receipt)


def cost_attributes(receipt: Mapping[str, Any]) -> Attributes:
    """The tokens and the cost of a turn or a call, as far as they are known, and its key."""
    costs = costs_of(receipt)
    tokens = {TOKEN_ATTRIBUTES[kind]: count for kind, count in count_tokens(receipt["work"]).items()}
    return tokens | {f"accord.{name}": costs[name] for name in ("key", "cost_usd") if name in costs}


def call_attributes(receipt: Mapping[str, Any]) -> Attributes:
    """The attributes of a model API call's span, besides the model that was requested."""
    call, work, outcome, timings = receipt["call"], receipt["work"], receipt["outcome"], receipt["timings"]
    first_ms, served_by = timings.get("first_packet_ms"), call.get("served_by")
    attributes: dict[str, Any] = {
        # The name in the configuration: which company runs the backend is not known here.
        "gen_ai.provider.name": served_by,
        "gen_ai.request.stream": call["streamed"],
        "gen_ai.response.model": cut_name(call["model"]) if "model" in call else None,
        "gen_ai.response.id": call.get("response_id"),
        "gen_ai.response.finish_reasons": call.get("finish_reasons"),
        "gen_ai.response.time_to_first_chunk": None if first_ms is None else first_ms / 1_000,
        **cost_attributes(receipt),
        "error.type": outcome.get("code"),
        "accord.api": call["api"],
        "accord.served_by": served_by,
        "accord.policy": call["policy"],
        "accord.dispositions": list_dispositions(receipt) or None,
        "accord.answer": list_answer_parts(receipt) or None,
        "accord.emulations": list_emulated(work) or None,
        "accord.fallbacks": list_failed(work) or None,
        "accord.outcome": outcome["status"],
        "accord.request_id": receipt["request_id"],
        "accord.receipt": receipt_path(receipt["request_id"]),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def work_attributes(work: Mapping[str, Any]) -> Attributes:
    """The attributes of the span of a backend request."""
    attributes: Attributes = {"gen_ai.operation.name": "chat", "accord.policy": work["policy"]}
    if "backend" in work:
        # The name in the configuration: which company runs the backend is not known here.
        attributes["gen_ai.provider.name"] = work["backend"]["name"]
        if model := work["backend"].get("model"):
            attributes["gen_ai.request.model"] = model
    if emulated := work.get("emulations", {}).get("emulated"):
        attributes["accord.emulations"] = [entry["capability"] for entry in emulated]
    if fallbacks := work["fallbacks"]:
        attributes["accord.fallbacks"] = [fallback["backend"] for fallback in fallbacks]
    if code := failure_of_work(work):
        attributes["error.type"] = code
    usage: Mapping[str, Any] = work.get("usage") or {}
    for attribute, names in TOKENS.items():
        counts = (usage[name] for name in names if type(usage.get(name)) is int)
        if (count := next(counts, None)) is not None:
            attributes[attribute] = count
    return attributes


def failure_of_work(work: Mapping[str, Any]) -> str | None:
    """The code of the error with which the last backend request failed, if it did."""
    fallbacks = [each for each in work["fallbacks"] if not (each.get("skipped") or each.get("retried"))]
    if fallbacks and "backend" in work and fallbacks[-1]["backend"] == work["backend"]["name"]:
        return fallbacks[-1]["code"]
    attempts = work.get("emulations", {}).get("attempts")
    if attempts and not attempts[-1]["ok"]:
        return ErrorCode.EMULATION_FAILED.value
    return None


def incoming_context(headers: Iterable[tuple[bytes, bytes]]) -> "Context | None":
    """The trace that a request's `traceparent` names; None without one, or without OpenTelemetry."""
    carried = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in CARRIED}
    if "traceparent" not in carried:
        return None
    try:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an extra
            TraceContextTextMapPropagator,
        )
    except ImportError:
        return None
    # Not the global propagator: it may also read baggage, which contains text of the client.
    return TraceContextTextMapPropagator().extract(carried)


def continuing_trace(headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[None]:
    """Within the block, spans belong to the trace of this request; so do those of turns that are started in it."""
    found = incoming_context(headers)
    return nullcontext() if found is None else _attached(found)


@contextmanager
def _attached(found: "Context") -> Generator[None]:
    from opentelemetry import context  # noqa: PLC0415 - an extra

    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)
