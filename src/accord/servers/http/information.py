"""What a service reports about itself: health, capabilities, metrics, and its contract as JSON and as a page.

These endpoints only read. They do not authenticate (`app.RequireAuthentication` does), start no turn, and do not say
which part of the service fails.
"""

from collections.abc import Container
from functools import cache
from typing import Any, Final

from pydantic_core import to_json
from starlette.types import Scope

from accord.core.output.profile import STANDARD_EVENTS
from accord.core.work.dispositions import effective_fields
from accord.core.work.emulation.choose import choose_emulations
from accord.core.work.fields import TABLE
from accord.core.work.plan import Candidate
from accord.run import Dispatcher
from accord.run.model_calls import ModelCalls, ModelCallsRef, backend_column
from accord.servers.http.documentation import documentation_page
from accord.servers.http.exchange import CALLER_KEY
from accord.servers.http.health import Health
from accord.servers.http.read_only import HTML, ReadOnlyEndpoint, ReadOnlyResponse, with_etag
from accord.servers.observability.metrics import Metrics
from accord.servers.service import ANONYMOUS, RETRY_AFTER_S, Service, is_operator, visible_backends
from accord.wire.capability import Capability
from accord.wire.disposition import Api, BackendFields, FieldFacts, FieldOutcome, ModelApis
from accord.wire.emulation import EmulationConfig
from accord.wire.receipt import BackendParty, EvidenceRecord
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
DOCS_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_NO_STORE: Final = {"cache-control": "no-store"}


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

    async def read(_: Scope) -> ReadOnlyResponse:
        report = await health.check()
        return _health(report, is_ready=report.status is HealthCheckStatus.OK or await health.is_ready())

    return ReadOnlyEndpoint(read)


def live_endpoint(health: Health) -> ReadOnlyEndpoint:
    """200 as long as the process answers. Nothing is probed."""

    async def read(_: Scope) -> ReadOnlyResponse:
        return _health(health.report(HealthCheckStatus.OK), is_ready=True)

    return ReadOnlyEndpoint(read)


def ready_endpoint(health: Health) -> ReadOnlyEndpoint:
    """200 if this process can run turns, otherwise 503. No backend is probed."""

    async def read(_: Scope) -> ReadOnlyResponse:
        is_ready = await health.is_ready()
        return _health(health.report(health.status_of(is_well=is_ready)), is_ready=is_ready)

    return ReadOnlyEndpoint(read)


def _health(report: HealthCheckResponse, *, is_ready: bool) -> ReadOnlyResponse:
    body = report.to_json().encode()
    if is_ready:
        return ReadOnlyResponse(body, JSON, headers=_NO_STORE)
    return ReadOnlyResponse(body, JSON, 503, {**_NO_STORE, "retry-after": str(RETRY_AFTER_S)})


def capabilities_endpoint(
    service: Service, emulation: EmulationConfig | None = None, calls: ModelCallsRef | None = None
) -> ReadOnlyEndpoint:
    """What the agent accepts, what each backend of the caller supports, and how answers can be displayed."""

    async def read(scope: Scope) -> ReadOnlyResponse:
        config = emulation or service.sessions.engine.dispatcher.config.emulation
        caller = scope.get(CALLER_KEY, ANONYMOUS)
        visible = None if is_operator(caller) else visible_backends(service, caller)
        body = service_capabilities(service, config, calls, visible).to_json().encode()
        return ReadOnlyResponse(body, JSON, headers=_NO_STORE)

    return ReadOnlyEndpoint(read)


def openapi_endpoint(service: Service) -> ReadOnlyEndpoint:
    """The contract as an OpenAPI document."""

    async def read(scope: Scope) -> ReadOnlyResponse:
        return with_etag(scope, _openapi_json(service.sessions.engine.agent.name, service.version), JSON)

    return ReadOnlyEndpoint(read)


def docs_endpoint(service: Service) -> ReadOnlyEndpoint:
    """The contract as a page that loads nothing else."""

    async def read(scope: Scope) -> ReadOnlyResponse:
        page = _docs_page(service.sessions.engine.agent.name, service.version)
        return with_etag(scope, page, HTML, {"content-security-policy": DOCS_POLICY})

    return ReadOnlyEndpoint(read)


def metrics_endpoint(metrics: Metrics) -> ReadOnlyEndpoint:
    """The metrics in the text format of Prometheus."""

    async def read(_: Scope) -> ReadOnlyResponse:
        await metrics.refresh()
        media_type, body = metrics.render()
        return ReadOnlyResponse(body, media_type, headers=_NO_STORE)

    return ReadOnlyEndpoint(read)


def service_capabilities(
    service: Service,
    emulation: EmulationConfig,
    calls: ModelCallsRef | None = None,
    visible: Container[str] | None = None,
) -> ServiceCapabilities:
    """The current capabilities of this service, with the backends that are visible; without any, for the operator."""
    engine = service.sessions.engine
    remembered = engine.dispatcher.refusals.listed()
    if visible is None:
        visible = engine.dispatcher.backends
    else:  # what counts for this caller, too; an example and a value are of a request of another one
        known = [each for each in remembered if each.for_all and each.backend in visible]
        remembered = [each.model_copy(update={"example": None, "value": None}) for each in known]
    candidates = [each for each in engine.dispatcher.candidates() if each.name in visible]
    # Only emulations that are performed: a strategy that is only a label is not one.
    performed = choose_emulations(
        emulation, dict.fromkeys((*map(str, Capability), *emulation.strategies))
    ).report.applied
    return ServiceCapabilities.model_validate(
        {
            "agent": engine.party,
            "agents": {name: each.party for name, each in service.sessions.engines.items()},
            "backends": [backend_party(engine.dispatcher, candidate) for candidate in candidates],
            "emulations": {entry.capability: entry.strategy.type for entry in performed},
            "text_profiles": list(TextProfile),
            "events": sorted(STANDARD_EVENTS),
            "remembered": remembered,
            "model_apis": None if calls is None else model_apis(calls.current, visible),
        }
    )


def backend_party(dispatcher: Dispatcher, candidate: Candidate) -> BackendParty:
    """A backend as it is now: its manifest, the source of each entry, and what contradicts it."""
    described = dispatcher.describe(candidate.name)
    return BackendParty(
        name=candidate.name,
        model=described.model,
        manifest=candidate.manifest,
        evidence={
            name: EvidenceRecord(source=each.source, date=each.date)
            for name, each in described.evidence.items()
            if name in candidate.manifest
        },
        refused=sorted(candidate.refused),
        contradicted=sorted(candidate.contradicted) or None,
    )


def model_apis(calls: ModelCalls, visible: Container[str]) -> ModelApis:
    """The table of fields of the model APIs, and what becomes of each field at each backend now."""
    backends = {name: _backend_fields(calls, name) for name in calls.dispatcher.backends if name in visible}
    return ModelApis(fields=_field_table(), backends=backends)


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
    column, refusals = backend_column(calls.dispatcher.backends[name]), calls.dispatcher.refusals
    fields: dict[Api, dict[str, FieldOutcome]] = {}
    for api in TABLE:
        records = effective_fields(api, column, candidate, config, refusals.members_of(name, api))
        fields[api] = {
            name: FieldOutcome(disposition=record.disposition, reason=record.reason or None, learned=record.learned)
            for name, record in records.items()
        }
    return BackendFields(api=column.api, fields=fields)


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
