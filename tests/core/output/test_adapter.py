"""When things appear: what waits, what overtakes, what ends the stream, and what is kept."""

from typing import Any

import pytest

from accord.core.output import AdaptLimits, ClientAdapter
from accord.errors import AccordError, ErrorSeverity, UsageError
from accord.wire.adaptation import AdaptationReason, Rung
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamError, StreamPacket
from accord.wire.request import ClientCapabilities
from tests.core.output import CLI, NOTHING, PICTURE, PLAIN, SOURCES, VOICE, event, events_of, run, said, text_of

BOOM = ErrorPacket(p=StreamError(code="boom", message="m", severity=ErrorSeverity.FATAL))
CITED = event("citation_block", SOURCES)
FAILED = event("user_error", {"message": "No luck"})
LISTED = "Sources:\n1. A paper: https://a.example/x"


def ops(packets: list[StreamPacket]) -> list[str]:
    return [packet.p if isinstance(packet, DeltaPacket) else str(packet.op) for packet in packets]


def test_a_client_that_shows_everything_gets_the_very_packets_in_their_order():
    packets = [said("a **b"), CITED, said("** c"), event("media_carousel", PICTURE), FAILED, BOOM, ClosePacket()]
    out, adapter = run(None, *packets)
    assert all(sent is packet for sent, packet in zip(out, packets, strict=True))
    assert adapter.report.is_faithful()


def test_the_calls_of_the_design_work_as_written():
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
def test_sources_wait_for_the_end_of_the_block(before: str, after: str, text: str):
    assert text_of(run(PLAIN, said(before), CITED, said(after))[0]) == text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("```py\nx", "```py\nx\n```\n\nError: No luck"),
        ("```py\nx\n", "```py\nx\n```\n\nError: No luck"),
        ("```py\nx\n```", "```py\nx\n```\n\nError: No luck"),
        ("~~~~", "~~~~\n~~~~\n\nError: No luck"),
    ],
)
def test_code_that_was_left_open_is_closed_before_anything_is_told_after_it(code: str, text: str):
    assert text_of(run(NOTHING, said(code), FAILED)[0]) == text
    assert text_of(run(NOTHING, said(code))[0]) == code


def test_media_and_sources_keep_their_order_and_failures_go_before_them():
    out, _ = run(VOICE, said("Half "), CITED, event("media_carousel", PICTURE), FAILED, said("sentence.\n\nMore."))
    assert text_of(out) == "Half sentence.\n\nError: No luck.\n\nSource: A paper.\n\nImage: A chart.\n\nMore."


def test_a_failure_goes_at_the_end_of_a_sentences_line_where_markdown_is_read():
    out, _ = run(NOTHING, said("1. One"), CITED, FAILED, said(".\n2. Two.\n\nMore.\n\n"))
    assert text_of(out).startswith("1. One.\n\nError: No luck\n\n2. Two.\n\nMore.\n\nSources:")


def test_progress_and_failures_that_can_be_shown_overtake_text_that_is_held_back():
    client = ClientCapabilities(supported_events=["user_error", "citation_block"], prefers_markdown=False)
    out, _ = run(client, said("Held **back"), CITED, FAILED, said("** text.\n\nMore."), ClosePacket())
    kinds = [packet.p["type"] if packet.op == "event" else str(packet.op) for packet in out]
    assert kinds == ["delta", "user_error", "delta", "citation_block", "delta", "close"]
    assert text_of(out) == "Held back text.\n\nMore."


def test_an_event_does_not_overtake_one_that_waits():
    client = ClientCapabilities(supported_events=["media_carousel"])
    out, _ = run(client, said("Half "), CITED, event("media_carousel", PICTURE), said("sentence.\n\n"))
    assert [str(packet.op) for packet in out] == ["delta", "delta", "delta", "event"]


def test_high_priority_is_told_before_what_waits():
    out, _ = run(VOICE, said("Half "), CITED, event("poll", {}, fallback_text="Vote!", priority="high"))
    assert text_of(out) == "Half\n\nVote!\n\nSource: A paper."


@pytest.mark.parametrize("client", [CLI, PLAIN, VOICE])
def test_everything_that_waits_goes_out_before_an_error(client: ClientCapabilities):
    out, _ = run(client, said("Held **back"), CITED, BOOM, said("again"), ClosePacket())
    text = text_of(out[: out.index(BOOM)])
    assert "Held" in text
    assert "A paper" in text
    assert ops(out)[-3:] == ["error", "\n\nagain", "close"]


def test_a_close_packet_is_the_close_and_comes_out_once():
    adapter = ClientAdapter(VOICE)
    adapter.feed(said("Half"))
    adapter.feed(CITED)
    assert ops(adapter.feed(ClosePacket())) == ["\n\nSource: A paper.", "close"]
    assert adapter.close() == []


def test_closing_releases_everything_and_a_second_time_nothing():
    adapter = ClientAdapter(VOICE)
    adapter.feed(said("Half"))
    adapter.feed(CITED)
    assert ops(adapter.close()) == ["\n\nSource: A paper."]
    assert adapter.close() == []


