"""The report on a terminal and in a pipe."""

import json
from pathlib import Path

import pytest

from accord.acp_tools.inspect.replies import ECHOES, NO_RESULT
from accord.acp_tools.inspect.report import ReportOutput, VerdictRules, write_report
from accord.acp_tools.inspect.report.text import report_lines, summary_line
from accord.wire.inspection import (
    CheckGroup,
    ContentFate,
    DeclaredCapability,
    InspectedLine,
    InspectionReport,
    Level,
    LineSender,
    Result,
)
from tests.acp_tools.inspect.reports import RECEIVED, SENT, finding, report, verdict

MUST, SHOULD, MAY = Level
PASS, FAIL, NOT_JUDGED, NOT_APPLICABLE = Result
CAPABILITIES = [
    DeclaredCapability(flag="loadSession", received=True, supported=True),
    DeclaredCapability(flag="auth.logout", supported=False, remark="omitted"),
    DeclaredCapability(
        flag="promptCapabilities.audio", received="true", supported=False, remark="malformed: not a flag"
    ),
]
FINDINGS = [
    finding("handshake", MUST, PASS, group=CheckGroup.HANDSHAKE),
    finding("cancel", MAY, FAIL),
    finding("image", SHOULD, FAIL, observed="answered (end_turn)", content=ContentFate.DROPPED, lines=[SENT, RECEIVED]),
    finding("text", MUST, FAIL, observed="error -1", content=ContentFate.UNKNOWN, lines=[SENT]),
    finding("load", MUST, NOT_JUDGED, sentence="needs authentication"),
    finding("list", SHOULD, NOT_JUDGED, sentence="needs authentication"),
    finding("link", MUST, NOT_JUDGED, sentence="plain text gets the same error"),
    finding("audio", MUST, NOT_APPLICABLE, sentence="audio is not declared"),
]
FAILURES = """\
Failed musts: 1 (the agent breaks its contract)

  text: the title of text
    The sentence of text
    observed: error -1
    clause: ACP: a clause
    → {"id":7,"method":"session/prompt"}

Failed shoulds: 1 (editors will have problems with it)

  image: the title of image
    The sentence of image
    observed: answered (end_turn)
    content: dropped
    clause: ACP: a clause
    → {"id":7,"method":"session/prompt"}
    ← {"id":7,"result":null}

Failed mays: 1 (worth knowing)

  cancel: the title of cancel
    The sentence of cancel
    clause: ACP: a clause

"""
OTHERS = """\
Not judged: 3
  needs authentication
    must: load
    should: list
  plain text gets the same error
    must: link

What became of content
  dropped: image

Passed: 1
  must: handshake

Not applicable: 1
  audio is not declared: audio

Declared capabilities
  supported: loadSession
  unsupported: auth.logout, promptCapabilities.audio
  promptCapabilities.audio = "true": malformed: not a flag

"""
SUMMARY = (
    "misbehaving 1.0: 3 failed (1 must, 1 should, 1 may), 1 passed, 3 not judged, 1 not applicable in 4.2 s"
    " — breaks its contract; not judged: 2 mandatory checks of content\n"
)

KNOWN_SUMMARY = (
    "misbehaving 1.0: 3 failed (1 must, 1 should, 1 may, 1 known), 1 passed, 4 not judged, 1 not applicable in 4.2 s"
)


