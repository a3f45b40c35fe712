"""The report of an inspection of an ACP agent. The checks are in `acp_tools/inspect`."""

from collections.abc import Collection
from enum import StrEnum
from typing import Any, Self

from pydantic import Field

from accord.wire.message import FreeValue, Message, UtcTime


class Level(StrEnum):
    """The requirement level of a check."""

    MUST = "must"
    SHOULD = "should"
    MAY = "may"


class Result(StrEnum):
    """The result of a check.

    A check is not applicable if the agent does not declare what it is about, and not judged if something else prevented
    it, such as a missing login. Only the second leaves a question open.
    """

    PASS = "pass"  # noqa: S105 - a result, no password
    FAIL = "fail"
    NOT_JUDGED = "not_judged"
    NOT_APPLICABLE = "not_applicable"


class CheckGroup(StrEnum):
    """What a check is about; `accord inspect --require` takes these names."""

    HANDSHAKE = "handshake"
    AUTHENTICATION = "authentication"
    SESSION = "session"
    CONTENT = "content"
    TURN = "turn"
    CLIENT = "client"
    """Files, terminals and permissions: what the agent requests from the client."""
    MESSAGES = "messages"
    """The shape and the order of everything that the agent sends."""
    LINES = "lines"
    PROCESS = "process"


class ContentFate(StrEnum):
    """What happened to the content of a prompt on its way to the model."""

    ACCEPTED = "accepted"
    DROPPED = "dropped"
    PLACEHOLDER = "placeholder"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class LineSender(StrEnum):
    """The side that sent a line."""

    CLIENT = "client"
    AGENT = "agent"


class InspectedLine(Message, frozen=True):
    """One line of the conversation, shortened and without secrets."""

    sender: LineSender
    line: str


class InspectionFinding(Message, frozen=True):
    """One check and its result; `observed` is what the agent did, shortened and without secrets.

    `lines` is the part of the conversation that reproduces a failure, `content` the fate of the content that was sent.
    """

    check: str
    group: CheckGroup
    title: str
    clause: str
    level: Level
    result: Result
    sentence: str
    observed: str | None = None
    content: ContentFate | None = None
    lines: list[InspectedLine] = Field(default_factory=list[InspectedLine])
    duration_s: float = 0.0


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
    """The report of one inspection. `program` is the command's first word without its folder.

    `protocol` is the version that was offered, `mock_llm` whether the agent was given the fake model.
    """

    program: str
    date: UtcTime
    accord_version: str
    protocol: int = 1
    mock_llm: bool = False
    duration_s: float = 0.0
    agent: InspectedAgent
    capabilities: list[DeclaredCapability] = Field(default_factory=list[DeclaredCapability])
    findings: list[InspectionFinding] = Field(default_factory=list[InspectionFinding])
    counts: dict[Result, int]
    keeps_contract: bool
    """Whether no check of level `must` failed."""

    @classmethod
    def about(cls, findings: list[InspectionFinding], **fields: Any) -> Self:
        """Make the report of these findings, with its counts; `fields` are the other members."""
        return cls(
            findings=findings,
            counts={result: sum(1 for found in findings if found.result is result) for result in Result},
            keeps_contract=not any(found.result is Result.FAIL and found.level is Level.MUST for found in findings),
            **fields,
        )

    def count(self, result: Result, level: Level | None = None) -> int:
        """The number of checks with this result, of one level or of all."""
        return sum(1 for found in self.findings if found.result is result and level in (None, found.level))

    def unjudged(self, groups: Collection[CheckGroup] = tuple(CheckGroup)) -> list[InspectionFinding]:
        """The musts of these groups that were not judged."""
        return [
            found
            for found in self.findings
            if found.result is Result.NOT_JUDGED and found.level is Level.MUST and found.group in groups
        ]
