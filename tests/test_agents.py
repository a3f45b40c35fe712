"""The agents that come with Accord, and how agents are found."""

import re
from collections.abc import AsyncIterator
from functools import partial, wraps
from typing import Any

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.agents import relay
from accord.backends.scripted import ScriptedBackend
from accord.core.output.agent_work import build_plan_event, build_tool_call_event
from accord.errors import UsageError
from accord.ports import SystemClock
from accord.run import Dispatcher, Engine
from accord.wire.agent_work import PLAN, TOOL_CALL
from accord.wire.conversation import TextPart, ToolResultPart, ToolUsePart
from accord.wire.packet import ErrorPacket, EventPacket
from accord.wire.work import (
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    ToolSpec,
    WorkPiece,
)
from tests.run.test_engine import asking, played, said

STREAMS = {"streaming": "native"}


def running(agent: Agent, *backends: ScriptedBackend) -> Engine:
    return Engine(agent, Dispatcher(backends), clock=SystemClock())


def test_the_relay_passes_text_thoughts_and_calls():
    script = [TextPiece(text="a"), ThinkingPiece(text="hm"), ToolCallPiece(id="1", name="calc", input={})]
    packets = played(running(relay, ScriptedBackend("a", [script], STREAMS)).begin(asking()))
    assert said(packets) == "a"
    assert [packet.p["type"] for packet in packets if isinstance(packet, EventPacket)] == [
        "thought_trace",
        "user_error",
    ]


def test_the_relay_shows_each_source_once_and_every_medium_that_a_client_may_open():
    script = [
        TextPiece(text="a"),
        CitationPiece(url="https://a.test/1", title="One", quote="words"),
        MediaPiece(media_type="image/png", data="aGk=", transcript="a dot"),
        CitationPiece(url="https://a.test/1", title="One again"),
        CitationPiece(url="https://a.test/2"),
        CitationPiece(title="without an address"),
        CitationPiece(url="javascript:alert(1)"),
        MediaPiece(media_type="image/png", uri="javascript:alert(1)"),
        MediaPiece(media_type="audio/wav", data=None),
    ]
    packets = played(running(relay, ScriptedBackend("a", [script], STREAMS)).begin(asking()))
    media, sources = (packet.p for packet in packets if isinstance(packet, EventPacket))
    assert media["data"]["items"] == [
        {"url": "data:image/png;base64,aGk=", "mime_type": "image/png", "alt_text": "a dot"}
    ]
    assert sources["data"]["items"] == [
        {"source_id": "https://a.test/1", "uri": "https://a.test/1", "title": "One", "snippet": "words"},
        {"source_id": "https://a.test/2", "uri": "https://a.test/2", "title": "https://a.test/2"},
    ]


@pytest.mark.parametrize(
    ("shows", "types"),
    [
        ([PLAN, TOOL_CALL], [PLAN, TOOL_CALL, TOOL_CALL]),
        (["progress_indicator"], ["progress_indicator"] * 3),
        ([], []),
    ],
    ids=["an editor", "a web page", "a speaker"],
)
def test_the_relay_shows_a_backends_own_work_to_clients_that_can_display_it(shows: list[str], types: list[str]):
    script = [
        WorkPiece(event=build_plan_event(["Look", "Act"])),
        WorkPiece(event=build_tool_call_event("1", "Look", [], {"status": "in_progress"})),
        WorkPiece(event=build_tool_call_event("1", "Look", ["found"], {"status": "completed"})),
        TextPiece(text="Done."),
    ]
    declared = {"supported_events": shows, "prefers_markdown": True}
    packets = played(running(relay, ScriptedBackend("a", [script], STREAMS)).begin(asking(capabilities=declared)))
    assert [packet.p["type"] for packet in packets if isinstance(packet, EventPacket)] == types
    assert said(packets).endswith("Done.")


def test_an_agent_has_its_functions_name_unless_it_has_its_own():
    async def helper(_: Turn) -> AsyncIterator[Yielded]:
        yield ""

    assert Agent(helper).name == "helper"
    assert Agent(helper, name="other").name == "other"


def returns_text(turn: Turn):
    return turn.text


async def is_a_coroutine(turn: Turn) -> str:
    return turn.text


def is_a_plain_generator(turn: Turn):
    yield turn.text


async def takes_nothing():
    yield "a"


@pytest.mark.parametrize(
    ("run", "cure"),
    [
        (returns_text, "returns_text cannot be an agent, which is an async generator function; write `async def`"),
        (is_a_coroutine, "it is a coroutine function: use `yield` instead of `return`"),
        (is_a_plain_generator, "it is a plain generator: write `async def` instead of `def`"),
        (takes_nothing, "takes_nothing cannot be an agent: it should take one argument, the turn"),
        ("demo", "str cannot be an agent, which is an async generator function"),
    ],
)
@pytest.mark.parametrize("is_decorator", [True, False])
def test_a_function_that_is_no_async_generator_is_refused_at_once(run: Any, cure: str, is_decorator: bool):
    with pytest.raises(UsageError, match=re.escape(cure)) as caught:
        Agent()(run) if is_decorator else Agent(run)
    assert isinstance(run, str) or str(caught.value).startswith(f"{__file__}:{run.__code__.co_firstlineno}: ")


class Answering:
    """An object that is an agent's function."""

    async def __call__(self, turn: Turn) -> AsyncIterator[Yielded]:
        yield turn.text

    async def answer(self, prefix: str, turn: Turn) -> AsyncIterator[Yielded]:
        yield prefix + turn.text


