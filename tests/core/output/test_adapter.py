"""The order of output: what is queued, what overtakes, what ends the stream, and what is deferred."""

from typing import Any

import pytest

from accord.core.output import AdaptLimits, ClientAdapter
from accord.core.output.packets import find_event
from accord.errors import AccordError, ErrorSeverity, UsageError
from accord.wire.adaptation import AdaptationReason, Rung
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamError, StreamPacket
from accord.wire.request import ClientCapabilities
from tests.core.output import CLI, NOTHING, PICTURE, PLAIN, SOURCES, VOICE, delta, event, events_of, run, text_of

BOOM = ErrorPacket(p=StreamError(code="boom", message="m", severity=ErrorSeverity.FATAL))
CITED = event("citation_block", SOURCES)
FAILED = event("user_error", {"message": "No luck"})
LISTED = "Sources:\n1. A paper: https://a.example/x"


def ops(packets: list[StreamPacket]) -> list[str]:
    return [packet.p if isinstance(packet, DeltaPacket) else str(packet.op) for packet in packets]


def test_a_client_that_shows_everything_gets_the_same_packets_in_order():
    packets = [delta("a **b"), CITED, delta("** c"), event("media_carousel", PICTURE), FAILED, BOOM, ClosePacket()]
    out, adapter = run(None, *packets)
    assert all(sent is packet for sent, packet in zip(out, packets, strict=True))
    assert adapter.report.totals[Rung.NATIVE] == adapter.report.total()


def test_the_example_of_the_design_works():
    adapter = ClientAdapter(ClientCapabilities(supported_events=[], prefers_markdown=False))
    packets = adapter.feed(StreamPacket(op="delta", p="**The** end."))
    packets += adapter.close()
    assert text_of(packets) == "The end."
    assert adapter.report.totals[Rung.SIMPLIFIED] == 1


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("", "Text.", f"{LISTED}\n\nText."),
        ("Text.\n\n", "More.", f"Text.\n\n{LISTED}\n\nMore."),
        ("Half ", "sentence.\n\nMore.", f"Half sentence.\n\n{LISTED}\n\nMore."),
        ("One. ", "Two.\nThree.\n\nMore.", f"One. Two.\nThree.\n\n{LISTED}\n\nMore."),
        ("```\nx\n\n", "y\n```\nMore.", f"x\n\ny\n\n{LISTED}\n\nMore."),
        ("As follows:\n\n", "- a\n- b\n\nMore.\n\nEnd.", f"As follows:\n\na\nb\n\nMore.\n\n{LISTED}\n\nEnd."),
        ("Never", " a boundary", f"Never a boundary\n\n{LISTED}"),
    ],
)
def test_sources_are_queued_until_the_end_of_the_block(before: str, after: str, text: str):
    assert text_of(run(PLAIN, delta(before), CITED, delta(after))[0]) == text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("```py\nx", "```py\nx\n```\n\nError: No luck"),
        ("```py\nx\n", "```py\nx\n```\n\nError: No luck"),
        ("```py\nx\n```", "```py\nx\n```\n\nError: No luck"),
        ("~~~~", "~~~~\n~~~~\n\nError: No luck"),
    ],
)
def test_an_open_code_block_is_closed_before_text_is_inserted_after_it(code: str, text: str):
    assert text_of(run(NOTHING, delta(code), FAILED)[0]) == text
    assert text_of(run(NOTHING, delta(code))[0]) == code


def test_media_and_sources_keep_their_order_and_failures_go_first():
    out, _ = run(VOICE, delta("Half "), CITED, event("media_carousel", PICTURE), FAILED, delta("sentence.\n\nMore."))
    assert text_of(out) == "Half sentence.\n\nError: No luck.\n\nSource: A paper.\n\nImage: A chart.\n\nMore."


def test_a_client_with_markdown_gets_a_failure_after_a_line_that_ends_a_sentence():
    out, _ = run(NOTHING, delta("1. One"), CITED, FAILED, delta(".\n2. Two.\n\nMore.\n\n"))
    assert text_of(out).startswith("1. One.\n\nError: No luck\n\n2. Two.\n\nMore.\n\nSources:")


def test_progress_and_failures_sent_as_events_overtake_text_that_is_kept_back():
    client = ClientCapabilities(supported_events=["user_error", "citation_block"], prefers_markdown=False)
    out, _ = run(client, delta("Held **back"), CITED, FAILED, delta("** text.\n\nMore."), ClosePacket())
    kinds = [packet.p["type"] if packet.op == "event" else str(packet.op) for packet in out]
    assert kinds == ["delta", "user_error", "delta", "citation_block", "delta", "close"]
    assert text_of(out) == "Held back text.\n\nMore."


