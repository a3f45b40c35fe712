"""An agent for the tests of `accord chat`: the first word of the prompt says what it does."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from accord import Agent, PresentationEvent, Turn

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="
)
MARKDOWN = "# Title\n\nSome **bold** words and `code`.\n\n- one\n- two\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
Items = AsyncIterator[str | PresentationEvent]


async def markdown(_: Turn) -> Items:
    for char in MARKDOWN:
        yield char


async def events(turn: Turn) -> Items:
    yield turn.thought("I think about it.")
    yield turn.progress("Reading", 0.5)
    yield "A first paragraph.\n\n"
    yield turn.citation({"source_id": "a", "uri": "https://a.example/x", "title": "A source"})
    yield turn.media({"url": PIXEL, "mime_type": "image/png", "alt_text": "A pixel"})
    yield turn.user_error("The tool failed", code=7)
    yield "The end."


async def say(turn: Turn) -> Items:
    """Repeat a JSON text, character by character."""
    for char in json.loads(turn.text.partition(" ")[2]):
        yield char


async def wait(_: Turn) -> Items:
    """Wait until it is stopped, and leave a file then."""
    yield "Begun.\n\n"
    try:
        await asyncio.Event().wait()
    finally:
        os.close(os.open("stopped", os.O_CREAT))


async def gate(turn: Turn) -> Items:
    """Wait in the middle of a paragraph until the test makes a file."""
    yield turn.progress("Waiting at the gate", 0.25)
    yield "Before the gate, which is a paragraph that needs more than one row of the terminal, "
    async with asyncio.timeout(30):
        while not Path("gate").exists():  # noqa: ASYNC110, ASYNC240 - a file has no event
            await asyncio.sleep(0.02)
    yield "and after the gate."


async def words(turn: Turn) -> Items:
    for number in range(int(turn.text.split()[1])):
        yield f"w{number}{chr(10) * 2 if number % 50 == 49 else ' '}"


async def prints(_: Turn) -> Items:
    yield "One"
    print("printed by the agent")
    print("and as an error", file=sys.stderr)
    yield " paragraph."


async def fail(_: Turn) -> Items:
    yield "Soon it fails."
    raise ValueError("a defect of the agent")


async def block(_: Turn) -> Items:
    """Block the event loop, as a bad agent does, and leave a file before that."""
    yield "Blocking.\n\n"
    os.close(os.open("blocked", os.O_CREAT))
    time.sleep(300)  # noqa: ASYNC251


async def content(turn: Turn) -> Items:
    yield f"content: {[str(each.type) for each in turn.content]}, history: {len(turn.history)}"


async def repeat(turn: Turn) -> Items:
    yield f"You said {turn.text}"


ACTIONS: dict[str, Callable[[Turn], Items]] = {
    each.__name__: each for each in (markdown, events, say, wait, gate, words, prints, fail, block, content)
}

agent = Agent(name="tester", accepts=["image"])


@agent
async def answer(turn: Turn) -> Items:
    async for item in ACTIONS.get(turn.text.split(maxsplit=1)[0] if turn.text else "", repeat)(turn):
        yield item
