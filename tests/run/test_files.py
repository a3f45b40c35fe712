"""The files of a request reach the backend as links (decision 1), whatever its API is."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord.agent import Turn, Yielded
from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ModelApi
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.model import Endpoint, ModelBackend
from accord.backends.scripted import EchoBackend, ScriptedBackend
from accord.core.work.emulation.choose import preset_config
from accord.ports import Backend, SystemClock
from accord.wire.conversation import ResourceLinkPart, TextPart
from tests.backends.acp.agents import agent as acp_agent
from tests.backends.models.test_openai_discovery import Recorded
from tests.run.playing import STREAMS, asking, engine, relay
from tests.run.test_engine import played, said

FILE = "https://files.example/reports/q3.pdf?version=2"
LINK = ResourceLinkPart(uri=FILE, name="q3.pdf")
SYSTEM_MESSAGE = {"required": [{"capability": "system_message", "min_support": "emulated"}]}
NOTE = {"type": "resource_link", "uri": "file:///note.txt", "name": "A note"}


def links_sent(run: Any = relay, **payload: Any) -> list[ResourceLinkPart]:
    """The links in the last message that a backend got."""
    backend = ScriptedBackend("a", [["Seen."]], STREAMS)
    played(engine(run, backend).begin(asking("Summarise it", **payload)))
    (order,) = backend.orders
    return [part for part in order.conversation.messages[-1].content if isinstance(part, ResourceLinkPart)]


def test_decision_1_the_files_of_a_request_are_links_of_the_prompt():
    assert links_sent(files=[FILE]) == [LINK]
    assert links_sent(files=[]) == []
    assert [link.uri for link in links_sent(files=["a.txt", FILE, "b.txt"])] == ["a.txt", FILE, "b.txt"]


def test_files_follow_the_content_and_a_file_that_is_linked_there_is_not_repeated():
    note = ResourceLinkPart(uri="file:///note.txt", name="A note")
    assert links_sent(files=[FILE, "file:///note.txt"], content=[NOTE]) == [note, LINK]


async def with_its_own_prompt(turn: Turn) -> AsyncIterator[Yielded]:
    yield await turn.ask("Another question").text()


async def with_its_own_content(turn: Turn) -> AsyncIterator[Yielded]:
    yield await turn.ask(content=[]).text()


async def with_the_users_content(turn: Turn) -> AsyncIterator[Yielded]:
    assert list(turn.files) == [FILE]
    yield await turn.ask("Another question", content=turn.content).text()


@pytest.mark.parametrize(
    ("run", "links"), [(with_its_own_prompt, []), (with_its_own_content, []), (with_the_users_content, [LINK])]
)
def test_an_agent_with_a_prompt_or_content_of_its_own_decides_itself(run: Any, links: list[ResourceLinkPart]):
    assert links_sent(run, files=[FILE]) == links


APIS: dict[str, ModelApi] = {
    "openai chat": ChatCodec(),
    "openai responses": ResponsesCodec(),
    "anthropic": MessagesCodec(),
    "gemini": GeminiCodec(),
}


@pytest.mark.parametrize("name", APIS)
def test_every_model_api_is_sent_the_address_and_the_name(name: str):
    upstream = Recorded(b"{}")
    endpoint = Endpoint("https://api.example.org/v1", "a-model", "k")
    backend = ModelBackend("b", APIS[name], endpoint, upstream, SystemClock())
    played(engine(relay, backend).begin(asking("Summarise it", files=[FILE])))
    body = (upstream.sent[0].body or b"").decode()
    assert FILE in body
    assert "q3.pdf" in body.replace(FILE, "")


@pytest.mark.parametrize(
    ("backend", "answer"),
    [(acp_agent("echo"), f"Summarise it<{FILE} q3.pdf> "), (EchoBackend(), f"Summarise it {FILE} ")],
    ids=["acp", "echo"],
)
def test_agents_and_the_echo_get_the_link(backend: Backend, answer: str):
    assert said(played(engine(relay, backend).begin(asking("Summarise it", files=[FILE])))) == answer


def test_a_link_survives_every_emulation_that_rewrites_messages():
    async def with_everything(turn: Turn) -> AsyncIterator[Yielded]:
        answer = turn.ask(
            system="Be brief.", tools=[{"name": "calc"}], stop="END", thinking=True, requirements=SYSTEM_MESSAGE
        )
        yield await answer.text()

    backend = ScriptedBackend("a", [["Seen."]], {})
    played(engine(with_everything, backend, emulation=preset_config()).begin(asking("Summarise it", files=[FILE])))
    parts = [part for message in backend.orders[0].conversation.messages for part in message.content]
    assert LINK in parts
    assert any(isinstance(part, TextPart) and "calc" in part.text for part in parts)
