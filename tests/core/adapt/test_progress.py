"""Ticks: at most four a second of each label by their own time, the last one always."""

from typing import Any

import pytest

from accord.core.adapt.progress import ProgressGate, event_time
from accord.wire.adaptation import AdaptationReason, Rung
from accord.wire.event import ProgressUpdate
from accord.wire.packet import ClosePacket
from tests.core.adapt import CLI, event, events_of, run

SECOND = 1_767_225_600.0


def tick(at_ms: int, label: str = "Fetch", status: str = "running", **others: Any):
    stamp = f"2026-01-01T00:00:{at_ms // 1000:02}.{at_ms % 1000:03}Z"
    return event("progress_indicator", {"label": label, "status": status}, timestamp=stamp, **others)


def shown(*ticks: Any) -> list[str]:
    return [one["timestamp"][17:23] for one in events_of(run(CLI, *ticks)[0])]


def test_at_most_four_ticks_a_second_are_shown_and_the_last_of_all():
    ticks = [tick(at) for at in range(0, 1000, 50)]
    assert shown(*ticks) == ["00.000", "00.250", "00.500", "00.750", "00.950"]


@pytest.mark.parametrize("status", ["complete", "failed"])
def test_the_end_of_a_label_is_always_shown_and_what_was_held_is_out_of_date(status: str):
    assert shown(tick(0), tick(50), tick(60, status=status)) == ["00.000", "00.060"]


def test_each_label_has_its_own_rate_and_its_own_last():
    assert shown(tick(0), tick(10, "Other"), tick(20), tick(30, "Other")) == ["00.000", "00.010", "00.020", "00.030"]


def test_a_clock_that_jumps_back_does_not_silence_a_label():
    assert shown(tick(5000), tick(1000), tick(2000)) == ["05.000", "01.000", "02.000"]


def test_ticks_without_a_time_all_pass():
    ticks = [event("progress_indicator", {"label": "Fetch", "status": "running"}) for _ in range(5)]
    assert len(events_of(run(CLI, *ticks)[0])) == 5


def test_what_was_left_out_is_recorded_and_what_was_only_late_is_native():
    _, adapter = run(CLI, tick(0), tick(50), tick(60), ClosePacket())
    told = [(entry.rung, entry.reason) for entry in adapter.report.entries]
    assert told == [
        (Rung.NATIVE, AdaptationReason.SUPPORTED),
        (Rung.SIMPLIFIED, AdaptationReason.COALESCED),
        (Rung.NATIVE, AdaptationReason.SUPPORTED),
        (Rung.NATIVE, AdaptationReason.ALWAYS_DELIVERED),
    ]
    assert adapter.report.total() == 4


def test_the_last_ticks_go_out_before_the_close():
    out, _ = run(CLI, tick(0), tick(50), ClosePacket())
    assert [packet.op for packet in out] == ["event", "event", "close"]


def test_more_labels_than_can_be_watched_pass():
    gate = ProgressGate()
    stamp = {"timestamp": "2026-01-01T00:00:00Z"}
    updates = [ProgressUpdate(label=str(number), status="running") for number in range(1000)]
    assert all(gate.passes(update, stamp) for update in updates)


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        ("2026-01-01T00:00:00Z", SECOND),
        ("2026-01-01T00:00:00", SECOND),
        ("2026-01-01T01:00:00+01:00", SECOND),
        (SECOND, SECOND),
        (True, None),
        ("yesterday", None),
        (None, None),
        (10**400, None),
        ([], None),
    ],
)
def test_an_events_time_is_read_without_a_clock_or_a_zone_of_our_own(sent: Any, seconds: float | None):
    assert event_time(sent) == seconds
