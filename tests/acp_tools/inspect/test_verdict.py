"""What findings mean for the exit status, with and without a baseline."""

from itertools import product

import pytest

from accord.acp_tools.inspect.report.verdict import FAILING, InspectionVerdict, Standing, VerdictRules
from accord.wire.inspection import CheckGroup, Level, Result
from tests.acp_tools.inspect.reports import finding, report, verdict

MUST, SHOULD, MAY = Level
PASS, FAIL, NOT_JUDGED, NOT_APPLICABLE = Result
CONTENT = frozenset({CheckGroup.CONTENT})


@pytest.mark.parametrize(
    ("now", "before", "required", "standing", "status"),
    [
        ((MUST, PASS), None, False, Standing.NEUTRAL, 0),
        ((MUST, FAIL), None, False, Standing.BREAKS, 1),
        ((MUST, FAIL), PASS, False, Standing.BREAKS, 1),
        ((MUST, FAIL), NOT_JUDGED, False, Standing.BREAKS, 1),
        ((MUST, FAIL), FAIL, True, Standing.KNOWN, 0),
        ((SHOULD, FAIL), None, True, Standing.WARNING, 0),
        ((SHOULD, FAIL), FAIL, False, Standing.KNOWN, 0),
        ((MAY, FAIL), PASS, False, Standing.WARNING, 0),
        ((MUST, NOT_JUDGED), None, False, Standing.UNJUDGED, 3),
        ((MUST, NOT_JUDGED), NOT_JUDGED, False, Standing.UNJUDGED, 3),
        ((MUST, NOT_JUDGED), NOT_APPLICABLE, False, Standing.UNJUDGED, 3),
        ((MUST, NOT_JUDGED), PASS, False, Standing.LOST, 1),
        ((MUST, NOT_JUDGED), FAIL, False, Standing.LOST, 1),
        ((MUST, NOT_JUDGED), NOT_JUDGED, True, Standing.REQUIRED, 1),
        ((SHOULD, NOT_JUDGED), PASS, True, Standing.NEUTRAL, 0),
        ((MUST, NOT_APPLICABLE), PASS, True, Standing.NEUTRAL, 0),
    ],
)
def test_a_finding_has_a_standing_that_decides_the_exit_status(
    now: tuple[Level, Result], before: Result | None, required: bool, standing: Standing, status: int
):
    baseline = None if before is None else report(finding("a", now[0], before))
    groups = CONTENT if required else frozenset[CheckGroup]()
    in_ci = VerdictRules(required=groups, baseline=baseline, unjudged_fails=True)
    found = verdict(finding("a", *now), finding("b", MUST, PASS), rules=in_ci)
    assert (found.standings["a"], found.status) == (standing, status)
    elsewhere = VerdictRules(required=groups, baseline=baseline)
    assert verdict(finding("a", *now), rules=elsewhere).status == (0 if status == 3 else status)


def test_a_failure_outweighs_what_was_not_judged():
    rules = VerdictRules(unjudged_fails=True)
    assert verdict(finding("a", MUST, NOT_JUDGED), finding("b", MUST, FAIL), rules=rules).status == 1


def test_only_groups_that_are_required_must_be_judged():
    found = verdict(
        finding("a", MUST, NOT_JUDGED, group=CheckGroup.SESSION),
        finding("b", MUST, NOT_JUDGED, group=CheckGroup.CONTENT),
        rules=VerdictRules(required=CONTENT),
    )
    assert found.standings == {"a": Standing.UNJUDGED, "b": Standing.REQUIRED}


def test_a_report_is_its_own_baseline():
    every = [finding(f"{level}-{result}", level, result) for level, result in product(Level, Result)]
    found = verdict(*every, rules=VerdictRules(baseline=report(*every)))
    assert not set(found.standings.values()) & {*FAILING, Standing.WARNING}
    assert (found.fixed, found.status) == ([], 0)


def test_what_failed_in_the_baseline_and_fails_no_longer_is_fixed():
    before = report(*(finding(name, MUST, FAIL) for name in ("passes", "fails", "unjudged", "gone", "inapplicable")))
    found = verdict(
        finding("passes", MUST, PASS),
        finding("fails", MUST, FAIL),
        finding("unjudged", MUST, NOT_JUDGED),
        finding("inapplicable", MUST, NOT_APPLICABLE),
        rules=VerdictRules(baseline=before),
    )
    assert found.fixed == ["passes", "inapplicable"]


UNJUDGED = "not judged: 1 mandatory check of content"


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        ([(MUST, PASS), (SHOULD, FAIL)], "keeps its contract"),
        ([(MUST, PASS), (MUST, NOT_APPLICABLE)], "keeps its contract"),
        ([(MUST, PASS), (SHOULD, NOT_JUDGED)], "keeps its contract"),
        ([(MUST, FAIL)], "breaks its contract"),
        ([(MUST, FAIL), (MUST, NOT_JUDGED)], f"breaks its contract; {UNJUDGED}"),
        ([(MUST, PASS), (MUST, NOT_JUDGED)], UNJUDGED),
        ([(SHOULD, NOT_JUDGED)], "not judged: no check could be judged"),
        ([(MUST, NOT_APPLICABLE)], "not judged: no check could be judged"),
        ([], "not judged: no check could be judged"),
    ],
)
def test_the_sentence_never_reads_like_a_success_if_something_mandatory_is_open(
    results: list[tuple[Level, Result]], sentence: str
):
    found = verdict(*(finding(f"c{n}", level, result) for n, (level, result) in enumerate(results)))
    assert found.sentence == sentence


def test_the_sentence_names_each_group_once_and_says_if_all_failures_are_known():
    findings = [
        finding("a", MUST, NOT_JUDGED, group=CheckGroup.SESSION),
        finding("b", MUST, NOT_JUDGED),
        finding("c", MUST, NOT_JUDGED),
        finding("d", MUST, FAIL),
    ]
    unjudged = "not judged: 3 mandatory checks of session, content"
    assert verdict(*findings[:3]).sentence == unjudged
    rules = VerdictRules(baseline=report(*findings))
    assert verdict(*findings, rules=rules).sentence == f"breaks its contract, as in the baseline; {unjudged}"


def test_findings_are_listed_musts_first():
    findings = [finding("a", MAY, FAIL), finding("b", SHOULD, FAIL), finding("c", MUST, FAIL), finding("d", MUST, PASS)]
    found: InspectionVerdict = verdict(*findings)
    assert [each.check for each in found.with_standing(Standing.WARNING, Standing.BREAKS)] == ["c", "b", "a"]
    assert [each.check for each in found.with_standing(Standing.WARNING, level=MAY)] == ["a"]