def passing_on(turn: Turn) -> AsyncIterator[Yielded]:
    return Answering()(turn)


@wraps(Answering().__call__)
def decorated(*arguments: Any) -> Any:
    return Answering()(*arguments)


@pytest.mark.parametrize(
    "run", [Answering(), Answering().__call__, partial(Answering().answer, ""), passing_on, decorated]
)
def test_whatever_gives_an_async_generator_can_be_an_agent(run: Any):
    assert said(played(running(Agent(run)).begin(asking("hello")))) == "hello"


@pytest.mark.parametrize(
    ("accepts", "declared"),
    [
        (["image"], {"image": True}),
        (("audio", "embeddedContext", "text"), {"audio": True, "embeddedContext": True}),
        (["resource"], {"embeddedContext": True}),
        ([], {}),
        ({"image": True, "_meta": {"x": 1}}, {"image": True, "_meta": {"x": 1}}),
        (None, None),
    ],
)
def test_what_an_agent_accepts_is_a_list_of_names_or_a_declaration(accepts: Any, declared: Any):
    assert Agent(accepts=accepts).accepts == declared


@pytest.mark.parametrize(
    ("accepts", "sentence"),
    [
        (["imgae"], 'accepts: unknown content "imgae"; did you mean image?'),
        ({"Audio": True}, 'accepts: unknown content "Audio"; did you mean audio?'),
        (["embedded_context"], 'accepts: unknown content "embedded_context"; did you mean embeddedContext?'),
        (["video"], 'accepts: unknown content "video"; known are image, audio, embeddedContext'),
        (7, 'accepts: expected names such as ["image"], or {"image": True}, not 7'),
        ({"image": "yes"}, "accepts: image should be True or False, not 'yes'"),
    ],
)
def test_what_an_agent_cannot_accept_is_refused_in_one_sentence(accepts: Any, sentence: str):
    with pytest.raises(UsageError) as caught:
        Agent(accepts=accepts)
    assert str(caught.value) == sentence


def test_a_question_takes_dicts_for_tools_content_and_requirements():
    async def asking_with_dicts(turn: Turn) -> AsyncIterator[Yielded]:
        answer = turn.ask(
            "What is this?",
            content=[{"type": "image", "data": "aGk=", "mimeType": "image/png"}],
            tools=[{"name": "add", "input_schema": {"type": "object"}}],
            requirements={"required": [{"capability": "tool_use", "min_support": "native"}]},
            stop="END",
        )
        yield await answer.text()

    manifest = {**STREAMS, "tool_use": "native", "image_input": "native", "stop_sequences": "native"}
    backend = ScriptedBackend("a", [["A cat."]], manifest)
    assert said(played(running(Agent(asking_with_dicts), backend).begin(asking()))) == "A cat."
    (order,) = backend.orders
    assert order.tools == [ToolSpec(name="add", input_schema={"type": "object"})]
    assert order.stop_sequences == ["END"]
    assert [part.type for part in order.conversation.messages[-1].content] == ["text", "image"]
    assert order.requirements.required[0].capability == "tool_use"


MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        {"tools": [{"name": "add", "inputSchema": {}}]},
        'ToolSpec: unknown key "inputSchema"; did you mean input_schema?',
    ),
    ({"tools": [{"description": "x"}]}, "Not a valid ToolSpec: name: Field required"),
    ({"schema": ToolSpec}, "schema: expected a JSON Schema as a dict, such as MyModel.model_json_schema()"),
    ({"requirements": {"require": []}}, 'CapabilityRequirements: unknown key "require"; did you mean required?'),
]


@pytest.mark.parametrize(("question", "sentence"), MISTAKES)
def test_a_mistake_in_a_question_is_the_agents_failure_and_names_the_cure(
    question: dict[str, Any], sentence: str, caplog: pytest.LogCaptureFixture
):
    async def asks(turn: Turn) -> AsyncIterator[Yielded]:
        yield await turn.ask(**question).text()

    packets = played(running(Agent(asks), ScriptedBackend("a", [["a"]], STREAMS)).begin(asking()))
    (error,) = [packet.p for packet in packets if isinstance(packet, ErrorPacket)]
    assert error.code == "agent_failed"
    (record,) = [record for record in caplog.records if record.name == "accord.agent"]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == sentence


def test_an_agent_goes_on_with_what_its_tools_gave():
    async def adding(turn: Turn) -> AsyncIterator[Yielded]:
        tools = [ToolSpec(name="add")]
        answer = turn.ask(tools=tools)
        results = [turn.result(call, "2") for call in await answer.calls()]
        async for text in turn.ask(tools=tools, follow=[answer.message, *results]):
            yield text

    call = ToolCallPiece(id="1", name="add", input={"a": 1}, signature="seal")
    scripts = [["Let me see.", call, EndPiece(reason="tool_use")], ["It is 2."]]
    backend = ScriptedBackend("a", scripts, {"streaming": "native", "tool_use": "native"})
    assert said(played(running(Agent(adding), backend).begin(asking()))) == "It is 2."
    asked, called, answered = backend.orders[1].conversation.messages
    assert asked == backend.orders[0].conversation.messages[0]
    assert called.content == [
        TextPart(text="Let me see."),
        ToolUsePart(id="1", name="add", input={"a": 1}, signature="seal"),
    ]
    assert answered.content == [ToolResultPart(tool_use_id="1", content=[TextPart(text="2")])]
