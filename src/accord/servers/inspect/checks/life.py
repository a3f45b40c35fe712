"""Checks of how a turn is cancelled and how an agent ends, and of what all checks together showed. They run last."""

import asyncio
from typing import Final

from accord.core.inspect.contents import LONG_WORK
from accord.core.inspect.judge import Outcome, failed, judge_cancelled, judge_noise, own_error, passed, skipped
from accord.core.inspect.reply import Answered, Refused, Silent, tell
from accord.core.rpc import call_line
from accord.servers.inspect.check import MUST, SHOULD, CheckTable, Needs
from accord.servers.inspect.probe import Probe

LIFE: Final = CheckTable()
TOO_QUICK_S: Final = 0.3


@LIFE.check(
    "cancel", "session/cancel ends a turn as cancelled", "ACP: Prompt Turn – cancellation", SHOULD, Needs.SESSION
)
async def _cancel(probe: Probe) -> Outcome:
    baseline = await probe.baseline()
    talk = await probe.agent()
    own, since, is_draft = talk.next_id(), len(talk.states), probe.introduction.version >= 2
    waiting = talk.expect(own)
    await talk.send(call_line(own, "session/prompt", {"sessionId": talk.session, "prompt": [LONG_WORK]}))
    # The same future all along: a reply that comes between two waits is not lost. In the draft it says that the prompt
    # was taken; what is cancelled before that never was a turn.
    await asyncio.wait({waiting}, timeout=talk.timeout_s if is_draft else min(TOO_QUICK_S, talk.timeout_s))
    early = waiting.result() if waiting.done() else Silent(TOO_QUICK_S)
    if isinstance(early, Refused) or (isinstance(early, Answered) and not is_draft):
        why = "answered with an error of its own" if own_error(early) else "ended the turn before it could be cancelled"
        return skipped(f"The agent {why}: {tell(early)}", early)
    clock = asyncio.get_running_loop().time
    cancelled_at = clock()
    await talk.notify("session/cancel", {"sessionId": talk.session})
    wait = talk.state_within(since, talk.timeout_s) if is_draft else talk.reply(waiting, own)
    reply = await wait
    talk.is_tired = talk.is_tired or isinstance(reply, Silent)
    return judge_cancelled(reply, baseline, clock() - cancelled_at)


@LIFE.check("ends", "the agent ends when its input does", "ACP: Transports – stdio", SHOULD)
async def _ends(probe: Probe) -> Outcome:
    talk = await probe.fresh(introduced=True)
    if await talk.ended_within(talk.timeout_s):
        return passed("The agent ended when its input was closed")
    return failed(f"The agent still ran {talk.timeout_s:g} s after its input was closed")


@LIFE.check("stays", "nothing that was sent ended the agent", "JSON-RPC 2.0 §5: a request gets a response", MUST)
async def _stays(probe: Probe) -> Outcome:
    await probe.end_lingering()
    if probe.crashed_in:
        return failed(f"The agent ended during: {', '.join(probe.crashed_in)}")
    return passed("The agent outlived every check")


@LIFE.check("clean-stdout", "nothing but messages on stdout", "ACP: Transports – stdio", MUST, Needs.NOTHING)
async def _clean(probe: Probe) -> Outcome:
    return judge_noise(probe.noise_so_far())
