"""`POST /v1/plan` over ASGI: the decision for every backend, and that nothing runs."""

import json
from typing import Any

import pytest

from accord.agents import relay
from accord.backends.scripted import ScriptedBackend
from accord.config import ServerConfig
from accord.core.work.emulation.choose import preset_config
from accord.core.work.plan import PlanConfig
from accord.run import Dispatcher, Engine, Sessions
from accord.servers.http.app import Application
from accord.servers.http.authentication import unauthenticated
from accord.servers.http.plan import MAX_REQUIREMENTS
from accord.servers.service import AllowAll, Caller, Headers, NullObserver, Service
from accord.stores.memory import MemoryStore
from accord.wire.plan import PlanResponse
from tests.servers.transports import Answered, InMemory, within

BACKENDS = {
    "small": {"streaming": "native", "json_mode": "emulated"},
    "large": {"streaming": "native", "json_mode": "native", "tool_use": "native"},
    "other": {"streaming": "native", "acme_search": "native"},
}


def post(
    body: Any, *, authenticator: AllowAll | None = None, scripted: list[ScriptedBackend] | None = None
) -> Answered:
    backends = [ScriptedBackend(name, [["hi"]], declared) for name, declared in BACKENDS.items()]
    if scripted is not None:
        scripted.extend(backends)
    dispatcher = Dispatcher(backends, config=PlanConfig(emulation=preset_config(["tool_use"])))
    sessions = Sessions(Engine(relay, dispatcher), MemoryStore())
    service = Service(sessions, ServerConfig(), authenticator or AllowAll(), NullObserver(), "1.0")
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return within(lambda: InMemory(Application(service)).call("POST", "/v1/plan", content))


def ask(*required: str, level: str = "emulated", **members: Any) -> PlanResponse:
    needs = [{"capability": name, "min_support": level} for name in required]
    answered = post({"requirements": {"required": needs}, **members})
    assert (answered.status, answered.headers["content-type"]) == (200, "application/json")
    return PlanResponse.parse(answered.content)


def test_a_plan_names_the_backend_and_why_each_other_one_lost():
    plan = ask("json_mode").plan
    assert plan is not None
    assert plan.backend == "large"
    assert [(lost.backend, lost.why) for lost in plan.lost] == [
        ("small", "1 compromises against 0 of large"),
        ("other", "json_mode (not declared)"),
    ]


def test_what_accord_would_emulate_is_labelled_with_its_strategy_and_needs_no_work_to_emulate():
    plan = ask("tool_use", "acme_search").plan
    assert plan is not None
    assert plan.backend == "other"
    [rescue] = plan.offer.rescues
    assert (rescue.capability, rescue.strategy.type) == ("tool_use", "post_processing")


def test_a_refusal_is_an_answer_with_the_offer_of_every_backend():
    answer = ask("tool_use", "json_mode", "acme_search", level="native")
    assert answer.plan is None
    assert answer.refusal is not None
    assert [offer.backend for offer in answer.refusal.offers] == list(BACKENDS)
    assert all(offer.missing for offer in answer.refusal.offers)
    assert answer.refusal.remedies


@pytest.mark.parametrize(
    ("members", "backend", "policy"),
    [({}, "other", "standard"), ({"policy": "strict"}, None, None), ({"policy": "permissive"}, "other", "permissive")],
)
def test_the_policy_is_the_operators_unless_the_request_has_one(
    members: dict[str, Any], backend: str | None, policy: str | None
):
    plan = ask("tool_use", "acme_search", **members).plan
    assert (plan and plan.backend, plan and plan.policy) == (backend, policy)


def test_without_requirements_every_backend_will_do_and_the_first_is_chosen():
    plan = ask().plan
    assert plan is not None
    assert plan.backend == "small"
    assert {lost.why for lost in plan.lost} == {"as good as small, which the operator lists first"}


@pytest.mark.parametrize(
    ("names", "warnings"),
    [
        (["json_mode", "acme_search"], []),
        (["vison"], ['unknown capability "vison"; did you mean vision?']),
        (["warp_drive"], ['unknown capability "warp_drive"; `accord capabilities` lists the known ones']),
    ],
)
def test_names_that_are_neither_known_nor_declared_give_a_warning(names: list[str], warnings: list[str]):
    assert ask(*names).warnings == warnings


def test_what_is_preferred_only_is_planned_as_well():
    preferred = [
        {"capability": "tool_use", "min_support": "native"},
        {"capability": "warp_drive", "min_support": "native"},
    ]
    answer = PlanResponse.parse(post({"requirements": {"preferred": preferred}}).content)
    assert answer.plan is not None
    assert answer.plan.backend == "large"
    assert len(answer.warnings) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        ({}, 400),
        ({"requirements": {"required": [{"capability": "streaming", "min_support": "nativ"}]}}, 400),
        ({"requirements": {}, "policy": "lenient"}, 400),
        (
            {
                "requirements": {
                    "required": [{"capability": "streaming", "min_support": "native"}] * (MAX_REQUIREMENTS + 1)
                }
            },
            400,
        ),
        (b'{"requirements": {}, "more": "' + b"x" * 70_000 + b'"}', 413),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_plan_request_is_refused_with_a_problem(body: Any, status: int):
    answered = post(body)
    assert (answered.status, answered.headers["content-type"]) == (status, "application/problem+json")


def test_no_backend_is_called():
    scripted: list[ScriptedBackend] = []
    assert post({"requirements": {}}, scripted=scripted).status == 200
    assert [backend.orders for backend in scripted] == [[], [], []]


def test_a_caller_without_a_valid_token_gets_no_plan():
    class RefuseAll(AllowAll):
        async def authenticate(self, headers: Headers) -> Caller:  # noqa: ARG002 - no token would help
            raise unauthenticated("No caller is known")

    assert post({"requirements": {}}, authenticator=RefuseAll()).status == 401
