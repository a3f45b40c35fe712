"""A backend that answers from a script: for tests, demos, and users' own tests. It ships as a real one.

A script says, answer by answer, which pieces come, after which delay, and where it fails. It declares whatever manifest
it is given, and it does what a backend must: it stops at once when it is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from accord.errors import BackendError
from accord.wire.conversation import TextPart
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing comes for this long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ScriptedFault:
    """The backend fails here."""

    message: str = "scripted fault"
    retryable: bool = True
    refused: str | None = None


Step = str | AnyPiece | Pause | ScriptedFault
Script = Sequence[Step]


@dataclass(slots=True)
class ScriptedBackend:
    """Gives its scripts in turn, the last one again and again; keeps the orders that it was given."""

    name: str
    scripts: Sequence[Script]
    declared: CapabilityManifest | Mapping[str, Any] = field(default_factory=dict[str, Any])
    orders: list[WorkOrder] = field(default_factory=list[WorkOrder])
    closed: int = 0
    manifest: CapabilityManifest = field(init=False)

    def __post_init__(self) -> None:
        self.manifest = CapabilityManifest.model_validate(self.declared)

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """The pieces of the next script; a string is a piece of text, and the end is added if it is not scripted."""
        script = self.scripts[min(len(self.orders), len(self.scripts) - 1)] if self.scripts else ()
        self.orders.append(order)
        try:
            for step in script:
                piece = await _perform(step)
                if piece is not None:
                    yield piece
                if isinstance(piece, EndPiece):
                    return
            yield EndPiece()
        finally:
            self.closed += 1

    async def probe(self) -> None:
        """It is always there."""


async def _perform(step: Step) -> AnyPiece | None:
    match step:
        case str():
            return TextPiece(text=step)
        case Pause(seconds):
            await asyncio.sleep(seconds)
            return None
        case ScriptedFault():
            raise BackendError(step.message, retryable=step.retryable, refused=step.refused)
        case _:
            return step


ECHO_MANIFEST: Final = {"streaming": "native", "system_message": "native", "file_input": "unsupported"}
"""It repeats text only. Without a word on files, plans would take it for able to read them, and it would drop them."""


@dataclass(slots=True)
class EchoBackend:
    """Answers with what it was told last; needs no key, no network and no script."""

    name: str = "echo"
    manifest: CapabilityManifest = field(default_factory=lambda: CapabilityManifest.model_validate(ECHO_MANIFEST))

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """The last text of the conversation, a word at a time."""
        said = [
            part.text
            for message in order.conversation.messages
            for part in message.content
            if isinstance(part, TextPart)
        ]
        for word in (said[-1] if said else "").split(" "):
            yield TextPiece(text=f"{word} ")
        yield EndPiece()

    async def probe(self) -> None:
        """It is always there."""
