"""A pydantic-ai agent with its defaults: plain, streamed, structured, and the task with a tool.

Arguments: the address of the server, which API (chat, responses or messages), and the model.
"""
# pyright: basic, reportMissingImports=false

import asyncio
import base64
import sys
from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

PROMPT = "Read the file note.txt in the current folder and tell me what it says."
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class City(BaseModel):
    """The form of a structured answer."""

    name: str
    population: int


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


async def run(model: Model) -> str:
    """Every kind of call; return the answer to the task."""
    agent = Agent(model)
    await agent.run("Hello")
    async with agent.run_stream("Hello") as streamed:
        await streamed.get_output()
    print((await Agent(model, output_type=City).run("A city?")).output)
    await agent.run(["What is this?", BinaryContent(base64.b64decode(PIXEL), media_type="image/png")])
    return (await Agent(model, tools=[read_file]).run(PROMPT)).output


def model_of(address: str, api: str, name: str) -> Model:
    """Return the model class for this API."""
    if api == "messages":
        return AnthropicModel(name, provider=AnthropicProvider(base_url=address, api_key="a-key"))
    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatModel
    return kind(name, provider=OpenAIProvider(base_url=address + "/v1", api_key="a-key"))


if __name__ == "__main__":
    print(asyncio.run(run(model_of(*sys.argv[1:]))))
