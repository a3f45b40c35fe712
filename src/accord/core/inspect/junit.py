"""A report as JUnit XML, for build pipelines; it fails a build exactly when the exit status does.

What an agent should or may do and does not is a skipped case that says so: pipelines know no warnings.
"""

from typing import Final
from xml.etree import ElementTree as ET

from accord.wire.inspection import Finding, InspectionReport, Level, Result

SUITE: Final = "accord inspect"


def as_junit(report: InspectionReport) -> str:
    """The report as XML text."""
    failures = report.count(Result.FAIL, Level.MUST)
    not_judged = report.count(Result.SKIPPED) + report.count(Result.FAIL) - failures
    suite = ET.Element(
        "testsuite",
        name=f"{SUITE} {report.agent.name or report.program}",
        tests=str(len(report.findings)),
        failures=str(failures),
        errors="0",
        skipped=str(not_judged),
    )
    for finding in report.findings:
        _add_case(suite, finding)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _add_case(suite: ET.Element, finding: Finding) -> None:
    case = ET.SubElement(suite, "testcase", classname=f"acp.{finding.level}", name=f"{finding.check}: {finding.title}")
    if finding.result is Result.FAIL and finding.level is Level.MUST:
        failure = ET.SubElement(case, "failure", type=str(finding.level), message=finding.sentence)
        failure.text = f"{finding.clause}\n{finding.observed or ''}".strip()
    elif finding.result is Result.FAIL:
        ET.SubElement(case, "skipped", message=f"fails a {finding.level}: {finding.sentence}")
    elif finding.result is Result.SKIPPED:
        ET.SubElement(case, "skipped", message=finding.sentence)
