"""Each fault of an agent is found, and nothing else: real agents in their own processes, one table."""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from accord.acp_tools.inspect import CHECKS, InspectSettings, inspect_agent, select_checks
from accord.acp_tools.inspect.checks.lines import LINES as LINE_CHECKS
from accord.errors import UsageError
from accord.stdio import PeerStartError
from accord.wire.inspection import InspectionFinding, InspectionReport, Level, Result

MISBEHAVING_AGENT = str(Path(__file__).parent / "misbehaving_agent.py")
LINES = {check.id for check in LINE_CHECKS}
TYPES = ("image", "audio", "resource")
PIPE_CHECKS = (*LINES, "stays", "clean-stdout")
OTHER_CHECKS = tuple(check.id for check in CHECKS if check.id not in LINES)
NEED_SESSION = {check.id for check in CHECKS if check.needs.name == "SESSION"}


def inspect(
    *faults: str,
    only: tuple[str, ...] = (),
    protocol: int = 1,
    timeout_s: float = 5.0,
    watch_s: float = 0.1,
) -> InspectionReport:
    settings = InspectSettings(
        (sys.executable, MISBEHAVING_AGENT, *faults),
        protocol=protocol,
        timeout_s=timeout_s,
        startup_s=timeout_s if "mute" in faults else 20,
        watch_s=watch_s,
    )
    checks = [check for check in CHECKS if not only or check.id in only]
    return asyncio.run(inspect_agent(settings, checks))


def failures(report: InspectionReport) -> list[InspectionFinding]:
    return [found for found in report.findings if found.result is Result.FAIL]


def failed(report: InspectionReport) -> set[str]:
    return {found.check for found in failures(report)}


def with_result(report: InspectionReport, result: Result) -> dict[str, str]:
    return {found.check: found.sentence for found in report.findings if found.result is result}


def test_a_correct_agent_passes_every_check_that_applies(tmp_path: Path):
    report = inspect("declares-sessions", f"store={tmp_path}")
    assert [f"{found.check}: {found.sentence}" for found in failures(report)] == []
    assert report.keeps_contract
    assert (report.agent.name, report.agent.version, report.agent.protocol_version) == ("misbehaving", "1.0", 1)
    assert {*(f"declared-{kind}" for kind in TYPES), "bad-base64"} <= set(with_result(report, Result.NOT_APPLICABLE))


def test_a_correct_agent_of_the_draft_passes_every_check_that_applies(tmp_path: Path):
    report = inspect("draft", "declares-image", f"store={tmp_path}", protocol=2)
    assert [f"{found.check}: {found.sentence}" for found in failures(report)] == []
    assert report.agent.protocol_version == 2
    passed = {found.check for found in report.findings if found.result is Result.PASS}
    assert {"declared-image", "bad-base64", "undeclared-audio", "cancel"} <= passed


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("null-result", "result-shape"),
        ("bad-stop-reason", "stop-reason"),
        ("answers-twice", "one-answer"),
        ("malformed-update", "update-shape"),
        ("late-update", "update-late"),
        ("foreign-session", "update-session"),
        ("no-updates", "turn-output"),
        ("calls-fs", "undeclared-fs"),
        ("calls-terminal", "undeclared-terminal"),
        ("malformed-permission", "permission-shape"),
        ("unknown-client-method", "client-methods"),
    ],
)
def test_each_message_against_the_protocol_fails_exactly_its_check(fault: str, check: str):
    found = failures(inspect(fault, only=OTHER_CHECKS))
    assert [(each.check, each.level) for each in found] == [(check, Level.MUST)]
    assert found[0].lines != []


def test_a_number_of_version_2_with_a_body_of_version_1_fails_exactly_its_check():
    report = inspect("wrong-body", only=OTHER_CHECKS, protocol=2)
    assert failed(report) == {"version-body"}


