"""Laws of adaptation, for any stream and any client."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accord.core.output import ClientAdapter
from accord.core.output.adapter import OVERTAKING, passes_text, text_report
from accord.core.output.profile import profile_client
from accord.errors import ErrorSeverity
from accord.wire.adaptation import AdaptationReport, Rung
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamError, StreamPacket
from accord.wire.request import ClientCapabilities
from tests.core.output import CLIENTS, EVENTS, MARKDOWN, PROSE, events_of, run, text_of

LADDER = list(Rung)
BOOM = ErrorPacket(p=StreamError(code="boom", message="m", severity=ErrorSeverity.FATAL))
Piece = str | dict[str, Any]


def streams(text: st.SearchStrategy[str]) -> st.SearchStrategy[list[Piece]]:
    return st.lists(text | EVENTS, max_size=8)


def packets_of(pieces: Sequence[Piece]) -> list[StreamPacket]:
    return [DeltaPacket(p=piece) if isinstance(piece, str) else EventPacket(p=piece) for piece in pieces]


def cut_up(text: str, random: Any) -> list[Piece]:
    cuts = [0, *sorted(random.randint(0, len(text)) for _ in range(len(text) // 3)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts)]


def rungs(report: AdaptationReport) -> dict[int, int]:
    return {entry.position: LADDER.index(entry.rung) for entry in report.entries}


@given(CLIENTS, streams(MARKDOWN), st.booleans())
def test_any_stream_gives_valid_packets_and_a_report_that_adds_up(
    client: ClientCapabilities, pieces: list[Piece], breaks: bool
):
    packets = [*packets_of(pieces), *([BOOM] if breaks else []), ClosePacket()]
    out, adapter = run(client, *packets)
    report = adapter.report
    assert report.total() == len(packets)
    assert sum(entry.count for entry in report.entries) + report.unlisted == len(packets)
    assert AdaptationReport.parse(report.to_json()) == report
    assert [StreamPacket.parse(packet.to_json()) for packet in out] == out
    assert [packet for packet in out if isinstance(packet, ClosePacket)] == out[-1:]
    assert adapter.close() == []


@given(CLIENTS, streams(MARKDOWN))
def test_no_event_of_an_undeclared_type_is_ever_sent(client: ClientCapabilities, pieces: list[Piece]):
    out, _ = run(client, *packets_of(pieces))
    profile = profile_client(client)
    assert all(profile.shows(event["type"]) for event in events_of(out))


@given(CLIENTS, streams(MARKDOWN))
def test_the_same_stream_gives_the_same_packets_and_the_same_report(client: ClientCapabilities, pieces: list[Piece]):
    (first, one), (second, two) = run(client, *packets_of(pieces)), run(client, *packets_of(pieces))
    assert first == second
    assert one.report == two.report


@given(CLIENTS, streams(MARKDOWN), st.randoms(use_true_random=False))
def test_deltas_on_the_fast_path_give_the_same_packets_and_the_same_report(
    client: ClientCapabilities, pieces: list[Piece], random: Any
):
    """A packet given as a dict takes no fast path."""
    cut = [part for piece in pieces for part in (cut_up(piece, random) if isinstance(piece, str) else [piece])]
    packets = packets_of(cut)
    fast, one = run(client, *packets)
    slow, two = run(client, *(packet.dump() for packet in packets))
    assert fast == slow
    assert one.report == two.report


@given(CLIENTS, streams(MARKDOWN), st.lists(st.integers(0, 8)))
def test_reading_the_report_early_changes_nothing(client: ClientCapabilities, pieces: list[Piece], reads: list[int]):
    packets = packets_of(pieces)
    read = ClientAdapter(client)
    out: list[StreamPacket] = []
    for number, packet in enumerate(packets):
        out += read.feed(packet)
        if number in reads:
            read.report_json()
    out += read.close()
    expected, unread = run(client, *packets)
    assert out == expected
    assert read.report == unread.report


@given(CLIENTS, streams(MARKDOWN), st.randoms(use_true_random=False))
def test_where_the_text_is_cut_does_not_change_the_output(client: ClientCapabilities, pieces: list[Piece], random: Any):
    cut = [part for piece in pieces for part in (cut_up(piece, random) if isinstance(piece, str) else [piece])]
    whole, pieced = run(client, *packets_of(pieces))[0], run(client, *packets_of(cut))[0]
    assert text_of(pieced) == text_of(whole)
    assert events_of(pieced) == events_of(whole)


@given(CLIENTS, streams(MARKDOWN))
def test_adapting_twice_for_a_client_that_reads_markdown_is_adapting_once(
    client: ClientCapabilities, pieces: list[Piece]
):
    client = client.model_copy(update={"prefers_markdown": True, "text_profile": None})
    once, _ = run(client, *packets_of(pieces), ClosePacket())
    twice, _ = run(client, *once)
    assert twice == once


@given(CLIENTS, streams(PROSE))
def test_adapting_twice_for_a_client_without_markdown_is_adapting_once(client: ClientCapabilities, pieces: list[Piece]):
    client = client.model_copy(update={"prefers_markdown": False})
    once, _ = run(client, *packets_of(pieces), ClosePacket())
    twice, _ = run(client, *once)
    assert text_of(twice) == text_of(once)
    # Events that overtake may have another position among the others, because they do not wait for text kept back.
    for overtakes in (True, False):
        first, second = (
            [event for event in events_of(out) if (event["type"].lower() in OVERTAKING) == overtakes]
            for out in (once, twice)
        )
        assert second == first


@given(CLIENTS, CLIENTS, streams(MARKDOWN))
def test_a_client_that_declares_more_never_loses_more(
    less: ClientCapabilities, other: ClientCapabilities, pieces: list[Piece]
):
    events = [*less.supported_events, *other.supported_events]
    more = less.model_copy(update={"supported_events": events, "prefers_markdown": True, "text_profile": None})
    fewer, further = (rungs(run(client, *packets_of(pieces))[1].report) for client in (less, more))
    assert all(further[position] <= rung for position, rung in fewer.items())


@given(streams(MARKDOWN))
def test_a_client_that_reads_markdown_gets_every_word_of_the_text(pieces: list[Piece]):
    out, _ = run(ClientCapabilities(supported_events=[]), *packets_of(pieces))
    rest = text_of(out)
    for word in "".join(piece for piece in pieces if isinstance(piece, str)).split():
        before, found, rest = rest.partition(word)
        assert found, before


def test_a_hundred_thousand_deltas_are_one_entry():
    adapter = ClientAdapter(None)
    packet = DeltaPacket(p="word ")
    for _ in range(100_000):
        adapter.feed(packet)
    report = adapter.report
    assert [(entry.count, entry.rung) for entry in report.entries] == [(100_000, Rung.NATIVE)]
    assert report.total() == 100_000


@given(st.none() | CLIENTS, st.lists(MARKDOWN, max_size=8))
def test_text_that_a_client_gets_as_it_is_has_the_same_report_without_an_adapter(
    client: ClientCapabilities | None, texts: list[str]
):
    packets = [*packets_of(texts), ClosePacket()]
    out, adapter = run(client, *packets)
    if passes_text(client):
        assert out == packets
        assert text_report(client, len(texts)) == adapter.report_json()
