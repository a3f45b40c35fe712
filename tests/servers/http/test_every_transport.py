"""One test body, every transport: requests and answers do not depend on the transport, nor on a queue behind it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import ScriptedBackend, ScriptedFault
from accord.config import LoadedConfig
from accord.run import SessionRules
from accord.servers.http.app import Application
from tests.servers.conftest import NewQueue
from tests.servers.queued import QUEUED, queued
from tests.servers.transports import TRANSPORTS, ReportedError, body, make_service, within

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


async def show(turn: Turn) -> AsyncIterator[Yielded]:
    yield f"**{turn.text}**"
    yield turn.citation({"source_id": "1", "uri": "https://example.com/r", "title": "Report"})


class Transport(NamedTuple):
    """One row: a transport, and the queue from which a worker takes the turns, if there is one."""

    name: str
    queue: LoadedConfig | None


DIRECT = [(None, name) for name in TRANSPORTS]


@pytest.fixture(params=[*DIRECT, *QUEUED], ids=lambda row: "-".join(filter(None, row)))
def transport(request: pytest.FixtureRequest, new_queue: NewQueue) -> Transport:
    kind, name = request.param
    return Transport(name, new_queue(kind))


def send_all(transport: Transport, application: Application, *contents: Any) -> list[Any]:
    """What each of these requests gave, one after the other: its packets, or the error that was reported."""

    async def ask_all() -> list[Any]:
        found: list[Any] = []
        service = application.service
        async with (
            queued(transport.queue, service.sessions) as sessions,
            TRANSPORTS[transport.name](Application(replace(service, sessions=sessions))) as ask,
        ):
            for content in contents:
                try:
                    found.append(await ask(content))
                except ReportedError as error:
                    found.append(error)
        return found

    return within(ask_all)


def text_of(packets: list[dict[str, Any]]) -> str:
    return "".join(packet["p"] for packet in packets if packet["op"] == "delta")


def test_a_question_is_answered(transport: Transport):
    (packets,) = send_all(transport, Application(make_service(Agent(relay), "Hel", "lo")), body())
    assert text_of(packets) == "Hello"
    assert packets[-1]["op"] == "close"


def test_events_reach_a_client_that_displays_them(transport: Transport):
    (packets,) = send_all(transport, Application(make_service(Agent(show))), body(query="Sales"))
    assert [packet["p"]["type"] for packet in packets if packet["op"] == "event"] == ["citation_block"]


async def asks_back(turn: Turn) -> AsyncIterator[Yielded]:
    yield str((await turn.permission("May I?")).status)


def test_on_a_transport_without_a_channel_back_permission_is_denied(transport: Transport):
    (packets,) = send_all(transport, Application(make_service(Agent(asks_back))), body())
    assert text_of(packets) == "nobody"


def test_a_client_gets_what_it_can_display(transport: Transport):
    voice: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
    (packets,) = send_all(transport, Application(make_service(Agent(show))), body(query="Sales", capabilities=voice))
    assert text_of(packets).split() == ["Sales", "Source:", "Report."]


def test_a_repeated_request_is_answered_again_and_never_run_twice(transport: Transport):
    service = make_service(Agent(relay), "once")
    first, again = send_all(transport, Application(service), body(), body())
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
def test_a_refusal_is_the_same_on_every_transport_and_affects_nothing_else(
    transport: Transport, content: Any, code: str, sentence: str
):
    error, after = send_all(transport, Application(make_service(Agent(relay), "fine")), content, body(2))
    assert isinstance(error, ReportedError)
    assert error.code == code
    assert sentence in error.message
    assert text_of(after) == "fine"


def test_another_request_under_the_same_id_is_refused(transport: Transport):
    _, error = send_all(transport, Application(make_service(Agent(relay), "x")), body(), body(query="else"))
    assert error.code == "request_conflict"


def test_another_users_session_is_refused(transport: Transport):
    _, error = send_all(transport, Application(make_service(Agent(relay), "x")), body(), body(2, user="mallory"))
    assert error.code == "forbidden"


def test_another_users_request_id_is_not_found(transport: Transport):
    other = body(user="mallory", session="theirs")
    _, error = send_all(transport, Application(make_service(Agent(relay), "x")), body(), other)
    assert (error.code, error.message) == ("not_found", "There is no such request here")


def test_a_failure_in_mid_stream_is_reported(transport: Transport):
    (error,) = send_all(transport, Application(make_service(Agent(relay), "so far", ScriptedFault("gone"))), body())
    assert (error.code, error.message) == ("backend_failed", "gone")


def test_a_stopping_service_starts_no_turns_and_answers_stored_ones(transport: Transport):
    service = make_service(Agent(relay), "x")
    service.is_draining = True
    if transport.name == "websocket":
        with pytest.raises(Exception, match="503"):
            send_all(transport, Application(service), body())
        return
    (error,) = send_all(transport, Application(service), body())
    assert error.code == "unavailable"


# Not with a queue: there, workers limit how many turns run, and the others wait.
@pytest.mark.parametrize("transport", DIRECT, indirect=True, ids=TRANSPORTS)
def test_more_turns_than_may_run_at_once_are_refused(transport: Transport):
    (error,) = send_all(
        transport, Application(make_service(Agent(relay), "x", rules=SessionRules(concurrent_turns=0))), body()
    )
    assert error.code == "unavailable"
