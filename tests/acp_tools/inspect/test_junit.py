"""The JUnit XML report for build pipelines."""

from itertools import product
from xml.etree import ElementTree as ET

import pytest

from accord.acp_tools.inspect.report import InspectionVerdict, VerdictRules
from accord.acp_tools.inspect.report.junit import to_junit
from accord.wire.inspection import (
    CheckGroup,
    InspectedAgent,
    InspectedLine,
    InspectionReport,
    Level,
    LineSender,
    Result,
)
from tests.acp_tools.inspect.reports import RECEIVED, SENT, finding, report, verdict

MUST, SHOULD, MAY = Level
PASS, FAIL, NOT_JUDGED, NOT_APPLICABLE = Result


def parse(found: InspectionVerdict) -> ET.Element:
    return ET.fromstring(to_junit(found))  # noqa: S314 - written by Accord


@pytest.mark.parametrize(
    ("level", "result", "before", "required", "element"),
    [
        (MUST, PASS, None, False, None),
        (MUST, FAIL, None, False, ("failure", "")),
        (MUST, FAIL, FAIL, False, ("skipped", "fails a must, as in the baseline: ")),
        (SHOULD, FAIL, None, False, ("skipped", "fails a should: ")),
        (MAY, FAIL, None, False, ("skipped", "fails a may: ")),
        (MUST, NOT_JUDGED, None, False, ("error", "not judged: ")),
        (MUST, NOT_JUDGED, None, True, ("failure", "required, but not judged: ")),
        (MUST, NOT_JUDGED, PASS, False, ("failure", "judged in the baseline, but not now: ")),
        (SHOULD, NOT_JUDGED, None, False, ("skipped", "not judged: ")),
        (MUST, NOT_APPLICABLE, None, False, ("skipped", "not applicable: ")),
    ],
)
def test_there_are_failures_if_the_exit_status_is_1_and_errors_if_it_is_3(
    level: Level, result: Result, before: Result | None, required: bool, element: tuple[str, str] | None
):
    rules = VerdictRules(
        required={CheckGroup.CONTENT} if required else (),
        baseline=None if before is None else report(finding("a", level, before)),
        unjudged_fails=True,
    )
    found = verdict(finding("a", level, result), rules=rules)
    suite = parse(found)
    ended = [(part.tag, part.get("message")) for part in suite.iterfind("testcase/*") if part.tag != "system-out"]
    assert ended == ([] if element is None else [(element[0], f"{element[1]}The sentence of a")])
    assert (suite.get("failures") != "0", suite.get("errors") != "0") == (found.status == 1, found.status == 3)


def test_outside_ci_what_was_not_judged_is_skipped():
    suite = parse(verdict(finding("a", MUST, NOT_JUDGED)))
    assert [part.tag for part in suite.iterfind("testcase/*")] == ["skipped"]
    assert (suite.get("errors"), suite.get("skipped")) == ("0", "1")


def test_the_counts_add_up():
    made = verdict(*(finding(f"{level}-{result}", level, result) for level, result in product(Level, Result)))
    suite = parse(made)
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["12", "1", "0", "8"]
    assert made.report.dump()["counts"] == {"pass": 3, "fail": 3, "not_judged": 3, "not_applicable": 3}
    assert InspectionReport.model_validate(made.report.dump()) == made.report


def test_the_elements_have_the_order_of_the_schema_and_no_host_name():
    suite = parse(verdict(finding("a", SHOULD, FAIL), finding("b", MUST, PASS)))
    assert [part.tag for part in suite] == ["properties", "testcase", "testcase", "system-out"]
    assert [part.tag for part in suite[1]] == ["skipped", "system-out"]
    assert "hostname" not in suite.attrib
    assert (suite.get("timestamp"), suite.get("time")) == ("2026-11-18T09:30:00", "4.200")
    assert (suite[1].get("time"), suite[1].get("classname")) == ("0.250", "acp.should.content")


def test_versions_the_date_and_failed_shoulds_are_properties_and_output():
    agent = InspectedAgent(name='a & "b"', version="1.0", protocol_version=2)
    suite = parse(verdict(finding("a", SHOULD, FAIL), finding("b", MUST, PASS), agent=agent, protocol=2, mock_llm=True))
    assert {row.get("name"): row.get("value") for row in suite.iterfind("properties/property")} == {
        "agent": 'a & "b"',
        "agent.version": "1.0",
        "accord.version": "0.1.0",
        "protocol.offered": "2",
        "protocol.version": "2",
        "date": "2026-11-18T09:30:00+00:00",
        "mock-llm": "true",
        "verdict": "keeps its contract",
        "failed-shoulds": "a",
    }
    assert suite.get("name") == 'accord inspect a & "b"'
    assert suite.findtext("system-out") == 'a & "b" 1.0: keeps its contract\nfails a should: a: The sentence of a'


def test_what_the_agent_did_not_say_is_no_property():
    suite = parse(verdict(finding("a", MUST, PASS), agent=InspectedAgent()))
    names = {row.get("name") for row in suite.iterfind("properties/property")}
    assert names == {"agent", "accord.version", "protocol.offered", "date", "mock-llm", "verdict"}


def test_a_failure_has_its_clause_what_was_observed_and_the_lines():
    suite = parse(verdict(finding("a", MUST, FAIL, observed="answered", lines=[SENT, RECEIVED])))
    assert suite.findtext("testcase/failure") == (
        'ACP: a clause\nanswered\n→ {"id":7,"method":"session/prompt"}\n← {"id":7,"result":null}'
    )


def test_no_text_of_an_agent_makes_the_file_invalid():
    evil = ']]><&"\x00\x1b[2J\ufffe\uffff\U0001f600'
    line = InspectedLine(sender=LineSender.AGENT, line=evil)
    agent = InspectedAgent(name=evil, version=evil)
    found = finding("a", MUST, FAIL, title=evil, sentence=evil, clause=evil, observed=evil, lines=[line])
    suite = parse(verdict(found, agent=agent))
    assert suite.find("testcase/failure[@message]") is not None
    assert suite[1].get("name") == 'a: ]]><&"\\u0000\\u001b[2J\ufffd\ufffd\U0001f600'
