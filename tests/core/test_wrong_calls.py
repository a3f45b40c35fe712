"""Wrong calls of the library: each raises an error of Accord that says what to pass instead."""

from collections.abc import Callable
from typing import Any

import pytest

import accord
from accord import (
    CapabilityManifest,
    CapabilityRequirements,
    ClientAdapter,
    ClientCapabilities,
    ContentValidator,
    Conversation,
    EmulationEngine,
    StreamPacket,
    WorkOrder,
    apply_emulation,
    can_emulate,
    check_capability,
    generate_report,
    negotiate,
    plan,
)
from accord.core.work.plan import Candidate, PlanConfig
from accord.errors import InvalidMessageError, UsageError

Call = Callable[[], Any]

MANIFEST: dict[str, Any] = {"streaming": "native", "tool_bash": {"restricted": {"reason": "sandbox"}}}
NEEDS: dict[str, Any] = {"required": [{"capability": "streaming", "min_support": "native"}]}
TALK: dict[str, Any] = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}
VOICE: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
any_call: Any = accord
"""The same functions without their types: these calls are wrong on purpose."""

WRONG: list[tuple[Call, type[Exception], str]] = [
    (
        lambda: any_call.negotiate(MANIFEST),
        TypeError,
        "negotiate() missing 1 required positional argument: 'requirements'",
    ),
    (
        lambda: any_call.negotiate("streaming", NEEDS),
        UsageError,
        'manifest: expected CapabilityManifest or a dict such as {"streaming": "native"}, not str',
    ),
    (
        lambda: any_call.negotiate(MANIFEST, ["streaming"]),
        UsageError,
        (
            "requirements: expected CapabilityRequirements or a dict such as "
            '{"required": [{"capability": "streaming", "min_support": "native"}]}, not list'
        ),
    ),
    (
        lambda: negotiate(MANIFEST, {"required": ["streaming"]}),
        InvalidMessageError,
        (
            "Not a valid CapabilityRequirements: required.0: Input should be a valid dictionary or instance of "
            "CapabilityRequirement"
        ),
    ),
    (
        lambda: negotiate({"streaming": "full"}, NEEDS),
        InvalidMessageError,
        (
            "Not a valid CapabilityManifest: streaming.literal['native','emulated','unsupported']: Input should be "
            "'native', 'emulated' or 'unsupported'; streaming.Restricted: Input should be a valid dictionary or instance "
            "of Restricted"
        ),
    ),
    (
        lambda: any_call.check_capability(None, "streaming"),
        UsageError,
        'manifest: expected CapabilityManifest or a dict such as {"streaming": "native"}, not NoneType',
    ),
    (
        lambda: any_call.check_capability(MANIFEST, 7),
        UsageError,
        'capability: expected a name such as "streaming", not int',
    ),
    (
        lambda: any_call.generate_report("fine"),
        UsageError,
        (
            "result: expected NegotiationResult or a dict such as "
            '{"native": ["streaming"], "emulatable": [], "unsupported": []}, not str'
        ),
    ),
    (
        lambda: any_call.ClientAdapter().feed("hello"),
        UsageError,
        'packet: expected StreamPacket or a dict such as {"op": "delta", "p": "Hello"}, not str',
    ),
    (
        lambda: ClientAdapter().feed({"op": "delta"}),
        InvalidMessageError,
        "Not a valid StreamPacket: delta.p: Field required",
    ),
    (
        lambda: any_call.ClientAdapter("voice"),
        UsageError,
        (
            "declared: expected ClientCapabilities or a dict such as "
            '{"supported_events": [], "prefers_markdown": False}, not str'
        ),
    ),
    (
        lambda: ContentValidator({}).validate([], context="promt"),
        UsageError,
        'context: unknown context "promt"; did you mean prompt?',
    ),
    (
        lambda: ContentValidator({}, policies={"weather": "warn"}),
        UsageError,
        'context: unknown context "weather"; known are prompt, tool_result, session_update',
    ),
    (
        lambda: ContentValidator({}, policies={"prompt": "wran"}),
        UsageError,
        'policies: unknown policy "wran"; did you mean warn?',
    ),
    (
        lambda: any_call.EmulationEngine("defaults"),
        UsageError,
        (
            "config: expected EmulationConfig or a dict such as "
            '{"strategies": {"extended_thinking": {"type": "disabled", "reason": "too slow"}}}, not str'
        ),
    ),
    (
        lambda: any_call.EmulationEngine.with_defaults().apply(7, Conversation()),
        UsageError,
        'capabilities: expected names such as ["streaming"], not int',
    ),
    (
        lambda: any_call.EmulationEngine.with_defaults().apply([7], Conversation()),
        UsageError,
        'capability: expected a name such as "streaming", not int',
    ),
    (
        lambda: any_call.default_strategy(None),
        UsageError,
        'capability: expected a name such as "streaming", not NoneType',
    ),
    (
        lambda: any_call.EmulationConfig().set("extended_thinking", "think"),
        UsageError,
        (
            "strategy: expected EmulationStrategy or a dict such as "
            '{"type": "system_prompt_injection", "prompt": "Think step by step."}, not str'
        ),
    ),
    (
        lambda: any_call.EmulationConfig().set("extended_thinking", {"type": "magic"}),
        InvalidMessageError,
        (
            "Not a valid EmulationStrategy: (the message): 'type' should be one of "
            "system_prompt_injection, post_processing, disabled"
        ),
    ),
    (
        lambda: any_call.EmulationConfig().set(7, {"type": "disabled", "reason": "no"}),
        UsageError,
        'capability: expected a name such as "streaming", not int',
    ),
    (
        lambda: any_call.EmulationEngine.with_defaults().apply(["extended_thinking"], "Hello"),
        UsageError,
        (
            "conversation: expected Conversation or a dict such as "
            '{"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}, not str'
        ),
    ),
    (
        lambda: any_call.plan("Hello", [], PlanConfig()),
        UsageError,
        'order: expected WorkOrder or a dict such as {"conversation": {"messages": []}}, not str',
    ),
    (
        lambda: any_call.plan(WorkOrder(), [{"name": "a"}], PlanConfig()),
        UsageError,
        (
            'candidates: expected Candidate(name, manifest) or {"name": "local", "manifest": {"streaming": "native"}}, '
            "not {'name': 'a'}"
        ),
    ),
    (
        lambda: any_call.plan(WorkOrder(), {"name": "a", "manifest": {}}),
        UsageError,
        'candidates: expected a list of {"name": "local", "manifest": {"streaming": "native"}}, not dict',
    ),
    (
        lambda: any_call.PlanConfig(policy="strikt"),
        UsageError,
        'policy: unknown policy "strikt"; did you mean strict?',
    ),
    (
        lambda: any_call.SupportLevel.NATIVE.satisfies("nativ"),
        UsageError,
        'minimum: unknown level "nativ"; use native or emulated',
    ),
    (
        lambda: negotiate({"ToolUse": "native", "tool_use": "unsupported"}, NEEDS),
        InvalidMessageError,
        "Not a valid CapabilityManifest: (the message): Each capability should be declared once, in one spelling",
    ),
    (
        lambda: any_call.plan(WorkOrder(), [], {}),
        UsageError,
        "config: expected a PlanConfig such as PlanConfig(), not dict",
    ),
]


