"""Backends without a model: one answers from a script, one echoes. For tests, demos, and tests of users' own agents.

A script lists, answer by answer, the pieces, the pauses before them and where the backend fails. As every backend must,
it stops at once when its iterator is closed. Without a model there are no tokens: the usage that is reported counts
words, as an estimate.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from accord.errors import BackendError
from accord.wire.conversation import ResourceLinkPart, TextPart
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkOrder


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of this length."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ScriptedFault:
    """A failure of the backend."""

    message: str = "scripted fault"
    retryable: bool = True
    refused: str | None = None


Step = str | AnyPiece | Pause | ScriptedFault
Script = Sequence[Step]


@dataclass(slots=True)
class ScriptedBackend:
    """Answers with its scripts in turn, then with the last one again; records the orders and the closed answers."""

    name: str
    scripts: Sequence[Script]
    declared: CapabilityManifest | Mapping[str, Any] = field(default_factory=dict[str, Any])
    orders: list[WorkOrder] = field(default_factory=list[WorkOrder])
    closed: int = 0
    manifest: CapabilityManifest = field(init=False)

    def __post_init__(self) -> None:
        self.manifest = CapabilityManifest.model_validate(self.declared)

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Yield the pieces of the next script; a string is a piece of text, and a missing end is added with a usage."""
        script = self.scripts[min(len(self.orders), len(self.scripts) - 1)] if self.scripts else ()
        self.orders.append(order)
        texts: list[str] = []
        try:
            for step in script:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    continue
                if isinstance(step, ScriptedFault):
                    raise BackendError(step.message, retryable=step.retryable, refused=step.refused)
                piece = TextPiece(text=step) if isinstance(step, str) else step
                yield piece
                if isinstance(piece, EndPiece):
                    return
                if isinstance(piece, TextPiece | ThinkingPiece):
                    texts.append(piece.text)
            yield EndPiece(usage=estimate_usage(order, "".join(texts)))
        finally:
            self.closed += 1

    async def probe(self) -> None:
        """Return at once: it is always available."""


def estimate_usage(order: WorkOrder, answer: str) -> dict[str, Any]:
    """The usage in words: of all text in the conversation, and of the answer."""
    parts = [part for message in order.conversation.messages for part in message.content]
    words = sum(len(part.text.split()) for part in parts if isinstance(part, TextPart))
    return {"input_tokens": words, "output_tokens": len(answer.split())}


ECHO_MANIFEST: Final = {"streaming": "native", "system_message": "native", "file_input": "unsupported"}
"""It repeats text only. If it did not declare files as unsupported, plans would send it files, which it would drop."""


@dataclass(slots=True)
class EchoBackend:
    """Answers with the last text and the links of the last message; needs no key, no network and no script."""

    name: str = "echo"
    manifest: CapabilityManifest = field(default_factory=lambda: CapabilityManifest.model_validate(ECHO_MANIFEST))

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Yield the last text and the addresses of the last message that has any, word by word."""
        answer = ""
        for message in order.conversation.messages:
            texts = [part.text for part in message.content if isinstance(part, TextPart)]
            links = [part.uri for part in message.content if isinstance(part, ResourceLinkPart)]
            answer = " ".join([*texts[-1:], *links]) or answer
        for word in answer.split(" "):
            yield TextPiece(text=f"{word} ")
        yield EndPiece(usage=estimate_usage(order, answer))

    async def probe(self) -> None:
        """Return at once: it is always available."""
