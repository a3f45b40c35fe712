"""The messages of the agent: each check reports the violations of one rule of `conduct`, during all checks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from accord.acp_tools.inspect.checks.table import MAY, MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.conduct import Rule
from accord.acp_tools.inspect.inspection import FoundViolation
from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import CheckOutcome, failed, not_applicable, not_judged, passed
from accord.wire.inspection import CheckGroup, Level

SCHEMA: Final = "ACP schema"
TURN: Final = "ACP: Prompt Turn"
FS: Final = "ACP: File System – an agent must not call what is not declared"
TERMINALS: Final = "ACP: Terminals – an agent must not call what is not declared"
EXTENSIONS: Final = "ACP: Extensibility – own methods begin with an underscore"

RULES: Final[Mapping[Rule, tuple[str, str, Level]]] = {
    Rule.VERSION_BODY: ("the result of initialize has the form of its version", "ACP: Initialization", MUST),
    Rule.RESULT_SHAPE: ("every result has the form that the schema gives it", SCHEMA, MUST),
    Rule.ERROR_SHAPE: ("every error has a code and a message", "JSON-RPC 2.0 §5.1", MUST),
    Rule.ONE_ANSWER: ("every request is answered once, with its id", "JSON-RPC 2.0 §5", MUST),
    Rule.STOP_REASON: ("every turn ends with a stop reason of the schema", f"{SCHEMA}: StopReason", MUST),
    Rule.TURN_OUTPUT: (
        "a turn that ends as end_turn has output",
        f"{SCHEMA}: agents must support session/update",
        SHOULD,
    ),
    Rule.UPDATE_SHAPE: ("every update has the form that the schema gives it", f"{SCHEMA}: SessionUpdate", MUST),
    Rule.UPDATE_SESSION: ("updates and requests name a session that was opened", "ACP: Session Setup", MUST),
    Rule.UPDATE_LATE: ("the updates of a turn come before its end", TURN, MUST),
    Rule.UPDATE_OUTSIDE: ("output is sent in turns only", TURN, SHOULD),
    Rule.CALLS_FINISH: ("every tool call reaches a final status", "ACP: Tool Calls – status", SHOULD),
    Rule.UNDECLARED_FS: ("fs/* is not called if it is not declared", FS, MUST),
    Rule.UNDECLARED_TERMINAL: ("terminal/* is not called if it is not declared", TERMINALS, MUST),
    Rule.PERMISSION_SHAPE: (
        "every permission request is well formed",
        f"{SCHEMA}: RequestPermissionRequest",
        MUST,
    ),
    Rule.CLIENT_SHAPE: ("every request for files and terminals is well formed", SCHEMA, MUST),
    Rule.ABSOLUTE_PATHS: ("every path is absolute", "ACP: Overview – all file paths are absolute", MUST),
    Rule.CLIENT_METHODS: ("only methods of a client are called", EXTENSIONS, MUST),
    Rule.UNSTABLE: ("only members of the stable schema are used", SCHEMA, MAY),
}
WITHOUT_SESSION: Final = frozenset(
    {
        Rule.VERSION_BODY,
        Rule.RESULT_SHAPE,
        Rule.ERROR_SHAPE,
        Rule.ONE_ANSWER,
        Rule.CLIENT_METHODS,
        Rule.UNSTABLE,
    }
)
"""Rules that the handshake alone lets one judge."""

NEVER: Final = {
    Rule.UNDECLARED_FS: "The agent did not call fs/*",
    Rule.UNDECLARED_TERMINAL: "The agent did not call terminal/*",
    Rule.CLIENT_METHODS: "The agent called no method of the client",
    Rule.UNSTABLE: "No member of the unstable schema was seen",
}
"""Rules that an agent keeps by sending nothing."""
OPTIONAL: Final = {
    Rule.ERROR_SHAPE: "The agent sent no error",
    Rule.CALLS_FINISH: "The agent made no tool call",
    Rule.PERMISSION_SHAPE: "The agent requested no permission",
    Rule.CLIENT_SHAPE: "The agent requested no file and no terminal",
    Rule.ABSOLUTE_PATHS: "The agent sent no path",
}
"""Rules about messages that an agent need not send."""
UPDATES: Final = frozenset({Rule.UPDATE_SHAPE, Rule.UPDATE_SESSION, Rule.UPDATE_LATE, Rule.UPDATE_OUTSIDE})
NOTHING_SENT: Final = "The agent sent no message that this is about"

MAX_NAMED: Final = 3
"""How many of the checks during which a rule was broken are named."""

MESSAGES: Final = CheckTable(CheckGroup.MESSAGES, reports_all=True)


def _add_rule(rule: Rule) -> None:
    title, clause, level = RULES[rule]
    needs = Needs.HANDSHAKE if rule in WITHOUT_SESSION else Needs.SESSION

    @MESSAGES.check(rule, title, clause, level, needs)
    async def _keeps(probe: AgentProbe) -> CheckOutcome:
        inspection = probe.inspection
        if inspection.why_no_session is None:
            # Of the other checks only some may have been chosen; plain text shows the most usual messages.
            await probe.baseline()
            await inspection.collect_all()
        found = [violation for violation in inspection.violations if violation.rule is rule]
        if found:
            return _report(found, probe)
        if rule in NEVER:
            return passed(NEVER[rule])
        if rule in inspection.judged:
            return passed("Every message of the agent kept this rule")
        if rule in UPDATES and Rule.STOP_REASON in inspection.judged:
            return not_applicable("The agent sent no update")
        if rule in OPTIONAL or probe.is_draft:
            return not_applicable(OPTIONAL.get(rule, NOTHING_SENT))
        return not_judged(NOTHING_SENT)


def _report(found: Sequence[FoundViolation], probe: AgentProbe) -> CheckOutcome:
    """The outcome of a broken rule: the first violation, and how often and when there were others."""
    more = len({violation.sentence for violation in found}) - 1
    outcome = failed(f"{found[0].sentence} (and {more} more)" if more else found[0].sentence)
    during = list(dict.fromkeys(violation.check for violation in found if violation.check))
    named = ", ".join(during[:MAX_NAMED])
    if len(during) > MAX_NAMED:
        named += f" and {len(during) - MAX_NAMED} other checks"
    outcome = replace(outcome, observed=f"during {named}" if named else None, lines=found[0].lines)
    # An agent may have nothing to say; one that never says anything does not support updates, or loses the answer.
    model = probe.inspection.model
    is_mute = Rule.UPDATE_SHAPE not in probe.inspection.judged or (model is not None and bool(model.requests))
    return replace(outcome, level=MUST) if found[0].rule is Rule.TURN_OUTPUT and is_mute else outcome


for _rule in RULES:
    _add_rule(_rule)