def test_an_event_does_not_overtake_a_queued_event():
    client = ClientCapabilities(supported_events=["media_carousel"])
    out, _ = run(client, delta("Half "), CITED, event("media_carousel", PICTURE), delta("sentence.\n\n"))
    assert [str(packet.op) for packet in out] == ["delta", "delta", "delta", "event"]


def test_text_of_high_priority_goes_before_the_queue():
    out, _ = run(VOICE, delta("Half "), CITED, event("poll", {}, fallback_text="Vote!", priority="high"))
    assert text_of(out) == "Half\n\nVote!\n\nSource: A paper."


@pytest.mark.parametrize("client", [CLI, PLAIN, VOICE])
def test_the_queue_is_sent_before_an_error(client: ClientCapabilities):
    out, _ = run(client, delta("Held **back"), CITED, BOOM, delta("again"), ClosePacket())
    text = text_of(out[: out.index(BOOM)])
    assert "Held" in text
    assert "A paper" in text
    assert ops(out)[-3:] == ["error", "\n\nagain", "close"]


def test_a_close_packet_closes_the_adapter_and_is_sent_once():
    adapter = ClientAdapter(VOICE)
    adapter.feed(delta("Half"))
    adapter.feed(CITED)
    assert ops(adapter.feed(ClosePacket())) == ["\n\nSource: A paper.", "close"]
    assert adapter.close() == []


def test_close_returns_everything_and_the_second_time_nothing():
    adapter = ClientAdapter(VOICE)
    adapter.feed(delta("Half"))
    adapter.feed(CITED)
    assert ops(adapter.close()) == ["\n\nSource: A paper."]
    assert adapter.close() == []


@pytest.mark.parametrize("packet", [delta("x"), CITED, BOOM, ClosePacket()])
@pytest.mark.parametrize("client", [None, VOICE])
def test_feeding_a_closed_adapter_is_an_error(client: ClientCapabilities | None, packet: StreamPacket):
    adapter = ClientAdapter(client)
    adapter.feed(delta("x"))
    adapter.feed(delta("x"))
    adapter.feed(ClosePacket())
    with pytest.raises(UsageError, match="closed") as caught:
        adapter.feed(packet)
    assert isinstance(caught.value, AccordError)
    assert adapter.report.total() == 3


def test_an_event_that_cannot_be_shown_is_deferred_with_one_notice_for_each_type():
    poll, chart = event("poll", {"q": 1}, id="p"), event("chart", {"q": 2})
    out, adapter = run(NOTHING, poll, poll, chart, event("Poll", {}))
    assert text_of(out) == (
        "(“poll” cannot be shown here. It is kept as p.)\n\n(“chart” cannot be shown here. It is kept as event-3.)"
    )
    assert adapter.deferred == ("p", "p-2", "event-3", "event-4")
    fed = [poll, poll, chart, event("Poll", {})]
    assert [find_event(fed, item_id) for item_id in adapter.deferred] == [packet.p for packet in fed]
    assert find_event(fed, "event-1") is None
    assert [entry.id for entry in adapter.report.entries] == ["p", "p-2", "event-3", "event-4"]


def test_every_deferred_event_of_high_priority_has_a_notice():
    out, _ = run(VOICE, event("poll", {}), event("poll", {}, priority="high"))
    assert text_of(out).count("kept for later") == 2


@pytest.mark.parametrize(
    ("client", "notice"),
    [
        (NOTHING, "(More cannot be shown here; the adaptation report lists it.)"),
        (VOICE, "More cannot be shown here."),
    ],
)
def test_beyond_the_limit_of_notices_one_stands_for_all(client: ClientCapabilities, notice: str):
    packets = [event(f"poll{number}", {}) for number in range(4)]
    out, adapter = run(client, *packets, limits=AdaptLimits(max_notices=1))
    assert text_of(out).endswith(f"\n\n{notice}")
    assert text_of(out).count("\n\n") == 1
    assert [entry.rung for entry in adapter.report.entries] == [Rung.DEFERRED] * 4


def test_an_id_that_an_earlier_event_had_is_told_apart_also_if_that_one_was_shown():
    shown, deferred = event("user_error", {"message": "Oh"}, id="x"), event("poll", {}, id="x")
    _, adapter = run(ClientCapabilities(supported_events=["user_error"]), shown, deferred)
    assert adapter.deferred == ("x-2",)
    assert find_event([shown, deferred], "x-2") == deferred.p
    assert find_event([shown, deferred], "x") == shown.p


