"""The JUnit XML report for build pipelines."""

from xml.etree import ElementTree as ET

import pytest

from accord.acp_tools.inspect.report import to_junit
from accord.wire.inspection import InspectedAgent, InspectionFinding, InspectionReport, Level, Result


def report(*found: tuple[Level, Result]) -> InspectionReport:
    findings = [
        InspectionFinding(
            check=f"c{n}", title='<b> & "c"', clause="A §1", level=level, result=result, sentence="<&>", observed="]]>"
        )
        for n, (level, result) in enumerate(found)
    ]
    return InspectionReport.about("agent", InspectedAgent(name="a & b"), [], findings)


@pytest.mark.parametrize(
    ("level", "result", "inside"),
    [
        (Level.MUST, Result.PASS, []),
        (Level.MUST, Result.FAIL, ["failure"]),
        (Level.SHOULD, Result.FAIL, ["skipped"]),
        (Level.MAY, Result.FAIL, ["skipped"]),
        (Level.MUST, Result.SKIPPED, ["skipped"]),
    ],
)
def test_a_case_fails_if_and_only_if_the_exit_status_is_one(level: Level, result: Result, inside: list[str]):
    made = report((level, result))
    suite = ET.fromstring(to_junit(made))  # noqa: S314 - written by Accord
    assert [part.tag for part in suite[0]] == inside
    assert (suite.get("failures") == "0") == made.keeps_contract
    assert suite.get("name") == "accord inspect a & b"
    assert suite[0].get("name") == 'c0: <b> & "c"'


def test_the_counts_add_up():
    made = report(*((level, result) for level in Level for result in Result))
    suite = ET.fromstring(to_junit(made))  # noqa: S314 - written by Accord
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["9", "1", "5"]
    assert made.dump()["counts"] == {"pass": 3, "fail": 3, "skipped": 3}
    assert InspectionReport.model_validate(made.dump()) == made
