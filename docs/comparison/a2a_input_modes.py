"""What an A2A server does with a part whose media type its card does not declare: by default, and when it validates."""

# ruff: noqa: T201, D102, D103 - it prints what happens, with the method names of a library

import asyncio

from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
)

CARD = AgentCard(
    name="text only",
    description="It takes text only.",
    version="1",
    supported_interfaces=[AgentInterface(url="http://127.0.0.1", protocol_binding="JSONRPC", protocol_version="1.0")],
    skills=[AgentSkill(id="1", name="answer", description="It answers.", tags=["text"])],
    default_input_modes=["text/plain"],
    default_output_modes=["image/png"],
    capabilities=AgentCapabilities(),
)
PARTS = [Part(text="What is this?", media_type="text/plain"), Part(raw=b"\x89PNG", media_type="image/png")]


class Executor(AgentExecutor):
    """Answers with the media types that it was given, and with an image."""

    async def execute(self, context, event_queue):
        got = [part.media_type for part in context.message.parts]
        print(f"  the agent got {got}; accepted output modes: {list(context.configuration.accepted_output_modes)}")
        image = Part(raw=b"\x89PNG", media_type="image/png")
        await event_queue.enqueue_event(Message(message_id="2", role=Role.ROLE_AGENT, parts=[image]))

    async def cancel(self, context, event_queue):
        pass


async def main():
    for validates in (False, True):
        print(f"validate_input_modes={validates}:")
        handler = DefaultRequestHandler(Executor(), InMemoryTaskStore(), CARD, validate_input_modes=validates)
        request = SendMessageRequest(
            message=Message(message_id="1", role=Role.ROLE_USER, parts=PARTS),
            configuration=SendMessageConfiguration(accepted_output_modes=["text/plain"]),
        )
        try:
            answer = await handler.on_message_send(request, ServerCallContext())
            print("  the client got", [part.media_type for part in answer.parts])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
            print(f"  {type(error).__name__}: {error}")


asyncio.run(main())
