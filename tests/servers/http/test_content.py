"""Every prompt of the conformance vectors over HTTP, streamed and not: the same verdict by the same rule."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord.acp.schema_parts import PromptCapabilities
from accord.agent import Agent, Turn, Yielded
from accord.servers.http.app import Application
from accord.wire.receipt import Receipt
from tests.servers.transports import TRANSPORTS, ReportedError, body, make_service, within
from tests.vectors import read_vectors

PROMPTS = [row for row in read_vectors("content.jsonl") if row["context"] == "prompt" and row["protocolVersion"] == 1]


async def run(turn: Turn) -> AsyncIterator[Yielded]:
    yield f"{len(turn.content)} blocks"


def declared(row: dict[str, Any]) -> PromptCapabilities | None:
    """The declaration as it is read off the wire, malformed flags included."""
    return None if row["capabilities"] is None else PromptCapabilities.model_validate(row["capabilities"])


async def reported_error(transport: str, row: dict[str, Any]) -> ReportedError | None:
    async with TRANSPORTS[transport](Application(make_service(Agent(run, accepts=declared(row))))) as ask:
        try:
            await ask(body(content=row["content"]))
        except ReportedError as error:
            return error
    return None


@pytest.mark.parametrize("transport", ["memory-json", "memory-events"])
def test_every_prompt_gets_its_verdict_streamed_or_not(transport: str):
    for row in PROMPTS:
        found = within(lambda row=row: reported_error(transport, row))
        if row["valid"]:
            assert found is None, row["id"]
        else:
            assert found is not None, row["id"]
            assert_refused(row, found)


def assert_refused(row: dict[str, Any], found: ReportedError) -> None:
    """A block that can be read is refused with the vector's message; one that cannot be read makes no request at all."""
    if "error" in row["response"]["data"]:
        assert found.code in {"content_invalid", "invalid_message"}, row["id"]
    else:
        assert (found.code, found.message) == ("content_unsupported", row["response"]["message"]), row["id"]


def test_a_turn_that_is_refused_for_its_content_leaves_a_receipt():
    """So does a prompt over ACP, which tests/peers/test_python.py holds."""
    service = make_service(Agent(run))
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

    async def ask() -> Receipt:
        async with TRANSPORTS["memory-json"](Application(service)) as asks:
            with pytest.raises(ReportedError):
                await asks(body(content=[image]))
            return await service.sessions.receipt(body()["request_id"])

    assert within(ask).outcome.status == "refused"
