"""Requests over HTTP: the older shape is served, and a value of another type is refused by name."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord import Agent, Turn
from accord.agent import Yielded
from accord.servers.http.app import Application
from tests.servers.transports import TRANSPORTS, ReportedError, body, make_service, within

OLDER: dict[str, Any] = {
    "session_id": "550e8400-e29b-41d4-a716-446655440000",
    "payload": {"input": "**Hi**", "timezone": "UTC"},
    "capabilities": {"supported_events": [], "prefers_markdown": False},
}


async def run(turn: Turn) -> AsyncIterator[Yielded]:
    yield f"{turn.text} {turn.request.payload.meta}"


def answered(transport: str, payload: dict[str, Any]) -> Any:
    async def ask() -> Any:
        async with TRANSPORTS[transport](Application(make_service(Agent(run)))) as send:
            return await send(body() | {"payload": payload})

    return within(ask)


@pytest.mark.parametrize("transport", ["memory-json", "memory-events"])
def test_decision_1_the_older_shape_is_served(transport: str):
    assert "Hi {'timezone': 'UTC'}" in str(answered(transport, OLDER))


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"query": "q", "capabilities": {"prefers_markdown": "no"}}, "payload.capabilities.prefers_markdown"),
        ({"query": "q", "capabilities": {"prefers_markdown": 0}}, "payload.capabilities.prefers_markdown"),
        ({"query": 1}, "payload.query"),
        ({"query": "q", "conversation_id": 7}, "payload.conversation_id"),
        (
            {"query": "q", "requirements": {"required": [{"capability": "no-such", "min_support": "native"}]}},
            "capability",
        ),
        ({"payload": {"input": "q", "files": [1]}}, "payload.payload.files.0"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(payload: dict[str, Any], field: str):
    with pytest.raises(ReportedError) as caught:
        answered("memory-json", payload)
    assert caught.value.code == "invalid_message"
    assert field in caught.value.message
