"""Authentication: the login methods that an agent offers, and its error for a missing login.

Only the method of `--authenticate` is called, and never `logout`: that would change the login of the user.
"""

from dataclasses import replace
from typing import Final

from accord.acp.methods import Method
from accord.acp_tools.inspect.checks.table import MUST, SHOULD, CheckTable
from accord.acp_tools.inspect.inspection import NO_SESSIONS
from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    describe,
    failed,
    judge_error,
    not_applicable,
    not_judged,
    passed,
)
from accord.acp_tools.inspect.session_results import auth_methods_fault, judge_login
from accord.errors import RpcCode
from accord.wire.inspection import CheckGroup

METHODS: Final = "ACP: Authentication – authMethods"
NO_METHODS: Final = "The agent offers no authentication method"

AUTHENTICATION: Final = CheckTable(CheckGroup.AUTHENTICATION)


@AUTHENTICATION.check("auth-methods", "every authentication method is well formed", METHODS, MUST)
async def _methods(probe: AgentProbe) -> CheckOutcome:
    if not (methods := probe.declared.auth_methods):
        return not_applicable(NO_METHODS)
    if fault := auth_methods_fault(methods, is_draft=probe.is_draft):
        return replace(failed(fault), lines=probe.inspection.handshake_lines)
    return passed("Every authentication method has an id of its own and a name")


@AUTHENTICATION.check("unknown-auth-method", "an unknown authentication method gets an error", METHODS, SHOULD)
async def _unknown_method(probe: AgentProbe) -> CheckOutcome:
    if not probe.declared.auth_methods:
        return not_applicable(NO_METHODS)
    method = Method.AUTH_LOGIN if probe.is_draft else Method.AUTHENTICATE
    reply = await (await probe.agent()).call(method, {"methodId": "accord-no-such-method"})
    return judge_error(reply, None, "An unknown authentication method")


@AUTHENTICATION.check("authenticate", "the method of --authenticate works", METHODS, MUST)
async def _authenticate(probe: AgentProbe) -> CheckOutcome:
    reply = probe.inspection.authentication
    if reply is None:
        return not_applicable("No method was given with --authenticate")
    if isinstance(reply, Answered):
        return passed("The agent accepted the authentication", reply)
    return failed("The authentication failed", reply)


@AUTHENTICATION.check(
    "auth-required",
    f"a missing login gets {RpcCode.AUTH_REQUIRED}",
    f"ACP schema: ErrorCode – {RpcCode.AUTH_REQUIRED} authentication required",
    MUST,
)
async def _required(probe: AgentProbe) -> CheckOutcome:
    inspection = probe.inspection
    if inspection.lacks_sessions:
        return not_applicable(NO_SESSIONS)
    if isinstance(inspection.first_session, Answered):
        return not_applicable("A session was created without a login")
    outcome = judge_login(inspection.first_session, has_methods=bool(probe.declared.auth_methods))
    if outcome is None:
        return not_judged(f"session/new failed for another reason: {describe(inspection.first_session)}")
    return replace(outcome, lines=inspection.first_session_lines)
