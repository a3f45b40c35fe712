"""Reports of inspections that never ran, for the tests of the output."""

from datetime import UTC, datetime
from typing import Any

from accord.acp_tools.inspect.report import InspectionVerdict, VerdictRules
from accord.wire.inspection import (
    CheckGroup,
    InspectedAgent,
    InspectedLine,
    InspectionFinding,
    InspectionReport,
    Level,
    LineSender,
    Result,
)

SENT = InspectedLine(sender=LineSender.CLIENT, line='{"id":7,"method":"session/prompt"}')
RECEIVED = InspectedLine(sender=LineSender.AGENT, line='{"id":7,"result":null}')


def finding(check: str, level: Level, result: Result, **fields: Any) -> InspectionFinding:
    defaults: dict[str, Any] = {
        "group": CheckGroup.CONTENT,
        "title": f"the title of {check}",
        "clause": "ACP: a clause",
        "sentence": f"The sentence of {check}",
        "duration_s": 0.25,
    }
    return InspectionFinding(check=check, level=level, result=result, **{**defaults, **fields})


def report(*findings: InspectionFinding, **fields: Any) -> InspectionReport:
    defaults: dict[str, Any] = {
        "program": "agent",
        "date": datetime(2026, 11, 18, 9, 30, tzinfo=UTC),
        "accord_version": "0.1.0",
        "duration_s": 4.2,
        "agent": InspectedAgent(name="misbehaving", version="1.0", protocol_version=1),
    }
    return InspectionReport.about(list(findings), **{**defaults, **fields})


def verdict(*findings: InspectionFinding, rules: VerdictRules | None = None, **fields: Any) -> InspectionVerdict:
    return InspectionVerdict.of(report(*findings, **fields), rules or VerdictRules())
