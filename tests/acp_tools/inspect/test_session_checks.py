"""Faults of sessions are found, each by its check and by no other: real agents in their own processes, one table."""

from pathlib import Path

import pytest

from accord.acp_tools.inspect.checks.mcp import MCP
from accord.acp_tools.inspect.checks.messages import MESSAGES
from accord.acp_tools.inspect.checks.session import SESSION
from accord.acp_tools.inspect.checks.settings import SETTINGS
from accord.acp_tools.inspect.checks.stored_sessions import STORED
from accord.wire.inspection import Level, Result
from tests.acp_tools.inspect.inspection import inspect, with_result

CHECKS = [*SESSION, *STORED, *SETTINGS, *MCP, *MESSAGES]
DECLARED = {f"session-{name}" for name in ("load", "list", "resume", "close", "delete")}


def failures(*faults: str, timeout_s: float = 5.0, startup_s: float = 20.0) -> dict[str, Level]:
    report = inspect(CHECKS, *faults, timeout_s=timeout_s, startup_s=startup_s)
    failed = {found.check: found.level for found in report.findings if found.result is Result.FAIL}
    if "update-late" in failed:
        # Output outside of a turn is late where the session had a turn before, which another process may not know of.
        failed.pop("update-outside", None)
    return failed


def test_an_agent_that_keeps_its_sessions_passes_every_check_of_them(tmp_path: Path):
    report = inspect(CHECKS, "declares-sessions", "offers-modes", "offers-options", f"store={tmp_path}")
    judged = {check.id for check in (*SESSION, *STORED, *SETTINGS, *MCP)}
    assert with_result(report, Result.FAIL) == set()
    assert judged - with_result(report, Result.PASS) == {"mcp-tool"}


def test_what_is_not_declared_is_not_applicable():
    report = inspect([*STORED, *SETTINGS])
    assert with_result(report, Result.NOT_APPLICABLE) == {check.id for check in (*STORED, *SETTINGS)}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("loads-late", {"session-load", "update-late"}),
        ("loads-nothing", {"session-load"}),
        ("resumes-with-replay", {"session-resume"}),
        ("opens-anything", {"load-unknown", "resume-unknown"}),
        ("lists-every-folder", {"list-cwd"}),
        ("closes-nothing", {"session-close", "closed-session"}),
        ("deletes-nothing", {"session-delete"}),
        ("deletes-known-only", {"delete-unknown"}),
    ],
)
def test_each_fault_of_stored_sessions_is_found_and_nothing_else(fault: str, found: set[str], tmp_path: Path):
    assert failures("declares-sessions", f"store={tmp_path}", fault).keys() == found


def test_declared_methods_that_do_not_exist_are_found():
    assert failures("lacks-declared-sessions") == dict.fromkeys(DECLARED, Level.MUST)


def test_an_agent_should_know_its_sessions_in_another_process_and_list_them():
    should = dict.fromkeys(("session-load", "session-resume"), Level.SHOULD)
    assert failures("declares-sessions") == should
    assert failures("declares-sessions", "lists-nothing") == {**should, "session-list": Level.SHOULD}


def test_a_session_that_only_one_process_at_a_time_can_have_is_loaded_when_that_has_ended(tmp_path: Path):
    assert failures("declares-sessions", "locks-sessions", f"store={tmp_path}") == {}


def test_a_quick_inspection_starts_no_other_process_to_load_a_session():
    checks = [check for check in STORED if check.quick]
    assert with_result(inspect(checks, "declares-sessions", quick=True), Result.FAIL) == set()


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("mixes-sessions", {"two-sessions": Level.MUST, "update-late": Level.MUST}),
        ("one-at-a-time", {"two-sessions": Level.SHOULD}),
        ("same-session-id", {"distinct-sessions": Level.MUST}),
    ],
)
def test_sessions_that_do_not_work_side_by_side_are_found(fault: str, found: dict[str, Level]):
    assert failures(fault) == found


@pytest.mark.parametrize(
    ("faults", "found"),
    [
        ("offers-modes wrong-mode", "modes"),
        ("offers-modes double-mode", "modes"),
        ("offers-modes lacks-set_mode", "set-mode"),
        ("offers-modes any-mode", "unknown-mode"),
        ("offers-options wrong-value", "config-options"),
        ("offers-options double-option", "config-options"),
        ("offers-options switch-option", "config-options"),
        ("offers-options lacks-set_config_option", "set-config-option"),
        ("offers-options short-options", "set-config-option"),
        ("offers-options keeps-value", "set-config-option"),
        ("offers-options any-value", "unknown-config-option"),
        ("refuses-mcp", "mcp-stdio"),
        ("ignores-mcp", "mcp-connect"),
    ],
)
def test_each_fault_of_settings_and_mcp_servers_is_found_and_nothing_else(faults: str, found: str):
    assert set(failures(*faults.split())) == {found}


def test_an_agent_that_waits_for_a_broken_mcp_server_is_found():
    assert failures("hangs-on-broken-mcp", startup_s=3) == {"mcp-broken": Level.SHOULD}


def test_an_agent_without_a_model_is_not_judged_by_conversations_that_it_cannot_have(tmp_path: Path):
    report = inspect([*SESSION, *STORED], "declares-sessions", "no-model", "lists-nothing", f"store={tmp_path}")
    unjudged = {"two-sessions", "session-load", "session-resume", "session-list", "list-cwd"}
    assert with_result(report, Result.FAIL) == set()
    assert with_result(report, Result.NOT_JUDGED) == unjudged


def test_an_agent_of_the_draft_has_its_methods_without_declaring_each(tmp_path: Path):
    report = inspect([*SESSION, *STORED], "draft", f"store={tmp_path}", protocol=2)
    assert with_result(report, Result.FAIL) == set()
    assert {"session-list", "session-resume", "session-close"} <= with_result(report, Result.PASS)


@pytest.mark.parametrize(
    ("faults", "check", "sentence"),
    [
        (
            "declares-sessions loads-late",
            "session-load",
            "The text of the user was replayed after session/load was answered, not before",
        ),
        (
            "declares-sessions lists-every-folder",
            "list-cwd",
            "The list of another working directory contains the session",
        ),
        ("declares-sessions closes-nothing", "session-close", "The turn went on after session/close"),
        ("lacks-declared-sessions", "session-delete", "session/delete is declared, but does not exist"),
        ("offers-options keeps-value", "set-config-option", "thinking was set to 'high', but the result has 'low'"),
    ],
)
def test_a_failure_is_reported_in_a_sentence_with_the_lines_that_show_it(faults: str, check: str, sentence: str):
    report = inspect([each for each in CHECKS if each.id == check], *faults.split(), timeout_s=1)
    assert [found.sentence for found in report.findings] == [sentence]
    assert report.findings[0].lines
