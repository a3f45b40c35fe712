"""A request with misplaced members is served, with a warning in the answer, in the stream and in the log."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.servers.http.app import Application
from tests.servers.transports import Answered, body, make_service, packets_of, served, within

VOICE: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
WARNING = "client_capabilities is ignored; did you mean payload.capabilities?"


async def show(turn: Turn) -> AsyncIterator[Yielded]:
    yield f"**{turn.text}**"


def posted(accept: str, content: dict[str, Any], *, again: bool = False) -> list[Answered]:
    """What a real server answers to this request, and to a look at it afterwards."""

    async def post() -> list[Answered]:
        found: list[Answered] = []
        async with served(Application(make_service(Agent(show)))) as address, aiohttp.ClientSession(address) as client:
            headers = {"accept": accept}
            async with client.post("/v1/assist", json=content, headers=headers) as response:
                found.append(Answered(response.status, {"content-type": response.content_type}, await response.read()))
            if again:
                async with client.get(f"/v1/requests/{content['request_id']}", headers=headers) as response:
                    found.append(
                        Answered(response.status, {"content-type": response.content_type}, await response.read())
                    )
        return found

    return within(post)


def test_a_whole_answer_has_the_warning_in_its_metrics_and_one_line_is_logged(caplog: pytest.LogCaptureFixture):
    content = body() | {"client_capabilities": VOICE}
    with caplog.at_level(logging.WARNING, "accord.servers"):
        answered, again = posted("application/json", content, again=True)
    assert answered.json()["metrics"]["warnings"] == [WARNING]
    assert answered.json()["output"]["text"] == "**hi**"
    assert "warnings" not in again.json()["metrics"], "a look has no body to warn of"
    (record,) = [record for record in caplog.records if "ignored" in record.message]
    assert vars(record)["fields"] == {"warnings": [WARNING]}
    assert vars(record)["request_id"] == content["request_id"]


def test_a_stream_begins_with_the_warning_as_a_comment():
    (answered,) = posted("text/event-stream", body() | {"client_capabilities": {}})
    assert answered.content.startswith(f": warning: {WARNING}\n\nid: 1\ndata: ".encode())
    assert [packet["op"] for packet in packets_of(answered)] == ["delta", "close"]


@pytest.mark.parametrize(("headers", "query"), [({"Accord-Capabilities": "voice"}, ""), ({}, "?capabilities=voice")])
def test_capabilities_of_a_reader_are_not_those_of_a_request(headers: dict[str, str], query: str):
    async def post() -> Any:
        async with (
            served(Application(make_service(Agent(show)))) as address,
            aiohttp.ClientSession(address) as client,
            client.post(f"/v1/assist{query}", json=body(), headers=headers) as response,
        ):
            return await response.json()

    answer = within(post)
    assert answer["output"]["text"] == "**hi**"
    assert answer["metrics"]["warnings"] == [
        "Accord-Capabilities is ignored here; declare them in payload.capabilities"
    ]


def test_a_long_body_is_checked_too():
    (answered,) = posted("application/json", body(query="x" * 300_000) | {"client_capabilities": {}})
    assert answered.json()["metrics"]["warnings"] == [WARNING]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_request_in_order_has_no_warning(accept: str, caplog: pytest.LogCaptureFixture):
    (answered,) = posted(accept, body(capabilities=VOICE))
    assert b"warning" not in answered.content
    assert packets_of(answered)[0] == {"op": "delta", "p": "hi"}
    assert caplog.records == []
