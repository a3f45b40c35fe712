"""The agent that is attacked: it echoes, waits, floods, or asks for JSON of a recursive schema, by its query."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from accord.agent import Agent, Turn, Yielded

BRANCH: dict[str, Any] = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
SCHEMA: dict[str, Any] = {"anyOf": [BRANCH, {**BRANCH, "title": "again"}, {"type": "null"}]}

agent = Agent(name="attacked")


@agent
async def answer(turn: Turn) -> AsyncIterator[Yielded]:
    match turn.text:
        case "wait":
            await asyncio.sleep(60)
        case "flood":
            for _ in range(4_000):
                yield "x" * 1_000
                await asyncio.sleep(0.01)  # as quick as a quick model; the attack is not to read
        case "schema":
            yield await turn.ask("Answer in JSON", schema=SCHEMA).text()
        case text:
            yield text
