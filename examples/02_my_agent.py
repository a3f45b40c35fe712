"""An agent in fifteen lines: it streams the answer of the negotiated backend, and cites a source.

Needs `accord-agents[serve]`. Without a configured backend, its answer is the query:

    echo Hello | accord chat examples/02_my_agent.py

The same file is served by `accord serve`, `accord acp` and `accord worker`.
"""

from collections.abc import AsyncIterator

from accord import Agent, Turn
from accord.agent import Yielded

agent = Agent(accepts=["embeddedContext"], system="Answer in one sentence.")


@agent
async def answer(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.progress("Thinking")
    async for text in turn.ask():
        yield text
    yield turn.citation({"source_id": "1", "uri": "https://example.com/manual", "title": "The manual"})
