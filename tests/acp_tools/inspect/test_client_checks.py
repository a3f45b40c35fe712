"""Each fault in the use of files, terminals and permissions is found, and nothing else: a real agent, one table."""

import asyncio
import sys
from pathlib import Path

import pytest

from accord.acp_tools.inspect import CHECKS, InspectSettings, inspect_agent
from accord.wire.inspection import CheckGroup, InspectionReport, Level, Result

CLIENT_AGENT = str(Path(__file__).parent / "client_agent.py")
MISBEHAVING_AGENT = str(Path(__file__).parent / "misbehaving_agent.py")
GROUPS = (CheckGroup.CLIENT, CheckGroup.MESSAGES, CheckGroup.TURN)
CLIENT_CHECKS = [check.id for check in CHECKS if check.group is CheckGroup.CLIENT]


def inspect(
    *faults: str, agent: str = CLIENT_AGENT, only: str | None = None, mock_llm: bool = False, timeout_s: float = 10.0
) -> InspectionReport:
    settings = InspectSettings(
        (sys.executable, agent, *faults),
        protocol=2 if "draft" in faults else 1,
        timeout_s=timeout_s,
        startup_s=20,
        watch_s=0.1,
        mock_llm=mock_llm,
    )
    checks = [check for check in CHECKS if check.id == only or (only is None and check.group in GROUPS)]
    return asyncio.run(inspect_agent(settings, checks))


def with_result(report: InspectionReport, result: Result) -> dict[str, str]:
    return {found.check: found.sentence for found in report.findings if found.result is result}


def test_an_agent_that_uses_the_client_well_passes_every_check():
    report = inspect(mock_llm=True)
    assert with_result(report, Result.FAIL) == {}
    assert with_result(report, Result.NOT_JUDGED) == {}
    assert {*CLIENT_CHECKS, "cancel", "cancel-model", "next-prompt"} <= set(with_result(report, Result.PASS))


def test_an_agent_of_the_draft_is_judged_by_its_permissions_and_tool_calls():
    report = inspect("draft")
    assert with_result(report, Result.FAIL) == {}
    assert {"permission-options", "permission-rejected", "permission-cancelled", "tool-call-reported"} <= set(
        with_result(report, Result.PASS)
    )
    assert {"fs-read", "fs-write", "terminal-used", "terminal-released", "partial-client"} <= set(
        with_result(report, Result.NOT_APPLICABLE)
    )


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("no-reject-option", {"permission-options": Level.SHOULD}),
        ("does-what-is-rejected", {"permission-rejected": Level.MUST}),
        ("rejection-is-error", {"permission-rejected": Level.MUST}),
        ("does-what-is-cancelled", {"permission-cancelled": Level.MUST}),
        ("ends-what-is-cancelled", {"permission-cancelled": Level.MUST}),
        ("stuck-after-cancel", {"next-prompt": Level.MUST}),
        ("reads-disk", {"fs-read": Level.SHOULD}),
        ("writes-disk", {"fs-write": Level.SHOULD}),
        ("runs-itself", {"terminal-used": Level.MAY}),
        ("keeps-terminal", {"terminal-released": Level.MUST}),
        ("hides-calls", {"tool-call-reported": Level.SHOULD}),
        ("updates-first", {"tool-call-reported": Level.SHOULD}),
        ("missing-file-is-error", {"failed-tool": Level.SHOULD}),
        ("ignores-capabilities", {"undeclared-fs": Level.MUST, "undeclared-terminal": Level.MUST}),
        (
            "lacks-other-tools",
            {
                "undeclared-fs": Level.MUST,
                "undeclared-terminal": Level.MUST,
                "partial-client": Level.SHOULD,
                "failed-tool": Level.SHOULD,
            },
        ),
        ("relative-paths", {"absolute-paths": Level.MUST}),
        ("requests-nothing", {}),
    ],
)
def test_each_fault_is_found_and_nothing_else(fault: str, found: dict[str, Level]):
    failures = [each for each in inspect(fault).findings if each.result is Result.FAIL]
    assert {each.check: each.level for each in failures} == found
    assert all(each.lines for each in failures)


def test_a_request_to_the_model_that_goes_on_after_cancelling_is_found():
    found = inspect("keeps-model", mock_llm=True, only="cancel-model").findings[0]
    assert (found.result, found.level) == (Result.FAIL, Level.SHOULD)
    assert found.sentence == "3 s after session/cancel the model still answers to the agent"


@pytest.mark.parametrize(
    ("fault", "check", "result", "sentence"),
    [
        (
            "does-what-is-rejected",
            "permission-rejected",
            Result.FAIL,
            "The user rejected the permission to write, but the agent did it",
        ),
        (
            "rejection-is-error",
            "permission-rejected",
            Result.FAIL,
            "When the user rejected the permission to write, the turn did not end with a stop reason",
        ),
        (
            "no-reject-option",
            "permission-rejected",
            Result.NOT_JUDGED,
            "There was no option to reject the permission to write",
        ),
        (
            "requests-nothing",
            "permission-cancelled",
            Result.NOT_APPLICABLE,
            "The agent requested no permission to write a file or to run a command",
        ),
        ("hangs-when-cancelled", "permission-cancelled", Result.FAIL, "The turn went on after session/cancel"),
        ("runs-itself", "terminal-released", Result.NOT_APPLICABLE, "The agent created no terminal"),
        ("ignores-capabilities", "partial-client", Result.PASS, "Every turn ended normally"),
        (
            "lacks-other-tools",
            "partial-client",
            Result.FAIL,
            "With only readTextFile offered, the turn to write ended with an error",
        ),
    ],
)
def test_each_outcome_has_its_sentence(fault: str, check: str, result: Result, sentence: str):
    report = inspect(fault, only=check, timeout_s=1.5 if fault.startswith("hangs") else 10)
    assert [(found.result, found.sentence) for found in report.findings] == [(result, sentence)]


NO_KEY = "Plain text is not answered: error -32603: Set API_KEY=[hidden] to use a model"


@pytest.mark.parametrize(
    ("fault", "mock_llm", "result", "sentence"),
    [
        (
            None,
            False,
            Result.NOT_APPLICABLE,
            "The agent used no tool; the fake model calls its tools: add --mock-llm",
        ),
        (None, True, Result.NOT_JUDGED, "The agent did not call the fake model"),
        ("no-model", False, Result.NOT_JUDGED, NO_KEY),
        ("needs-auth", False, Result.NOT_JUDGED, "needs authentication"),
    ],
)
def test_an_agent_that_uses_no_tool_is_not_failed(fault: str | None, mock_llm: bool, result: Result, sentence: str):
    report = inspect(*([fault] if fault else []), agent=MISBEHAVING_AGENT, mock_llm=mock_llm)
    found = with_result(report, result)
    assert {check: found.get(check) for check in CLIENT_CHECKS} == dict.fromkeys(CLIENT_CHECKS, sentence)


def test_a_request_that_the_fake_model_refuses_is_not_said_to_be_missing():
    report = inspect("unknown-role", mock_llm=True)
    reason = "The fake model refused the agent's request: POST /v1/chat/completions: messages[0].role"
    assert with_result(report, Result.NOT_JUDGED)["cancel-model"].startswith(reason)
    (text,) = inspect("unknown-role", only="text", mock_llm=True).findings
    assert f"; the {reason.removeprefix('The ')}" in str(text.observed)
