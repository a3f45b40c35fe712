"""The demo agent: a tour that shows each edge in a short part, and commands for single parts.

What it says of backends comes from their answers and never from knowledge about them: the demo may be served with any
backends. Where a question fails, the failure is shown, and the tour goes on.
"""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from typing import Any, Final

from accord.acp.schema_parts import ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent
from accord.agent import Agent, Turn, Yielded
from accord.agents.demo.chart import draw_chart
from accord.agents.demo.long_answer import long_answer
from accord.agents.demo.pace import read_pace
from accord.errors import AccordError, BackendError, EmulationError, ErrorSeverity, RefusedError, TimedOutError
from accord.terminal import format_count
from accord.wire.event import PresentationEvent
from accord.wire.work import EndPiece, TextPiece

WORD_S: Final = 0.012
EVENT_S: Final = 0.15
"""The pauses before each word of the tour and before each event."""
SLOW_S: Final = 0.3
SLOW_WORDS: Final = 200
LONG_WORDS: Final = 1_000
MAX_QUOTED: Final = 80
MAX_READ: Final = 10_000
"""How much of a text is read for what is quoted of it, or to find a command: a prompt may have megabytes."""

ACCEPTS: Final = {"image": True, "embeddedContext": True}
FIGURES: Final = {"North": 42, "South": 27, "East": 35, "West": 18}
SENTENCE: Final = "North sold 42 units, South 27, East 35 and West 18."
ALT_TEXT: Final = f"Bar chart of units sold: {', '.join(f'{name} {units}' for name, units in FIGURES.items())}"
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "sales": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"region": {"type": "string"}, "units": {"type": "integer"}},
                "required": ["region", "units"],
            },
        }
    },
    "required": ["sales"],
    "additionalProperties": False,
}
SOURCES: Final = (
    ("acp", "https://agentclientprotocol.com", "Agent Client Protocol"),
    ("json-schema", "https://json-schema.org", "JSON Schema"),
    ("commonmark", "https://commonmark.org", "CommonMark"),
)
FAILURES: Final = (BackendError, EmulationError, RefusedError, TimedOutError)
"""How a question may fail; any other error ends the turn."""

Part = Callable[[Turn], AsyncIterator[Yielded]]

demo = Agent(name="demo", accepts=ACCEPTS)


@demo
async def _demo(turn: Turn) -> AsyncIterator[Yielded]:
    command, pace = turn.text[:MAX_READ].strip().lower(), read_pace()
    if found := re.fullmatch(r"long(?: +(\d{1,6}))?", command):
        for number, word in enumerate(long_answer(int(found[1] or LONG_WORDS))):
            yield word
            if number % 50 == 0:
                await asyncio.sleep(0)  # other turns run meanwhile
        return
    part, _ = COMMANDS.get(command, (_tour, ""))
    async for item in part(turn):
        if isinstance(item, str):
            async for word in pace.words(item, WORD_S):
                yield word
        else:
            await pace.pause(EVENT_S)
            yield item


async def _tour(turn: Turn) -> AsyncIterator[Yielded]:
    """Every part, with its progress."""
    yield turn.progress("Reading your message", 0.0)
    yield turn.thought("Each of the three edges should be seen once, in small steps.")
    yield (
        "Every turn passes three edges: **what comes in**, **which model does the work**, and **what your client "
        "shows**.\n\n"
    )
    for number, (label, part) in enumerate(TOUR.items()):
        yield turn.progress(label, number / len(TOUR))
        async for item in part(turn):
            yield item
    yield turn.progress("Done", 1.0, status="complete")
    yield turn.markdown(
        "> That is all. Send `help` to see single parts. The receipt of this turn lists each decision: the plans, what "
        "was emulated, and what your client got instead of something else.\n"
    )


async def _show_content(turn: Turn) -> AsyncIterator[Yielded]:
    """Edge 1: the content that was accepted."""
    declared = " and ".join(f"`{name}`" for name in ACCEPTS)
    yield (
        f"## What came in\n\nThis agent declares {declared}; text and links need no declaration. Anything else is "
        "refused before the agent runs. Accepted:\n\n"
    )
    accepted = [f"text: {_quote(turn.text)}"] if turn.text.strip() else []
    accepted += [_name_block(block) for block in turn.content]
    for line in accepted or ["nothing"]:
        yield f"- {line}\n"
    yield "\n"


async def _show_json(turn: Turn) -> AsyncIterator[Yielded]:
    """Edge 2: a schema, which Accord emulates for a model that has no structured output."""
    yield (
        f"## JSON from any model\n\nThe agent asks for the figures in a sentence, as JSON that matches a schema: "
        f"*{SENTENCE}* A model without structured output gets the schema in its prompt, and is asked again when its "
        "answer does not match.\n\n"
    )
    try:
        question = turn.ask(f"List the figures of this sentence. {SENTENCE}", schema=SCHEMA)
        pieces = [piece async for piece in question.pieces()]
        value = json.loads("".join(piece.text for piece in pieces if isinstance(piece, TextPiece)))
        sales = [(str(sale["region"]), int(sale["units"])) for sale in value["sales"]]
    except FAILURES as error:
        yield _show_failure(turn, error)
        return
    except (ValueError, LookupError, TypeError):  # the operator allows answers that do not match
        yield turn.user_error("The answer does not match the schema.", domain="llm", retryable=True)
        return
    lines = ",\n".join(json.dumps(sale, ensure_ascii=False) for sale in value["sales"])
    yield f'```json\n{{"sales": [\n{lines}\n]}}\n```\n\n| Region | Units |\n|---|---|\n'
    for region, units in sales:
        yield f"| {_quote(region)} | {units} |\n"
    yield f"\n{_name_source(pieces[-1])}"


