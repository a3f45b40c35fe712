"""A client with `min_fidelity`: an event below that rung is refused, and the stream ends."""

from typing import Any

import pytest

from accord.core.output import AdaptLimits
from accord.core.output.ladder import LADDER
from accord.errors import ErrorCode, ErrorSeverity
from accord.wire.adaptation import AdaptationReason, Rung
from accord.wire.packet import ClosePacket, ErrorPacket, StreamError
from accord.wire.request import ClientCapabilities, MinFidelity
from tests.core.output import SOURCES, delta, event, run, text_of

BLOCK = {"type": "markdown_block", "data": {"content": "instead"}}
TICK = {"label": "x", "status": "running"}


def strict(minimum: str, *declared: str, **others: Any) -> ClientCapabilities:
    return ClientCapabilities(supported_events=[*declared], min_fidelity=MinFidelity(minimum), **others)


@pytest.mark.parametrize(
    ("client", "packet", "refused"),
    [
        (strict("native", "poll"), event("poll", {}), False),
        (strict("native"), event("poll", {}), True),
        (strict("native"), event("citation_block", SOURCES), True),
        (strict("described"), event("citation_block", SOURCES), False),
        (strict("described"), event("poll", {}), True),
        (strict("substituted", "markdown_block"), event("poll", {}, fallback=BLOCK), False),
        (strict("simplified", "markdown_block"), event("poll", {}, fallback=BLOCK), True),
        (strict("described"), event("poll", {}, fallback_text="x"), False),
        (strict("native", "citation_block"), event("citation_block", {"items": [*SOURCES["items"], 7]}), True),
        (strict("simplified", "citation_block"), event("citation_block", {"items": [*SOURCES["items"], 7]}), False),
        (strict("native"), event("user_error", {"message": "x"}), False),
        (strict("native"), event("progress_indicator", TICK | {"status": "failed"}), False),
        (strict("native"), event("progress_indicator", TICK), False),
        (strict("native"), event("thought_trace", {}), False),
        (strict("native"), event("poll", {}, priority="low"), False),
        (strict("native"), event("citation_block", {"items": []}), False),
        (
            strict("native", "markdown_block", prefers_markdown=False),
            event("markdown_block", {"content": "**b**"}),
            False,
        ),
        (strict("native", prefers_markdown=False), delta("**text** is always delivered"), False),
    ],
)
def test_an_event_below_the_minimum_is_refused(client: ClientCapabilities, packet: Any, refused: bool):
    out, adapter = run(client, packet)
    assert any(isinstance(one, ErrorPacket) for one in out) is refused
    assert adapter.report.totals[Rung.REFUSED] == refused


def test_a_refusal_has_the_available_rung():
    out, _ = run(strict("native", "Poll"), event("citation_block", SOURCES, id="c1"))
    assert out == [
        ErrorPacket(
            p=StreamError(
                code=ErrorCode.FIDELITY_UNAVAILABLE,
                message="The client cannot show this at the fidelity that it requires",
                severity=ErrorSeverity.FATAL,
                details={
                    "id": "c1",
                    "type": "citation_block",
                    "min_fidelity": "native",
                    "available": "described",
                    "reason": "not_declared",
                    "supported_events": ["poll"],
                },
            )
        )
    ]


def test_a_refusal_sends_the_queue_and_then_only_the_close_passes():
    packets = [
        delta("Before "),
        event("user_error", {"message": "waiting"}),
        event("poll", {}),
        delta("after"),
        event("poll", {}),
        ErrorPacket(p=StreamError(code="late", message="m", severity=ErrorSeverity.FATAL)),
        ClosePacket(),
    ]
    out, adapter = run(strict("native"), *packets)
    assert [packet.op for packet in out] == ["delta", "delta", "error", "close"]
    assert text_of(out) == "Before \n\nError: waiting"
    report = adapter.report
    assert report.total() == len(packets)
    assert [entry.reason for entry in report.entries if entry.rung is Rung.REFUSED] == [
        AdaptationReason.STREAM_ENDED,
        AdaptationReason.BELOW_MIN_FIDELITY,
        AdaptationReason.STREAM_ENDED,
        AdaptationReason.STREAM_ENDED,
    ]


def test_an_event_that_the_full_queue_defers_is_refused():
    packets = [delta("Half "), event("citation_block", SOURCES)]
    out, adapter = run(strict("described"), *packets, limits=AdaptLimits(max_waiting=0))
    assert isinstance(out[-1], ErrorPacket)
    assert adapter.report.totals[Rung.REFUSED] == 1


def test_a_smaller_image_is_never_refused():
    item = {"url": "https://a.example/b", "mime_type": "image/png"}
    data = {"items": [item | {"variants": [item | {"width": 100}]}]}
    client = strict("native", "media_carousel", image_resolution="low")
    assert not any(isinstance(packet, ErrorPacket) for packet in run(client, event("media_carousel", data))[0])


def test_the_ladder_has_the_rungs_of_the_design():
    assert [*LADDER] == "native simplified substituted described deferred dropped refused".split()
