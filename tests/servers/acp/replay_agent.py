"""An agent that shows something of every kind; it is copied and started as a program."""

import asyncio
from collections.abc import AsyncIterator

from accord.agent import Agent, Turn, Yielded

agent = Agent(name="replay_agent", accepts={"image": True, "embeddedContext": True})


@agent
async def show(turn: Turn) -> AsyncIterator[Yielded]:
    """Show everything, or fail, wait or write much, as the prompt says."""
    if turn.text == "fail":
        yield turn.tool_call("1", "Try", status="in_progress")
        raise RuntimeError(turn.text)
    if turn.text == "wait":
        yield "Waiting."
        await asyncio.Event().wait()
    if turn.text.startswith("echo"):
        yield turn.text
        return
    yield turn.thought("Something of every kind.")
    yield turn.plan("Look", {"content": "Act", "status": "in_progress"})
    yield turn.progress("Reading", 0.5)
    yield turn.tool_call("1", "Edit a.py", {"type": "diff", "path": "/a.py", "oldText": "a", "newText": "b"})
    yield "One.\n\n"
    yield turn.event("custom", {"a": 1})
    yield turn.tool_call("1", "Edit a.py", status="completed")
    yield turn.tool_call("2", "Never ended", status="in_progress")
    yield turn.tool_call("3", "Delete build/", status="pending")
    granted = await turn.permission("Really delete build/?", call_id="3")
    yield f"Two: {granted.status}."
    if turn.text == "late":  # in the middle of a paragraph, where updates wait
        yield turn.tool_call("4", "Format the disk", status="pending")
        await turn.permission("Really?", call_id="4")
        yield " Three."
        await turn.permission("Only asked for", kind="other")
