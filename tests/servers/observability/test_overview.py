"""The overview of a service: which processes are shown, which are silent, and the sums."""

import json

from accord.ports import ListedRun, LongestRuns, QueueDepth
from accord.servers.observability.overview import (
    FORGOTTEN_AFTER_S,
    MAX_PROCESSES,
    MISSED,
    Overview,
    ProcessTable,
)
from accord.servers.observability.status import EVERY_S, ProcessRole
from tests.servers.observability.test_status import a_status

NOTHING = LongestRuns(0, ())


def names(table: ProcessTable, now: float) -> list[str]:
    return [row.status.runner for row in table.rows(now)]


def test_a_process_is_silent_after_three_missed_messages_and_forgotten_later():
    table = ProcessTable()
    table.add(a_status(), 100.0)
    for seconds, expected in (
        (0.0, [False]),
        (MISSED * EVERY_S, [False]),
        (MISSED * EVERY_S + 0.1, [True]),
        (FORGOTTEN_AFTER_S, [True]),
    ):
        assert [row.is_silent for row in table.rows(100.0 + seconds)] == expected
    assert table.rows(100.0 + FORGOTTEN_AFTER_S + 0.1) == []
    table.add(a_status(), 500.0)
    table.add(a_status(running=9), 501.0)
    assert [(row.status.running, row.age_s) for row in table.rows(502.0)] == [(9, 1.0)]


def test_a_process_that_stops_is_not_shown_any_more():
    table = ProcessTable()
    table.add(a_status(), 1.0)
    table.add(a_status(is_stopped=True), 2.0)
    assert table.rows(2.0) == []


def test_processes_are_sorted_by_role_then_host_then_number():
    table = ProcessTable()
    for runner, role, host, pid in (
        ("w2", ProcessRole.WORKER, "a", 2),
        ("s", ProcessRole.SERVER, "z", 9),
        ("w1", ProcessRole.WORKER, "a", 1),
        ("b", ProcessRole.BOTH, "z", 1),
        ("w3", ProcessRole.WORKER, "b", 1),
    ):
        table.add(a_status(runner=runner, role=role, host=host, pid=pid), 0.0)
    assert names(table, 0.0) == ["b", "s", "w1", "w2", "w3"]


def test_the_number_of_processes_is_limited():
    table = ProcessTable()
    for number in range(MAX_PROCESSES + 1):
        table.add(a_status(runner=f"r{number}"), 0.0)
    assert len(table.rows(0.0)) == MAX_PROCESSES
    table.add(a_status(runner="r0", running=7), 1.0)  # known ones are still renewed
    assert 7 in {row.status.running for row in table.rows(1.0)}


def test_the_sums_leave_silent_processes_out():
    table = ProcessTable()
    table.add(a_status(runner="old"), 0.0)
    table.add(a_status(runner="w1", turn_limit=10), 100.0)
    table.add(a_status(runner="s1", turn_limit=None, role=ProcessRole.SERVER, streams=2), 100.0)
    depths = [QueueDepth("demo", 3, 1.5), QueueDepth("other", 2, 9.0)]
    totals = Overview(table.rows(100.0), LongestRuns(17, ()), depths).totals
    assert (totals.processes, totals.silent, totals.running, totals.turn_limit) == (3, 1, 17, 10)
    assert (totals.waiting, totals.oldest_s, totals.done, totals.failed) == (5, 9.0, 20, 2)
    assert (totals.cancelled, totals.refused, totals.streams) == (6, 8, 7)
    assert Overview([], NOTHING, []).totals.turn_limit is None


def test_a_turn_is_shown_with_its_process_if_that_is_known():
    table = ProcessTable()
    table.add(a_status(runner="a" * 32, host="h", pid=7), 0.0)
    overview = Overview(table.rows(0.0), NOTHING, [])
    turns = [ListedRun("q", "ada", "demo", runner * 32, 1, 5, 2.0) for runner in "ab"]
    assert [overview.process_of(turn) for turn in turns] == ["h:7", "b" * 8]


def test_programs_get_everything_as_one_json_object():
    table = ProcessTable()
    table.add(a_status(), 0.0)
    turn = ListedRun("q", "ada\x1b", "demo", "r1", 1, 5, 2.0)
    depth = QueueDepth("demo", 3, 1.5)
    found = json.loads(Overview(table.rows(7.0), LongestRuns(1, [turn]), [depth], "no store").to_json())
    assert set(found) == {"totals", "processes", "queue", "turns", "problem"}
    assert (found["totals"]["running"], found["totals"]["silent"], found["problem"]) == (1, 1, "no store")
    (process,) = found["processes"]
    assert (process["runner"], process["is_silent"], process["age_s"]) == ("r1", True, 7.0)
    assert process["waited"] == {"p50_s": 0.01, "p99_s": 0.02}
    assert found["turns"][0]["owner"] == "ada\x1b"
    assert found["queue"] == [{"agent": "demo", "waiting": 3, "oldest_s": 1.5}]
