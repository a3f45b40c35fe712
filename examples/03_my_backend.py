"""A backend in forty lines: its manifest, its answer, and a turn that uses it.

Needs `accord-agents`.

    python examples/03_my_backend.py
"""

import asyncio
from collections.abc import AsyncIterator

from accord.agents import relay
from accord.ports import SystemClock
from accord.run import Dispatcher, Engine
from accord.wire.manifest import CapabilityManifest
from accord.wire.request import ServiceRequest
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder


class Shouting:
    """Answers with the prompt in capitals."""

    name = "shouting"
    manifest = CapabilityManifest.model_validate({"streaming": "native"})

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Yield the last message in capitals."""
        for part in order.conversation.messages[-1].content:
            yield TextPiece(text=part.dump()["text"].upper())
        yield EndPiece()

    async def probe(self) -> None:
        """Succeed: it can always be reached."""


REQUEST = ServiceRequest.model_validate(
    {
        "request_id": "550e8400-e29b-41d4-a716-446655440000",
        "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
        "payload": {"query": "hello"},
    }
)
engine = Engine(relay, Dispatcher([Shouting()]), clock=SystemClock())
print(asyncio.run(engine.respond(REQUEST)).output["text"])
