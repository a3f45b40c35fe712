"""What a service says of itself: health, capabilities, its contract as JSON and as a page, its numbers.

Plain ASGI callables that only read. Who may call them is decided before them; none of them asks the gate, begins a turn
or says which part of the service is not well.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Final

from pydantic_core import to_json
from starlette.types import ASGIApp, Receive, Scope, Send

from accord.core.output.profile import STANDARD_EVENTS
from accord.core.work.emulation.choose import choose_emulations
from accord.errors import AccordError, ErrorCode, RefusedError
from accord.servers.http.documentation import documentation_page
from accord.servers.http.health import Health
from accord.servers.observability.logs import REQUEST_ID
from accord.servers.observability.metrics import Metrics
from accord.servers.service import RETRY_AFTER_S, Service
from accord.wire.capability import Capability
from accord.wire.contract import ServiceContract
from accord.wire.emulation import EmulationConfig
from accord.wire.problem import PROBLEM_MEDIA_TYPE, problem_body
from accord.wire.receipt import BackendParty
from accord.wire.request import TextProfile
from accord.wire.routes import (
    CAPABILITIES_PATH,
    DOCS_PATH,
    HEALTH_PATH,
    LIVE_PATH,
    METRICS_PATH,
    OPENAPI_PATH,
    READY_PATH,
)
from accord.wire.service import HealthCheckResponse, HealthCheckStatus, ServiceCapabilities

JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
ALLOWED: Final = ("GET", "HEAD")
PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_NOT_KEPT: Final = {"cache-control": "no-store"}


@dataclass(frozen=True, slots=True)
class InformationResponse:
    """What is sent back."""

    body: bytes
    media_type: str
    status: int = 200
    headers: Mapping[str, str] | None = None


Reader = Callable[[Scope], Awaitable[InformationResponse]]


def information_routes(
    service: Service, metrics: Metrics, *, emulation: EmulationConfig | None = None
) -> dict[str, ASGIApp]:
    """Every path of this file with who answers it. `emulation` is what the operator chose."""
    health = Health(service)
    return {
        HEALTH_PATH: health_endpoint(health),
        LIVE_PATH: live_endpoint(health),
        READY_PATH: ready_endpoint(health),
        CAPABILITIES_PATH: capabilities_endpoint(service, emulation),
        OPENAPI_PATH: openapi_endpoint(service),
        DOCS_PATH: docs_endpoint(service),
        METRICS_PATH: metrics_endpoint(metrics),
    }


def health_endpoint(health: Health) -> ASGIApp:
    """Whether the service is well, backends included; 503 if it is not ready."""

    async def read(_: Scope) -> InformationResponse:
        report = await health.check()
        return _health(report, is_ready=report.status is HealthCheckStatus.OK or await health.is_ready())

    return _reading(read)


def live_endpoint(health: Health) -> ASGIApp:
    """That the process answers at all: nothing is probed."""

    async def read(_: Scope) -> InformationResponse:
        return _health(health.report(HealthCheckStatus.OK), is_ready=True)

    return _reading(read)


def ready_endpoint(health: Health) -> ASGIApp:
    """Whether this process can take turns: 200 or 503. No backend is probed."""

    async def read(_: Scope) -> InformationResponse:
        is_ready = await health.is_ready()
        return _health(health.report(health.status_of(is_well=is_ready)), is_ready=is_ready)

    return _reading(read)


def _health(report: HealthCheckResponse, *, is_ready: bool) -> InformationResponse:
    body = report.to_json().encode()
    if is_ready:
        return InformationResponse(body, JSON, headers=_NOT_KEPT)
    return InformationResponse(body, JSON, 503, {**_NOT_KEPT, "retry-after": str(RETRY_AFTER_S)})


def capabilities_endpoint(service: Service, emulation: EmulationConfig | None = None) -> ASGIApp:
    """What the agent takes, which backends can do what, and how it can be shown."""
    config = emulation or EmulationConfig()

    async def read(_: Scope) -> InformationResponse:
        return InformationResponse(service_capabilities(service, config).to_json().encode(), JSON, headers=_NOT_KEPT)

    return _reading(read)


def openapi_endpoint(service: Service) -> ASGIApp:
    """The contract."""

    async def read(scope: Scope) -> InformationResponse:
        return _unless_known(scope, _contract(*_named(service)), JSON)

    return _reading(read)


def docs_endpoint(service: Service) -> ASGIApp:
    """The contract as a page that needs nothing from anywhere."""

    async def read(scope: Scope) -> InformationResponse:
        return _unless_known(scope, _page(*_named(service)), HTML, {"content-security-policy": PAGE_POLICY})

    return _reading(read)


def metrics_endpoint(metrics: Metrics) -> ASGIApp:
    """The numbers, as Prometheus reads them."""

    async def read(_: Scope) -> InformationResponse:
        media_type, body = metrics.render()
        return InformationResponse(body, media_type, headers=_NOT_KEPT)

    return _reading(read)


def service_capabilities(service: Service, emulation: EmulationConfig) -> ServiceCapabilities:
    """What this service can do, as of now."""
    engine = service.sessions.engine
    # Only what somebody really performs: a label alone stands in for nothing.
    performed = choose_emulations(
        emulation, dict.fromkeys((*map(str, Capability), *emulation.strategies))
    ).report.applied
    return ServiceCapabilities.model_validate(
        {
            "agent": engine.party,
            "backends": [
                BackendParty(
                    name=candidate.name,
                    manifest=candidate.manifest,
                    refused=sorted(candidate.refused),
                    contradicted=sorted(candidate.contradicted) or None,
                )
                for candidate in engine.dispatcher.candidates()
            ],
            "emulations": {entry.capability: entry.strategy.type for entry in performed},
            "text_profiles": list(TextProfile),
            "events": sorted(STANDARD_EVENTS),
        }
    )


def _reading(read: Reader) -> ASGIApp:
    """The ASGI callable of something that can only be read."""

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - a body is not read
        answer = await read(scope) if scope["method"] in ALLOWED else _not_allowed()
        await _send(answer, send, with_body=scope["method"] != "HEAD")

    return endpoint


def _not_allowed() -> InformationResponse:
    error: AccordError = RefusedError("This can only be read", ErrorCode.METHOD_NOT_FOUND, {"allowed": list(ALLOWED)})
    body = problem_body(error, request_id=REQUEST_ID.get()).to_json().encode()
    return InformationResponse(body, PROBLEM_MEDIA_TYPE, error.facts.http, {"allow": ", ".join(ALLOWED)})


async def _send(answer: InformationResponse, send: Send, *, with_body: bool) -> None:
    headers = {
        "content-type": answer.media_type,
        "content-length": str(len(answer.body)),
        "x-content-type-options": "nosniff",
        **(answer.headers or {}),
    }
    if answer.status == 304:
        del headers["content-length"], headers["content-type"]
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.body if with_body else b""})


def _unless_known(
    scope: Scope, body: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> InformationResponse:
    """The body, or that it has not changed, to whoever has it already."""
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    told = {"etag": tag, "cache-control": "no-cache", **(headers or {})}
    if _knows(scope, tag):
        return InformationResponse(b"", media_type, 304, told)
    return InformationResponse(body, media_type, headers=told)


def _knows(scope: Scope, tag: str) -> bool:
    given = b",".join(value for name, value in scope["headers"] if name == b"if-none-match").decode("latin-1")
    return any(known.strip().removeprefix("W/") in (tag, "*") for known in given.split(","))


def _named(service: Service) -> tuple[str, str]:
    return f"Accord: {service.sessions.engine.agent.name}", service.version


# The document takes a tenth of a second, and follows from these two words alone.
@cache
def _contract(title: str, version: str) -> bytes:
    return to_json(ServiceContract.document(title=title, version=version), indent=2)


@cache
def _page(title: str, version: str) -> bytes:
    return documentation_page(ServiceContract.document(title=title, version=version)).encode()
