"""An agent that sends one of each kind of event, without a key, a network or a model."""

from collections.abc import AsyncIterator
from typing import Final

from accord.agent import Agent, Turn, Yielded

PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="
)

demo = Agent(name="demo", accepts={"image": True, "embeddedContext": True})


@demo
async def _demo(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.progress("Reading your message", 0.3)
    yield turn.thought("A demo should show one of everything.")
    yield f"You said: **{turn.text or 'nothing'}**.\n\n"
    for number, block in enumerate(turn.content, start=1):
        yield f"{number}. a block of {block.type}\n"
    yield "\n| what | how |\n|---|---|\n| text | as it comes |\n| events | where your client shows them |\n\n"
    yield turn.citation(
        {"source_id": "acp", "uri": "https://agentclientprotocol.com", "title": "Agent Client Protocol"},
        {"source_id": "readme", "uri": "https://example.com/accord", "title": "Accord's own README"},
    )
    yield turn.media({"url": PIXEL, "mime_type": "image/png", "alt_text": "A single transparent pixel"})
    yield "```python\nprint('one line of code')\n```\n\n"
    yield turn.markdown("> A block of markdown stands on its own.\n")
    yield turn.user_error("This failed on purpose, to show a failure.", retryable=True)
    yield turn.progress("Done", 1.0, status="complete")
    yield "That is all."
