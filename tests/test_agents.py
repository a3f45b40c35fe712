"""The agents that come with Accord, and how agents are found."""

from collections.abc import AsyncIterator

import pytest

from accord.agent import Agent, Turn, Yielded, load_agent
from accord.agents import demo, relay
from accord.backends.scripted import ScriptedBackend
from accord.core.show import show_plan, show_tool_call
from accord.engine import Dispatcher, Engine
from accord.engine.clock import SystemClock
from accord.errors import UsageError
from accord.wire.answer import EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece
from accord.wire.conversation import TextPart, ToolResultPart, ToolUsePart
from accord.wire.event import PresentationEventType
from accord.wire.packet import ErrorPacket, EventPacket
from accord.wire.work import ToolSpec
from accord.wire.working import PLAN, TOOL_CALL
from tests.engine.test_engine import asking, played, said

STREAMS = {"streaming": "native"}


def running(agent: Agent, *backends: ScriptedBackend) -> Engine:
    return Engine(agent, Dispatcher(backends), clock=SystemClock())


def test_the_demo_shows_every_event_and_fails_at_nothing():
    packets = played(running(demo).begin(asking("hello")))
    shown = {packet.p["type"] for packet in packets if isinstance(packet, EventPacket)}
    assert shown == {str(kind) for kind in PresentationEventType}
    assert not any(isinstance(packet, ErrorPacket) for packet in packets)
    assert "You said: **hello**." in said(packets)


def test_the_demo_can_be_heard():
    heard = said(
        played(running(demo).begin(asking("hello", capabilities={"supported_events": [], "prefers_markdown": False})))
    )
    assert "**" not in heard
    assert "```" not in heard
    assert "what: text, how: as it comes." in heard


def test_the_relay_passes_text_thoughts_and_calls():
    script = [TextPiece(text="a"), ThinkingPiece(text="hm"), ToolCallPiece(id="1", name="calc", input={})]
    packets = played(running(relay, ScriptedBackend("a", [script], STREAMS)).begin(asking()))
    assert said(packets) == "a"
    assert [packet.p["type"] for packet in packets if isinstance(packet, EventPacket)] == [
        "thought_trace",
        "user_error",
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
def test_the_relay_shows_a_backends_own_work_to_whoever_can_see_it(shows: list[str], types: list[str]):
    script = [
        WorkPiece(shown=show_plan(["Look", "Act"])),
        WorkPiece(shown=show_tool_call("1", "Look", [], {"status": "in_progress"})),
        WorkPiece(shown=show_tool_call("1", "Look", ["found"], {"status": "completed"})),
        TextPiece(text="Done."),
    ]
    declared = {"supported_events": shows, "prefers_markdown": True}
    packets = played(running(relay, ScriptedBackend("a", [script], STREAMS)).begin(asking(capabilities=declared)))
    assert [packet.p["type"] for packet in packets if isinstance(packet, EventPacket)] == types
    assert said(packets).endswith("Done.")


def test_an_agent_is_found_by_module_and_name():
    assert load_agent("accord.agents:demo") is demo


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("accord.agents", "accord.agents: expected module:name, such as my_agent:agent"),
        ("no_such_module:agent", "no_such_module:agent: there is no module no_such_module"),
        ("accord.agents:nobody", "accord.agents:nobody: the module has no nobody"),
        ("accord.errors:FACTS", "accord.errors:FACTS: expected an accord.Agent, found mappingproxy"),
    ],
)
def test_an_agent_that_cannot_be_found_is_told_in_one_sentence(place: str, sentence: str):
    with pytest.raises(UsageError) as caught:
        load_agent(place)
    assert str(caught.value) == sentence


def test_an_agent_has_its_functions_name_unless_it_has_its_own():
    async def helper(_: Turn) -> AsyncIterator[Yielded]:
        yield ""

    assert Agent(helper).name == "helper"
    assert Agent(helper, name="other").name == "other"


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
