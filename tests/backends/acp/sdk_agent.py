"""An echo agent on the Python SDK: an implementation that is not ours."""

import asyncio
from typing import Any
from uuid import uuid4

from acp.interfaces import Client

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    text_block,
    update_agent_message,
)


class EchoAgent(Agent):
    """Echoes every block of text."""

    _client: Client

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, *_: Any, **__: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, *_: Any, **__: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        for block in prompt:
            update = update_agent_message(text_block(getattr(block, "text", "")))
            await self._client.session_update(session_id=session_id, update=update)
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    echoing = EchoAgent()  # pyright: ignore[reportAbstractUsage] - the SDK asks for what is there
    asyncio.run(run_agent(echoing))