def test_session_methods_that_are_declared_and_missing_fail_their_checks():
    methods = ("load", "list", "resume", "close", "delete")
    assert failed(inspect("lacks-declared-sessions", only=OTHER_CHECKS)) == {f"session-{name}" for name in methods}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("accepts-undeclared", {*(f"undeclared-{kind}" for kind in TYPES)}),
        ("noisy-stdout", {"clean-stdout"}),
        ("anonymous", {"agent-info"}),
        ("malformed-flag", {"capabilities"}),
        ("same-session-id", {"distinct-sessions"}),
        ("parrots-version", {"version-99", "version-65535", "version-body"}),
        ("unfinished-call", {"tool-calls-finish"}),
        ("unknown-status", {"update-shape", "tool-calls-finish"}),
        ("unstable-update", {"unstable-members"}),
        ("hangs-after-empty-prompt", {"next-prompt"}),
        ("crashes-on-unknown-session", {"unknown-session"}),
        ("declares-image", set[str]()),
        ("no-model", set[str]()),
        ("needs-auth", set[str]()),
    ],
)
def test_each_fault_is_found_and_nothing_else(fault: str, found: set[str]):
    timeout_s = 1.5 if fault.startswith("hangs") else 5.0
    assert failed(inspect(fault, only=OTHER_CHECKS, timeout_s=timeout_s)) == found


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("crashes-on-array", {"array-line", "stays"}),
        ("silent-on-garbage", {"garbage-error"}),
        ("errors-without-id", {"garbage-error"}),
        ("swaps-ids", {"string-id"}),
    ],
)
def test_each_fault_of_the_pipe_is_found_and_nothing_else(fault: str, found: set[str]):
    assert failed(inspect(fault, only=PIPE_CHECKS, timeout_s=1.5)) == found


def test_an_agent_that_dies_soon_after_a_broken_line_fails_that_check():
    report = inspect("dies-soon-of-array", only=("array-line", "stays"), watch_s=4)
    assert [found.sentence for found in report.findings] == [
        "The line [] ended the agent",
        "The agent ended during: array-line",
    ]


def test_a_late_death_after_a_broken_line_does_not_fail_another_check(tmp_path: Path):
    checks = ("array-line", "number-line", "number-error", "stays")
    report = inspect(f"dies-after-array={tmp_path / 'death'}", only=checks, watch_s=0.4)
    assert failed(report) - {"array-line"} == {"stays"}
    assert report.findings[-1].sentence == "The agent ended during: array-line"


@pytest.mark.parametrize(
    ("protocol", "fault", "level"), [(1, (), Level.SHOULD), (2, ("draft",), Level.MUST)], ids=["v1", "draft"]
)
def test_undeclared_content_must_be_rejected_under_the_draft_only(protocol: int, fault: tuple[str, ...], level: Level):
    (found,) = inspect("accepts-undeclared", *fault, only=("undeclared-image",), protocol=protocol).findings
    assert (found.result, found.level) == (Result.FAIL, level)


@pytest.mark.parametrize(
    ("fault", "check", "sentence"),
    [
        ("accepts-undeclared", "undeclared-image", "An image was accepted or silently dropped"),
        (
            "wrong-code",
            "undeclared-audio",
            "Audio was rejected with the wrong code, -32603 instead of -32602",
        ),
        ("crashes-on-array", "array-line", "The line [] ended the agent"),
        (
            "errors-without-id",
            "garbage-error",
            "A line of garbage got error -32700 without the id null",
        ),
        ("needs-auth", "text", "needs authentication"),
        ("quick", "cancel", "The agent ended the turn before it was cancelled: answered (end_turn)"),
        (
            "no-model",
            "text",
            "The agent answered with an unrelated error: error -32603: Set API_KEY=[hidden] to use a model",
        ),
        (
            "no-model",
            "cancel",
            "The agent answered with an unrelated error: error -32603: Set API_KEY=[hidden] to use a model",
        ),
    ],
)
def test_each_fault_is_reported_in_a_sentence(fault: str, check: str, sentence: str):
    assert [found.sentence for found in inspect(fault, only=(check,)).findings] == [sentence]


@pytest.mark.parametrize(
    ("fault", "check", "sentence"),
    [
        ("slow", "text", "Plain text is not answered within 0.5 s either: a slow model needs a longer --timeout"),
        ("ignores-cancel", "cancel", "The turn went on after session/cancel"),
        ("stays", "ends", "The agent still ran 0.5 s after its input was closed"),
        ("mute", "handshake", "initialize was not answered with a result"),
    ],
)
def test_nothing_is_waited_for_longer_than_allowed(fault: str, check: str, sentence: str):
    assert [found.sentence for found in inspect(fault, only=(check,), timeout_s=0.5).findings] == [sentence]


