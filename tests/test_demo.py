"""The demo: its tour as each client gets it, what its receipt says, its commands, and its backends."""

import asyncio
import json
from base64 import b64decode, b64encode
from contextlib import aclosing
from io import BytesIO
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from accord.agents import demo
from accord.agents.demo.backends import BEFORE_SCHEMA, demo_backends
from accord.agents.demo.chart import BASE, HEIGHT, LEFT, TOP, WIDTH
from accord.agents.demo.pace import PACE_VARIABLE, Pace, read_pace
from accord.agents.demo.tour import COMMANDS, FIGURES
from accord.agents.relay import relay_with
from accord.backends.scripted import ScriptedBackend, ScriptedFault
from accord.core.output import ClientAdapter
from accord.core.receipt import verify
from accord.core.work.plan import PlanConfig
from accord.errors import UsageError
from accord.ports import Backend
from accord.run import Dispatcher, Engine, Sessions
from accord.stores.memory import MemoryStore
from accord.wire.conversation import ChatMessage, Role
from accord.wire.emulation import Disabled, EmulationConfig
from accord.wire.event import PresentationEventType
from accord.wire.packet import ErrorPacket, EventPacket, StreamPacket
from accord.wire.plan import WorkPolicy
from accord.wire.receipt import Receipt
from accord.wire.request import ClientCapabilities
from accord.wire.work import EndPiece, TextPiece, WorkOrder
from tests.run.playing import asking, collected, played, respond, said, within

CLIENTS = {
    "web": None,
    "cli": ClientCapabilities(supported_events=["PROGRESS_INDICATOR"], prefers_markdown=True),
    "voice": ClientCapabilities(supported_events=[], prefers_markdown=False),
}
NATIVE = {"streaming": "native", "image_input": "native", "structured_output_json_schema": "native"}
SALES = '{"sales": [{"region": "North", "units": 42}]}'


def served(*backends: Backend, **options: Any) -> Engine:
    return Engine(demo, Dispatcher(backends or demo_backends(), config=PlanConfig(**options)))