@pytest.mark.parametrize("packet", [said("x"), CITED, BOOM, ClosePacket()])
@pytest.mark.parametrize("client", [None, VOICE])
def test_nothing_can_be_fed_after_the_close(client: ClientCapabilities | None, packet: StreamPacket):
    adapter = ClientAdapter(client)
    adapter.feed(said("x"))
    adapter.feed(said("x"))
    adapter.feed(ClosePacket())
    with pytest.raises(UsageError, match="closed") as caught:
        adapter.feed(packet)
    assert isinstance(caught.value, AccordError)
    assert adapter.report.total() == 3


def test_what_cannot_be_shown_is_kept_and_told_once_for_each_type():
    poll, chart = event("poll", {"q": 1}, id="p"), event("chart", {"q": 2})
    out, adapter = run(NOTHING, poll, poll, chart, event("Poll", {}))
    assert text_of(out) == (
        "(“poll” cannot be shown here. It is kept as p.)\n\n(“chart” cannot be shown here. It is kept as event-3.)"
    )
    assert adapter.deferred == {"p": poll.p, "p-2": poll.p, "event-3": chart.p, "event-4": event("Poll", {}).p}
    assert [entry.id for entry in adapter.report.entries] == ["p", "p-2", "event-3", "event-4"]


def test_high_priority_is_never_kept_without_a_word():
    out, _ = run(VOICE, event("poll", {}), event("poll", {}, priority="high"))
    assert text_of(out).count("kept for later") == 2


@pytest.mark.parametrize(
    ("client", "notice"),
    [
        (NOTHING, "(More cannot be shown here, and no more can be kept.)"),
        (VOICE, "More cannot be shown here, and no more can be kept."),
    ],
)
def test_when_no_more_can_be_kept_that_is_told_once_and_recorded(client: ClientCapabilities, notice: str):
    packets = [event("poll", {}) for _ in range(4)]
    out, adapter = run(client, *packets, limits=AdaptLimits(max_deferred=1))
    assert text_of(out).endswith(f"\n\n{notice}")
    assert [(entry.rung, entry.reason) for entry in adapter.report.entries[1:]] == [
        (Rung.DROPPED, AdaptationReason.LIMIT_REACHED)
    ] * 3


def test_what_finds_no_room_to_wait_is_deferred_and_failures_still_find_some():
    packets = [said("Half "), *[CITED] * 3, *[FAILED] * 3]
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


def test_an_event_that_finds_no_room_to_wait_goes_at_once():
    client = ClientCapabilities(supported_events=["citation_block"], prefers_markdown=False)
    adapter = ClientAdapter(client, limits=AdaptLimits(max_waiting=1))
    adapter.feed(said("Half "))
    assert adapter.feed(CITED) == []
    assert adapter.feed(CITED) == [CITED]
    assert adapter.close() == [CITED]


def test_a_long_block_may_be_told_at_a_boundary_though_it_could_not_wait():
    block = event("markdown_block", {"content": "x" * 1000})
    limits = AdaptLimits(max_waiting_chars=100)
    assert len(text_of(run(NOTHING, block, limits=limits)[0])) == 1000
    _, adapter = run(NOTHING, said("Half "), block, limits=limits)
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
def test_a_block_of_markdown_comes_as_a_block_or_as_text_and_never_as_both(
    declared: ClientCapabilities, text: str, events: int
):
    out, _ = run(declared, event("markdown_block", {"content": "**b**"}))
    assert (text_of(out), len(events_of(out))) == (text, events)


def test_with_ssml_the_text_is_escaped():
    declared = ClientCapabilities.parse('{"supported_events":[],"prefers_markdown":false,"speech_format":"ssml"}')
    assert text_of(run(declared, said("a < **b**"), CITED)[0]) == "a &lt; b\n\nSource: A paper."


def test_ssml_is_for_ears_only():
    declared = ClientCapabilities.parse('{"speech_format":"ssml"}')
    assert text_of(run(declared, said("a < b"))[0]) == "a < b"


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
def test_whatever_comes_is_answered_shortly(client: ClientCapabilities | None, payload: dict[str, Any]):
    out, adapter = run(client, StreamPacket(op="event", p=payload))
    assert len(text_of(out)) < 1000
    assert len(adapter.report.entries) == 1


def test_the_account_goes_to_a_client_that_declared_it_and_to_nobody_else():
    for declared, expected in ((None, 0), (["citation_block"], 0), (["ADAPTATION_REPORT"], 1)):
        capabilities = None if declared is None else ClientCapabilities(supported_events=declared)
        adapter = ClientAdapter(capabilities)
        out = [*adapter.feed(DeltaPacket(p="a")), *adapter.feed(ClosePacket())]
        told = [packet.p for packet in out if isinstance(packet, EventPacket)]
        assert len(told) == expected
        assert isinstance(out[-1], ClosePacket)
        assert all(event["data"] == adapter.report.dump() for event in told)
