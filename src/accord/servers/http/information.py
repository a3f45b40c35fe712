"""What a service reports about itself: health, capabilities, metrics, and its contract as JSON and as a page.

These endpoints only read. They do not authenticate (`app.RequireAuthentication` does), start no turn, and do not say
which part of the service fails.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, Final

from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from accord.core.output.profile import STANDARD_EVENTS
from accord.core.work.dispositions import effective_fields
from accord.core.work.emulation.choose import choose_emulations
from accord.core.work.fields import TABLE
from accord.engine.model_calls import ModelCalls, ModelCallsRef, backend_api
from accord.errors import ErrorCode, RefusedError
from accord.servers.http.documentation import documentation_page
from accord.servers.http.health import Health
from accord.servers.observability.logs import REQUEST_ID
from accord.servers.observability.metrics import Metrics
from accord.servers.service import RETRY_AFTER_S, Service
from accord.wire.capability import Capability
from accord.wire.disposition import Api, BackendFields, FieldFacts, FieldOutcome, ModelApis
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

_NO_STORE: Final = {"cache-control": "no-store"}


@dataclass(frozen=True, slots=True)
class InformationResponse:
    """A whole HTTP response."""

    body: bytes
    media_type: str
    status: int = 200
    headers: Mapping[str, str] | None = None


class ReadOnlyEndpoint:
    """The ASGI application of a path that supports GET and HEAD only."""

    def __init__(self, read: Callable[[Scope], Awaitable[InformationResponse]]) -> None:
        self._read: Final = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; its body is not read."""
        del receive
        if scope["method"] in ALLOWED:
            response = await self._read(scope)
        else:
            message = f"This method is not supported here; use {' or '.join(ALLOWED)}"
            error = RefusedError(message, ErrorCode.METHOD_NOT_FOUND, {"allowed": list(ALLOWED)})
            body = problem_body(error, request_id=REQUEST_ID.get()).to_json().encode()
            response = InformationResponse(body, PROBLEM_MEDIA_TYPE, error.facts.http, {"allow": ", ".join(ALLOWED)})
        headers = {
            "content-type": response.media_type,
            "content-length": str(len(response.body)),
            "x-content-type-options": "nosniff",
            **(response.headers or {}),
        }
        if response.status == 304:
            del headers["content-length"], headers["content-type"]
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": raw})
        await send({"type": "http.response.body", "body": response.body if scope["method"] != "HEAD" else b""})


def information_routes(
    service: Service, metrics: Metrics, calls: ModelCallsRef | None = None, *, emulation: EmulationConfig | None = None
) -> dict[str, ReadOnlyEndpoint]:
    """Every path of this file with its endpoint; `calls` answers the model APIs, if the service has them.

    Without `emulation`, that of the engine is reported.
    """
    return {
        **probe_routes(service, metrics),
        CAPABILITIES_PATH: capabilities_endpoint(service, emulation, calls),
        OPENAPI_PATH: openapi_endpoint(service),
        DOCS_PATH: docs_endpoint(service),
    }


def probe_routes(service: Service, metrics: Metrics) -> dict[str, ReadOnlyEndpoint]:
    """The paths for orchestrators and Prometheus, which workers have, too: health and metrics."""
    health = Health(service)
    return {
        HEALTH_PATH: health_endpoint(health),
        LIVE_PATH: live_endpoint(health),
        READY_PATH: ready_endpoint(health),
        METRICS_PATH: metrics_endpoint(metrics),
    }


def health_endpoint(health: Health) -> ReadOnlyEndpoint:
    """Health including the backends; 503 if the service is not ready."""

    async def read(_: Scope) -> InformationResponse:
        report = await health.check()
        return _health(report, is_ready=report.status is HealthCheckStatus.OK or await health.is_ready())

    return ReadOnlyEndpoint(read)


def live_endpoint(health: Health) -> ReadOnlyEndpoint:
    """200 as long as the process answers. Nothing is probed."""

    async def read(_: Scope) -> InformationResponse:
        return _health(health.report(HealthCheckStatus.OK), is_ready=True)

    return ReadOnlyEndpoint(read)


def ready_endpoint(health: Health) -> ReadOnlyEndpoint:
    """200 if this process can run turns, otherwise 503. No backend is probed."""

    async def read(_: Scope) -> InformationResponse:
        is_ready = await health.is_ready()
        return _health(health.report(health.status_of(is_well=is_ready)), is_ready=is_ready)

    return ReadOnlyEndpoint(read)


def _health(report: HealthCheckResponse, *, is_ready: bool) -> InformationResponse:
    body = report.to_json().encode()
    if is_ready:
        return InformationResponse(body, JSON, headers=_NO_STORE)
    return InformationResponse(body, JSON, 503, {**_NO_STORE, "retry-after": str(RETRY_AFTER_S)})


