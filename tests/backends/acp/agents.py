"""What the tests of the ACP backend share: agents to start, and a loop that ends them."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from accord.backends.acp import AcpBackend
from accord.ports import Backend
from accord.wire.conversation import Conversation
from accord.wire.work import AnyPiece, TextPiece, WorkOrder

SCRIPTED = Path(__file__).with_name("scripted_agent.py")
T = TypeVar("T")


def agent(manner: str, *more: str, **parts: Any) -> AcpBackend:
    return AcpBackend(manner, [sys.executable, "-S", str(SCRIPTED), manner, *more], **parts)


def order(*parts: dict[str, Any] | str, **fields: Any) -> WorkOrder:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    conversation = Conversation.model_validate({"messages": [{"role": "user", "content": content}]})
    return WorkOrder(conversation=conversation, **fields)


async def answer(backend: Backend, work: WorkOrder | None = None) -> list[AnyPiece]:
    return [piece async for piece in backend.answer(work or order("Hello there."))]


def text(pieces: list[AnyPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def within(task: Callable[[], Awaitable[T]], seconds: float = 20) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(task(), seconds)

    return asyncio.run(bounded())
