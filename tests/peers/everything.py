"""An agent that yields one of everything that an editor can show, and waits when the prompt asks for it."""

import asyncio
from collections.abc import AsyncIterator

from accord.agent import Agent, Turn, Yielded

agent = Agent(name="everything", accepts={"image": True})


@agent
async def show(turn: Turn) -> AsyncIterator[Yielded]:
    """Yield one of everything."""
    yield turn.thought("Let me see.")
    yield turn.progress("Looking", 0.5)
    yield turn.plan({"content": "Look", "status": "completed"}, "Answer")
    yield turn.tool_call("1", "Read a file", "its text", {"type": "diff", "path": "/a", "newText": "b"}, kind="read")
    yield f"You said: {turn.text}"
    if turn.text == "chart":
        yield turn.event("chart", {"points": [1, 2]})
    if turn.text in ("ask", "ask for ever"):
        granted = await turn.permission("May I?", "Look here", call_id="1", kind="edit")
        yield f", {granted.status}"
    if turn.text == "wait":
        await asyncio.sleep(60)
