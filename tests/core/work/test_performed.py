"""Decision 12: an emulation that is planned is performed; what has nothing to perform is refused or listed as unused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import Emulation, PassthroughReader
from accord.core.work.emulation.choose import EMULATED_WORK, EMULATIONS, PRESET, choose_emulations, preset_config
from accord.core.work.emulation.run import PREPARE_ORDER, sort_emulations
from accord.core.work.plan import (
    MAX_CACHED_REQUIREMENTS,
    Candidate,
    PlanConfig,
    check_requirements,
    plan,
    plan_requirements,
    remove_unsupported,
)
from accord.wire.capability import canonical_name
from accord.wire.emulation import EmulationConfig
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements
from accord.wire.plan import Plan, Refusal, UnknownPolicy, WorkPolicy
from accord.wire.work import WorkOrder

STRICT, STANDARD, PERMISSIVE = WorkPolicy
NO_SCHEMA = "cannot be emulated: no schema is given"
GIVE_SCHEMA = "give the schema that the answer must match: schema of turn.ask, response_schema of a work order"
NO_JSON = "cannot be emulated: JSON is not requested"


def backend(name: str = "a", refused: frozenset[str] = frozenset(), /, **levels: Any) -> Candidate:
    return Candidate(name, CapabilityManifest.model_validate(levels), refused)


def said(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"conversation": {"messages": [{"role": role, "content": list(parts)}]}}


def stating(*names: str, level: str = "emulated") -> CapabilityRequirements:
    return CapabilityRequirements.model_validate(
        {"required": [{"capability": name, "min_support": level} for name in names]}
    )


IMAGE: dict[str, Any] = {"type": "image", "media_type": "image/png", "data": "aGk="}
CALL: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "calc", "input": {}}

# What is required, what the order contains, and what becomes of the requirement.
PERFORMED, UNUSED = "performed", "unused"
OUTCOMES: list[tuple[str, dict[str, Any], str]] = [
    ("structured_output_json_schema", {}, NO_SCHEMA),
    ("structured_output_json_schema", {"response_schema": {}}, PERFORMED),
    ("structured_output_json_schema", {"json_mode": True}, PERFORMED),
    ("json_mode", {}, NO_JSON),
    ("json_mode", {"json_mode": True}, PERFORMED),
    ("json_mode", {"response_schema": {}}, PERFORMED),
    ("tool_use", {}, UNUSED),
    ("tool_use", {"tools": [{"name": "calc"}]}, PERFORMED),
    ("tool_use", said("assistant", CALL), PERFORMED),
    ("function_calling", {}, UNUSED),
    ("function_calling", {"tools": [{"name": "calc"}]}, PERFORMED),
    ("stop_sequences", {}, UNUSED),
    ("stop_sequences", {"stop_sequences": ["END"]}, PERFORMED),
    ("streaming", {}, UNUSED),
    ("streaming", {"stream": True}, PERFORMED),
    ("image_input", {}, UNUSED),
    ("image_input", said("user", IMAGE), PERFORMED),
    ("vision", {}, UNUSED),
    ("vision", said("user", IMAGE), PERFORMED),
    ("system_message", {}, UNUSED),
    ("system_message", said("system", {"type": "text", "text": "Be brief."}), PERFORMED),
    ("system_message", {"tools": [{"name": "calc"}]}, PERFORMED),
    ("system_message", said("assistant", CALL), UNUSED),
    ("extended_thinking", {}, PERFORMED),
    ("extended_thinking", {"thinking": True}, PERFORMED),
]  # fmt: skip


@pytest.mark.parametrize(("required", "contents", "outcome"), OUTCOMES)
def test_decision_12_each_emulation_is_performed_refused_or_unused(
    required: str, contents: dict[str, Any], outcome: str
):
    order = WorkOrder.model_validate({"requirements": stating(required), **contents})
    found = plan(order, [backend()], PlanConfig(emulation=preset_config()))
    if outcome in (PERFORMED, UNUSED):
        assert isinstance(found, Plan)
        assert (required in [rescue.capability for rescue in found.rescues]) is (outcome == PERFORMED)
        assert (found.offer.unused or []) == ([required] if outcome == UNUSED else [])
    else:
        assert isinstance(found, Refusal)
        assert [(short.capability, short.reason) for short in found.offers[0].missing] == [(required, outcome)]


def test_every_emulation_is_in_the_table_with_and_without_its_work():
    for name in EMULATIONS:
        outcomes = {outcome for required, _, outcome in OUTCOMES if required == name}
        assert PERFORMED in outcomes
        assert len(outcomes) == (2 if name in EMULATED_WORK else 1), name


def test_the_refusal_says_what_to_pass():
    found = plan(WorkOrder(requirements=stating("structured_output_json_schema")), [backend()], PlanConfig())
    assert isinstance(found, Refusal)
    assert found.message == f"No backend can do this work; nearest is a: structured_output_json_schema ({NO_SCHEMA})"
    assert [remedy.change for remedy in found.remedies] == [
        GIVE_SCHEMA,
        "use a backend that has it; `accord models --require structured_output_json_schema` lists models",
        'set policy = "permissive" at the top of accord.toml: work goes on, and what is missing is recorded',
    ]


def test_an_operators_own_prompt_is_performed_without_a_schema():
    prompt = {"structured_output_json_schema": {"type": "system_prompt_injection", "prompt": "Answer in JSON."}}
    config = PlanConfig(emulation=EmulationConfig.model_validate({"strategies": prompt}))
    found = plan(WorkOrder(requirements=stating("structured_output_json_schema")), [backend()], config)
    assert isinstance(found, Plan)
    assert len(found.rescues) == 1


def test_what_is_only_preferred_and_has_nothing_to_perform_is_unmet():
    preferred = {"preferred": [{"capability": "structured_output_json_schema", "min_support": "emulated"}]}
    found = plan(WorkOrder.model_validate({"requirements": preferred}), [backend()], PlanConfig())
    assert isinstance(found, Plan)
    assert [(short.capability, short.reason) for short in found.offer.unmet] == [
        ("structured_output_json_schema", NO_SCHEMA)
    ]


def test_orders_that_differ_in_what_an_emulation_works_on_are_planned_apart():
    config = PlanConfig(emulation=preset_config())
    for required, contents in (
        ("tool_use", said("assistant", CALL)),
        ("system_message", said("system", {"type": "text", "text": "Be brief."})),
    ):
        for fields, rescued in ((said("user"), []), (contents, [required])):
            order = WorkOrder.model_validate({"requirements": stating(required), **fields})
            found = plan(order, [backend()], config)
            assert isinstance(found, Plan)
            assert [rescue.capability for rescue in found.rescues] == rescued


def test_what_the_work_goes_on_without_gives_an_emulation_nothing_to_perform():
    order = WorkOrder(requirements=stating("structured_output_json_schema"), json_mode=True)
    found = plan(order, [backend()], PlanConfig(policy=PERMISSIVE))
    assert isinstance(found, Plan)
    assert found.rescues == []
    assert {loss.capability: loss.reason for loss in found.offer.losses} == {
        "json_mode": "not declared",
        "structured_output_json_schema": NO_SCHEMA,
    }


# --- laws ---

NAMES = st.sampled_from([*PRESET, "vision", "function_calling", "logprobs"])
LEVELS = st.sampled_from(["native", "emulated", "unsupported"])
CANDIDATES = st.lists(st.tuples(st.dictionaries(NAMES, LEVELS), st.frozensets(NAMES, max_size=2)), max_size=3).map(
    lambda drawn: [backend(f"b{index}", refused, **manifest) for index, (manifest, refused) in enumerate(drawn)]
)
REQUIREMENTS = st.lists(st.tuples(NAMES, st.sampled_from(["native", "emulated"])), max_size=3).map(
    lambda drawn: [{"capability": name, "min_support": level} for name, level in drawn]
)
CONFIGS = st.builds(
    PlanConfig,
    policy=st.sampled_from(WorkPolicy),
    unknown=st.sampled_from(UnknownPolicy),
    emulation=st.sampled_from([EmulationConfig(), preset_config()]),
)
TEXT: dict[str, Any] = {"type": "text", "text": "Hello"}
MESSAGES = st.lists(
    st.sampled_from([("system", TEXT), ("user", TEXT), ("user", IMAGE), ("assistant", CALL)]), max_size=3
).map(lambda drawn: [{"role": role, "content": [part]} for role, part in drawn])


def _order(
    required: list[dict[str, Any]], preferred: list[dict[str, Any]], messages: list[dict[str, Any]], **fields: Any
) -> WorkOrder:
    requirements = {"required": required, "preferred": preferred}
    return WorkOrder.model_validate({"requirements": requirements, "conversation": {"messages": messages}, **fields})


ORDERS = st.builds(
    _order,
    REQUIREMENTS,
    REQUIREMENTS,
    MESSAGES,
    response_schema=st.none() | st.builds(dict),
    json_mode=st.booleans(),
    tools=st.lists(st.just({"name": "calc"}), max_size=1),
    stop_sequences=st.lists(st.just("END"), max_size=1),
    stream=st.booleans(),
    thinking=st.booleans(),
)


def performed(order: WorkOrder, emulations: tuple[Emulation, ...]) -> set[str]:
    """The emulations that change this order or read its answer, as a run performs them."""
    names = {
        emulation.capability for emulation in emulations if not isinstance(emulation.reader(order), PassthroughReader)
    }
    for emulation in sort_emulations(emulations, PREPARE_ORDER):
        prepared = emulation.prepare(order).order
        if prepared != order:
            names.add(emulation.capability)
        order = prepared
    return names


@given(ORDERS, CANDIDATES, CONFIGS)
def test_decision_12_what_is_planned_as_emulated_is_performed_and_nothing_else_would_be(
    order: WorkOrder, candidates: list[Candidate], config: PlanConfig
):
    found = plan(order, candidates, config)
    if not isinstance(found, Plan):
        return
    sent = remove_unsupported(order, [loss.capability for loss in found.offer.losses])
    rescued = [rescue.capability for rescue in found.rescues]
    chosen = choose_emulations(config.emulation, rescued)
    assert performed(sent, chosen.emulations) == set(map(canonical_name, rescued))
    unused = found.offer.unused or []
    others = choose_emulations(config.emulation, [*rescued, *unused])
    assert performed(sent, others.emulations) == set(map(canonical_name, rescued))


@given(ORDERS, CANDIDATES, CONFIGS)
def test_every_requirement_is_in_exactly_one_place_of_an_offer(
    order: WorkOrder, candidates: list[Candidate], config: PlanConfig
):
    found = plan(order, candidates, config)
    for offer in [found.offer, *found.fallbacks] if isinstance(found, Plan) else found.offers:
        short = [each.capability for each in (*offer.missing, *offer.losses)]
        rescued = [rescue.capability for rescue in offer.rescues]
        places = [offer.negotiation.native, offer.negotiation.emulatable, short, rescued, offer.tried]
        for need in found.needs:
            if need.required and len([each for each in found.needs if each.capability == need.capability]) == 1:
                assert sum(need.capability in place for place in (*places, offer.unused or [])) == 1


@given(ORDERS, CANDIDATES, CONFIGS)
def test_requirements_that_are_refused_at_once_are_refused_for_every_order_that_states_them(
    order: WorkOrder, candidates: list[Candidate], config: PlanConfig
):
    if check_requirements(order.requirements, candidates, config) is not None:
        assert isinstance(plan(order, candidates, config), Refusal)


# --- the check of stated requirements ---


@pytest.mark.parametrize("capability", PRESET)
def test_a_stated_requirement_is_possible_if_fitting_work_could_be_emulated(capability: str):
    config = PlanConfig(emulation=preset_config())
    assert check_requirements(stating(capability), [backend()], config) is None
    assert check_requirements(stating(capability, level="native"), [backend()], config) is not None


@pytest.mark.parametrize(("candidates", "required", "config", "is_refused"), [
    ([], [], PlanConfig(), False),
    ([], ["streaming"], PlanConfig(), True),
    ([], ["streaming"], PlanConfig(policy=PERMISSIVE), True),
    ([backend()], ["logprobs"], PlanConfig(), True),
    ([backend()], ["logprobs"], PlanConfig(policy=PERMISSIVE), False),
    ([backend()], ["logprobs"], PlanConfig(unknown=UnknownPolicy.TRY), False),
    ([backend()], ["structured_output_json_schema"], PlanConfig(policy=STRICT), True),
    ([backend("a", logprobs="native"), backend("b", audio="native")], ["logprobs", "audio"], PlanConfig(), True),
    ([backend("a", logprobs="native"), backend("b", logprobs="native", audio="native")], ["logprobs", "audio"], PlanConfig(), False),
    ([backend("a", frozenset({"audio"}), audio="native")], ["audio"], PlanConfig(), True),
])  # fmt: skip
def test_stated_requirements_need_one_backend_that_meets_all_of_them(
    candidates: list[Candidate], required: list[str], config: PlanConfig, is_refused: bool
):
    assert (check_requirements(stating(*required), candidates, config) is not None) is is_refused


def test_what_is_preferred_is_never_refused_at_once():
    preferred = {"preferred": [{"capability": "logprobs", "min_support": "native"}]}
    assert check_requirements(CapabilityRequirements.model_validate(preferred), [], PlanConfig()) is None


@given(REQUIREMENTS, CANDIDATES, CONFIGS)
def test_the_refusal_at_once_is_the_one_that_a_plan_gives(
    required: list[dict[str, str]], candidates: list[Candidate], config: PlanConfig
):
    requirements = CapabilityRequirements.model_validate({"required": required})
    if (found := check_requirements(requirements, candidates, config)) is not None:
        assert check_requirements(requirements, candidates, config) is found
        bare = plan(WorkOrder(requirements=requirements), candidates, config)
        assert isinstance(bare, Refusal)
        assert found.needs == bare.needs
        assert [offer.backend for offer in found.offers] == [offer.backend for offer in bare.offers]
        assert len(found.remedies) > 0


@given(REQUIREMENTS, CANDIDATES, CONFIGS)
def test_requirements_alone_are_decided_for_every_backend(
    required: list[dict[str, str]], candidates: list[Candidate], config: PlanConfig
):
    requirements = CapabilityRequirements.model_validate({"required": required})
    found = plan_requirements(requirements, candidates, config)
    if isinstance(found, Plan):
        assert found.offer.is_acceptable
        assert sorted([found.backend, *(each.backend for each in found.lost)]) == sorted(
            each.name for each in candidates
        )
        assert all(each.why for each in found.lost)
        # Work that states no more and has nothing to emulate gets the same backends, or is refused for that reason.
        bare = plan(WorkOrder(requirements=requirements), candidates, config)
        assert isinstance(bare, Plan) or found.offer.rescues
    else:
        assert [offer.backend for offer in found.offers] == [each.name for each in candidates]
        assert not any(offer.is_acceptable for offer in found.offers)
    if required:
        assert (check_requirements(requirements, candidates, config) is None) is isinstance(found, Plan)


def test_very_many_stated_requirements_are_checked_without_the_cache():
    many = stating(*(f"c{number}" for number in range(MAX_CACHED_REQUIREMENTS + 1)))
    first, second = (check_requirements(many, [backend()], PlanConfig()) for _ in range(2))
    assert first == second
    assert first is not second


def test_a_changed_manifest_or_strategy_is_checked_again():
    candidate, config = backend("a", logprobs="native"), PlanConfig()
    assert check_requirements(stating("logprobs"), [candidate], config) is None
    del candidate.manifest.root["logprobs"]
    assert check_requirements(stating("logprobs"), [candidate], config) is not None
    config.emulation.set("logprobs", PRESET["extended_thinking"])
    assert check_requirements(stating("logprobs"), [candidate], config) is None
