"""Ticks: four a second over all labels by their own time; the first and the last of each label always."""

from typing import Any

import pytest

from accord.core.output.ladder import ProgressGate, event_time
from accord.wire.adaptation import AdaptationReason, Rung
from accord.wire.event import ProgressUpdate
from accord.wire.packet import ClosePacket
from tests.core.output import CLI, event, events_of, run

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


def test_the_rate_is_one_for_all_labels_but_each_has_its_first_and_its_last():
    ticks = [tick(at, label) for at in range(0, 1000, 50) for label in ("One", "Other")]
    first, last = ["00.000", "00.000"], ["00.950", "00.950"]
    assert shown(*ticks) == [*first, "00.250", "00.500", "00.750", *last]


def test_the_end_of_one_label_counts_for_the_rate_of_the_others():
    ticks = [tick(0), tick(300, "Other"), tick(400, "Other", "complete"), tick(600), tick(650), ClosePacket()]
    assert shown(*ticks) == ["00.000", "00.300", "00.400", "00.650"]


def test_a_clock_that_jumps_back_costs_only_what_lies_between_the_first_and_the_last():
    assert shown(tick(5000), tick(1000), tick(2000), tick(1500, "Other")) == ["05.000", "01.500", "02.000"]


def test_thinning_what_was_thinned_changes_nothing():
    ticks = [tick(at, label) for at in range(0, 3000, 70) for label in ("One", "Two", "Three")]
    once, _ = run(CLI, *ticks[:40], tick(9000, "Four"), *ticks[40:], ClosePacket())
    assert run(CLI, *once)[0] == once


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
        (float("inf"), None),
        (float("nan"), None),
        ([], None),
    ],
)
def test_an_events_time_is_read_without_a_clock_or_a_zone_of_our_own(sent: Any, seconds: float | None):
    assert event_time(sent) == seconds
