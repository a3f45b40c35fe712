"""What the findings of an inspection mean: the standing of each, the exit status, and the verdict in words. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from accord.terminal import format_count
from accord.wire.inspection import CheckGroup, InspectionFinding, InspectionReport, Level, Result

EXIT_FAILED: Final = 1
EXIT_UNJUDGED: Final = 3

MAY_LACK: Final = (Result.NOT_JUDGED, Result.NOT_APPLICABLE)


class Standing(StrEnum):
    """What a finding means for the verdict."""

    BREAKS = "breaks"
    """A must that fails."""
    REQUIRED = "required"
    """A must of a group that the user requires, and that was not judged."""
    LOST = "lost"
    """A must that was judged in the baseline, and is not judged now."""
    WARNING = "warning"
    """A should or a may that fails."""
    KNOWN = "known"
    """A check that fails, and failed in the baseline already."""
    UNJUDGED = "unjudged"
    """Any other must that was not judged."""
    NEUTRAL = "neutral"
    """Everything else: passed, not applicable, or not judged and not mandatory."""


FAILING: Final = (Standing.BREAKS, Standing.REQUIRED, Standing.LOST)
"""The standings that give exit status 1."""


@dataclass(frozen=True, slots=True)
class VerdictRules:
    """What the user requires of an inspection."""

    required: Collection[CheckGroup] = ()
    baseline: InspectionReport | None = None
    unjudged_fails: bool = False
    """Whether a must that was not judged gives exit status 3."""


@dataclass(frozen=True, slots=True)
class InspectionVerdict:
    """A report, the standing of each of its checks, and the exit status of `accord inspect`.

    `fixed` has the checks that failed in the baseline and do not fail now.
    """

    report: InspectionReport
    standings: Mapping[str, Standing]
    fixed: Sequence[str]
    status: int

    @classmethod
    def of(cls, report: InspectionReport, rules: VerdictRules) -> Self:
        """Decide what the report means under these rules."""
        before = {} if rules.baseline is None else {found.check: found.result for found in rules.baseline.findings}
        standings = {found.check: _standing(found, before.get(found.check), rules) for found in report.findings}
        settled = [found.check for found in report.findings if found.result in (Result.PASS, Result.NOT_APPLICABLE)]
        status = 0
        if any(standing in FAILING for standing in standings.values()):
            status = EXIT_FAILED
        elif rules.unjudged_fails and Standing.UNJUDGED in standings.values():
            status = EXIT_UNJUDGED
        fixed = [check for check in settled if before.get(check) is Result.FAIL]
        return cls(report=report, standings=standings, fixed=fixed, status=status)

    def with_standing(self, *standings: Standing, level: Level | None = None) -> list[InspectionFinding]:
        """The findings that have one of these standings, musts first; of one level or of all."""
        found = [found for found in self.report.findings if self.standings[found.check] in standings]
        return [
            each for each_level in Level for each in found if each.level is each_level and level in (None, each_level)
        ]

    @property
    def sentence(self) -> str:
        """The verdict in a few words, about the agent. Where musts are open, it never reads like a success."""
        parts: list[str] = []
        if not self.report.keeps_contract:
            is_news = Standing.BREAKS in self.standings.values()
            parts.append("breaks its contract" if is_news else "breaks its contract, as in the baseline")
        if unjudged := self.report.unjudged():
            groups = ", ".join(dict.fromkeys(str(found.group) for found in unjudged))
            parts.append(f"not judged: {format_count(len(unjudged), 'mandatory check')} of {groups}")
        elif all(found.result in MAY_LACK for found in self.report.findings):
            parts.append("not judged: no check could be judged")
        return "; ".join(parts) or "keeps its contract"


def _standing(found: InspectionFinding, before: Result | None, rules: VerdictRules) -> Standing:
    is_must = found.level is Level.MUST
    match found.result:
        case Result.FAIL if before is Result.FAIL:
            return Standing.KNOWN
        case Result.FAIL:
            return Standing.BREAKS if is_must else Standing.WARNING
        case Result.NOT_JUDGED if is_must and found.group in rules.required:
            return Standing.REQUIRED
        case Result.NOT_JUDGED if is_must and before in (Result.PASS, Result.FAIL):
            return Standing.LOST
        case Result.NOT_JUDGED if is_must:
            return Standing.UNJUDGED
        case _:
            return Standing.NEUTRAL