def test_a_full_queue_defers_descriptions_and_has_a_reserve_for_failures():
    packets = [delta("Half "), *[CITED] * 3, *[FAILED] * 3]
    out, adapter = run(VOICE, *packets, limits=AdaptLimits(max_waiting=2))
    assert [entry.rung for entry in adapter.report.entries[1:]] == [
        Rung.DESCRIBED,
        Rung.DESCRIBED,
        Rung.DEFERRED,
        Rung.DESCRIBED,
        Rung.DEFERRED,
        Rung.DEFERRED,
    ]
    assert len(adapter.deferred) == 3
    assert text_of(out).count("kept for later") == 2


def test_an_event_is_sent_at_once_if_the_queue_is_full():
    client = ClientCapabilities(supported_events=["citation_block"], prefers_markdown=False)
    adapter = ClientAdapter(client, limits=AdaptLimits(max_waiting=1))
    adapter.feed(delta("Half "))
    assert adapter.feed(CITED) == []
    assert adapter.feed(CITED) == [CITED]
    assert adapter.close() == [CITED]


def test_a_block_too_long_for_the_queue_is_sent_at_an_insertion_point():
    block = event("markdown_block", {"content": "x" * 1000})
    limits = AdaptLimits(max_waiting_chars=100)
    assert len(text_of(run(NOTHING, block, limits=limits)[0])) == 1000
    _, adapter = run(NOTHING, delta("Half "), block, limits=limits)
    assert adapter.report.entries[1].reason is AdaptationReason.LIMIT_REACHED


@pytest.mark.parametrize(
    ("declared", "text", "events"),
    [
        (ClientCapabilities(supported_events=["MARKDOWN_BLOCK"]), "", 1),
        (ClientCapabilities(supported_events=["MARKDOWN_BLOCK"], prefers_markdown=False), "", 1),
        (NOTHING, "**b**", 0),
        (PLAIN, "b", 0),
        (VOICE, "b", 0),
    ],
)
def test_a_markdown_block_is_sent_as_an_event_or_as_text_but_not_as_both(
    declared: ClientCapabilities, text: str, events: int
):
    out, _ = run(declared, event("markdown_block", {"content": "**b**"}))
    assert (text_of(out), len(events_of(out))) == (text, events)


def test_with_ssml_the_text_is_escaped():
    declared = ClientCapabilities.parse('{"supported_events":[],"prefers_markdown":false,"speech_format":"ssml"}')
    assert text_of(run(declared, delta("a < **b**"), CITED)[0]) == "a &lt; b\n\nSource: A paper."


def test_ssml_is_ignored_unless_the_text_is_spoken():
    declared = ClientCapabilities.parse('{"speech_format":"ssml"}')
    assert text_of(run(declared, delta("a < b"))[0]) == "a < b"


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"type": "poll", "fallback": inner}
    return inner


ODD: list[dict[str, Any]] = [
    {},
    {"type": None},
    {"type": ["citation_block"]},
    {"type": "citation_block", "data": {"items": [{}] * 5000}},
    {"type": "media_carousel", "data": {"items": {"0": 1}}},
    {"type": "user_error", "data": {"message": "x" * 1_000_000}},
    {"type": "x" * 100_000},
    {"type": "poll", "data": nested(90)},
    {"type": "poll", "fallback": nested(90)},
    {"type": "progress_indicator", "data": {"label": 1, "status": "failed"}},
]


@pytest.mark.parametrize("payload", ODD)
@pytest.mark.parametrize("client", [None, CLI, PLAIN, VOICE])
def test_odd_events_give_short_text_and_one_entry(client: ClientCapabilities | None, payload: dict[str, Any]):
    out, adapter = run(client, StreamPacket(op="event", p=payload))
    assert len(text_of(out)) < 1000
    assert len(adapter.report.entries) == 1


def test_the_report_is_sent_only_to_a_client_that_declared_it():
    for declared, expected in ((None, 0), (["citation_block"], 0), (["ADAPTATION_REPORT"], 1)):
        capabilities = None if declared is None else ClientCapabilities(supported_events=declared)
        adapter = ClientAdapter(capabilities)
        out = [*adapter.feed(DeltaPacket(p="a")), *adapter.feed(ClosePacket())]
        events = [packet.p for packet in out if isinstance(packet, EventPacket)]
        assert len(events) == expected
        assert isinstance(out[-1], ClosePacket)
        assert all(event["data"] == adapter.report.dump() for event in events)
