"""OpenTelemetry spans, made of a receipt when its turn is over: one for the turn, one for each question to a backend.

An extra: without `opentelemetry` nothing happens, and without an SDK the API itself does nothing. The names are those
of the generative-AI conventions (`gen_ai.*`), Accord's own begin with `accord.`. No span carries what anybody said.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from accord.errors import ErrorCode
from accord.version import package_version
from accord.wire.receipt import OutcomeStatus

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

Attributes = dict[str, str | int | list[str]]

CARRIED: Final = frozenset({b"traceparent", b"tracestate"})

TOKENS: Final[Mapping[str, tuple[str, ...]]] = {
    "gen_ai.usage.input_tokens": ("input_tokens", "prompt_tokens"),
    "gen_ai.usage.output_tokens": ("output_tokens", "completion_tokens"),
}
"""Under which names backends tell how much they read and wrote."""

_FAILED: Final = frozenset({OutcomeStatus.FAILED, OutcomeStatus.REFUSED})


class Traces:
    """Makes spans, if there is anything to make them with; `provider` is OpenTelemetry's own unless one is given."""

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415 - an extra
        except ImportError:
            self._trace = None
            return
        self._trace = trace
        self._tracer = trace.get_tracer("accord", package_version(), tracer_provider=provider)

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """One span for the turn and one for each of its questions that reached a backend."""
        if self._trace is None:
            return
        began, ended = _window(receipt)
        agent, outcome = receipt["parties"]["agent"]["name"], receipt["outcome"]
        span = self._tracer.start_span(
            f"invoke_agent {agent}",
            kind=self._trace.SpanKind.INTERNAL,
            attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent},
            start_time=began,
        )
        if span.is_recording():  # most services have no SDK, and all the rest would be for nobody
            span.set_attributes(turn_attributes(receipt))
            if outcome["status"] in _FAILED:
                self._mark_failed(span, outcome.get("code"))
            for work in receipt["work"]:
                self._question(work, span, began, ended)
        span.end(ended)

    def _question(self, work: Mapping[str, Any], turn: "Span", began: int, ended: int) -> None:
        if self._trace is None or "backend" not in work:
            return
        model = work["backend"].get("model")
        # A receipt does not say when each question was put, so that all of them span their turn.
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

    def request_done(self, method: str, route: str, status: int, seconds: float) -> None:
        """Nothing: spans of HTTP itself are what OpenTelemetry's ASGI instrumentation is for."""

    def stream_opened(self, transport: str) -> None:
        """Nothing."""

    def stream_closed(self, transport: str) -> None:
        """Nothing."""


def turn_attributes(receipt: Mapping[str, Any]) -> Attributes:
    """What the span of a turn says, besides which agent it was."""
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
    return attributes


def work_attributes(work: Mapping[str, Any]) -> Attributes:
    """What the span of a question says."""
    attributes: Attributes = {"gen_ai.operation.name": "chat", "accord.policy": work["policy"]}
    if "backend" in work:
        # The operator's own name: which company answers is not known here.
        attributes["gen_ai.provider.name"] = work["backend"]["name"]
        if model := work["backend"].get("model"):
            attributes["gen_ai.request.model"] = model
    if emulated := work.get("emulations", {}).get("emulated"):
        attributes["accord.emulations"] = [entry["capability"] for entry in emulated]
    if fallbacks := work["fallbacks"]:
        attributes["accord.fallbacks"] = [fallback["backend"] for fallback in fallbacks]
    if code := failure_of_work(work):
        attributes["error.type"] = code
    return attributes | _tokens(work.get("usage") or {})


def failure_of_work(work: Mapping[str, Any]) -> str | None:
    """Why the backend that was asked last did not answer, if it did not."""
    fallbacks = work["fallbacks"]
    if fallbacks and "backend" in work and fallbacks[-1]["backend"] == work["backend"]["name"]:
        return fallbacks[-1]["code"]
    attempts = work.get("emulations", {}).get("attempts")
    if attempts and not attempts[-1]["ok"]:
        return ErrorCode.EMULATION_FAILED.value
    return None


def _tokens(usage: Mapping[str, Any]) -> Attributes:
    found: Attributes = {}
    for attribute, names in TOKENS.items():
        told = next((usage[name] for name in names if type(usage.get(name)) is int), None)
        if told is not None:
            found[attribute] = told
    return found


def _window(receipt: Mapping[str, Any]) -> tuple[int, int]:
    """When the turn began and ended, in nanoseconds: a receipt is written at the end."""
    ended = round(datetime.fromisoformat(receipt["created_at"]).timestamp() * 1_000_000) * 1_000
    return ended - round(receipt["timings"]["total_ms"] * 1_000_000), ended


def incoming_context(headers: Iterable[tuple[bytes, bytes]]) -> "Context | None":
    """The trace that a request belongs to, as its `traceparent` says; None without one, or without OpenTelemetry."""
    carried = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in CARRIED}
    if "traceparent" not in carried:
        return None
    try:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an extra
            TraceContextTextMapPropagator,
        )
    except ImportError:
        return None
    # Not the propagator that is set globally: it may carry baggage, which is a stranger's words.
    return TraceContextTextMapPropagator().extract(carried)


@contextmanager
def continuing_trace(headers: Iterable[tuple[bytes, bytes]]) -> Generator[None]:
    """Within it, spans belong to the trace of this request. Turns that are begun within it remember it."""
    found = incoming_context(headers)
    if found is None:
        yield
        return
    from opentelemetry import context  # noqa: PLC0415 - an extra

    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)
