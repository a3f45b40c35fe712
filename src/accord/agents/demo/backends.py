"""The backends of the demo, if none are configured: two scripts without a model, of which one reads images.

What they answer is computed from what they are given. Neither has structured output: when Accord emulates it, the first
answer is cut off, and the second one is complete, so that a real retry can be seen.
"""

import asyncio
import json
import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from accord.agents.demo.image_facts import read_image
from accord.agents.demo.pace import Pace, read_pace
from accord.backends.scripted import estimate_usage
from accord.core.work.emulation.structured_output import CORRECTION, SCHEMA_PROMPT
from accord.ports import Backend
from accord.terminal import format_count
from accord.wire.conversation import ConversationMessage, ImagePart, Role, TextPart
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder

TEXT_MANIFEST: Final = {
    "streaming": "native",
    "system_message": "native",
    "image_input": "unsupported",
    "file_input": "unsupported",
}
VISION_MANIFEST: Final = {**TEXT_MANIFEST, "image_input": "native", "image_url": "unsupported"}

START_S: Final = 0.3
WORD_S: Final = 0.04
"""The pauses before an answer and before each of its words."""

SCRIPT: Final = "I am {}, a script without a model. Your message has {}. Add a backend to accord.toml for real answers."
BEFORE_SCHEMA: Final = SCHEMA_PROMPT.partition("{")[0]
BEFORE_PROBLEMS: Final = CORRECTION.partition("{")[0]
"""How the prompts of Accord's emulation begin."""

MAX_FIGURES: Final = 20
_FIGURE: Final = re.compile(r"([A-Z][a-z]+)[^\dA-Z]{1,20}(\d{1,9})")
"""A word with a capital letter and the number after it, as in "North sold 42"."""


def demo_backends() -> list[Backend]:
    """The backends of the demo in their order of preference, at the pace that the environment sets."""
    pace = read_pace()
    manifests = {"demo-text": TEXT_MANIFEST, "demo-vision": VISION_MANIFEST}
    return [DemoBackend(name, CapabilityManifest.model_validate(each), pace) for name, each in manifests.items()]


@dataclass(slots=True)
class DemoBackend:
    """A script that describes images, puts figures into a schema, or says that it is a script."""

    name: str
    manifest: CapabilityManifest
    pace: Pace

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Yield the answer word by word; its end names this backend as the model, and counts one request."""
        messages = order.conversation.messages
        parts = messages[-1].content if messages else []
        images = [part for part in parts if isinstance(part, ImagePart)]
        text = _answer_in_json(messages)
        if text is None and images:
            # In a thread: decoding may take a while, and other turns are running.
            text = " ".join([await asyncio.to_thread(_describe, image) for image in images])
        elif text is None:
            # Counted without a list of them: a prompt may have megabytes.
            words = sum(1 for part in parts if isinstance(part, TextPart) for _ in re.finditer(r"\S+", part.text))
            text = SCRIPT.format(self.name, format_count(words, "word"))
        await self.pace.pause(START_S)
        async for word in self.pace.words(text, WORD_S):
            yield TextPiece(text=word)
        yield EndPiece(model=self.name, usage={**estimate_usage(order, text), "requests": 1})

    async def probe(self) -> None:
        """Return at once: it is always available."""


def _describe(image: ImagePart) -> str:
    try:
        data = a2b_base64(image.data)
    except (Base64Error, ValueError):
        data = b""
    return f"I see a {facts}." if (facts := read_image(data)) else "I cannot read this image."


def _answer_in_json(messages: Sequence[ConversationMessage]) -> str | None:
    """The figures of the question in the schema that Accord's emulation has put into the prompt; None without one."""
    system, users = (
        [
            "\n".join(part.text for part in message.content if isinstance(part, TextPart))
            for message in messages
            if message.role is role
        ]
        for role in (Role.SYSTEM, Role.USER)
    )
    schema = "\n".join(system).partition(BEFORE_SCHEMA)[2]
    questions = [text for text in users if not text.startswith(BEFORE_PROBLEMS)]
    if not schema or not questions:
        return None
    figures = [(name, int(number)) for name, number in _FIGURE.findall(questions[-1])[:MAX_FIGURES]]
    try:
        answer = json.dumps(fill_schema(json.JSONDecoder().raw_decode(schema)[0], figures))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):  # Accord writes no such schema
        return None
    return answer if questions[-1] != users[-1] else f"Here it is: {answer[: len(answer) * 2 // 3]}"


def fill_schema(schema: Any, figures: Sequence[tuple[str, int]]) -> Any:
    """A value for a simple schema: an array has an item for each figure, whose string and number are the figure's.

    It may be invalid for any other schema; Accord checks that.
    """
    node = cast("Mapping[str, Any]", schema if isinstance(schema, dict) else {})
    name, number = figures[0] if len(figures) == 1 else ("", len(figures))
    if choices := node.get("enum"):
        return choices[0]
    if choices := node.get("anyOf"):
        return fill_schema(choices[0], figures)
    match node.get("type"):
        case "object":
            return {key: fill_schema(inner, figures) for key, inner in node.get("properties", {}).items()}
        case "array":
            return [fill_schema(node.get("items"), [figure]) for figure in figures]
        case "string":
            return name
        case "integer" | "number":
            return number
        case "boolean":
            return bool(figures)
        case _:
            return None
