"""The library as its users write it: public names, documented calls, and every spelling of an argument."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import accord
from accord import (
    Candidate,
    Capability,
    CapabilityManifest,
    CapabilityRequirements,
    ClientAdapter,
    ClientCapabilities,
    ContentValidator,
    Conversation,
    Disabled,
    EmulationConfig,
    EmulationEngine,
    MinSupport,
    Plan,
    PlanConfig,
    PostProcessing,
    ReportedSupport,
    ServiceContract,
    StreamPacket,
    SupportLevel,
    SystemPromptInjection,
    apply_emulation,
    can_emulate,
    check_capability,
    default_strategy,
    errors,
    generate_report,
    negotiate,
    plan,
)
from accord.cli.options import read_requirements

DOCUMENTED = """
ServiceRequest, SessionContext, Identity, AgentRequest, ClientCapabilities, ServiceResponse, StreamPacket, StreamOpCode,
StreamError, ErrorSeverity, HealthCheckResponse, HealthCheckStatus, ChatMessage, Role, PresentationEvent,
PresentationEventType, CitationBlock, CitationItem, MediaCarousel, MediaItem, ProgressUpdate, MarkdownBlock,
ServiceContract,
Capability, SupportLevel, MinSupport, CapabilityManifest, CapabilityRequirement, CapabilityRequirements,
NegotiationResult, CompatibilityReport, check_capability, negotiate, generate_report, EmulationStrategy,
SystemPromptInjection, PostProcessing, Disabled, EmulationConfig, EmulationEngine, EmulationReport, EmulationEntry,
Conversation, default_strategy, can_emulate, apply_emulation,
PromptCapabilities, ContentBlock, ContentValidator, ValidationContext, ValidationPolicy,
Agent, Turn, ClientAdapter, AdaptationReport, WorkOrder, plan, Plan, Refusal, Receipt
""".replace(",", " ").split()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_documented_name_can_be_imported(name: str):
    assert name in accord.__all__
    assert getattr(accord, name).__name__ == name


@pytest.mark.parametrize("name", accord.__all__)
def test_every_public_name_is_what_its_module_calls_it(name: str):
    assert getattr(accord, name).__name__ == name


def test_every_error_is_public():
    kinds = [kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert set(kinds) <= set(accord.__all__)


WRAPS: list[Callable[[list[Any]], Iterable[Any]]] = [list, tuple, iter, lambda blocks: dict(enumerate(blocks)).values()]
CALLS = """
StreamPacket(op="delta", p="The"); StreamPacket.model_validate_json(b'{"op":"close"}').to_json()
manifest = CapabilityManifest.model_validate({"streaming": "native", "tool_bash": {"restricted": {"reason": "sandbox"}}})
needs = CapabilityRequirements.model_validate({"required": [{"capability": "streaming", "min_support": "native"}]})
result = negotiate(manifest, needs); result.is_compatible(); result.total(); result.native, result.emulatable, result.unsupported
negotiate({"streaming": "native"}, {"required": [{"capability": "streaming", "min_support": "native"}]})
check_capability(manifest, "tool_bash"); generate_report(result).summary
report = EmulationEngine.with_defaults().apply(["extended_thinking"], conversation)
report = EmulationEngine.with_defaults().apply([Capability.EXTENDED_THINKING], conversation)
report = EmulationEngine.with_defaults().apply(["ExtendedThinking"], conversation)
report.applied, report.warnings, report.is_empty(), report.has_unemulatable()
verdict = ContentValidator({"image": True}, protocol_version=1).validate(blocks, context="prompt")
verdict = ContentValidator({"image": True}).validate_json(raw_bytes_of_the_block_array); ContentValidator({}).validate_content_block(block)
verdict.valid, verdict.error, verdict.results
adapter = ClientAdapter(ClientCapabilities(supported_events=[], prefers_markdown=False))
packets = adapter.feed(packet); packets = adapter.close(); adapter.report
ServiceContract.generate_openapi()
"""


@pytest.mark.parametrize("packet", [{"op": "delta", "p": "**Hi**"}, StreamPacket(op="delta", p="**Hi**")])
@pytest.mark.parametrize("wrap", WRAPS)
def test_every_documented_call_works_as_written(packet: Any, wrap: Callable[[list[Any]], Iterable[Any]]):
    block = {"type": "text", "text": "Hi"}
    names: dict[str, Any] = {
        **{name: getattr(accord, name) for name in accord.__all__},
        "conversation": Conversation(),
        "blocks": wrap([block]),
        "block": block,
        "raw_bytes_of_the_block_array": b'[{"type":"text","text":"Hi"}]',
        "packet": packet,
    }
    for line in CALLS.strip().splitlines():
        exec(line, names)  # noqa: S102 - the lines above, as they are
    assert (names["result"].native, names["result"].total()) == (["streaming"], 1)
    assert [entry.capability for entry in names["report"].applied] == ["extended_thinking"]
    assert (names["verdict"].valid, names["verdict"].error, list(names["verdict"].results)) == (True, None, [True])
    assert [each.p for each in names["packets"]] == ["Hi"]
    assert names["adapter"].report.total() == 1


# --- capability names ---

SPELLINGS = [
    "extended_thinking",
    "ExtendedThinking",
    "EXTENDED_THINKING",
    "extendedThinking",
    Capability.EXTENDED_THINKING,
]
THINK = {"type": "system_prompt_injection", "prompt": "Think."}


def needing(name: str) -> dict[str, Any]:
    return {"required": [{"capability": name, "min_support": "native"}]}


def emulated_with(config: Any, names: Any) -> list[str]:
    return [entry.capability for entry in apply_emulation(config, names, Conversation()).applied]


def set_in_config(name: str) -> Any:
    config = EmulationConfig()
    config.set(name, SystemPromptInjection(prompt="Think."))
    return config.dump()


BY_NAME: dict[str, Callable[[str], Any]] = {
    "check_capability": lambda name: check_capability({"extended_thinking": "native"}, name).level,
    "a manifest": lambda name: CapabilityManifest.model_validate({name: "native"}).model_dump(),
    "a manifest's items": lambda name: CapabilityManifest.model_validate({"extended_thinking": "native"})[name].kind,
    "requirements": lambda name: negotiate({"extended_thinking": "native"}, needing(name)).native,
    "a lone name": lambda name: emulated_with({}, name),
    "a list of names": lambda name: emulated_with({}, [name]),
    "a strategy that is set": set_in_config,
    "a strategy in a dict": lambda name: EmulationConfig.model_validate({"strategies": {name: THINK}}).dump(),
    "default_strategy": lambda name: default_strategy(name).dump(),
    "can_emulate": can_emulate,
    "a plan": lambda name: plan(
        {"requirements": needing(name)},
        [Candidate("a", {name: "native"})],  # pyright: ignore[reportArgumentType]
    ).dump(),
    "a refused capability": lambda name: plan(
        {"requirements": needing(name)},
        [{"name": "a", "manifest": {name: "native"}, "refused": name}],
    ).dump(),
    "--require": lambda name: read_requirements([str(name)]).dump(),
}


@pytest.mark.parametrize("call", BY_NAME.values(), ids=BY_NAME)
@pytest.mark.parametrize("name", SPELLINGS)
def test_decision_11_every_spelling_of_a_name_means_the_same(call: Callable[[str], Any], name: str):
    assert call(name) == call("extended_thinking")


@pytest.mark.parametrize(
    ("written", "name"),
    [("JSONMode", "json_mode"), ("TopP", "top_p"), ("MCPClient", "mcp_client"), ("H264Input", "h264_input")],
)
def test_decision_11_initials_are_one_word(written: str, name: str):
    assert list(CapabilityManifest.model_validate({written: "native"})) == [name]


@pytest.mark.parametrize("name", Capability)
def test_decision_11_every_known_name_is_read_as_reports_spell_it(name: Capability):
    (spelled, _), *_ = generate_report(negotiate({}, needing(name))).details
    assert check_capability({spelled: "native"}, name).level == "native"


# --- support levels ---


@pytest.mark.parametrize("text", ["native", "emulated", "unsupported"])
def test_a_level_equals_its_text(text: str):
    level = CapabilityManifest.model_validate({"streaming": text})["streaming"]
    assert level == text
    assert text == level
    assert level == getattr(SupportLevel, text.upper())
    assert hash(level) == hash(text)
    assert len({level, text}) == 1
    assert level != "restricted"
    assert level != None  # noqa: E711 - the comparison itself is tested


def test_a_restricted_level_is_made_with_its_reason():
    level = SupportLevel.restricted("sandbox")
    assert level.model_dump() == {"restricted": {"reason": "sandbox"}}
    assert (level.kind, level.reason, level.satisfies(MinSupport.EMULATED)) == ("restricted", "sandbox", True)
    assert level == SupportLevel.model_validate({"restricted": {"reason": "sandbox"}})
    assert level not in ("native", "restricted", SupportLevel.restricted("policy"))
    assert len({level, SupportLevel.restricted("sandbox")}) == 1


def test_the_answer_of_check_capability_has_a_public_type():
    assert isinstance(check_capability({"streaming": "native"}, "streaming"), ReportedSupport)


# --- dicts and models ---


def test_a_strategy_is_checked_when_it_is_set():
    config = EmulationConfig()
    config.set("code_execution", {"type": "disabled", "reason": "never"})
    config.set("logprobs", PostProcessing(detail="x"))
    assert config.strategies == {"code_execution": Disabled(reason="never"), "logprobs": PostProcessing(detail="x")}
    assert EmulationEngine(config.dump()).apply("code_execution", {"messages": []}).warnings == [
        "Capability CodeExecution not emulated: never"
    ]


def test_a_plan_takes_dicts_for_everything():
    order = {"requirements": {"required": [{"capability": "ToolUse", "min_support": "emulated"}]}}
    strategies = {"strategies": {"tool_use": {"type": "system_prompt_injection", "prompt": "Call tools."}}}
    config = PlanConfig(policy="permissive", emulation=strategies)  # pyright: ignore[reportArgumentType]
    planned = plan(order, [{"name": "a", "manifest": {"tool_use": "native"}}], config)
    assert isinstance(planned, Plan)
    assert planned == plan(
        accord.WorkOrder.model_validate(order),
        [Candidate("a", CapabilityManifest.model_validate({"tool_use": "native"}))],
        PlanConfig(policy=planned.policy, emulation=EmulationConfig.model_validate(strategies)),
    )


def test_an_adapter_takes_dicts_and_models():
    voice: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
    packets: list[dict[str, Any]] = [
        {"op": "delta", "p": "**Hi** "},
        {"op": "event", "p": {"type": "x"}},
        {"op": "close"},
    ]
    for declared in (voice, ClientCapabilities(**voice)):
        adapter = ClientAdapter(declared)
        assert [each.op for packet in packets for each in adapter.feed(packet)][-1] == "close"


def test_the_contract_is_a_path_item():
    assert set(ServiceContract.generate_openapi()) == {"post"}


def test_a_validator_takes_models_and_dicts():
    for declared in ({"image": True}, accord.PromptCapabilities(image=True), {"promptCapabilities": {"image": True}}):
        assert ContentValidator(declared).declaration.accepts("image")


def test_requirements_are_given_as_models_or_dicts():
    needs = CapabilityRequirements.model_validate(needing("streaming"))
    assert negotiate({"streaming": "native"}, needs) == negotiate({"streaming": "native"}, needs.dump())
