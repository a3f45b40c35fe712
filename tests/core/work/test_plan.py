"""A plan names the backend and its compromises; a refusal explains itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.choose import PRESET, preset_config
from accord.core.work.plan import MAX_CACHED_REQUIREMENTS, REFUSED_BEFORE, Candidate, PlanConfig, plan, shared_plan
from accord.errors import ErrorCode
from accord.wire.emulation import EmulationConfig, SystemPromptInjection
from accord.wire.manifest import CapabilityManifest
from accord.wire.plan import Plan, Refusal, UnknownPolicy, WorkPolicy
from accord.wire.work import WorkOrder

STRICT, STANDARD, PERMISSIVE = WorkPolicy


def backend(name: str, refused: frozenset[str] = frozenset(), /, **levels: Any) -> Candidate:
    return Candidate(name, CapabilityManifest.model_validate(levels), refused)


def needing(*names: str, preferred: tuple[str, ...] = (), level: str = "emulated", **order: Any) -> WorkOrder:
    def listed(wanted: tuple[str, ...]) -> list[dict[str, str]]:
        return [{"capability": name, "min_support": level} for name in wanted]

    requirements = {"required": listed(names), "preferred": listed(preferred)}
    return WorkOrder.model_validate({"requirements": requirements, **order})


def planned(order: WorkOrder, *candidates: Candidate, **config: Any) -> Plan:
    outcome = plan(order, candidates, PlanConfig(**config))
    assert isinstance(outcome, Plan), outcome
    return outcome


def refused(order: WorkOrder, *candidates: Candidate, **config: Any) -> Refusal:
    outcome = plan(order, candidates, PlanConfig(**config))
    assert isinstance(outcome, Refusal), outcome
    return outcome


def test_the_backend_with_the_fewest_compromises_is_chosen():
    outcome = planned(
        needing("streaming", "tool_use"),
        backend("emulates", streaming="emulated", tool_use="emulated"),
        backend("native", streaming="native", tool_use="native"),
        backend("half", streaming="native", tool_use="emulated"),
        backend("cannot", streaming="native"),
    )
    assert outcome.backend == "native"
    assert [offer.backend for offer in outcome.fallbacks] == ["half", "emulates"]
    assert {defeat.backend: defeat.why for defeat in outcome.lost} == {
        "emulates": "2 compromises against 0 of native",
        "half": "1 compromises against 0 of native",
        "cannot": "tool_use (not declared)",
    }


def test_the_operators_order_decides_between_equal_backends():
    twins = (backend("first", streaming="native"), backend("second", streaming="native"))
    outcome = planned(needing("streaming"), *twins)
    assert outcome.backend == "first"
    assert outcome.lost[0].why == "as good as first, which the operator lists first"


DERIVED: list[tuple[dict[str, Any], str]] = [
    ({"conversation": {"messages": [{"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": ""}]}]}}, "image_input"),
    ({"conversation": {"messages": [{"role": "user", "content": [{"type": "audio", "media_type": "audio/wav", "data": ""}]}]}}, "audio"),
    ({"conversation": {"messages": [{"role": "user", "content": [{"type": "resource", "uri": "u", "media_type": "application/pdf", "data": ""}]}]}}, "pdf_input"),
    ({"conversation": {"messages": [{"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image", "media_type": "image/png", "data": ""}]}]}]}}, "image_input"),
    ({"conversation": {"messages": [{"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_result", "tool_use_id": "2", "content": [{"type": "image", "media_type": "image/png", "data": ""}]}]}]}]}}, "image_input"),
    ({"response_schema": {}}, "structured_output_json_schema"),
    ({"json_mode": True}, "json_mode"),
    ({"tools": [{"name": "calc"}]}, "tool_use"),
    ({"stream": True}, "streaming"),
    ({"stop_sequences": ["END"]}, "stop_sequences"),
    ({"thinking": True}, "extended_thinking"),
]  # fmt: skip


@pytest.mark.parametrize(("order", "capability"), DERIVED)
def test_what_the_work_contains_is_required(order: dict[str, Any], capability: str):
    outcome = planned(needing(**order), backend("a", **{capability: "native"}))
    assert [(need.capability, need.required) for need in outcome.needs] == [(capability, True)]
    refusal = refused(needing(**order), backend("b", **{capability: "unsupported"}), emulation=disabled(capability))
    assert refusal.offers[0].missing[0].capability == capability


EVERYTHING: dict[str, Any] = {
    "response_schema": {},
    "json_mode": True,
    "tools": [{"name": "calc"}],
    "stop_sequences": ["END"],
    "stream": True,
    "conversation": {
        "messages": [
            {"role": "system", "content": []},
            {"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": ""}]},
        ]
    },
}
"""An order on which every emulation has something to perform."""


def disabled(*names: str) -> EmulationConfig:
    return EmulationConfig.model_validate(
        {"strategies": {name: {"type": "disabled", "reason": "off"} for name in names}}
    )


def test_a_stated_requirement_is_not_derived_again():
    order = needing("function_calling", level="native", tools=[{"name": "calc"}])
    assert [need.capability for need in planned(order, backend("a", tool_use="native")).needs] == ["function_calling"]


def test_work_that_needs_nothing_goes_to_the_first_backend():
    assert planned(needing(), backend("a"), backend("b")).backend == "a"


# --- decision 12 ---


def test_decision_12_what_is_missing_is_emulated_by_accord_and_labelled_so():
    outcome = planned(needing("extended_thinking"), backend("a"))
    assert outcome.offer.negotiation.unsupported == ["extended_thinking"]
    assert [rescue.capability for rescue in outcome.rescues] == ["extended_thinking"]
    assert outcome.rescues[0].strategy.type == "system_prompt_injection"
    assert outcome.rescues[0].instead_of == "not declared"


def test_decision_12_what_the_backend_emulates_is_not_emulated_by_accord():
    outcome = planned(needing("extended_thinking"), backend("a", extended_thinking="emulated"))
    assert outcome.rescues == []
    assert outcome.offer.negotiation.emulatable == ["extended_thinking"]


def test_decision_12_work_that_requires_native_support_is_not_emulated():
    refusal = refused(needing("extended_thinking", level="native"), backend("a"))
    assert refusal.code is ErrorCode.CAPABILITY_UNSUPPORTED


def test_decision_12_a_strategy_that_no_emulation_performs_does_not_count():
    promised = EmulationConfig.model_validate(
        {"strategies": {"logprobs": {"type": "post_processing", "detail": "guess"}}}
    )
    assert refused(needing("logprobs"), backend("a"), emulation=promised).nearest == "a"


def test_decision_12_a_prompt_of_the_operators_counts_as_emulation():
    simulated = EmulationConfig.model_validate(
        {"strategies": {"code_execution": {"type": "system_prompt_injection", "prompt": "Simulate."}}}
    )
    assert planned(needing("code_execution"), backend("a"), emulation=simulated).rescues[0].strategy.type == (
        "system_prompt_injection"
    )


@pytest.mark.parametrize("capability", PRESET)
def test_decision_13_the_preset_is_opted_into(capability: str):
    outcome = planned(needing(capability, **EVERYTHING), backend("a"), emulation=preset_config())
    assert outcome.rescues[0].capability == capability


# --- policies ---


@pytest.mark.parametrize(
    ("policy", "level", "outcome"),
    [
        (STRICT, "native", "plan"),
        (STRICT, "emulated", "refusal"),
        (STRICT, None, "refusal"),
        (STANDARD, "native", "plan"),
        (STANDARD, "emulated", "plan"),
        (STANDARD, None, "refusal"),
        (PERMISSIVE, "native", "plan"),
        (PERMISSIVE, "emulated", "plan"),
        (PERMISSIVE, None, "loss"),
    ],
)
def test_each_policy_treats_each_level_differently(policy: WorkPolicy, level: str | None, outcome: str):
    candidate = backend("a", logprobs=level) if level else backend("a")
    found = plan(needing("logprobs"), [candidate], PlanConfig(policy=policy))
    if outcome == "refusal":
        assert isinstance(found, Refusal)
        return
    assert isinstance(found, Plan)
    assert [loss.capability for loss in found.offer.losses] == (["logprobs"] if outcome == "loss" else [])


def test_strict_never_emulates_and_never_tries():
    for name in ("extended_thinking", "logprobs"):
        refused(needing(name), backend("a"), policy=STRICT, unknown=UnknownPolicy.TRY, emulation=preset_config())


def test_strict_neither_emulates_nor_tries_what_is_only_preferred():
    outcome = planned(
        needing(preferred=("extended_thinking", "logprobs", "streaming")),
        backend("a", streaming="emulated"),
        policy=STRICT,
        unknown=UnknownPolicy.TRY,
        emulation=preset_config(),
    )
    assert (outcome.offer.rescues, outcome.offer.tried) == ([], [])
    assert [short.capability for short in outcome.offer.unmet] == ["extended_thinking", "logprobs", "streaming"]


def test_permissive_prefers_a_backend_that_loses_nothing():
    outcome = planned(
        needing("logprobs", "streaming", "tool_use"),
        backend("loses", streaming="native", tool_use="native"),
        backend("emulates", logprobs="emulated", streaming="emulated", tool_use="emulated"),
        policy=PERMISSIVE,
    )
    assert outcome.backend == "emulates"
    assert outcome.lost[0].why == "goes on without more: logprobs (not declared)"


def test_a_preference_never_refuses_but_decides_between_backends():
    order = needing(preferred=("logprobs",))
    assert planned(order, backend("a")).offer.unmet[0].capability == "logprobs"
    assert planned(order, backend("a"), backend("b", logprobs="native")).backend == "b"


# --- undeclared capabilities ---


def test_an_undeclared_capability_is_missing_unless_the_operator_allows_trying():
    refused(needing("logprobs"), backend("a"))
    outcome = planned(needing("logprobs"), backend("a"), unknown=UnknownPolicy.TRY)
    assert outcome.offer.tried == ["logprobs"]
    assert outcome.offer.compromises == 1


def test_a_capability_declared_unsupported_is_not_tried():
    refused(needing("logprobs"), backend("a", logprobs="unsupported"), unknown=UnknownPolicy.TRY)


def test_a_capability_that_the_endpoint_refused_is_missing():
    seen = backend("a", frozenset({"logprobs"}), logprobs="native")
    refusal = refused(needing("logprobs"), seen, unknown=UnknownPolicy.TRY)
    assert refusal.offers[0].missing[0].reason == REFUSED_BEFORE


@pytest.mark.parametrize(("refused_as", "declared_as", "required_as"), [
    ("image_input", "vision", "image_input"),
    ("vision", "image_input", "vision"),
    ("image_input", "vision", "vision"),
])  # fmt: skip
def test_a_refused_capability_is_refused_under_each_of_its_names(refused_as: str, declared_as: str, required_as: str):
    seen = backend("a", frozenset({refused_as}), **{declared_as: "native"})
    refusal = refused(needing(required_as, level="native"), seen)
    assert refusal.offers[0].missing[0].reason == REFUSED_BEFORE


# --- refusals explain themselves ---


def test_a_refusal_lists_needs_offers_the_nearest_backend_and_remedies():
    refusal = refused(
        needing("logprobs", "stop_sequences", level="native"),
        backend("far"),
        backend("near", logprobs="emulated", stop_sequences="native"),
    )
    assert refusal.nearest == "near"
    assert refusal.message == "No backend can do this work; nearest is near: logprobs (emulated is below native)"
    assert [need.because for need in refusal.needs] == ["required", "required"]
    assert [offer.backend for offer in refusal.offers] == ["far", "near"]
    assert [remedy.change for remedy in refusal.remedies] == [
        "require logprobs with min_support emulated instead of native",
        "use a backend that has it; `accord models --require logprobs` lists models",
        'set policy = "permissive" at the top of accord.toml: work goes on, and what is missing is recorded',
    ]


REMEDIES: list[tuple[WorkOrder, dict[str, Any], WorkPolicy, str]] = [
    (needing("stop_sequences"), {}, STANDARD, 'if a has it, set stop_sequences = "native" in its [backends.overrides] in accord.toml'),
    (needing("stop_sequences"), {}, STANDARD, 'set unknown = "try" at the top of accord.toml to try what is not declared'),
    (needing("stop_sequences"), {}, STANDARD, "run `accord backends probe a --write` to find out whether it has stop_sequences"),
    (needing("stop_sequences"), {}, STANDARD, "set stop_sequences = true under [emulation.preset] in accord.toml to have Accord emulate it"),
    (needing("stop_sequences", level="native"), {}, STANDARD, "set stop_sequences = true under [emulation.preset] in accord.toml to have Accord emulate it, and require stop_sequences with min_support emulated instead of native"),
    (needing("logprobs"), {"logprobs": "emulated"}, STRICT, 'set policy = "standard" in accord.toml, which accepts emulated support of logprobs'),
]  # fmt: skip


@pytest.mark.parametrize(("order", "levels", "policy", "change"), REMEDIES)
def test_each_shortfall_has_its_remedy(order: WorkOrder, levels: dict[str, Any], policy: WorkPolicy, change: str):
    refusal = refused(order, backend("a", **levels), policy=policy)
    assert change in [remedy.change for remedy in refusal.remedies]


def test_a_refusal_without_any_backend_says_that_none_is_configured():
    refusal = refused(needing())
    assert refusal.message == "No backend can do this work: none is configured"
    assert [remedy.change for remedy in refusal.remedies] == [
        "add a backend to accord.toml; `accord backends` shows how"
    ]


# --- caching ---


def test_orders_with_the_same_needs_get_the_same_plan_object():
    candidate, config = backend("a", streaming="native"), PlanConfig()
    first, second = (
        shared_plan(needing(stream=True, conversation=conversation), [candidate], config)
        for conversation in (HELLO, REPLY)
    )
    assert first is second


def test_an_equal_manifest_gets_the_same_plan_object():
    config = PlanConfig()
    first, second = (shared_plan(needing("streaming"), [backend("a", streaming="native")], config) for _ in range(2))
    assert first is second


HELLO, REPLY = (
    {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]} for text in ("hi", "and you?")
)


def test_a_changed_manifest_or_strategy_is_planned_again():
    candidate, config = backend("a", logprobs="native"), PlanConfig()
    order = needing("logprobs")
    assert isinstance(plan(order, [candidate], config), Plan)
    del candidate.manifest.root["logprobs"]
    assert isinstance(plan(order, [candidate], config), Refusal)
    config.emulation.set("logprobs", SystemPromptInjection(prompt="Guess them."))
    assert isinstance(plan(order, [candidate], config), Plan)


def test_work_with_very_many_requirements_is_not_cached():
    candidate, config = backend("a"), PlanConfig(policy=PERMISSIVE)
    order = needing(*(f"c{number}" for number in range(MAX_CACHED_REQUIREMENTS + 1)))
    first, second = (plan(order, [candidate], config) for _ in range(2))
    assert first == second
    assert first is not second


# --- laws ---

NAMES = st.sampled_from(
    ["streaming", "tool_use", "vision", "image_input", "logprobs", "stop_sequences", "extended_thinking"]
)
LEVELS = st.sampled_from(["native", "emulated", "unsupported", {"restricted": {"reason": "r"}}])
MANIFESTS = st.dictionaries(NAMES, LEVELS)
CANDIDATES = st.lists(st.tuples(MANIFESTS, st.frozensets(NAMES, max_size=2)), max_size=4).map(
    lambda drawn: [backend(f"b{index}", refused, **manifest) for index, (manifest, refused) in enumerate(drawn)]
)
CONFIGS = st.builds(
    PlanConfig,
    policy=st.sampled_from(WorkPolicy),
    unknown=st.sampled_from(UnknownPolicy),
    emulation=st.sampled_from([EmulationConfig(), preset_config()]),
)
ORDERS = st.tuples(
    st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=2), st.sampled_from(["native", "emulated"])
).map(lambda drawn: needing(*drawn[0], preferred=tuple(drawn[1]), level=drawn[2]))


@given(ORDERS, CANDIDATES, CONFIGS)
def test_a_backend_with_something_missing_is_never_chosen(
    order: WorkOrder, candidates: list[Candidate], config: PlanConfig
):
    outcome = plan(order, candidates, config)
    if isinstance(outcome, Plan):
        assert outcome.offer.is_acceptable
        assert all(offer.is_acceptable for offer in outcome.fallbacks)
        assert len(outcome.lost) == len(candidates) - 1
    else:
        assert not any(offer.is_acceptable for offer in outcome.offers)


@given(ORDERS, CANDIDATES, CONFIGS)
def test_planning_is_deterministic_and_the_outcome_round_trips_through_json(
    order: WorkOrder, candidates: list[Candidate], config: PlanConfig
):
    outcome = plan(order, candidates, config)
    assert plan(order, candidates, config) == outcome
    assert type(outcome).model_validate(json.loads(outcome.to_json())) == outcome


@given(ORDERS, CANDIDATES, CONFIGS)
def test_a_cached_outcome_equals_a_computed_one(order: WorkOrder, candidates: list[Candidate], config: PlanConfig):
    anew = PlanConfig(config.policy, config.unknown, config.emulation.model_copy(deep=True))
    plan(order, candidates, config)
    assert plan(order, candidates, config) == plan(order, candidates, anew)


@given(ORDERS, CANDIDATES, CONFIGS)
def test_a_laxer_policy_never_refuses_more(order: WorkOrder, candidates: list[Candidate], config: PlanConfig):
    outcomes = [plan(order, candidates, PlanConfig(policy, config.unknown, config.emulation)) for policy in WorkPolicy]
    accepted = [isinstance(outcome, Plan) for outcome in outcomes]
    assert accepted == sorted(accepted)