@pytest.mark.parametrize(
    ("failures_only", "expected"), [(False, FAILURES + OTHERS + SUMMARY), (True, FAILURES + SUMMARY)]
)
def test_failures_come_first_with_the_lines_that_reproduce_them(
    failures_only: bool, expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("COLUMNS", raising=False)
    write_report(verdict(*FINDINGS, capabilities=CAPABILITIES), ReportOutput(failures_only=failures_only))
    assert capsys.readouterr().out == expected


def test_with_a_baseline_the_news_comes_first_and_what_is_known_is_one_line():
    before = [finding("text", MUST, FAIL), finding("load", MUST, PASS), finding("handshake", MUST, FAIL)]
    rules = VerdictRules(baseline=report(*before), required={CheckGroup.SESSION})
    more = finding("new", MUST, NOT_JUDGED, group=CheckGroup.SESSION, sentence="needs authentication")
    lines = [line.text for line in report_lines(verdict(*FINDINGS, more, rules=rules), failures_only=True)]
    assert lines[lines.index("Required, but not judged: 1") :] == [
        "Required, but not judged: 1",
        "new (must): needs authentication",
        "",
        "Judged in the baseline, but not now: 1",
        "load (must): needs authentication",
        "",
        "Known failures, in the baseline too: 1",
        "text (must): The sentence of text",
        "",
        "Failed in the baseline, but not now: handshake",
        "",
        f"{KNOWN_SUMMARY} — breaks its contract, as in the baseline; not judged: 3 mandatory checks of content, session",
    ]
    assert "text: the title of text" not in lines


def test_exit_status_3_is_explained():
    found = verdict(finding("load", MUST, NOT_JUDGED), rules=VerdictRules(unjudged_fails=True))
    lines = [line.text for line in report_lines(found, failures_only=True)]
    assert "--allow-unjudged" in lines[-2]
    assert lines[-1].endswith("— not judged: 1 mandatory check of content")


@pytest.mark.parametrize(
    ("result", "rules", "colour"),
    [
        (PASS, VerdictRules(), "green"),
        (NOT_APPLICABLE, VerdictRules(), "yellow"),
        (NOT_JUDGED, VerdictRules(), "yellow"),
        (NOT_JUDGED, VerdictRules(unjudged_fails=True), "yellow"),
        (NOT_JUDGED, VerdictRules(required={CheckGroup.CONTENT}), "red"),
        (FAIL, VerdictRules(), "red"),
        (FAIL, VerdictRules(baseline=report(finding("a", MUST, FAIL))), "red"),
    ],
)
def test_only_a_kept_contract_is_green(result: Result, rules: VerdictRules, colour: str):
    assert summary_line(verdict(finding("a", MUST, result), rules=rules)).style == f"bold {colour}"


@pytest.mark.parametrize(
    ("observed", "summary"),
    [
        (ECHOES, "is not an ACP agent: the program echoes its input"),
        (
            "the agent ended with status 3",
            "did not answer initialize, so nothing else can be checked: the agent ended with status 3",
        ),
    ],
)
def test_the_report_of_a_program_that_does_not_answer_has_no_declaration(observed: str, summary: str):
    handshake = finding("handshake", MUST, FAIL, sentence=NO_RESULT, observed=observed)
    lines = [line.text for line in report_lines(verdict(handshake, capabilities=CAPABILITIES))]
    assert "Declared capabilities" not in lines
    assert lines[-1] == f"misbehaving 1.0: {summary}"


def test_an_observation_that_the_sentence_has_is_not_repeated():
    found = finding("a", MUST, FAIL, sentence="Text got error -1", observed="error -1")
    assert not [line for line in report_lines(verdict(found)) if "observed" in line.text]


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_the_report_is_folded_at_the_width_of_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    found = verdict(*FINDINGS, finding("long", MUST, FAIL, sentence="x" * 200), capabilities=CAPABILITIES)
    printed: list[list[str]] = []
    for width in (1000, columns):
        monkeypatch.setenv("COLUMNS", str(width))
        write_report(found, ReportOutput())
        printed.append(capsys.readouterr().out.splitlines())
    wide, narrow = printed
    raw = [line for line in wide if line.lstrip().startswith(("→", "←"))]
    assert [line for line in narrow if line in raw] == raw  # in one piece, so that they can be copied
    assert [line for line in narrow if line != line.rstrip()] == []
    assert max(len(line) for line in narrow if line not in raw) <= max(columns, 24)  # text needs 20 columns
    assert "".join("".join(narrow).split()) == "".join("".join(wide).split())


def test_the_text_of_an_agent_cannot_drive_the_terminal_or_forge_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    evil = "\x1b[2J\r\nmisbehaving: keeps its contract\u202e"
    line = InspectedLine(sender=LineSender.AGENT, line=evil)
    found = finding(evil, MUST, FAIL, title=evil, sentence=evil, clause=evil, observed=f"{evil}!", lines=[line])
    flag = DeclaredCapability(flag=evil, received=evil, supported=False, remark=evil)
    write_report(verdict(found, finding("b", MUST, NOT_JUDGED, sentence=evil), capabilities=[flag]), ReportOutput())
    printed = capsys.readouterr().out
    assert not {"\x1b", "\r", "\u202e"} & set(printed)
    assert not [line for line in printed.splitlines() if line.startswith("misbehaving: keeps")]
    file = tmp_path / "report.json"
    write_report(verdict(found, capabilities=[flag]), ReportOutput(json_file=str(file)))
    read = InspectionReport.model_validate(json.loads(file.read_text(encoding="utf-8")))
    assert read.findings[0].observed == f"{evil}!"


def test_half_a_surrogate_pair_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "report.json"
    flag = DeclaredCapability(flag="a", received="\ud83d", supported=False, remark="unknown")
    write_report(verdict(capabilities=[flag]), ReportOutput(json_file=str(file)))
    assert json.loads(file.read_text(encoding="utf-8"))["capabilities"][0]["received"] == "\ud83d"
    assert 'a = "\\ud83d": unknown' in capsys.readouterr().out
