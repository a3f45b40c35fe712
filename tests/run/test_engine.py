"""Whole turns on a scripted backend: common cases, failures, limits."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast
from uuid import UUID

import pytest

from accord.agent import Turn, UserFacingError, Yielded
from accord.backends.scripted import Pause, ScriptedBackend, ScriptedFault
from accord.core.work.emulation.choose import preset_config
from accord.errors import AccordError, AgentError, BackendError, ErrorCode, RefusedError, TimedOutError
from accord.run import TimeLimits
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamPacket
from accord.wire.plan import Plan, Refusal, WorkPolicy
from accord.wire.request import ClientCapabilities
from tests.run.playing import IMAGE, SEES, STREAMS, asking, engine, played, relay, said, within

# --- stories ---


def test_a_turn_is_relayed_to_the_negotiated_backend():
    backend = ScriptedBackend("a", [["Hel", "lo"]], STREAMS)
    packets = played(engine(relay, backend).begin(asking("Say hello")))
    assert [type(packet) for packet in packets] == [DeltaPacket, DeltaPacket, ClosePacket]
    assert said(packets) == "Hello"
    assert backend.orders[0].conversation.messages[-1].content[0].dump()["text"] == "Say hello"


def test_an_image_to_an_agent_without_images_is_refused_before_anything_happens():
    backend = ScriptedBackend("a", [["never"]], SEES)
    packets = played(engine(relay, backend).begin(asking(content=[IMAGE])))
    assert [type(packet) for packet in packets] == [ErrorPacket, ClosePacket]
    assert packets[0].p.code == "content_unsupported"
    assert packets[0].p.message == "Invalid content type: agent does not support image content"
    assert backend.orders == []


def test_an_image_goes_to_the_backend_that_can_see():
    blind, seeing = ScriptedBackend("blind", [["no"]], STREAMS), ScriptedBackend("seeing", [["A cat."]], SEES)
    running = engine(relay, blind, seeing, accepts={"image": True}).begin(asking(content=[IMAGE]))
    assert said(played(running)) == "A cat."
    plan = running.work[0].outcome
    assert isinstance(plan, Plan)
    assert plan.lost[0].why == "image_input (not declared)"


def test_json_on_a_model_without_it_is_emulated_validated_and_requested_again():
    async def extract(turn: Turn) -> AsyncIterator[Yielded]:
        value = await turn.ask(schema={"type": "object", "required": ["n"]}).value()
        yield f"n is {value['n']}"

    backend = ScriptedBackend("a", [["Sure: {}"], ['```json\n{"n": 4}\n```']], STREAMS)
    running = engine(extract, backend).begin(asking())
    assert said(played(running)) == "n is 4"
    record = running.work[0].emulation
    assert record is not None
    assert [attempt.ok for attempt in record.attempts] == [False, True]
    assert len(backend.orders) == 2


def test_a_web_a_terminal_and_a_voice_client_get_the_same_run_each_adapted():
    async def show(turn: Turn) -> AsyncIterator[Yielded]:
        yield "**Sales** grew.\n\n"
        yield turn.citation({"source_id": "1", "uri": "https://example.com/r", "title": "Report"})

    clients: dict[str, Any] = {
        "web": None,
        "cli": {"supported_events": [], "prefers_markdown": True},
        "voice": {"supported_events": [], "prefers_markdown": False},
    }
    shown = {name: played(engine(show).begin(asking(capabilities=client))) for name, client in clients.items()}
    assert [type(packet) for packet in shown["web"]] == [DeltaPacket, EventPacket, ClosePacket]
    assert said(shown["cli"]) == "**Sales** grew.\n\nSources:\n1. Report: <https://example.com/r>"
    assert said(shown["voice"]).split() == ["Sales", "grew.", "Source:", "Report."]


def test_a_backend_that_fails_before_its_first_piece_is_replaced_and_recorded():
    first = ScriptedBackend("first", [[ScriptedFault("gone")]], STREAMS)
    second = ScriptedBackend("second", [["Here."]], STREAMS)
    running = engine(relay, first, second).begin(asking())
    assert said(played(running)) == "Here."
    assert running.work[0].backend == "second"
    assert [(name, error.message) for name, error in running.work[0].failures] == [("first", "gone")]


def test_a_backend_that_fails_after_its_first_piece_ends_the_stream_and_says_if_a_retry_makes_sense():
    first = ScriptedBackend("first", [["Begin", ScriptedFault("gone")]], STREAMS)
    second = ScriptedBackend("second", [["never"]], STREAMS)
    packets = played(engine(relay, first, second).begin(asking()))
    assert [type(packet) for packet in packets] == [DeltaPacket, ErrorPacket, ClosePacket]
    assert (packets[1].p.code, packets[1].p.severity) == ("backend_failed", "transient")
    assert second.orders == []


def test_work_that_no_backend_supports_is_refused_before_dispatch_with_its_explanation():
    backend = ScriptedBackend("blind", [["never"]], STREAMS)
    running = engine(relay, backend, accepts={"image": True}).begin(asking(content=[IMAGE]))
    packets = played(running)
    assert packets[0].p.code == "CAPABILITY_UNSUPPORTED"
    assert packets[0].p.details["nearest"] == "blind"
    assert isinstance(running.work[0].outcome, Refusal)
    assert backend.orders == []


def test_a_permissive_turn_goes_on_without_and_the_backend_is_not_sent_what_it_lacks():
    backend = ScriptedBackend("blind", [["ok"]], STREAMS)
    running = engine(relay, backend, accepts={"image": True}, policy=WorkPolicy.PERMISSIVE).begin(
        asking(content=[IMAGE])
    )
    assert said(played(running)) == "ok"
    parts = backend.orders[0].conversation.messages[-1].content
    assert [part.type for part in parts] == ["text", "text"]


def test_what_an_endpoint_refuses_to_a_caller_is_not_planned_with_for_this_caller_again():
    manifest = {**STREAMS, "image_input": "native"}
    refusal = [ScriptedFault("no images", refused="image_input")]
    picky = ScriptedBackend("picky", [refusal, refusal, ["never"]], manifest)
    other = ScriptedBackend("other", [["yes"]], manifest)

    async def look(turn: Turn) -> AsyncIterator[Yielded]:
        async for text in turn.ask("Look.", content=[{"type": "image", "mimeType": "image/png", "data": "aGk="}]):
            yield text

    made = engine(look, picky, other)
    for number in (1, 2, 3):
        request = asking().model_copy(update={"request_id": UUID(int=number)})
        assert said(played(made.begin(request))) == "yes"
    assert len(picky.orders) == 2


def test_the_preset_stands_in_where_the_operator_opted_in():
    backend = ScriptedBackend("a", [["one END two"]], STREAMS)

    async def stopping(turn: Turn) -> AsyncIterator[Yielded]:
        async for text in turn.ask(stop=["END"]):
            yield text

    assert said(played(engine(stopping, backend, emulation=preset_config()).begin(asking()))) == "one "


# --- one-shot ---


def test_a_one_shot_answer_is_the_stream_collected():
    backend = ScriptedBackend("a", [["Hel", "lo"]], STREAMS)
    response = within(lambda: engine(relay, backend).respond(asking()))
    assert response.output == {"text": "Hello"}
    assert response.metrics["adaptation"]["native"] == 3


def test_a_one_shot_answer_raises_what_the_stream_would_have_ended_in():
    with pytest.raises(RefusedError):
        within(lambda: engine(relay).respond(asking()))


# --- agents that misbehave ---


async def raises(_: Turn) -> AsyncIterator[Yielded]:
    yield "so far"
    raise ValueError("secret of the house")


async def yields_a_number(_: Turn) -> AsyncIterator[Yielded]:
    yield 7  # pyright: ignore[reportReturnType]


async def speaks_after_an_error(_: Turn) -> AsyncIterator[Yielded]:
    yield StreamPacket(op="error", p={"code": "c", "message": "m", "severity": "fatal"})
    yield "and another thing"


async def closes_early(_: Turn) -> AsyncIterator[Yielded]:
    yield "a"
    yield ClosePacket()
    yield "b"


async def tells_the_user(_: Turn) -> AsyncIterator[Yielded]:
    yield "a"
    raise UserFacingError("The file has no page 7.", retryable=True)


def is_no_generator(turn: Turn) -> AsyncIterator[Yielded]:
    return cast("Any", turn.text)


@pytest.mark.parametrize(
    ("run", "kinds", "message"),
    [
        (raises, [DeltaPacket, ErrorPacket, ClosePacket], "The agent failed (ValueError)"),
        (yields_a_number, [ErrorPacket, ClosePacket], "The agent yielded a int; expected text, an event or a packet"),
        (speaks_after_an_error, [ErrorPacket, ClosePacket], "m"),
        (closes_early, [DeltaPacket, ClosePacket], None),
        (tells_the_user, [DeltaPacket, EventPacket, ClosePacket], None),
        (is_no_generator, [ErrorPacket, ClosePacket], "The agent is_no_generator is not an async generator: `yield` each part of its answer"),
    ],
)  # fmt: skip
def test_an_agent_that_breaks_its_contract_ends_its_turn_with_an_error(
    run: Any, kinds: list[type[StreamPacket]], message: str | None
):
    packets = played(engine(run).begin(asking()))
    assert [type(packet) for packet in packets] == kinds
    told = [packet.p.message for packet in packets if isinstance(packet, ErrorPacket)]
    assert told == ([message] if message else [])
    assert "secret" not in str(packets)


def test_what_an_agent_does_after_an_error_is_recorded_as_its_failure():
    running = engine(speaks_after_an_error).begin(asking())
    played(running)
    assert isinstance(running.failure, AgentError)
    assert str(running.failure) == "The agent sent delta after the stream has failed"


# --- limits and cancelling ---

QUICK = TimeLimits(first_packet_s=0.4, gap_s=0.4, turn_s=20, backend_first_s=0.4, backend_gap_s=0.4)


async def hangs(_: Turn) -> AsyncIterator[Yielded]:
    yield "a"
    await asyncio.Event().wait()
    yield "never"


@pytest.mark.parametrize(
    ("run", "script", "sentence"),
    [
        (hangs, [], "Nothing came from the agent for 0.4 seconds"),
        (relay, [Pause(30)], "Nothing came from a for 0.4 seconds"),
        (relay, ["a", Pause(30)], "Nothing came from a for 0.4 seconds"),
    ],
)
def test_a_limit_that_is_reached_ends_the_stream(run: Any, script: list[Any], sentence: str):
    limits = TimeLimits(**{**QUICK_FIELDS, "first_packet_s": 15, "gap_s": 15}) if run is relay else QUICK
    backend = ScriptedBackend("a", [script], STREAMS)
    running = engine(run, backend, limits=limits).begin(asking())
    packets = played(running)
    assert isinstance(running.failure, TimedOutError)
    assert [packet.p.message for packet in packets if isinstance(packet, ErrorPacket)] == [sentence]
    assert isinstance(packets[-1], ClosePacket)


QUICK_FIELDS = {name: getattr(QUICK, name) for name in TimeLimits.__slots__}


def test_a_backend_that_hangs_before_its_first_piece_is_replaced():
    slow, quick = ScriptedBackend("slow", [[Pause(30)]], STREAMS), ScriptedBackend("quick", [["ok"]], STREAMS)
    limits = TimeLimits(**{**QUICK_FIELDS, "first_packet_s": 15, "gap_s": 15})
    running = engine(relay, slow, quick, limits=limits).begin(asking())
    assert said(played(running)) == "ok"
    assert slow.closed == 1


def test_cancelling_stops_the_backend_at_once_and_closes_the_stream_properly():
    backend = ScriptedBackend("a", [["one", Pause(30), "two"]], STREAMS)
    running = engine(relay, backend).begin(asking())

    async def cancelled() -> list[StreamPacket]:
        packets: list[StreamPacket] = []
        async for packet in running.packets():
            packets.append(packet)
            if len(packets) == 1:
                asyncio.get_running_loop().call_soon(running.cancel)
        return packets

    packets = within(cancelled)
    assert [type(packet) for packet in packets] == [DeltaPacket, ErrorPacket, ClosePacket]
    assert packets[1].p.code == "cancelled"
    assert backend.closed == 1


def test_a_reader_that_goes_away_stops_the_backend():
    backend = ScriptedBackend("a", [["one", Pause(30)]], STREAMS)
    running = engine(relay, backend).begin(asking())

    async def read_one() -> None:
        packets = running.packets()
        await anext(packets)
        await packets.aclose()

    within(read_one)
    assert backend.closed == 1


def test_a_slow_reader_slows_its_own_backend():
    backend, made = ScriptedBackend("a", [[str(number) for number in range(100)]], STREAMS), list[str]()

    async def noting(turn: Turn) -> AsyncIterator[Yielded]:
        async for text in turn.ask():
            made.append(text)
            yield text

    async def read_slowly() -> None:
        packets = engine(noting, backend).begin(asking()).packets()
        for _ in range(3):
            await anext(packets)
        await packets.aclose()

    within(read_slowly)
    assert made == ["0", "1", "2"]


def test_errors_are_ours():
    for error in (BackendError("x"), AgentError("y"), TimedOutError("z")):
        assert isinstance(error, AccordError)
    assert RefusedError("m", ErrorCode.CAPABILITY_UNSUPPORTED, {}).facts.http == 422


def test_an_error_that_an_agent_sends_itself_is_its_failure():
    async def fail(_: Turn) -> AsyncIterator[Yielded]:
        yield "so far"
        yield StreamPacket(op="error", p={"code": "quota", "message": "Used up", "severity": "fatal"})

    running = engine(fail).begin(asking())
    assert [packet.op for packet in played(running)] == ["delta", "error", "close"]
    assert running.failure is not None
    assert running.failure.details["code"] == "quota"


def test_the_requirements_of_a_request_hold_for_what_the_agent_asks():
    plain, tools = (
        ScriptedBackend("plain", [["no"]], STREAMS),
        ScriptedBackend("tools", [["yes"]], STREAMS | {"tool_use": "native"}),
    )
    needs = {"required": [{"capability": "tool_use", "min_support": "native"}]}
    assert said(played(engine(relay, plain, tools).begin(asking(requirements=needs)))) == "yes"


@pytest.mark.parametrize(("retryable", "severity"), [(True, "transient"), (False, "fatal")])
def test_a_stream_that_a_backend_broke_says_if_a_retry_makes_sense(retryable: bool, severity: str):
    backend = ScriptedBackend("a", [["so far", ScriptedFault("gone", retryable=retryable)]], STREAMS)
    assert played(engine(relay, backend).begin(asking()))[-2].p.severity == severity


def test_an_event_has_the_same_id_when_the_turn_is_repeated():
    async def two(turn: Turn) -> AsyncIterator[Yielded]:
        yield turn.thought("a")
        yield turn.thought("b")

    ids = [
        [packet.p["id"] for packet in played(engine(two).begin(asking())) if isinstance(packet, EventPacket)]
        for _ in range(2)
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


def test_the_client_is_known_to_the_agent():
    async def looks(turn: Turn) -> AsyncIterator[Yielded]:
        yield "sees" if turn.client.shows("media_carousel") else "hears"

    assert (
        said(played(engine(looks).begin(asking(capabilities=ClientCapabilities(supported_events=[]).dump()))))
        == "hears"
    )
