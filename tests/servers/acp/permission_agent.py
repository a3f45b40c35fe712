"""An agent that requests permission and answers with the outcome; it is copied and started as a program."""

import asyncio
from collections.abc import AsyncIterator

from accord.agent import Agent, Turn, Yielded

agent = Agent(name="permission_agent")

ALWAYS = {"allow": {"name": "Always", "kind": "allow_always"}, "no": {"name": "Never", "kind": "reject_always"}}


@agent
async def ask(turn: Turn) -> AsyncIterator[Yielded]:
    """Request permission in the way that the prompt names."""
    if turn.text == "first":
        granted = await turn.permission("Go on?", "This is why.", kind="execute", options=ALWAYS)
        yield f"{granted.status} {granted.option.kind if granted.option else granted.why}"
        return
    if turn.text == "both":
        found = await asyncio.gather(turn.permission("One"), turn.permission("Two"))
        yield " ".join(granted.status for granted in found)
        return
    if turn.text == "briefly":
        try:
            async with asyncio.timeout(0.2):
                await turn.permission("Quick")
        except TimeoutError:
            yield "too late"
        return
    for number in range(200):
        yield f"{number} "
    yield turn.tool_call("1", "Delete build/", kind="delete", status="pending")
    diff = {"type": "diff", "path": "/a", "oldText": "b", "newText": ""}
    granted = await turn.permission("Really delete build/?", diff, call_id="1", locations=[{"path": "/a"}])
    if granted:
        yield turn.tool_call("1", "Delete build/", "gone", status="completed")
    yield f"{granted.status} {granted.option.id if granted.option else granted.why}"
