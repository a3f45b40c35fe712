"""The report as JUnit XML for build systems. Pure.

The order of elements is that of the common schema: properties, test cases, output. There is no host name: reports are
shared.
"""

import re
from collections.abc import Mapping
from typing import Final
from xml.etree import ElementTree as ET

from accord.acp_tools.inspect.report.text import agent_name, conversation, result_words
from accord.acp_tools.inspect.report.verdict import EXIT_UNJUDGED, FAILING, InspectionVerdict, Standing
from accord.terminal import escape_controls
from accord.wire.inspection import InspectionFinding, Result

SUITE: Final = "accord inspect"
NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

MESSAGES: Final[Mapping[Standing, str]] = {
    Standing.BREAKS: "",
    Standing.REQUIRED: "required, but not judged: ",
    Standing.LOST: "judged in the baseline, but not now: ",
    Standing.WARNING: "fails a {level}: ",
    Standing.KNOWN: "fails a {level}, as in the baseline: ",
    Standing.UNJUDGED: "not judged: ",
}


def to_junit(verdict: InspectionVerdict) -> str:
    """The report as JUnit XML, with failures if and only if the exit status is 1, and errors if it is 3.

    JUnit has no warnings, so a failed should or may is a skipped case whose message says so. They are also listed in
    the output of the suite and in its properties.
    """
    report = verdict.report
    suite = ET.Element("testsuite", name=_xml_text(f"{SUITE} {report.agent.name or report.program}"))
    properties = ET.SubElement(suite, "properties")
    warnings = verdict.with_standing(Standing.WARNING)
    for name, value in (
        ("agent", report.agent.name or report.program),
        ("agent.version", report.agent.version),
        ("accord.version", report.accord_version),
        ("protocol.offered", report.protocol),
        ("protocol.version", report.agent.protocol_version),
        ("date", report.date.isoformat()),
        ("mock-llm", str(report.mock_llm).lower()),
        ("verdict", verdict.sentence),
        ("failed-shoulds", ", ".join(found.check for found in warnings)),
    ):
        if value not in (None, ""):
            ET.SubElement(properties, "property", name=name, value=_xml_text(str(value)))
    tags = [_add_case(suite, verdict, found) for found in report.findings]
    for attribute, count in (
        ("tests", len(tags)),
        ("failures", tags.count("failure")),
        ("errors", tags.count("error")),
        ("skipped", tags.count("skipped")),
    ):
        suite.set(attribute, str(count))
    suite.set("time", f"{report.duration_s:.3f}")
    # The schema has no time zone here; the property has it.
    suite.set("timestamp", f"{report.date:%Y-%m-%dT%H:%M:%S}")
    lines = [f"{agent_name(report)}: {verdict.sentence}"]
    lines += [f"fails a {found.level}: {found.check}: {found.sentence}" for found in warnings]
    ET.SubElement(suite, "system-out").text = _xml_text("\n".join(lines))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _add_case(suite: ET.Element, verdict: InspectionVerdict, found: InspectionFinding) -> str | None:
    """Add the case of a finding; return the name of the element that says how it ended, if it did not pass."""
    standing = verdict.standings[found.check]
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"acp.{found.level}.{found.group}",
        name=_xml_text(f"{found.check}: {found.title}"),
        time=f"{found.duration_s:.3f}",
    )
    if found.result is Result.PASS:
        return None
    tag = "skipped"
    if standing in FAILING:
        tag = "failure"
    elif standing is Standing.UNJUDGED and verdict.status == EXIT_UNJUDGED:
        tag = "error"
    message = MESSAGES.get(standing, "{result}: ").format(level=found.level, result=result_words(found.result))
    ended = ET.SubElement(case, tag, message=_xml_text(message + found.sentence))
    details = _xml_text("\n".join(filter(None, (found.clause, found.observed, *conversation(found)))))
    if tag == "skipped":
        if found.result is Result.FAIL:
            ET.SubElement(case, "system-out").text = details
    else:
        ended.set("type", str(found.level))
        ended.text = details
    return tag


def _xml_text(text: str) -> str:
    """The text without the characters that XML cannot have, and without those that could drive a terminal."""
    return NOT_XML.sub("\ufffd", escape_controls(text))
