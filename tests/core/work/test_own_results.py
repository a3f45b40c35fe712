"""A result belongs to the caller who got it: changing it changes no other answer."""

from collections.abc import Callable
from typing import Any

import pytest

from accord import CapabilityManifest, CapabilityRequirements, Plan, Refusal, generate_report, negotiate, plan
from accord.wire.message import Message, Value

MANIFEST = CapabilityManifest.model_validate(
    {"streaming": "native", "tool_use": "emulated", "tool_bash": {"restricted": {"reason": "sandbox"}}}
)
NEEDS = CapabilityRequirements.model_validate(
    {
        "required": [
            {"capability": name, "min_support": "emulated"}
            for name in ("streaming", "tool_use", "tool_bash", "logprobs", "extended_thinking")
        ]
    }
)
ORDER = {"requirements": {"required": [{"capability": "streaming", "min_support": "native"}]}}
CANDIDATES = [{"name": name, "manifest": {"streaming": "native"}} for name in ("a", "b")]
IMPOSSIBLE = {"requirements": {"required": [{"capability": "logprobs", "min_support": "native"}]}}

ANSWERS: dict[str, Callable[[], Any]] = {
    "negotiate": lambda: negotiate(MANIFEST, NEEDS),
    "generate_report": lambda: generate_report(negotiate(MANIFEST, NEEDS)),
    "plan": lambda: plan(ORDER, CANDIDATES),
    "refusal": lambda: plan(IMPOSSIBLE, CANDIDATES),
}


def empty_all(value: Any) -> None:
    """Clear every list and dict that can be reached."""
    if isinstance(value, list | dict):
        items: list[Any] = list(value.values() if isinstance(value, dict) else value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        value.clear()
    else:
        names = value.__slots__ if isinstance(value, Value) else vars(value) if isinstance(value, Message) else ()
        items = [getattr(value, name) for name in names]
    for item in items:
        empty_all(item)


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_emptying_a_result_changes_no_other(answer: Callable[[], Any]):
    expected = answer().to_json()
    empty_all(answer())
    assert answer().to_json() == expected


def test_the_same_question_gets_the_same_answer_in_another_object():
    assert negotiate(MANIFEST, NEEDS) == negotiate(MANIFEST, NEEDS)
    assert negotiate(MANIFEST, NEEDS) is not negotiate(MANIFEST, NEEDS)


def test_results_of_the_same_size_have_reports_of_their_own():
    results = [
        negotiate({"streaming": "native"}, ORDER["requirements"]),
        negotiate(MANIFEST, IMPOSSIBLE["requirements"]),
    ]
    swapped = [result.model_copy(update={"native": ["seed"]}) for result in results]
    for result in (*results, *swapped, *results):
        assert [name for name, _ in generate_report(result).details] == [
            name.title().replace("_", "") for name in (*result.native, *result.emulatable, *result.unsupported)
        ]


def test_a_plan_is_made_from_dicts_too():
    planned = plan(ORDER, CANDIDATES)
    assert isinstance(planned, Plan)
    assert (planned.backend, [offer.backend for offer in planned.fallbacks]) == ("a", ["b"])
    assert isinstance(plan(IMPOSSIBLE, iter(CANDIDATES)), Refusal)
