"""Progress is limited to four updates a second over all labels; the first and the last of each label are always sent."""

from typing import Any

import pytest

from accord.core.output.ladder import ProgressThrottle, parse_timestamp
from accord.wire.adaptation import AdaptationReason, Rung
from accord.wire.event import ProgressUpdate
from accord.wire.packet import ClosePacket
from tests.core.output import CLI, event, events_of, run

SECOND = 1_767_225_600.0


def tick(at_ms: int, label: str = "Fetch", status: str = "running", **others: Any):
    stamp = f"2026-01-01T00:00:{at_ms // 1000:02}.{at_ms % 1000:03}Z"
    return event("progress_indicator", {"label": label, "status": status}, timestamp=stamp, **others)


def sent_times(*ticks: Any) -> list[str]:
    return [one["timestamp"][17:23] for one in events_of(run(CLI, *ticks)[0])]


def test_at_most_four_updates_a_second_and_the_last_one_are_sent():
    ticks = [tick(at) for at in range(0, 1000, 50)]
    assert sent_times(*ticks) == ["00.000", "00.250", "00.500", "00.750", "00.950"]


@pytest.mark.parametrize("status", ["complete", "failed"])
def test_the_end_of_a_label_is_always_sent_and_replaces_a_held_update(status: str):
    assert sent_times(tick(0), tick(50), tick(60, status=status)) == ["00.000", "00.060"]


def test_the_limit_is_shared_but_each_label_has_its_first_and_last_update():
    ticks = [tick(at, label) for at in range(0, 1000, 50) for label in ("One", "Other")]
    first, last = ["00.000", "00.000"], ["00.950", "00.950"]
    assert sent_times(*ticks) == [*first, "00.250", "00.500", "00.750", *last]


def test_the_end_of_one_label_counts_for_the_shared_limit():
    ticks = [tick(0), tick(300, "Other"), tick(400, "Other", "complete"), tick(600), tick(650), ClosePacket()]
    assert sent_times(*ticks) == ["00.000", "00.300", "00.400", "00.650"]


def test_after_a_time_jump_backwards_the_first_and_last_updates_are_sent():
    assert sent_times(tick(5000), tick(1000), tick(2000), tick(1500, "Other")) == ["05.000", "01.500", "02.000"]


def test_limiting_twice_is_limiting_once():
    ticks = [tick(at, label) for at in range(0, 3000, 70) for label in ("One", "Two", "Three")]
    once, _ = run(CLI, *ticks[:40], tick(9000, "Four"), *ticks[40:], ClosePacket())
    assert run(CLI, *once)[0] == once


def test_updates_without_a_timestamp_are_all_sent():
    ticks = [event("progress_indicator", {"label": "Fetch", "status": "running"}) for _ in range(5)]
    assert len(events_of(run(CLI, *ticks)[0])) == 5


def test_an_omitted_update_is_recorded_and_a_late_one_is_native():
    _, adapter = run(CLI, tick(0), tick(50), tick(60), ClosePacket())
    entries = [(entry.rung, entry.reason) for entry in adapter.report.entries]
    assert entries == [
        (Rung.NATIVE, AdaptationReason.SUPPORTED),
        (Rung.SIMPLIFIED, AdaptationReason.COALESCED),
        (Rung.NATIVE, AdaptationReason.SUPPORTED),
        (Rung.NATIVE, AdaptationReason.ALWAYS_DELIVERED),
    ]
    assert adapter.report.total() == 4


def test_the_last_updates_are_sent_before_the_close():
    out, _ = run(CLI, tick(0), tick(50), ClosePacket())
    assert [packet.op for packet in out] == ["event", "event", "close"]


def test_updates_of_more_labels_than_the_limit_are_sent():
    throttle = ProgressThrottle()
    stamp = {"timestamp": "2026-01-01T00:00:00Z"}
    updates = [ProgressUpdate(label=str(number), status="running") for number in range(1000)]
    assert all(throttle.allows(update, stamp) for update in updates)


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
def test_a_timestamp_is_read_as_seconds_in_utc(sent: Any, seconds: float | None):
    assert parse_timestamp(sent) == seconds
