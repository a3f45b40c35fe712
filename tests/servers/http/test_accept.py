"""Which format a client gets for its `Accept` header (RFC 9110, section 12.5.1)."""

import json
from collections.abc import AsyncIterator

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.servers.http.app import Application
from accord.servers.http.exchange import EVENT_STREAM, JSON, MAX_RANGES, choose_format
from tests.servers.raw import post, wired
from tests.servers.transports import body, make_service, within


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, JSON),
        ("", JSON),
        (" ", JSON),
        ("*/*", JSON),
        ("application/json", JSON),
        ("text/event-stream", EVENT_STREAM),
        ("TEXT/Event-Stream", EVENT_STREAM),
        ("text/event-stream, application/json", JSON),
        ("text/event-stream;q=0.9, application/json;q=0.8", EVENT_STREAM),
        ("text/event-stream;q=0.8, application/json;q=0.9", JSON),
        ("application/json;q=0.5, text/event-stream", EVENT_STREAM),
        ("application/json; q=0.5 , text/event-stream ; q=0.6", EVENT_STREAM),
        ("application/json;Q=0.5, text/event-stream;Q=0.6", EVENT_STREAM),
        ("application/json;q=0, */*", EVENT_STREAM),
        ("application/json;q=0", None),
        ("*/*;q=0", None),
        ("text/event-stream;q=0, text/*", None),
        ("text/*", EVENT_STREAM),
        ("text/*;q=0.5, application/json;q=0.4", EVENT_STREAM),
        ("*/*;q=0.1, text/event-stream", EVENT_STREAM),
        ("*/*, text/event-stream;q=0.1", JSON),
        ("text/html", None),
        ("text/html, */*;q=0.1", JSON),
        ("text/event-stream;q=2, application/json", JSON),
        ("text/event-stream;q=-1, application/json;q=0.1", JSON),
        ("text/event-stream;q=high, application/json;q=0.1", JSON),
        ("text/event-stream;q=nan, application/json;q=0.1", JSON),
        ("application/json;q=nan, text/event-stream;q=0.1", EVENT_STREAM),
        ("application/json;charset=utf-8;q=0.1, text/event-stream;q=0.2", EVENT_STREAM),
        (",,", None),
        (", ".join(["text/html"] * MAX_RANGES + ["text/event-stream"]), None),
    ],
)
def test_the_format_that_the_client_prefers_is_chosen(accept: str | None, chosen: str | None):
    assert choose_format(accept) == chosen


def test_a_preference_decides_the_answer_of_a_turn():
    async def run() -> None:
        async def echo(turn: Turn) -> AsyncIterator[Yielded]:
            yield turn.text

        async with wired(Application(make_service(Agent(echo)))) as port:
            for accept, chosen in (
                ("application/json;q=0.1, text/event-stream;q=0.2", EVENT_STREAM),
                ("application/json;q=0.2, text/event-stream;q=0.1", JSON),
            ):
                answered = await port.ask(post(json.dumps(body()).encode(), f"Accept: {accept}"))
                assert answered.headers["content-type"].startswith(chosen)

    within(run)
