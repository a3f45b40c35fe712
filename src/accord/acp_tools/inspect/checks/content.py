"""Content in prompts: what is declared is accepted and reaches the model, what is not is rejected."""

from dataclasses import replace
from typing import Final

from accord.acp.content import ContentType
from accord.acp_tools.inspect.blocks import BAD_BASE64, GOOD, MALFORMED, TEXT, Block
from accord.acp_tools.inspect.checks.table import MAY, MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.fake_model import explain_absence
from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Reply,
    Silent,
    capitalize,
    judge_accepted,
    judge_empty,
    judge_rejected,
    not_applicable,
    not_judged,
    silent_text,
)
from accord.acp_tools.inspect.sent_content import content_fate
from accord.core.prompt.verdict import FLAGS
from accord.wire.inspection import CheckGroup, ContentFate

BASELINE: Final = "ACP schema: PromptRequest – text and resource_link are the baseline"
DECLARED: Final = "ACP schema: PromptCapabilities"
UNDECLARED: Final = "ACP schema: PromptCapabilities – binds the client; the draft: else -32602"
INVALID: Final = "JSON-RPC 2.0 §5.1: -32602 invalid params"

NAMES: Final = {ContentType.IMAGE: "an image", ContentType.AUDIO: "audio", ContentType.RESOURCE: "an embedded resource"}

CONTENT: Final = CheckTable(CheckGroup.CONTENT)


async def _send(probe: AgentProbe, block: Block) -> tuple[Reply, ContentFate | None]:
    """Send text and this block; returns the reply, and what reached the fake model."""
    marker, text = probe.marked_text()
    reply = await probe.prompt(text, block)
    return reply, content_fate(probe.inspection.model, marker, block)


@CONTENT.check("text", "text is accepted", BASELINE, MUST, Needs.SESSION)
async def _text(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    outcome = replace(judge_accepted(baseline, baseline, "Text"), lines=await probe.baseline_lines())
    model = probe.inspection.model
    if isinstance(baseline, Answered) and model is not None and not model.requests:
        reason = explain_absence(model.refused_request())
        return replace(outcome, observed=f"{outcome.observed}; {reason[:1].lower()}{reason[1:]}")
    return outcome


def _add_accepted_check(check_id: str, kind: ContentType, what: str, clause: str, flag: str | None) -> None:
    title = f"{what}{', if declared,' if flag else ''} is accepted"

    @CONTENT.check(check_id, title, clause, MUST, Needs.SESSION)
    async def _accepts(probe: AgentProbe) -> CheckOutcome:
        if not probe.declaration.accepts(kind):
            return not_applicable(f"{flag} is not declared")
        baseline = await probe.baseline()
        if isinstance(baseline, Silent):
            return not_judged(silent_text(baseline))
        reply, fate = await _send(probe, GOOD[kind])
        return judge_accepted(reply, baseline, capitalize(what), fate)


def _add_rejected_check(kind: ContentType) -> None:
    what, flag = NAMES[kind], FLAGS[kind]
    title = f"{what}, if not declared, is rejected"

    # Under version 1 the client must not send what is not declared; only the draft requires the agent to reject it.
    @CONTENT.check(f"undeclared-{kind}", title, UNDECLARED, SHOULD, Needs.SESSION, draft_level=MUST)
    async def _rejects(probe: AgentProbe) -> CheckOutcome:
        if probe.declaration.accepts(kind):
            return not_applicable(f"{flag} is declared")
        return await _judge_rejected(probe, GOOD[kind], what)


def _add_malformed_check(check_id: str) -> None:
    what, block = MALFORMED[check_id]

    @CONTENT.check(check_id, f"{what} is rejected", INVALID, SHOULD, Needs.SESSION)
    async def _rejects(probe: AgentProbe) -> CheckOutcome:
        return await _judge_rejected(probe, block, what)


async def _judge_rejected(probe: AgentProbe, block: Block, what: str) -> CheckOutcome:
    baseline = await probe.baseline()
    if isinstance(baseline, Silent):
        return not_judged(silent_text(baseline))
    reply, fate = await _send(probe, block)
    outcome = replace(judge_rejected(reply, baseline, capitalize(what), fate), lines=probe.lines())
    await probe.prompt_text_again(what)
    return outcome


_add_accepted_check("resource-link", ContentType.RESOURCE_LINK, "a resource link", BASELINE, None)
for _kind in FLAGS:
    _add_accepted_check(f"declared-{_kind}", _kind, NAMES[_kind], DECLARED, FLAGS[_kind])
    _add_rejected_check(_kind)
for _name in MALFORMED:
    _add_malformed_check(_name)


@CONTENT.check("bad-base64", "data that is not base64 is rejected", INVALID, SHOULD, Needs.SESSION)
async def _bad_base64(probe: AgentProbe) -> CheckOutcome:
    block = next((block for kind, block in BAD_BASE64.items() if probe.declaration.accepts(kind)), None)
    if block is None:
        return not_applicable("No content that carries base64 is declared")
    return await _judge_rejected(probe, block, f"bad base64 in a block of type {block['type']}")


@CONTENT.check(
    "empty-prompt", "an empty prompt is answered or rejected", "ACP schema: PromptRequest", MAY, Needs.SESSION
)
async def _empty(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    if isinstance(baseline, Silent):
        return not_judged(silent_text(baseline))
    outcome = replace(judge_empty(await probe.prompt(), baseline), lines=probe.lines())
    await probe.prompt_text_again("an empty prompt")
    return outcome


@CONTENT.check(
    "text-blocks", "several text blocks in one prompt are accepted", BASELINE, MUST, Needs.SESSION, quick=False
)
async def _text_blocks(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    if isinstance(baseline, Silent):
        return not_judged(silent_text(baseline))
    reply, fate = await _send(probe, TEXT)
    return judge_accepted(reply, baseline, "A prompt of two text blocks", fate)
