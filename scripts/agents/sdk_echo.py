"""An agent that echoes text, made with the Python SDK of the protocol as its documentation shows."""

# pyright: basic
import asyncio
from importlib.metadata import version
from typing import Any
from uuid import uuid4

from acp.schema import AgentCapabilities, Implementation

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    text_block,
    update_agent_message,
)


class Echo(Agent):
    """Echoes the text of each prompt."""

    def on_connect(self, conn: Any) -> None:
        """Keep the connection to the client."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Declare the baseline only."""
        return InitializeResponse(
            protocol_version=min(protocol_version, 1),
            agent_capabilities=AgentCapabilities(),
            agent_info=Implementation(name="python-sdk-echo", version=version("agent-client-protocol")),
        )

    async def new_session(self, **_: Any) -> NewSessionResponse:
        """Create a session."""
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        """Echo the text of the prompt."""
        for block in prompt:
            update = update_agent_message(text_block(getattr(block, "text", "")))
            await self._client.session_update(session_id=session_id, update=update)
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    asyncio.run(run_agent(Echo()))  # pyright: ignore[reportAbstractUsage] - the rest is optional
