"""Model API calls of a real application: each is in the receipt, the log, the metrics and the trace, without its text."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scripts.record_clients.server import ModelServer, model_server

from accord.agents import demo
from accord.assembly.parts import build_engine
from accord.assembly.reload import make_model_calls
from accord.assembly.service import make_application, make_authenticator, make_service
from accord.assembly.store import managed_backends
from accord.config import load_config
from accord.run.budgets import Budgets
from accord.run.model_calls import ModelCallsRef
from accord.servers.observability import Log, Observers, Traces
from accord.servers.observability.logs import JsonLines
from accord.servers.observability.metrics import Metrics
from accord.stores.sqlite import SqliteStore
from accord.wire.keys import UsageGroup
from accord.wire.session import TokenRecord, token_digest
from tests.servers.clock import START, run
from tests.servers.transports import served

TOKEN = "accord_" + "a" * 43
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
MARKER = "pineapple"
UNLISTED = "durian"
"""A field that no API has: its name is the client's own."""
COST_USD = (20 * 100 + 7 * 1000) / 1e6
"""What one answer of the scripted endpoint costs."""
BACKEND = """
[[backends]]
name = "{name}"
kind = "{kind}"
model = "{model}"
base_url = "{url}"
manifest = "declared"
key_env = "MODEL_KEY"
options = {{ {options}retries = 0 }}
[backends.overrides]
streaming = "native"
tool_use = "native"
[backends.price]
input = 100.0
output = 1000.0
"""
CIRCUIT = """
[circuit]
failures = 1

[groups.fallback]
backends = ["dead", "chat"]
"""
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
FINISHED = {"chat": "stop", "responses": "completed", "messages": "end_turn"}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
    "responses": {"input": "hi"},
    "messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50},
}


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("MODEL_KEY", "a-key")
    with model_server(tmp_path) as server:
        yield server


