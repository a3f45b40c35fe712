"""What a service reports about itself, over ASGI."""

import asyncio
import gc
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.types import ASGIApp, Message

from accord.agents import demo, relay
from accord.backends.scripted import ScriptedBackend, ScriptedFault
from accord.config import ServerConfig
from accord.errors import BackendError
from accord.ports import Backend
from accord.run import Dispatcher, Engine, Sessions
from accord.servers.http.health import Health
from accord.servers.http.information import health_endpoint, information_routes
from accord.servers.observability import Observers
from accord.servers.observability.logs import REQUEST_ID
from accord.servers.observability.metrics import Metrics
from accord.servers.service import AllowAll, Service
from accord.stores.memory import MemoryStore
from accord.wire.emulation import EmulationConfig, PostProcessing, SystemPromptInjection
from accord.wire.problem import PROBLEM_MEDIA_TYPE, ProblemBody
from accord.wire.request import ServiceRequest
from accord.wire.service import HealthCheckResponse, ServiceCapabilities

PROMPT = "the operator's own prompt"
PATHS = ["/health", "/health/live", "/health/ready", "/v1/capabilities", "/openapi.json", "/docs", "/metrics"]


@dataclass(slots=True)
class HandClock:
    """A clock that tests set by hand."""

    seconds: float = 100.0

    def now(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


@dataclass(slots=True)
class ProbeRecord(ScriptedBackend):
    """A scripted backend with the given probe."""

    probes: int = 0
    does: Callable[[], Awaitable[None]] | None = None

    async def probe(self) -> None:
        self.probes += 1
        if self.does is not None:
            await self.does()


async def fail() -> None:
    raise BackendError("the endpoint said something")


async def hang() -> None:
    await asyncio.Event().wait()


async def fail_when_stopped() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await fail()


async def cling() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if CLINGING:
                continue
            raise


CLINGING: list[bool] = []


@dataclass(slots=True)
class Given:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(app: ASGIApp, method: str = "GET", headers: dict[str, str] | None = None) -> Given:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    await app({"type": "http", "method": method, "path": "/", "headers": raw}, receive, send)
    start, body = sent
    given = {name.decode(): value.decode() for name, value in start["headers"]}
    return Given(start["status"], given, body["body"])


@dataclass(slots=True)
class ServiceUnderTest:
    """A real service on a memory store, and its information."""

    service: Service
    metrics: Metrics
    clock: HandClock
    store: MemoryStore
    routes: Mapping[str, ASGIApp] = field(init=False)

    def __post_init__(self) -> None:
        strategies = {
            "json_mode": PostProcessing(detail="x"),
            "vision": SystemPromptInjection(prompt=PROMPT),
            "logprobs": PostProcessing(detail="nobody performs this"),
        }
        emulation = EmulationConfig.model_validate({"strategies": strategies})
        self.routes = information_routes(self.service, self.metrics, emulation=emulation)

    def run(self, task: Callable[[], Awaitable[Any]]) -> Any:
        async def bounded() -> Any:
            await self.store.open()
            return await asyncio.wait_for(task(), 20)

        return asyncio.run(cast("Any", bounded()))

    def ask(self, path: str, method: str = "GET", **headers: str) -> Given:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.run(lambda: ask(self.routes[path], method, named))


def make_test_service(*backends: Backend, agent: Any = demo) -> ServiceUnderTest:
    clock, store, metrics = HandClock(), MemoryStore(), Metrics(version="1.2.3")
    watch = Observers(metrics)
    sessions = Sessions(Engine(agent, Dispatcher(backends), clock=clock), store, on_turn_ended=watch.turn_ended)
    metrics.count_running(lambda: sessions.running, 0)
    return ServiceUnderTest(Service(sessions, ServerConfig(), AllowAll(), watch, "1.2.3"), metrics, clock, store)


@pytest.fixture
def under_test() -> ServiceUnderTest:
    return make_test_service(ProbeRecord("local", [["hello"]], {"streaming": "native"}))


def test_a_healthy_service_reports_ok(under_test: ServiceUnderTest):
    under_test.clock.seconds += 12.5
    given = under_test.ask("/health")
    response = HealthCheckResponse.parse(given.body)
    assert (given.status, given.headers["content-type"]) == (200, "application/json")
    assert (response.status, response.version, response.uptime_seconds) == ("ok", "1.2.3", 12.5)
    assert response.agent_id == under_test.service.agent_id


@pytest.mark.parametrize(("does", "why"), [(fail, "BackendError"), (hang, "too slow")])
def test_a_backend_that_does_not_answer_degrades_and_only_the_log_says_which(
    caplog: pytest.LogCaptureFixture, does: Callable[[], Awaitable[None]], why: str
):
    under_test = make_test_service(ProbeRecord("well", []), ProbeRecord("secret-name", [], does=does))
    endpoint = health_endpoint(Health(under_test.service, probe_s=0.01))
    with caplog.at_level(logging.WARNING, "accord.health"):
        given = under_test.run(lambda: ask(endpoint))
    assert (given.status, given.json["status"]) == (200, "degraded")
    assert b"secret-name" not in given.body
    assert [vars(record)["fields"] for record in caplog.records] == [{"part": "backend secret-name", "why": why}]


def test_a_probe_that_fails_after_its_time_says_nothing_anywhere(caplog: pytest.LogCaptureFixture):
    def status() -> str:
        under_test = make_test_service(ProbeRecord("a", [], does=fail_when_stopped))
        return under_test.run(lambda: ask(health_endpoint(Health(under_test.service, probe_s=0.01)))).json["status"]

    assert status() == "degraded"
    gc.collect()  # asyncio logs an exception of a task that was never retrieved
    assert [record.name for record in caplog.records] == ["accord.health"]


def test_a_failing_store_is_reported_to_load_balancers_and_its_reason_is_logged(
    under_test: ServiceUnderTest, caplog: pytest.LogCaptureFixture
):
    async def closed() -> list[Given]:
        await under_test.store.close()
        return [await ask(under_test.routes[f"/health{rest}"]) for rest in ("", "/ready", "/live")]

    answers = under_test.run(closed)
    assert [(given.status, given.json["status"]) for given in answers] == [
        (503, "degraded"),
        (503, "degraded"),
        (200, "ok"),
    ]
    assert answers[1].headers["retry-after"] == "5"
    (record,) = caplog.records
    assert vars(record)["fields"] == {"part": "store", "why": "The session store is not open"}


def test_a_process_is_ready_without_asking_any_backend():
    backend = ProbeRecord("a", [], does=fail)
    under_test = make_test_service(backend)
    assert under_test.ask("/health/ready").status == 200
    assert backend.probes == 0


@pytest.mark.parametrize(("passed", "is_new"), [(0.9, False), (1.0, True)])
def test_the_store_is_probed_once_a_second(under_test: ServiceUnderTest, passed: float, is_new: bool):
    async def twice() -> list[int]:
        first = await ask(under_test.routes["/health/ready"])
        await under_test.store.close()
        under_test.clock.seconds += passed
        return [first.status, (await ask(under_test.routes["/health/ready"])).status]

    assert under_test.run(twice) == [200, 503 if is_new else 200]


def test_a_stopping_service_is_in_maintenance_and_probes_nothing():
    backend = ProbeRecord("a", [])
    under_test = make_test_service(backend)
    under_test.service.is_draining = True
    for path in ("/health", "/health/ready"):
        given = under_test.ask(path)
        assert (given.status, given.json["status"], given.headers["retry-after"]) == (503, "maintenance", "5")
    assert under_test.ask("/health/live").status == 200
    assert backend.probes == 0


@pytest.mark.parametrize(("passed", "probes"), [(0.0, 1), (4.9, 1), (5.0, 2)])
def test_asking_often_probes_once_in_five_seconds(passed: float, probes: int):
    backend = ProbeRecord("a", [])
    under_test = make_test_service(backend)

    async def often() -> None:
        await asyncio.gather(*(ask(under_test.routes["/health"]) for _ in range(20)))
        under_test.clock.seconds += passed
        await asyncio.gather(*(ask(under_test.routes["/health"]) for _ in range(20)))

    under_test.run(often)
    assert backend.probes == probes


def test_a_client_that_disconnects_does_not_cancel_the_probe_for_others():
    begun, going_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        await going_on.wait()

    under_test = make_test_service(ProbeRecord("a", [], does=wait))

    async def leave() -> Given:
        first = asyncio.create_task(ask(under_test.routes["/health"]))
        await begun.wait()
        second = asyncio.create_task(ask(under_test.routes["/health"]))
        first.cancel()
        going_on.set()
        return await second

    assert under_test.run(leave).json["status"] == "ok"


def test_a_probe_that_cannot_be_stopped_is_not_begun_again():
    backend = ProbeRecord("a", [], does=cling)
    under_test = make_test_service(backend)
    health = health_endpoint(Health(under_test.service, probe_s=0.01, backends_cached_s=0))
    CLINGING.append(True)

    async def twice() -> list[Given]:
        try:
            return [await ask(health), await ask(health)]
        finally:
            CLINGING.clear()

    assert [given.json["status"] for given in under_test.run(twice)] == ["degraded", "degraded"]
    assert backend.probes == 1


def test_capabilities_list_what_the_agent_accepts_and_each_backend_supports(under_test: ServiceUnderTest):
    response = ServiceCapabilities.parse(under_test.ask("/v1/capabilities").body)
    assert response.agent.declared == {"image": True, "embeddedContext": True}
    assert response.agent.accepts == ["text", "resource_link", "image", "resource"]
    assert [(backend.name, backend.manifest.model_dump()) for backend in response.backends] == [
        ("local", {"streaming": "native"})
    ]
    assert response.text_profiles == ["plain", "speech"]
    assert "citation_block" in response.events


def test_capabilities_list_performed_emulations_without_their_prompts(under_test: ServiceUnderTest):
    given = under_test.ask("/v1/capabilities")
    emulations = given.json["emulations"]
    assert emulations["json_mode"] == "post_processing"
    assert emulations["vision"] == "system_prompt_injection"
    assert "logprobs" not in emulations
    assert "code_execution" not in emulations
    assert PROMPT.encode() not in given.body


def a_request() -> ServiceRequest:
    return ServiceRequest.model_validate(
        {
            "request_id": str(UUID(int=7)),
            "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
            "payload": {"query": "hi", "requirements": {"required": []}},
        }
    )


def test_capabilities_list_what_a_backend_refused_to_one_caller():
    refusing = ScriptedBackend("a", [[ScriptedFault(refused="streaming")]], {"streaming": "native"})
    under_test = make_test_service(refusing, ScriptedBackend("b", [["well"]], {"streaming": "native"}), agent=relay)

    async def turn_then_ask() -> Given:
        await under_test.service.sessions.collect(await under_test.service.sessions.begin(a_request()))
        return await ask(under_test.routes["/v1/capabilities"])

    response = ServiceCapabilities.parse(under_test.run(turn_then_ask).body)
    assert [(each.backend, each.capability, each.for_all) for each in response.remembered] == [
        ("a", "streaming", False)
    ]
    assert {backend.name: backend.refused for backend in response.backends} == {"a": [], "b": []}


def test_a_turn_is_in_the_metrics_when_it_is_over():
    under_test = make_test_service(ScriptedBackend("a", [["well"]], {"streaming": "native"}), agent=relay)

    async def turn_then_ask() -> Given:
        await under_test.service.sessions.collect(await under_test.service.sessions.begin(a_request()))
        await under_test.service.sessions.drain(10)
        return await ask(under_test.routes["/metrics"])

    given = under_test.run(turn_then_ask)
    assert given.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b'accord_turns_total{outcome="done"} 1.0' in given.body
    assert b"accord_running_turns 0.0" in given.body


def test_the_contract_is_valid_openapi_that_names_the_agent(under_test: ServiceUnderTest):
    document = under_test.ask("/openapi.json").json
    OpenAPIV31SpecValidator(document).validate()
    assert document["info"]["title"] == "Accord: demo"
    assert document["info"]["version"] == "1.2.3"


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
@pytest.mark.parametrize(
    ("if_none_match_value", "status"),
    [("{}", 304), ("W/{}", 304), ('"other", {}', 304), ("*", 304), ('"other"', 200), ("", 200)],
)
def test_a_client_that_has_the_contract_gets_304(
    under_test: ServiceUnderTest, path: str, if_none_match_value: str, status: int
):
    tag = under_test.ask(path).headers["etag"]
    given = under_test.ask(path, if_none_match=if_none_match_value.format(tag))
    assert given.status == status
    assert given.headers["etag"] == tag
    assert bool(given.body) is (status == 200)


def test_the_page_lets_nothing_in_from_anywhere(under_test: ServiceUnderTest):
    given = under_test.ask("/docs")
    page = given.body.decode()
    assert given.headers["content-type"] == "text/html; charset=utf-8"
    assert given.headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert not any(word in page for word in ("<script", "src=", "@import", "url(", "http://", "https://"))


@pytest.mark.parametrize("path", PATHS)
def test_asking_for_the_head_gives_the_same_headers_and_no_body(under_test: ServiceUnderTest, path: str):
    whole, head = under_test.ask(path), under_test.ask(path, "HEAD")
    assert head.body == b""
    assert head.status == whole.status == 200
    assert head.headers.keys() == whole.headers.keys()
    assert int(whole.headers["content-length"]) == len(whole.body)
    assert int(head.headers["content-length"]) > 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_information_endpoints_support_get_and_head_only(under_test: ServiceUnderTest, path: str, method: str):
    token = REQUEST_ID.set("r1")
    try:
        given = under_test.ask(path, method)
    finally:
        REQUEST_ID.reset(token)
    response = ProblemBody.parse(given.body)
    assert (given.status, given.headers["allow"]) == (405, "GET, HEAD")
    assert given.headers["content-type"] == PROBLEM_MEDIA_TYPE
    assert (response.code, response.status, response.request_id) == ("method_not_found", 405, "r1")
