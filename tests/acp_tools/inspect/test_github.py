"""Annotations and the summary page in GitHub Actions."""

from pathlib import Path

import pytest

from accord.acp_tools.inspect.report import InspectionVerdict, ReportOutput, VerdictRules, write_report
from accord.acp_tools.inspect.report.github import annotation_lines, to_markdown
from accord.wire.inspection import CheckGroup, InspectedAgent, InspectedLine, Level, LineSender, Result
from tests.acp_tools.inspect.reports import RECEIVED, SENT, finding, report, verdict

MUST, SHOULD, MAY = Level
PASS, FAIL, NOT_JUDGED, NOT_APPLICABLE = Result


def annotations(found: InspectionVerdict) -> list[str]:
    return list(annotation_lines(found))


@pytest.mark.parametrize(
    ("level", "result", "rules", "lines"),
    [
        (MUST, PASS, VerdictRules(), []),
        (
            MUST,
            FAIL,
            VerdictRules(),
            ["::error title=accord inspect%3A a::The sentence of a%0Aanswered%0Amust: ACP: a clause"],
        ),
        (
            SHOULD,
            FAIL,
            VerdictRules(),
            ["::warning title=accord inspect%3A a::The sentence of a%0Aanswered%0Ashould: ACP: a clause"],
        ),
        (MAY, FAIL, VerdictRules(), []),
        (MUST, FAIL, VerdictRules(baseline=report(finding("a", MUST, FAIL))), []),
        (
            MUST,
            NOT_JUDGED,
            VerdictRules(),
            ["::warning title=accord inspect%3A not judged::The sentence of a%0Aa"],
        ),
        (
            MUST,
            NOT_JUDGED,
            VerdictRules(unjudged_fails=True),
            ["::error title=accord inspect%3A not judged::The sentence of a%0Aa"],
        ),
        (
            MUST,
            NOT_JUDGED,
            VerdictRules(required={CheckGroup.CONTENT}),
            ["::error title=accord inspect%3A required%2C but not judged::The sentence of a%0Aa"],
        ),
        (
            MUST,
            NOT_JUDGED,
            VerdictRules(baseline=report(finding("a", MUST, PASS))),
            ["::error title=accord inspect%3A no longer judged::The sentence of a%0Aa"],
        ),
    ],
)
def test_what_fails_is_an_error_and_a_failed_should_a_warning(
    level: Level, result: Result, rules: VerdictRules, lines: list[str]
):
    assert annotations(verdict(finding("a", level, result, observed="answered"), rules=rules)) == lines


def test_no_text_of_an_agent_ends_an_annotation_or_begins_another_command():
    found = finding("a", MUST, FAIL, sentence="100 %\r\n::add-mask::x", observed="\x1b[2J", clause="A, b: c")
    assert annotations(verdict(found)) == [
        "::error title=accord inspect%3A a::100 %25%0D%0A::add-mask::x%0A\\u001b[2J%0Amust: A, b: c"
    ]


def test_more_annotations_than_github_shows_are_counted_in_the_last_one():
    found = annotations(verdict(*(finding(f"c{n}", MUST, FAIL) for n in range(12))))
    assert len(found) == 10
    assert found[-1] == "::error title=accord inspect::3 more: c9, c10, c11; the log has them all"
    ten = annotations(verdict(*(finding(f"c{n}", MUST, FAIL) for n in range(10))))
    assert ten[-1].startswith("::error title=accord inspect%3A c9::")


def test_the_summary_has_the_verdict_the_failures_and_what_was_not_judged():
    before = report(finding("known", MUST, FAIL), finding("repaired", MUST, FAIL))
    found = verdict(
        finding("a", MUST, FAIL, lines=[SENT, RECEIVED]),
        finding("b", SHOULD, FAIL),
        finding("known", MUST, FAIL),
        finding("repaired", MUST, PASS),
        finding("c", MUST, NOT_JUDGED, sentence="needs authentication"),
        rules=VerdictRules(baseline=before),
    )
    assert to_markdown(found) == (
        "### accord inspect: misbehaving 1.0\n\n"
        "**breaks its contract; not judged: 1 mandatory check of content** "
        "(3 failed (2 must, 1 should, 1 known), 1 passed, 1 not judged, 0 not applicable)\n\n"
        "#### Failed musts\n\n- **a**: The sentence of a (ACP: a clause)\n\n"
        '  ```text\n  → {"id":7,"method":"session/prompt"}\n  ← {"id":7,"result":null}\n  ```\n\n\n'
        "#### Failed shoulds\n\n- **b**: The sentence of b (ACP: a clause)\n\n\n"
        "#### Known failures, in the baseline too\n\n- The sentence of known: known\n\n"
        "#### Not judged\n\n- needs authentication: c\n\n"
        "Failed in the baseline, but not now: repaired\n\n"
    )


def test_no_text_of_an_agent_is_read_as_markdown_or_html():
    line = InspectedLine(sender=LineSender.AGENT, line="````\n</details>")
    found = finding("a", MUST, FAIL, sentence="<img src=x> [a](b) `c`", lines=[line])
    page = to_markdown(verdict(found, agent=InspectedAgent(name="*bold*\n# Title")))
    assert "### accord inspect: \\*bold\\*\\\\u000a\\# Title\n" in page
    assert "\\<img src=x\\> \\[a\\]\\(b\\) \\`c\\`" in page
    assert "  `````text\n  ← ````\\u000a</details>\n  `````\n" in page


def test_the_summary_is_appended_and_annotations_leave_json_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "summary.md"
    page.write_text("earlier\n", encoding="utf-8")
    found = verdict(finding("a", MUST, FAIL))
    write_report(found, ReportOutput(json_file="-", annotations=True, step_summary=str(page)))
    printed = capsys.readouterr()
    assert printed.out.startswith("{")
    assert printed.err.startswith("::error title=")
    assert "::error" not in printed.out
    assert page.read_text(encoding="utf-8") == "earlier\n" + to_markdown(found)


def test_without_annotations_no_summary_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "summary.md"
    write_report(verdict(finding("a", MUST, FAIL)), ReportOutput(step_summary=str(page)))
    assert not page.exists()
    assert "::error" not in capsys.readouterr().out


def test_a_summary_that_cannot_be_written_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_report(verdict(finding("a", MUST, PASS)), ReportOutput(annotations=True, step_summary=str(tmp_path)))
    assert "cannot be written: Is a directory" in capsys.readouterr().err
