"""One test body, every transport: what goes in and what comes out does not depend on the way."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import ScriptedBackend, ScriptedFault
from accord.engine import SessionRules
from accord.servers.http.app import Application
from tests.servers.transports import TRANSPORTS, ReportedError, body, make_service, within

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


async def show(turn: Turn) -> AsyncIterator[Yielded]:
    yield f"**{turn.text}**"
    yield turn.citation({"source_id": "1", "uri": "https://example.com/r", "title": "Report"})


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


def asked(transport: str, application: Application, *contents: Any) -> list[Any]:
    """What each of these requests gave, one after the other: its packets, or what was told."""

    async def ask_all() -> list[Any]:
        found: list[Any] = []
        async with TRANSPORTS[transport](application) as ask:
            for content in contents:
                try:
                    found.append(await ask(content))
                except ReportedError as told:
                    found.append(told)
        return found

    return within(ask_all)


def text_of(packets: list[dict[str, Any]]) -> str:
    return "".join(packet["p"] for packet in packets if packet["op"] == "delta")


def test_a_question_is_answered(transport: str):
    (packets,) = asked(transport, Application(make_service(Agent(relay), "Hel", "lo")), body())
    assert text_of(packets) == "Hello"
    assert packets[-1]["op"] == "close"


def test_events_reach_a_client_that_shows_them(transport: str):
    (packets,) = asked(transport, Application(make_service(Agent(show))), body(query="Sales"))
    assert [packet["p"]["type"] for packet in packets if packet["op"] == "event"] == ["citation_block"]


async def asks_back(turn: Turn) -> AsyncIterator[Yielded]:
    yield str((await turn.permission("May I?")).status)


def test_by_a_door_without_a_way_back_nobody_can_be_asked(transport: str):
    (packets,) = asked(transport, Application(make_service(Agent(asks_back))), body())
    assert text_of(packets) == "nobody"


def test_a_client_gets_what_it_can_show(transport: str):
    voice: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
    (packets,) = asked(transport, Application(make_service(Agent(show))), body(query="Sales", capabilities=voice))
    assert text_of(packets).split() == ["Sales", "Source:", "Report."]


def test_a_repeated_request_is_answered_again_and_never_run_twice(transport: str):
    service = make_service(Agent(relay), "once")
    first, again = asked(transport, Application(service), body(), body())
    assert first == again
    backend = service.sessions.engine.dispatcher.backends["a"]
    assert isinstance(backend, ScriptedBackend)
    assert len(backend.orders) == 1


REFUSED: list[tuple[str, Any, str, str]] = [
    ("content that the agent did not declare", body(content=[IMAGE]), "content_unsupported", "agent does not support image"),
    ("bytes that are not JSON", b"{nonsense", "invalid_message", "Not a valid ServiceRequest"),
    ("a message of another shape", b"[]", "invalid_message", "Not a valid ServiceRequest"),
    ("a request without a user", {"request_id": "1"}, "invalid_message", "context"),
    ("work that nobody can do", body(requirements={"required": [{"capability": "vision", "min_support": "native"}]}), "CAPABILITY_UNSUPPORTED", "nearest is a"),
    ("what is nested too deep", b'{"a":' * 150 + b"1" + b"}" * 150, "invalid_message", "nested"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "code", "sentence"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_refusal_says_the_same_by_every_door_and_costs_nothing_else(
    transport: str, content: Any, code: str, sentence: str
):
    told, after = asked(transport, Application(make_service(Agent(relay), "fine")), content, body(2))
    assert isinstance(told, ReportedError)
    assert told.code == code
    assert sentence in told.message
    assert text_of(after) == "fine"


def test_another_request_under_the_same_id_is_refused(transport: str):
    _, told = asked(transport, Application(make_service(Agent(relay), "x")), body(), body(query="else"))
    assert told.code == "request_conflict"


def test_another_users_session_is_refused(transport: str):
    _, told = asked(transport, Application(make_service(Agent(relay), "x")), body(), body(2, user="mallory"))
    assert told.code == "forbidden"


def test_another_users_request_id_is_not_found(transport: str):
    other = body(user="mallory", session="theirs")
    _, told = asked(transport, Application(make_service(Agent(relay), "x")), body(), other)
    assert (told.code, told.message) == ("not_found", "There is no such request here")


def test_a_failure_in_the_middle_is_told(transport: str):
    (told,) = asked(transport, Application(make_service(Agent(relay), "so far", ScriptedFault("gone"))), body())
    assert (told.code, told.message) == ("backend_failed", "gone")


def test_a_service_that_leaves_takes_no_new_work_and_answers_what_it_knows(transport: str):
    service = make_service(Agent(relay), "x")
    service.is_draining = True
    if transport == "websocket":
        with pytest.raises(Exception, match="503"):
            asked(transport, Application(service), body())
        return
    (told,) = asked(transport, Application(service), body())
    assert told.code == "unavailable"


def test_more_turns_than_may_run_at_once_are_refused(transport: str):
    (told,) = asked(
        transport, Application(make_service(Agent(relay), "x", rules=SessionRules(concurrent_turns=0))), body()
    )
    assert told.code == "unavailable"