async def _show_chart(turn: Turn) -> AsyncIterator[Yielded]:
    """Edge 3: an image for clients that show images."""
    yield "## A chart\n\nThe figures as an image. A client that shows no images gets its description.\n\n"
    yield turn.media({"url": f"data:image/png;base64,{_chart().data}", "mime_type": "image/png", "alt_text": ALT_TEXT})


async def _show_image(turn: Turn) -> AsyncIterator[Yielded]:
    """Edge 2: a question that needs a model which reads images."""
    images = [block for block in turn.content if isinstance(block, ImageContent)]
    about = f"your {'image' if len(images) == 1 else f'{len(images)} images'}" if images else "the chart above"
    yield f"## A question about an image\n\n*What is in this image?* The agent asks about {about}:\n\n"
    try:
        mark = "> "
        async for piece in turn.ask("What is in this image?", content=images or [_chart()]).pieces():
            if isinstance(piece, TextPiece):
                yield mark + piece.text.replace("\n", "\n> ")
                mark = ""
            elif isinstance(piece, EndPiece):
                yield f"\n\n{_name_source(piece)}"
    except FAILURES as error:
        yield "\n\n"
        yield _show_failure(turn, error)


async def _show_image_alone(turn: Turn) -> AsyncIterator[Yielded]:
    if not any(isinstance(block, ImageContent) for block in turn.content):
        async for item in _show_chart(turn):
            yield item
    async for item in _show_image(turn):
        yield item


async def _show_sources(turn: Turn) -> AsyncIterator[Yielded]:
    """Edge 3: citations."""
    yield (
        "## Sources\n\nPrompts follow the Agent Client Protocol, schemas follow JSON Schema, and text is CommonMark. "
        "Sources are sent beside the text: each client shows them in its own way.\n\n"
    )
    yield turn.citation(*({"source_id": name, "uri": uri, "title": title} for name, uri, title in SOURCES))


async def _show_error(turn: Turn) -> AsyncIterator[Yielded]:
    """Edge 3: a failure that is not the end of the answer."""
    yield "## A step that fails\n\nOne step of this turn fails, on purpose.\n\n"
    yield turn.user_error("The weather could not be looked up (part of the demo).", domain="tool", retryable=True)
    yield "The client got an event about it, and the answer goes on.\n\n"


async def _run_slowly(turn: Turn) -> AsyncIterator[Yielded]:
    del turn
    yield f"Counting to {SLOW_WORDS}, which takes a minute. Stop it at any time.\n\n"
    for number in range(1, SLOW_WORDS + 1):
        await asyncio.sleep(SLOW_S)
        yield f"{number} "


async def _fail(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.progress("About to fail", 0.5)
    raise RuntimeError("This exception is part of the demo")


async def _help(turn: Turn) -> AsyncIterator[Yielded]:
    del turn
    yield "Any text starts the tour. These words show one thing each:\n\n"
    for name, (_, meaning) in COMMANDS.items():
        yield f"- `{name}`: {meaning}\n"
    yield f"- `long 5000`: a long answer of about so many words; without a number, {LONG_WORDS:,}\n"


TOUR: Final[Mapping[str, Part]] = {
    "Listing what came in": _show_content,
    "Asking for JSON": _show_json,
    "Drawing a chart": _show_chart,
    "Asking about an image": _show_image,
    "Naming sources": _show_sources,
    "Trying a step that fails": _show_error,
}
"""The parts of the tour and what its progress says of them."""

COMMANDS: Final[Mapping[str, tuple[Part, str]]] = {
    "help": (_help, "this list"),
    "json": (_show_json, "JSON by a schema"),
    "chart": (_show_chart, "a chart"),
    "image": (_show_image_alone, "a question about the image that you attach, or about the chart"),
    "sources": (_show_sources, "citations"),
    "error": (_show_error, "a step that fails while the answer goes on"),
    "slow": (_run_slowly, "a word every 0.3 seconds for a minute, to try stopping it"),
    "fail": (_fail, "an agent that raises an exception"),
}
"""What each command shows."""


@cache
def _chart() -> ImageContent:
    return ImageContent(data=b64encode(draw_chart(FIGURES)).decode(), mime_type="image/png")


def _show_failure(turn: Turn, error: AccordError) -> PresentationEvent:
    can_retry = error.severity is ErrorSeverity.TRANSIENT
    return turn.user_error(error.message, code=str(error.code), domain="llm", retryable=can_retry)


def _name_source(end: Any) -> str:
    """Who answered, as the end of the answer says; nothing if it does not."""
    if not isinstance(end, EndPiece) or end.model is None:
        return ""
    requests = (end.usage or {}).get("requests")
    counted = f" in {format_count(requests, 'request')}" if isinstance(requests, int) else ""
    return f"Answered by {_quote(end.model)}{counted}.\n\n"


def _name_block(block: ContentBlock) -> str:
    match block:
        case ImageContent():
            return f"an image of type {_quote(block.mime_type)}, {len(block.data) * 3 // 4:,} bytes"
        case ResourceLink():
            return f"a link to {_quote(block.name)}"
        case EmbeddedResource():
            return f"the resource {_quote(block.resource.uri)}"
        case TextContent():
            return f"text: {_quote(block.text)}"
        case _:
            return f"content of type {_quote(str(block.type))}"


def _quote(text: str) -> str:
    """Text of others in one line of code, in which nothing is markup."""
    line = " ".join(text[:MAX_READ].replace("`", "'").replace("|", "/").split())
    return f"`{line[:MAX_QUOTED]}{'…' if len(line) > MAX_QUOTED or len(text) > MAX_READ else ''}`"
