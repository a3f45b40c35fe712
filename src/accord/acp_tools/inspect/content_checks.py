"""Checks of what an agent takes in prompts: the baseline, what it declared, what it did not, and what is malformed."""

from typing import Final

from accord.acp_tools.inspect.probe import (
    BAD_BASE64,
    GOOD,
    MALFORMED,
    MAY,
    MUST,
    SHOULD,
    TEXT,
    AgentProbe,
    CheckTable,
    Needs,
)
from accord.acp_tools.inspect.replies import (
    CheckOutcome,
    judge_accepted,
    judge_empty,
    judge_error,
    judge_rejected,
    sentence,
    skipped,
)
from accord.core.prompt.verdict import FLAGS
from accord.wire.acp.content import ContentType

CONTENT: Final = CheckTable()
BASELINE: Final = "ACP schema: PromptRequest – text and resource_link are the baseline"
DECLARED: Final = "ACP schema: PromptCapabilities"
UNDECLARED: Final = "ACP schema: PromptCapabilities – opted in to; the draft: else -32602"
INVALID: Final = "JSON-RPC 2.0 §5.1: -32602 invalid params"
NAMES: Final = {ContentType.IMAGE: "an image", ContentType.AUDIO: "audio", ContentType.RESOURCE: "an embedded resource"}


@CONTENT.check("text", "text is accepted", BASELINE, MUST, Needs.SESSION)
async def _text(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    return judge_accepted(baseline, baseline, "Text")


@CONTENT.check("resource-link", "a resource link is accepted", BASELINE, MUST, Needs.SESSION)
async def _link(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    return judge_accepted(await probe.prompt(TEXT, GOOD[ContentType.RESOURCE_LINK]), baseline, "A resource link")


def _declared(kind: ContentType) -> None:
    what, flag = NAMES[kind], FLAGS[kind]

    @CONTENT.check(f"declared-{kind}", f"{what}, if declared, is accepted", DECLARED, MUST, Needs.SESSION)
    async def _accepts(probe: AgentProbe) -> CheckOutcome:
        if not probe.declaration.accepts(kind):
            return skipped(f"{flag} is not declared")
        baseline = await probe.baseline()
        return judge_accepted(await probe.prompt(TEXT, GOOD[kind]), baseline, sentence(what))

    @CONTENT.check(f"undeclared-{kind}", f"{what}, if not declared, is rejected", UNDECLARED, MUST, Needs.SESSION)
    async def _rejects(probe: AgentProbe) -> CheckOutcome:
        if probe.declaration.accepts(kind):
            return skipped(f"{flag} is declared")
        baseline = await probe.baseline()
        return judge_rejected(await probe.prompt(TEXT, GOOD[kind]), baseline, sentence(what))


def _malformed(own: str) -> None:
    what, block = MALFORMED[own]

    @CONTENT.check(own, f"{what} is rejected", INVALID, SHOULD, Needs.SESSION)
    async def _rejects(probe: AgentProbe) -> CheckOutcome:
        baseline = await probe.baseline()
        return judge_rejected(await probe.prompt(TEXT, block), baseline, sentence(what))


for _kind in FLAGS:
    _declared(_kind)
for _own in MALFORMED:
    _malformed(_own)


@CONTENT.check("bad-base64", "data that is no base64 is rejected", INVALID, SHOULD, Needs.SESSION)
async def _bad_base64(probe: AgentProbe) -> CheckOutcome:
    block = next((block for kind, block in BAD_BASE64.items() if probe.declaration.accepts(kind)), None)
    if block is None:
        return skipped("Nothing that carries base64 is declared")
    baseline = await probe.baseline()
    return judge_rejected(await probe.prompt(TEXT, block), baseline, f"Bad base64 in a block of type {block['type']}")


@CONTENT.check(
    "empty-prompt", "an empty prompt is answered or rejected", "ACP schema: PromptRequest", MAY, Needs.SESSION
)
async def _empty(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    return judge_empty(await probe.prompt(), baseline)


@CONTENT.check("unknown-session", "a prompt to no session gets an error", "ACP: Session Setup", SHOULD)
async def _unknown_session(probe: AgentProbe) -> CheckOutcome:
    return judge_error(await probe.prompt(TEXT, session="accord-no-session"), None, "A prompt to an unknown session")
