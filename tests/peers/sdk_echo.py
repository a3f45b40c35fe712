"""An agent of the Python SDK that declares no content beyond the baseline, and answers with what it got, as text."""

import asyncio
import json
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    update_agent_message_text,
)


class BaselineAgent(Agent):
    """It declares nothing, so that its client may send only text and links."""

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, *_: Any, **__: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, *_: Any, **__: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="s")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in prompt]
        await self._client.session_update(session_id, update_agent_message_text(json.dumps(blocks)))
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    asyncio.run(run_agent(BaselineAgent()))  # pyright: ignore[reportAbstractUsage] - the rest is optional
