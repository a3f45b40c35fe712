"""Faults of authentication are found, each by its check: real agents in their own processes, one table."""

import pytest

from accord.acp_tools.inspect.checks.authentication import AUTHENTICATION
from accord.wire.inspection import Level, Result
from tests.acp_tools.inspect.inspection import inspect, with_result


@pytest.mark.parametrize(
    ("faults", "found"),
    [
        ("offers-login", {}),
        ("offers-login double-login", {"auth-methods": Level.MUST}),
        ("offers-login nameless-login", {"auth-methods": Level.MUST}),
        ("offers-login terminal-login", {"auth-methods": Level.MUST}),
        ("offers-login any-login", {"unknown-auth-method": Level.SHOULD}),
        ("needs-auth", {}),
        ("needs-auth offers-no-login", {"auth-required": Level.SHOULD}),
        ("needs-auth wrong-login-code", {"auth-required": Level.MUST}),
    ],
)
def test_each_fault_of_authentication_is_found_and_nothing_else(faults: str, found: dict[str, Level]):
    report = inspect(AUTHENTICATION, *faults.split())
    failures = [finding for finding in report.findings if finding.result is Result.FAIL]
    assert {finding.check: finding.level for finding in failures} == found
    assert all(finding.lines for finding in failures)


def test_a_missing_login_with_the_right_code_passes():
    report = inspect(AUTHENTICATION, "needs-auth")
    assert with_result(report, Result.PASS) == {"auth-methods", "unknown-auth-method", "auth-required"}


def test_an_agent_without_a_login_has_nothing_to_judge():
    report = inspect(AUTHENTICATION)
    assert with_result(report, Result.NOT_APPLICABLE) == {check.id for check in AUTHENTICATION}