def test_once_text_is_silent_no_other_prompt_is_waited_for():
    report = inspect("slow", only=tuple(check.id for check in CHECKS if check.group == "content"), timeout_s=2.0)
    assert report.duration_s < 6  # one wait of 2 s; each further prompt would add as much
    assert set(with_result(report, Result.NOT_JUDGED)) >= {"text", "resource-link", "undeclared-image", "empty-prompt"}


def test_without_authentication_everything_that_needs_a_session_is_not_judged():
    report = inspect("needs-auth")
    found = with_result(report, Result.NOT_JUDGED)
    assert {name: found[name] for name in NEED_SESSION} == dict.fromkeys(NEED_SESSION, "needs authentication")
    assert report.keeps_contract
    assert {finding.group for finding in report.unjudged()} >= {"session", "content", "turn"}


def test_a_silent_agent_fails_the_handshake_and_the_rest_is_not_judged():
    report = inspect("mute", only=("handshake", "text", "garbage-line"), timeout_s=0.5)
    assert [str(found.result) for found in report.findings] == ["fail", "not_judged", "not_judged"]
    assert report.findings[1].sentence == "there was no handshake: no answer within 0.5 s"


def test_a_program_that_is_not_an_agent_fails_the_handshake():
    report = asyncio.run(inspect_agent(InspectSettings((sys.executable, "-c", "print('hello')"), timeout_s=2)))
    assert failed(report) == {"handshake", "clean-stdout"}
    assert report.findings[0].observed == "the agent ended with status 0"


def test_a_program_that_echoes_its_input_is_recognized():
    report = asyncio.run(inspect_agent(InspectSettings(("cat",), startup_s=10), CHECKS[:2]))
    assert report.findings[0].observed == "the program echoes its input"


def test_a_missing_handshake_is_reported_whichever_checks_were_chosen():
    report = asyncio.run(inspect_agent(InspectSettings(("cat",), startup_s=10), [CHECKS[1]]))
    assert [(found.check, str(found.result)) for found in report.findings] == [
        ("handshake", "fail"),
        ("capabilities", "not_judged"),
    ]


def test_the_last_line_on_stderr_of_a_failing_program_is_reported():
    program = "import sys; sys.exit('no configuration')"
    report = asyncio.run(inspect_agent(InspectSettings((sys.executable, "-c", program)), CHECKS[:1]))
    assert report.findings[0].observed == "the agent ended with status 1; on stderr: no configuration"


def test_no_session_is_requested_from_a_draft_agent_without_sessions():
    program = """import json
result = {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {}}
while True:
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(input())["id"], "result": result}), flush=True)
"""
    checks = [check for check in CHECKS if check.id in {"session-new", "text"}]
    report = asyncio.run(inspect_agent(InspectSettings((sys.executable, "-c", program), protocol=2), checks))
    assert [(str(found.result), found.sentence) for found in report.findings] == [
        ("not_applicable", "session is not declared")
    ] * 2


def test_a_program_that_does_not_exist_raises_one_sentence():
    with pytest.raises(PeerStartError, match=r"^no-such-agent cannot be started: "):
        asyncio.run(inspect_agent(InspectSettings(("no-such-agent",))))


def test_every_check_has_a_unique_id_and_names_its_clause():
    assert [check_id for check_id, count in Counter(check.id for check in CHECKS).items() if count > 1] == []
    assert all(check.clause.startswith(("ACP", "JSON-RPC 2.0 §")) for check in CHECKS)


def test_quick_leaves_out_slow_checks_unless_they_are_named():
    quick = {check.id for check in select_checks((), quick=True)}
    assert {"handshake", "text", "stop-reason"} <= quick
    assert quick.isdisjoint({"line-10mb", "ends", "array-line"})
    assert [check.id for check in select_checks(("ends",), quick=True)] == ["ends"]
    with pytest.raises(UsageError, match=r"^--only nonsense: unknown check; use one of handshake, "):
        select_checks(("nonsense",))