class LineKeeper(logging.Handler):
    """Keeps every line as the service would write it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@dataclass
class ObservedGateway:
    """A served application, and what its observers have said."""

    address: str
    session: aiohttp.ClientSession
    metrics: Metrics
    store: SqliteStore
    budgets: Budgets
    exporter: InMemorySpanExporter
    log: LineKeeper

    async def call(self, api: str, model: str | None = None, **members: Any) -> tuple[int, str]:
        """Send a request and return the status and the body, once its line is logged."""
        request = {"model": model or api, **BODIES[api], **members}
        headers = {"authorization": f"Bearer {TOKEN}", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        before = len(self.calls())
        async with self.session.post(self.address + PATHS[api], json=request, headers=headers) as response:
            found = response.status, await response.text()
        async with asyncio.timeout(20):
            while len(self.calls()) == before:  # noqa: ASYNC110 - bounded; a line is written after the answer was read
                await asyncio.sleep(0.005)
        return found

    def calls(self) -> list[dict[str, Any]]:
        """The lines of calls."""
        return [json.loads(line) for line in self.log.lines if '"accord.call"' in line]

    async def receipt(self) -> dict[str, Any]:
        """The receipt of the last call."""
        path = f"{self.address}/v1/requests/{self.calls()[-1]['request_id']}/receipt"
        async with self.session.get(path, headers={"authorization": f"Bearer {TOKEN}"}) as response:
            assert response.status == 200
            return await response.json()

    def span(self) -> ReadableSpan:
        """The span of the last call."""
        return self.exporter.get_finished_spans()[-1]

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@asynccontextmanager
async def gateway(folder: Path, endpoint: ModelServer) -> AsyncGenerator[ObservedGateway]:
    def backend(name: str, kind: str, model: str, url: str, options: str = "") -> str:
        return BACKEND.format(name=name, kind=kind, model=model, url=url, options=options)

    file = folder / "accord.toml"
    file.write_text(
        backend("chat", "openai", "gpt-4o", f"{endpoint.address}/v1")
        + backend("responses", "openai", "gpt-4o", f"{endpoint.address}/v1", 'api = "responses", ')
        + backend("messages", "anthropic", "claude-sonnet-4-5", endpoint.address)
        + backend("dead", "openai", "gpt-4o", "http://127.0.0.1:9/v1")
        + CIRCUIT
    )
    loaded = load_config(str(file), environ={})
    store, settings = SqliteStore(folder / "accord.db"), loaded.config.server.model_copy(update={"port": 0})
    await store.open()
    key = {"token_id": "k1", "user": "ada", "digest": token_digest(TOKEN), "created_at": START}
    await store.put_token(TokenRecord.model_validate(key))
    engine = build_engine(loaded, agent=demo)
    service, metrics = make_service(loaded, settings, engine, store, make_authenticator(settings, store))
    exporter, provider, keeper = InMemorySpanExporter(), TracerProvider(), LineKeeper()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    service.observer = Observers(metrics, Log(), Traces(provider))
    service.sessions.endings.on_ended = service.observer.turn_ended
    calls = ModelCallsRef(make_model_calls(loaded, engine.dispatcher, engine.clock))
    assert service.budgets is not None
    logger = logging.getLogger("accord")
    level = logger.level
    logger.addHandler(keeper)
    logger.setLevel(logging.DEBUG)
    try:
        async with (
            served(make_application(loaded, service, metrics, calls, loopback_only=False)) as address,
            aiohttp.ClientSession() as session,
        ):
            yield ObservedGateway(address, session, metrics, store, service.budgets, exporter, keeper)
    finally:
        logger.removeHandler(keeper)
        logger.setLevel(level)
        for each in managed_backends(engine.dispatcher):
            await each.aclose()
        await store.close()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("backend", list(PATHS))
@pytest.mark.parametrize("api", list(PATHS))
def test_each_call_has_the_same_tokens_and_cost_everywhere(
    tmp_path: Path, endpoint: ModelServer, api: str, backend: str, stream: bool
):
    async def check() -> None:
        async with gateway(tmp_path, endpoint) as observed:
            status, _ = await observed.call(api, backend, stream=stream)
            assert status == 200
            receipt = await observed.receipt()
            made, line = receipt["call"], observed.calls()[-1]
            assert (made["served_by"], made["key"], made["cost_usd"]) == (backend, "k1", COST_USD)
            assert [each["usage"]["output_tokens"] for each in receipt["work"]] == [7]
            assert ("response_id" in made) is (api == backend)  # others are translated
            assert made["finish_reasons"] == [FINISHED[backend] if api == backend else "end_turn"]
            assert line["message"] == "model call done"
            fields = line["fields"]
            assert (fields["input_tokens"], fields["output_tokens"], fields["cost_usd"]) == (20, 7, COST_USD)
            assert (fields["status"], fields["route"], fields["requested"]) == (200, PATHS[api], backend)
            attributes = observed.span().attributes or {}
            assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (20, 7)
            assert (attributes["accord.cost_usd"], attributes["accord.api"]) == (COST_USD, api)
            assert attributes["accord.request_id"] == receipt["request_id"]
            model = made["model"]
            assert observed.value("accord_model_tokens_total", backend=backend, model=model, kind="output") == 7
            assert observed.value("accord_key_cost_usd_total", key="k1") == COST_USD
            labels = {"api": api, "backend": backend, "model": model, "outcome": "done"}
            assert observed.value("accord_model_requests_total", **labels) == 1
            assert observed.value("accord_model_first_byte_seconds_count", backend=backend) == (1 if stream else None)
            await observed.budgets.flush()
            (total,) = await observed.store.usage(by=UsageGroup.KEY)
            assert (total.requests, total.output_tokens, total.cost_usd) == (1, 7, COST_USD)

    run(check())


def test_a_call_is_a_child_of_the_trace_of_its_client(tmp_path: Path, endpoint: ModelServer):
    async def check() -> None:
        async with gateway(tmp_path, endpoint) as observed:
            await observed.call("chat")
            span = observed.span()
            assert len(observed.exporter.get_finished_spans()) == 1
            assert span.context is not None
            assert span.parent is not None
            assert format(span.context.trace_id, "032x") == TRACE
            assert format(span.parent.span_id, "016x") == "00f067aa0ba902b7"

    run(check())


def test_a_backend_that_is_down_is_in_every_place(tmp_path: Path, endpoint: ModelServer):
    async def check() -> None:
        async with gateway(tmp_path, endpoint) as observed:
            assert observed.value("accord_backend_down", backend="dead") == 0
            assert (await observed.call("chat", "fallback"))[0] == 200
            assert observed.value("accord_backend_down", backend="dead") == 1
            assert observed.value("accord_backend_down", backend="chat") == 0
            assert observed.calls()[-1]["fields"]["fallbacks"] == "dead"
            assert (observed.span().attributes or {})["accord.fallbacks"] == ("dead",)
            status, _ = await observed.call("chat", "dead")
            assert status >= 500
            assert observed.calls()[-1]["message"] == "model call failed"
            receipt = await observed.receipt()
            assert "cost_usd" not in receipt["call"]
            assert (observed.span().attributes or {})["error.type"] == receipt["outcome"]["code"]

    run(check())


def test_a_dropped_and_a_refused_field_are_in_every_place(tmp_path: Path, endpoint: ModelServer):
    async def check() -> None:
        async with gateway(tmp_path, endpoint) as observed:
            assert (await observed.call("chat", "messages", seed=1))[0] == 200
            assert observed.calls()[-1]["fields"]["dispositions"] == "seed=dropped, max_tokens=assumed"
            attributes = observed.span().attributes or {}
            assert attributes["accord.dispositions"] == ("seed=dropped", "max_tokens=assumed")
            labels = {"api": "chat", "field": "seed"}
            assert observed.value("accord_dispositions_total", disposition="dropped", **labels) == 1
            assert (await observed.call("chat", "messages", seed=1, accord={"policy": "strict"}))[0] == 400
            assert observed.calls()[-1]["message"] == "model call refused"
            assert observed.calls()[-1]["fields"]["dispositions"] == "seed=refused"
            (work,) = (await observed.receipt())["work"]
            assert [(each["field"], each["disposition"]) for each in work["dispositions"]] == [("seed", "refused")]
            assert observed.value("accord_dispositions_total", disposition="refused", **labels) == 1
            labels = {"api": "chat", "backend": "none", "model": "none", "outcome": "refused"}
            assert observed.value("accord_model_requests_total", **labels) == 1

    run(check())


TEXTS: dict[str, dict[str, Any]] = {
    "chat": {
        "messages": [
            {"role": "system", "content": f"system {MARKER}", "name": MARKER},
            {"role": "user", "content": [{"type": "text", "text": f"user {MARKER}"}], "name": MARKER},
        ],
        "tools": [{"type": "function", "function": {"name": MARKER, "description": MARKER, "parameters": {}}}],
        "tool_choice": "none",
        "metadata": {MARKER: MARKER},
        "user": MARKER,
        "safety_identifier": MARKER,
        "prompt_cache_key": MARKER,
        "stop": [MARKER],
        UNLISTED: MARKER,
    },
    "responses": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": MARKER}]}],
        "instructions": MARKER,
        "tools": [{"type": "function", "name": MARKER, "description": MARKER, "parameters": {}}],
        "tool_choice": "none",
        "metadata": {MARKER: MARKER},
        "user": MARKER,
        UNLISTED: MARKER,
    },
    "messages": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": MARKER}]}],
        "system": MARKER,
        "tools": [{"name": MARKER, "description": MARKER, "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "none"},
        "metadata": {"user_id": MARKER},
        "stop_sequences": [MARKER],
        "max_tokens": 50,
        UNLISTED: MARKER,
    },
}
"""Requests with the marker in every place that can hold a text of the client, but for the name of the model."""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("backend", [*PATHS, "dead"])
@pytest.mark.parametrize("api", list(TEXTS))
def test_no_text_of_a_request_is_in_logs_spans_or_metrics(
    tmp_path: Path, endpoint: ModelServer, api: str, backend: str, stream: bool
):
    async def check() -> None:
        async with gateway(tmp_path, endpoint) as observed:
            await observed.call(api, backend, stream=stream, **TEXTS[api])
            await observed.call(api, backend, stream=stream, accord={"policy": "strict"}, **TEXTS[api])
            info = [line for line in observed.log.lines if '"level":"debug"' not in line]
            said = {
                "log": "\n".join(observed.log.lines).replace(UNLISTED, ""),  # decisions at level debug name their field
                "log without debug": "\n".join(info),
                "spans": "\n".join(span.to_json() for span in observed.exporter.get_finished_spans()),
                "metrics": observed.metrics.render()[1].decode(),
            }
            assert len(observed.calls()) == len(observed.exporter.get_finished_spans()) == 2
            assert [place for place, text in said.items() if MARKER in text or UNLISTED in text] == []

    run(check())
