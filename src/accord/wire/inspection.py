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

    sender: LineSender = Field(description="The side that sent it.")
    line: str = Field(description="The line.")


class InspectionFinding(Message, frozen=True):
    """One check and its result; `observed` is what the agent did, shortened and without secrets.

    `lines` is the part of the conversation that reproduces a failure, `content` the fate of the content that was sent.
    """

    check: str = Field(description="The id of the check.")
    group: CheckGroup = Field(description="What it is about.")
    title: str = Field(description="What it checks.")
    clause: str = Field(description="The clause of the protocol.")
    level: Level = Field(description="How binding the clause is.")
    result: Result = Field(description="The result.")
    sentence: str = Field(description="The result in a sentence.")
    observed: str | None = Field(default=None, description="What the agent did.")
    content: ContentFate | None = Field(default=None, description="What became of the content that was sent.")
    lines: list[InspectedLine] = Field(
        default_factory=list[InspectedLine], description="The part of the conversation that reproduces a failure."
    )
    duration_s: float = Field(default=0.0, description="Seconds that it took.")


class DeclaredCapability(Message, frozen=True):
    """One flag of an agent's declaration: as received, how it is read, and a remark if it is malformed."""

    flag: str = Field(description="The name of the flag.")
    received: FreeValue = Field(default=None, description="Its value as it was received.")
    supported: bool = Field(description="How it is read.")
    remark: str | None = Field(default=None, description="What is wrong with it.")


class InspectedAgent(Message, frozen=True):
    """The inspected agent, as far as it named itself."""

    name: str | None = Field(default=None, description="Its name.")
    version: str | None = Field(default=None, description="Its version.")
    protocol_version: int | None = Field(default=None, description="The version of ACP that it answered with.")


class InspectionReport(Message, frozen=True):
    """The report of one inspection. `program` is the command's first word without its folder.

    `protocol` is the version that was offered, `mock_llm` whether the agent was given the fake model.
    """

    program: str = Field(description="The first word of the command, without its folder.")
    date: UtcTime = Field(description="When the inspection began.")
    accord_version: str = Field(description="The version of Accord.")
    protocol: int = Field(default=1, description="The version of ACP that was offered.")
    mock_llm: bool = Field(default=False, description="Whether the agent was given the fake model.")
    duration_s: float = Field(default=0.0, description="Seconds that it took.")
    agent: InspectedAgent = Field(description="The inspected agent.")
    capabilities: list[DeclaredCapability] = Field(
        default_factory=list[DeclaredCapability], description="What the agent declared."
    )
    findings: list[InspectionFinding] = Field(
        default_factory=list[InspectionFinding], description="Every check and its result."
    )
    counts: dict[Result, int] = Field(description="How many checks have each result.")
    keeps_contract: bool = Field(description="Whether no check of level `must` failed.")

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