def capabilities_endpoint(
    service: Service, emulation: EmulationConfig | None = None, calls: ModelCallsRef | None = None
) -> ReadOnlyEndpoint:
    """What the agent accepts, what each backend supports, and how answers can be displayed."""

    async def read(_: Scope) -> InformationResponse:
        config = emulation or service.sessions.engine.dispatcher.config.emulation
        body = service_capabilities(service, config, calls).to_json().encode()
        return InformationResponse(body, JSON, headers=_NO_STORE)

    return ReadOnlyEndpoint(read)


def openapi_endpoint(service: Service) -> ReadOnlyEndpoint:
    """The contract as an OpenAPI document."""

    async def read(scope: Scope) -> InformationResponse:
        return _with_etag(scope, _openapi_json(service.sessions.engine.agent.name, service.version), JSON)

    return ReadOnlyEndpoint(read)


def docs_endpoint(service: Service) -> ReadOnlyEndpoint:
    """The contract as a page that loads nothing else."""

    async def read(scope: Scope) -> InformationResponse:
        page = _docs_page(service.sessions.engine.agent.name, service.version)
        return _with_etag(scope, page, HTML, {"content-security-policy": PAGE_POLICY})

    return ReadOnlyEndpoint(read)


def metrics_endpoint(metrics: Metrics) -> ReadOnlyEndpoint:
    """The metrics in the text format of Prometheus."""

    async def read(_: Scope) -> InformationResponse:
        await metrics.refresh()
        media_type, body = metrics.render()
        return InformationResponse(body, media_type, headers=_NO_STORE)

    return ReadOnlyEndpoint(read)


def service_capabilities(
    service: Service, emulation: EmulationConfig, calls: ModelCallsRef | None = None
) -> ServiceCapabilities:
    """The current capabilities of this service."""
    engine = service.sessions.engine
    # Only emulations that are performed: a strategy that is only a label is not one.
    performed = choose_emulations(
        emulation, dict.fromkeys((*map(str, Capability), *emulation.strategies))
    ).report.applied
    return ServiceCapabilities.model_validate(
        {
            "agent": engine.party,
            "agents": {name: each.party for name, each in service.sessions.engines.items()},
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
            "model_apis": None if calls is None else model_apis(calls.current),
        }
    )


def model_apis(calls: ModelCalls) -> ModelApis:
    """The table of fields of the model APIs, and what becomes of each field at each backend now."""
    return ModelApis.trusted(
        fields=_field_table(), backends={name: _backend_fields(calls, name) for name in calls.dispatcher.backends}
    )


@cache
def _field_table() -> dict[Api, dict[str, FieldFacts]]:
    return {
        api: {
            name: FieldFacts(kind=row.kind, capability=row.capability, note=row.note or None, backends=dict(row.cells))
            for name, row in rows.items()
        }
        for api, rows in TABLE.items()
    }


def _backend_fields(calls: ModelCalls, name: str) -> BackendFields:
    candidate, config = calls.dispatcher.candidate(name), calls.plan_config()
    kind, learned = backend_api(calls.dispatcher.backends[name]), calls.learned.listed(name)
    fields: dict[Api, dict[str, FieldOutcome]] = {}
    for api in TABLE:
        records = effective_fields(api, kind, candidate, config, frozenset(learned.get(api.value, ())))
        fields[api] = {
            name: FieldOutcome.trusted(
                disposition=record.disposition, reason=record.reason or None, learned=record.learned
            )
            for name, record in records.items()
        }
    return BackendFields.trusted(api=kind, fields=fields)


def _with_etag(
    scope: Scope, body: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> InformationResponse:
    """The body with its entity tag; 304 for a client that already has it."""
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache", **(headers or {})}
    known = b",".join(value for name, value in scope["headers"] if name == b"if-none-match").decode("latin-1")
    if any(each.strip().removeprefix("W/") in (tag, "*") for each in known.split(",")):
        return InformationResponse(b"", media_type, 304, headers)
    return InformationResponse(body, media_type, headers=headers)


# Cached: the document takes a tenth of a second, and depends on these two texts alone.
@cache
def _openapi_json(agent: str, version: str) -> bytes:
    return to_json(_contract(agent, version), indent=2)


@cache
def _docs_page(agent: str, version: str) -> bytes:
    return documentation_page(_contract(agent, version)).encode()


def _contract(agent: str, version: str) -> dict[str, Any]:
    from accord.wire.contract import ServiceContract  # noqa: PLC0415 - most services are never read this way

    return ServiceContract.document(title=f"Accord: {agent}", version=version)
