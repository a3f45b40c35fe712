"""Agents to be measured: each answers a prompt that is a number with that many updates.

`stdio` is Accord's stdio layer with the content check, `sdk` the Python SDK, `turn` a whole turn of `accord acp`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

from accord.agent import Agent, Turn, Yielded
from accord.core.prompt import ContentValidator
from accord.core.rpc import RpcRequest
from accord.stdio import RpcConnection, RpcError, open_stdio

turn_agent = Agent(name="turn")


@turn_agent
async def _answer(turn: Turn) -> AsyncIterator[Yielded]:
    for _ in range(count_updates(turn.text)):
        yield "word "


def count_updates(text: str) -> int:
    """How many updates this prompt asks for."""
    return int(text) if text.isdigit() else 1


async def stdio() -> None:
    """Framing, correlation and the content check, without a turn."""
    validator = ContentValidator(None)

    async def answer(call: RpcRequest) -> Any:
        params = call.value()
        if call.method == "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {}}
        if call.method == "session/new":
            return {"sessionId": "s"}
        verdict = validator.validate(params["prompt"])
        if verdict.error is not None:
            raise RpcError(**verdict.error)
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "word "}}
        for _ in range(count_updates(params["prompt"][0]["text"])):
            await connection.notify("session/update", {"sessionId": params["sessionId"], "update": update})
        return {"stopReason": "end_turn"}

    reader, sink = await open_stdio()
    connection = RpcConnection(reader, sink, on_request=answer)
    await connection.run()
    await sink.finish()


async def sdk() -> None:
    """The same with the Python SDK."""
    import acp  # noqa: PLC0415 - only this agent needs it

    class Echo(acp.Agent):
        def on_connect(self, conn: Any) -> None:
            self._client = conn

        async def initialize(self, protocol_version: int, *_: Any, **__: Any) -> Any:
            return acp.InitializeResponse(protocol_version=protocol_version)

        async def new_session(self, *_: Any, **__: Any) -> Any:
            return acp.NewSessionResponse(session_id="s")

        async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
            for _number in range(count_updates(prompt[0].text)):
                update = acp.update_agent_message(acp.text_block("word "))
                await self._client.session_update(session_id=session_id, update=update)
            return acp.PromptResponse(stop_reason="end_turn")

    await acp.run_agent(Echo())  # pyright: ignore[reportAbstractUsage]


if __name__ == "__main__":
    asyncio.run({"stdio": stdio, "sdk": sdk}[sys.argv[1]]())