def image_block(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": b64encode(data).decode(), "mimeType": kind}


def encoded(image: Image.Image, name: str = "PNG") -> bytes:
    out = BytesIO()
    image.save(out, name)
    return out.getvalue()


def made_by_the_agent(query: str, **payload: Any) -> list[StreamPacket]:
    """The packets of a turn before they are adapted."""

    async def run() -> list[StreamPacket]:
        return [packet async for packet in served().begin(asking(query, **payload)).packets()]

    return within(run)


def events(packets: list[StreamPacket]) -> list[dict[str, Any]]:
    return [packet.p for packet in packets if isinstance(packet, EventPacket)]


# --- the tour ---


def test_the_tour_shows_every_kind_of_event_and_quotes_the_text():
    packets = made_by_the_agent("hello")
    assert {event["type"] for event in events(packets)} == {str(kind) for kind in PresentationEventType}
    assert not any(isinstance(packet, ErrorPacket) for packet in packets)
    assert "- text: `hello`\n" in said(packets)
    shares = [event["data"]["progress_percent"] for event in events(packets) if event["type"] == "progress_indicator"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


CHART = "Bar chart of units sold: North 42, South 27, East 35, West 18"
SEEN = "I see a PNG image of 480 × 240 pixels; about 75% of it is white (#fafbfc)."
FAILED = "The weather could not be looked up (part of the demo)."
PARTS: list[tuple[str, str, list[str], list[str]]] = [
    ("json", "web", [], ["## JSON from any model", '{"region": "North", "units": 42},\n', "| `North` | 42 |"]),
    ("json", "cli", [], ["```json\n", "| `West` | 18 |\n", "Answered by `demo-text` in 2 requests."]),
    (
        "json",
        "voice",
        [],
        ["Region: North, Units: 42.", "(JSON code, 6 lines)", "Answered by demo-text in 2 requests."],
    ),
    ("chart", "web", ["media_carousel"], ["## A chart\n"]),
    ("chart", "cli", [], [f"Image: {CHART} (PNG)"]),
    ("chart", "voice", [], [f"Image: {CHART}."]),
    ("image", "web", ["media_carousel"], ["The agent asks about the chart above", f"> {SEEN}\n"]),
    ("image", "cli", [], [f"> {SEEN}\n", "Answered by `demo-vision` in 1 request."]),
    ("image", "voice", [], [f"\n{SEEN}\n"]),
    ("sources", "web", ["citation_block"], ["## Sources\n"]),
    ("sources", "cli", [], ["Sources:\n1. Agent Client Protocol: <https://agentclientprotocol.com>\n2. JSON Schema"]),
    ("sources", "voice", [], ["Sources: Agent Client Protocol, JSON Schema and CommonMark."]),
    ("error", "web", ["user_error"], ["and the answer goes on."]),
    ("error", "cli", [], [f"Error: {FAILED} Trying again may help.\n", "and the answer goes on."]),
    ("error", "voice", [], [f"Error: {FAILED} Trying again may help.\n", "and the answer goes on."]),
]


@pytest.mark.parametrize(("command", "client", "types", "texts"), PARTS)
def test_each_client_gets_each_part_in_its_own_way_and_the_totals_add_up(
    command: str, client: str, types: list[str], texts: list[str]
):
    packets = made_by_the_agent(command)
    adapter = ClientAdapter(CLIENTS[client])
    adapted = [out for packet in packets for out in adapter.feed(packet)]
    assert [event["type"] for event in events(adapted)] == types
    assert [text for text in texts if text not in said(adapted)] == []
    assert adapter.report.total() == len(packets)
    assert sum(entry.count for entry in adapter.report.entries) == len(packets)


@pytest.mark.parametrize("client", CLIENTS)
def test_of_the_whole_tour_the_totals_add_up_for_each_client(client: str):
    packets = made_by_the_agent("hello")
    adapter = ClientAdapter(CLIENTS[client])
    adapted = [out for packet in packets for out in adapter.feed(packet)]
    assert adapter.report.total() == len(packets)
    assert (adapter.report.totals[cast("Any", "native")] == len(packets)) is (client == "web")
    assert len(events(adapted)) == {"web": 13, "cli": 8, "voice": 0}[client]
    assert ("**" in said(adapted)) is (client != "voice")


def test_the_receipt_of_the_tour_has_its_plans_the_emulation_and_each_attempt():
    async def run() -> Receipt:
        store = MemoryStore()
        await store.open()
        sessions = Sessions(served(), store)
        await respond(sessions, asking("hello"))
        return await sessions.receipt(str(asking().request_id))

    receipt = within(run)
    assert verify([receipt]).ok
    by_schema, by_sight = receipt.work
    assert by_schema.backend is not None
    assert by_schema.backend.name == "demo-text"
    assert by_schema.emulations is not None
    assert [entry.capability for entry in by_schema.emulations.emulated] == ["structured_output_json_schema"]
    assert [(attempt.ok, attempt.problems) for attempt in by_schema.emulations.attempts] == [
        (False, ["there is no complete JSON value in the answer"]),
        (True, []),
    ]
    assert [(each.backend, each.chosen, each.why) for each in by_sight.candidates] == [
        ("demo-vision", True, "0 losses, 0 compromises"),
        ("demo-text", False, "image_input (declared unsupported)"),
    ]
    assert receipt.adaptation is not None
    assert receipt.outcome.status == "done"


def test_a_second_turn_has_the_same_tour_with_its_own_retry():
    first = said(made_by_the_agent("hello"))
    history = [ChatMessage(role=Role.USER, content="hello"), ChatMessage(role=Role.ASSISTANT, content=first)]
    turn = served().begin(asking("hello"), history)
    assert said(played(turn)) == first
    assert turn.work[0].emulation is not None
    assert [attempt.ok for attempt in turn.work[0].emulation.attempts] == [False, True]


CONTENT: list[tuple[dict[str, Any], str]] = [
    (image_block(b"12345678"), "an image of type `image/png`, 9 bytes"),
    ({"type": "resource_link", "uri": "https://x.example/a", "name": "a|b `c`\n# d"}, "a link to `a/b 'c' # d`"),
    ({"type": "resource", "resource": {"uri": "file:///notes.txt", "text": "x"}}, "the resource `file:///notes.txt`"),
    ({"type": "text", "text": "x" * 100}, f"text: `{'x' * 80}…`"),
]


@pytest.mark.parametrize(("block", "line"), CONTENT)
def test_what_came_in_is_listed_without_its_markup(block: dict[str, Any], line: str):
    assert f"\n- {line}\n" in said(made_by_the_agent("hello", content=[block]))


def test_an_empty_message_is_listed_as_nothing():
    assert "Accepted:\n\n- nothing\n\n" in said(made_by_the_agent(" "))


def test_a_file_is_listed_as_a_link():
    assert "\n- a link to `q3.pdf`\n" in said(made_by_the_agent("hello", files=["https://x.example/q3.pdf"]))


# --- the chart and images ---


def test_the_chart_has_real_pixels_whose_heights_are_the_figures():
    (event,) = [event for event in events(made_by_the_agent("chart")) if event["type"] == "media_carousel"]
    (item,) = event["data"]["items"]
    start, _, data = item["url"].partition(",")
    assert start == "data:image/png;base64"
    image = Image.open(BytesIO(b64decode(data)))
    image.load()
    assert (image.format, image.size) == ("PNG", (WIDTH, HEIGHT))
    pixels = image.convert("RGB")
    step = (WIDTH - 2 * LEFT) // len(FIGURES)
    columns = [[pixels.getpixel((LEFT + place * step + step // 2, row)) for row in range(HEIGHT)] for place in range(4)]
    bar = (0x2F, 0x6F, 0xDB)
    assert [column.count(bar) for column in columns] == [units * (BASE - TOP) // 42 for units in FIGURES.values()]
    assert all(f"{name} {units}" in item["alt_text"] for name, units in FIGURES.items())


IMAGES: list[tuple[list[dict[str, Any]], str]] = [
    (
        [image_block(encoded(Image.new("RGB", (40, 30), (210, 30, 30))))],
        "your image:\n\n> I see a PNG image of 40 × 30 pixels; about 100% of it is red (#d21e1e).\n",
    ),
    (
        [image_block(encoded(Image.new("L", (64, 48), 0), "JPEG"), "image/jpeg")],
        "your image:\n\n> I see a JPEG image of 64 × 48 pixels; about 100% of it is black (#000000).\n",
    ),
    (
        [image_block(encoded(Image.new("RGBA", (5, 6)))), image_block(b"no image")],
        "your 2 images:\n\n> I see a PNG image of 5 × 6 pixels; about 100% of it is transparent. I cannot read this image.\n",
    ),
]


@pytest.mark.parametrize(("blocks", "answer"), IMAGES)
@pytest.mark.parametrize("query", ["image", "What is this?"])
def test_a_question_about_an_image_is_answered_from_its_bytes(query: str, blocks: list[dict[str, Any]], answer: str):
    packets = made_by_the_agent(query, content=blocks)
    assert f"The agent asks about {answer}" in said(packets)
    shows_the_chart = any(event["type"] == "media_carousel" for event in events(packets))
    assert shows_the_chart is (query != "image")


def test_data_that_is_no_base64_is_no_image():
    async def run() -> str:
        order = WorkOrder.model_validate(
            {
                "conversation": {
                    "messages": [{"role": "user", "content": [{"type": "image", "media_type": "", "data": "a"}]}]
                }
            }
        )
        return "".join([piece.text async for piece in demo_backends()[1].answer(order) if isinstance(piece, TextPiece)])

    assert within(run) == "I cannot read this image."


# --- other backends ---


def test_the_answering_model_is_named_only_if_the_answer_says_it():
    named = ScriptedBackend("a", [[SALES, EndPiece(model="some-model", usage={"requests": "many"})]], NATIVE)
    assert "Answered by `some-model`.\n" in said(played(served(named).begin(asking("json"))))
    nameless = ScriptedBackend("a", [[SALES]], NATIVE)
    text = said(played(served(nameless).begin(asking("json"))))
    assert "| `North` | 42 |" in text
    assert "Answered" not in text


def test_a_long_answer_about_an_image_stays_in_its_quotation():
    backend = ScriptedBackend("a", [["A cat\non", " a\n\nmat."]], NATIVE)
    assert said(played(served(backend).begin(asking("image")))).endswith(":\n\n> A cat\n> on a\n> \n> mat.\n\n")


def test_an_answer_that_breaks_off_ends_its_quotation():
    backend = ScriptedBackend("a", [["A cat", ScriptedFault("it is down")]], NATIVE)
    assert said(played(served(backend).begin(asking("image")))).endswith("> A cat\n\n")


LENIENT = {
    "policy": WorkPolicy.PERMISSIVE,
    "emulation": EmulationConfig(strategies={"structured_output_json_schema": Disabled(reason="off")}),
}
TROUBLES: list[tuple[list[Any], dict[str, Any], str, bool]] = [
    ([ScriptedFault("it is down")], {}, "it is down", True),
    (["Good morning."], {}, "The backend did not give the structured_output_json_schema that it declares", False),
    (["Good morning."], LENIENT, "The answer does not match the schema.", True),
]


@pytest.mark.parametrize(("script", "options", "message", "retryable"), TROUBLES)
def test_a_question_that_fails_is_shown_and_the_turn_goes_on(
    script: list[Any], options: dict[str, Any], message: str, retryable: bool
):
    manifest = {"streaming": "native"} if options else NATIVE
    packets = played(served(ScriptedBackend("a", [script], manifest), **options).begin(asking("json")))
    (event,) = events(packets)
    assert message in event["data"]["message"]
    assert event["data"]["retryable"] is retryable
    assert not any(isinstance(packet, ErrorPacket) for packet in packets)


def test_without_any_backend_the_tour_goes_on_and_shows_what_is_missing():
    packets = played(Engine(demo, Dispatcher([])).begin(asking("hello")))
    missing = [event["data"]["message"] for event in events(packets) if event["type"] == "user_error"]
    assert missing == [*["No backend can do this work: none is configured"] * 2, FAILED]
    assert events(packets)[-1]["type"] == "markdown_block"


# --- commands ---


@pytest.mark.parametrize("query", ["hello", "", "  Long story", "json please", "long 1234567", "long -1"])
def test_any_other_text_starts_the_tour(query: str):
    assert "## What came in\n" in said(made_by_the_agent(query, content=[CONTENT[0][0]]))


def test_help_lists_every_command():
    text = said(made_by_the_agent(" HELP\n"))
    assert [line.partition("`")[2].partition("`")[0] for line in text.splitlines() if line.startswith("- ")] == [
        *COMMANDS,
        "long 5000",
    ]


@pytest.mark.parametrize(("query", "words"), [("long", 1_000), ("long 10000", 10_000), ("long 1", 1), ("long 0", 0)])
def test_a_long_answer_has_about_as_many_words_each_in_its_packet(query: str, words: int):
    packets = made_by_the_agent(query)
    assert words <= len(said(packets).split()) <= words + 100
    assert len(packets) == len(said(packets).split()) + 1
    assert said(packets).count("```") % 2 == 0


def test_the_failing_command_ends_with_an_error_that_hides_the_message(caplog: pytest.LogCaptureFixture):
    (error,) = [packet.p for packet in made_by_the_agent("fail") if isinstance(packet, ErrorPacket)]
    assert (error.code, error.message) == ("agent_failed", "The agent failed (RuntimeError)")
    assert "This exception is part of the demo" in caplog.text


def test_the_slow_command_can_be_stopped():
    async def run() -> list[StreamPacket]:
        turn, packets = served().begin(asking("slow")), list[StreamPacket]()
        async with aclosing(turn.packets()) as made:
            async for packet in made:
                packets.append(packet)
                if packet.p == "2 ":
                    turn.cancel()
        return packets

    packets = within(run)
    assert said(packets).endswith("\n\n1 2 ")
    assert cast("ErrorPacket", packets[-2]).p.code == "cancelled"


# --- the pace ---


@pytest.mark.parametrize(("given", "factor"), [(None, 1.0), ("", 1.0), ("0", 0.0), ("0.5", 0.5), ("3", 3.0)])
def test_the_environment_sets_the_pace(monkeypatch: pytest.MonkeyPatch, given: str | None, factor: float):
    monkeypatch.delenv(PACE_VARIABLE)
    if given is not None:
        monkeypatch.setenv(PACE_VARIABLE, given)
    assert read_pace() == Pace(factor)


@pytest.mark.parametrize("given", ["fast", "-1", "nan", "inf"])
def test_a_pace_that_is_no_number_is_refused_before_anything_is_served(monkeypatch: pytest.MonkeyPatch, given: str):
    monkeypatch.setenv(PACE_VARIABLE, given)
    with pytest.raises(UsageError, match=f"ACCORD_DEMO_PACE={given}: expected a number from 0"):
        demo_backends()


@given(st.text())
def test_words_are_the_text_in_pieces(text: str):
    async def run() -> list[str]:
        return [word async for word in Pace(0).words(text, 1.0)]

    words = asyncio.run(run())
    assert "".join(words) == text
    assert len(words) <= len(text.split()) + 1


def test_a_pause_is_as_long_as_the_pace_says():
    async def run() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await Pace(2).pause(0.02)
        return loop.time() - began

    assert asyncio.run(run()) >= 0.04


# --- the backends with other questions ---


def person(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


SCHEMAS: list[tuple[str, dict[str, Any], Any]] = [
    ("Ada is 36", person(name={"type": "string"}, age={"type": "number"}), {"name": "Ada", "age": 36}),
    ("Ada is 36, Bob 7", {"type": "array", "items": {"type": "string"}}, ["Ada", "Bob"]),
    ("Ada is 36, Bob 7", {"type": "integer"}, 2),
    ("Ada is 36", {"type": "integer"}, 36),
    ("Nobody", person(known={"type": "boolean"}, mood={"enum": ["calm"]}), {"known": False, "mood": "calm"}),
    ("Nobody", person(note={"anyOf": [{"type": "null"}, {"type": "string"}]}), {"note": None}),
]


@pytest.mark.parametrize(("query", "schema", "value"), SCHEMAS)
def test_a_simple_schema_is_filled_from_the_question(query: str, schema: dict[str, Any], value: Any):
    engine = Engine(relay_with(schema=schema), Dispatcher(demo_backends()))
    turn = engine.begin(asking(query))
    assert json.loads(said(played(turn))) == value
    assert turn.work[0].emulation is not None
    assert [attempt.ok for attempt in turn.work[0].emulation.attempts] == [False, True]


def test_a_schema_that_it_cannot_fill_fails_after_its_retries():
    schema = {"type": "object", "required": ["a"]}
    turn = Engine(relay_with(schema=schema), Dispatcher(demo_backends())).begin(asking("Ada is 36"))
    assert said(played(turn)) == ""
    assert turn.failure is not None
    assert turn.failure.code == "emulation_failed"


NO_SCHEMAS = ["[", "[" * 100_000, '{"enum": 5}', '{"type": "object", "properties": []}', '{"anyOf": {"a": 1}}']


@pytest.mark.parametrize(
    "system", [None, *(BEFORE_SCHEMA + each for each in NO_SCHEMAS)], ids=lambda text: str(text)[-9:]
)
def test_any_other_question_gets_the_truth_about_the_backend(system: str | None):
    engine = Engine(relay_with(system=system), Dispatcher(demo_backends()))
    text = said(asyncio.run(collected(engine.begin(asking("One two three")))))
    assert text.startswith("I am demo-text, a script without a model. Your message has 3 words.")
