"""The report of an inspection of an ACP agent. The checks are in `acp_tools/inspect`."""

from enum import StrEnum
from typing import Self

from pydantic import Field

from accord.wire.message import FreeValue, Message


class Level(StrEnum):
    """The requirement level of a check."""

    MUST = "must"
    SHOULD = "should"
    MAY = "may"


class Result(StrEnum):
    """The result of a check."""

    PASS = "pass"  # noqa: S105 - a result, no password
    FAIL = "fail"
    SKIPPED = "skipped"


class InspectionFinding(Message, frozen=True):
    """One check and its result; `observed` is what the agent did, shortened and without secrets."""

    check: str
    title: str
    clause: str
    level: Level
    result: Result
    sentence: str
    observed: str | None = None


class DeclaredCapability(Message, frozen=True):
    """One flag of an agent's declaration: as received, how it is read, and a remark if it is malformed."""

    flag: str
    received: FreeValue = None
    supported: bool
    remark: str | None = None


class InspectedAgent(Message, frozen=True):
    """The inspected agent, as far as it named itself."""

    name: str | None = None
    version: str | None = None
    protocol_version: int | None = None


class InspectionReport(Message, frozen=True):
    """The report of one inspection. `program` is the command's first word without its folder."""

    program: str
    agent: InspectedAgent
    capabilities: list[DeclaredCapability] = Field(default_factory=list[DeclaredCapability])
    findings: list[InspectionFinding] = Field(default_factory=list[InspectionFinding])
    counts: dict[Result, int]
    keeps_contract: bool
    """Whether no check of level `must` failed."""

    @classmethod
    def about(
        cls,
        program: str,
        agent: InspectedAgent,
        capabilities: list[DeclaredCapability],
        findings: list[InspectionFinding],
    ) -> Self:
        """Make the report of these findings, with its counts."""
        return cls(
            program=program,
            agent=agent,
            capabilities=capabilities,
            findings=findings,
            counts={result: sum(1 for found in findings if found.result is result) for result in Result},
            keeps_contract=not any(found.result is Result.FAIL and found.level is Level.MUST for found in findings),
        )

    def count(self, result: Result, level: Level | None = None) -> int:
        """The number of checks with this result, of one level or of all."""
        return sum(1 for found in self.findings if found.result is result and level in (None, found.level))
