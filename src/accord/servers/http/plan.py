"""`POST /v1/plan`: which backend would do work with these requirements, and why the others would not. Nothing runs."""

from collections.abc import Container
from dataclasses import replace
from typing import Final

from accord.core.vocabulary import unknown_name_warnings
from accord.core.work.plan import plan_requirements
from accord.errors import ErrorCode, RefusedError
from accord.servers.http.body import read_small_body
from accord.servers.http.exchange import Exchange, HttpEndpoint
from accord.servers.service import Service, visible_backends
from accord.wire.plan import Plan, PlanRequest, PlanResponse
from accord.wire.routes import PLAN_PATH

MAX_REQUIREMENTS: Final = 100


def plan_endpoint(service: Service) -> HttpEndpoint:
    """The endpoint of the path."""

    async def decide(exchange: Exchange) -> int:
        request = PlanRequest.parse(await read_small_body(exchange.receive, exchange.headers, service.settings))
        visible = visible_backends(service, exchange.caller)
        return await exchange.answer(decide_plan(service, request, visible, exchange.caller.id or ""))

    return HttpEndpoint(service, PLAN_PATH, {"POST": decide})


def decide_plan(service: Service, request: PlanRequest, visible: Container[str], caller: str = "") -> PlanResponse:
    """The decision of those of the current backends that are visible, for this caller."""
    requirements = request.requirements
    names = [need.capability for need in (*requirements.required, *requirements.preferred)]
    if len(names) > MAX_REQUIREMENTS:
        message = f"There are {len(names)} requirements; state at most {MAX_REQUIREMENTS}"
        raise RefusedError(message, ErrorCode.INVALID_MESSAGE, {"field": "requirements", "max": MAX_REQUIREMENTS})
    dispatcher = service.sessions.engine.dispatcher
    candidates = [each for each in dispatcher.candidates(caller) if each.name in visible]
    config = dispatcher.config
    outcome = plan_requirements(requirements, candidates, replace(config, policy=request.policy or config.policy))
    declared = {name for candidate in candidates for name in candidate.manifest}
    warnings = unknown_name_warnings(names, declared)
    if isinstance(outcome, Plan):
        return PlanResponse(plan=outcome, warnings=warnings)
    return PlanResponse(refusal=outcome, warnings=warnings)