@pytest.mark.parametrize(("call", "error", "sentence"), WRONG, ids=[sentence[:40] for _, _, sentence in WRONG])
def test_a_wrong_call_raises_an_error_that_says_what_to_pass(call: Call, error: type[Exception], sentence: str):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
    assert caught.value.__cause__ is None


def test_a_dict_is_accepted_wherever_a_model_is():
    manifest, needs = CapabilityManifest.model_validate(MANIFEST), CapabilityRequirements.model_validate(NEEDS)
    result = negotiate(manifest, needs)
    assert negotiate(MANIFEST, NEEDS) == negotiate(manifest, NEEDS) == negotiate(MANIFEST, needs) == result
    assert generate_report(result.model_dump()) == generate_report(result)
    assert check_capability(MANIFEST, "tool_bash") == check_capability(manifest, "ToolBash")
    assert check_capability(manifest, "tool_bash").model_dump() == {
        "level": "emulated",
        "strategy": "restricted: sandbox",
    }
    order = {"conversation": TALK}
    candidates = [Candidate("a", manifest)]
    assert plan(order, candidates, PlanConfig()) == plan(WorkOrder.model_validate(order), candidates, PlanConfig())


def test_a_stream_of_dicts_is_adapted_as_packets_are():
    packets: list[dict[str, Any]] = [
        {"op": "delta", "p": "**Bold** "},
        {"op": "event", "p": {"type": "progress_indicator", "data": {"label": "Reading", "status": "running"}}},
        {"op": "delta", "p": "text"},
        {"op": "close"},
    ]
    by_dict, by_model = ClientAdapter(VOICE), ClientAdapter(ClientCapabilities.model_validate(VOICE))
    for packet in packets:
        assert by_dict.feed(packet) == by_model.feed(StreamPacket.model_validate(packet))
    assert by_dict.report == by_model.report


@pytest.mark.parametrize("name", ["extended_thinking", "ExtendedThinking", accord.Capability.EXTENDED_THINKING])
def test_a_capability_may_be_spelled_in_each_way_and_a_dict_is_changed_in_place(name: str):
    parsed = Conversation.model_validate(TALK)
    report = EmulationEngine.with_defaults().apply([name], parsed)
    assert [entry.capability for entry in report.applied] == ["extended_thinking"]
    given = {"messages": list(TALK["messages"])}
    assert apply_emulation({}, [name], given) == report
    assert given == parsed.dump()
    assert given["messages"][0]["role"] == "system"
    assert can_emulate(name)


def test_content_may_be_any_iterable():
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/png", "data": "aGk="}]
    validator = ContentValidator({})
    assert list(validator.validate(iter(blocks)).results) == list(validator.validate(blocks).results) == [True, False]
    assert validator.validate(block for block in blocks).error == validator.validate(blocks).error
    assert not validator.validate({"type": "text", "text": "a"}).valid
