"""The checks, in the order in which they run: each names its clause and level, sends something, and judges the reply.

Four tables: the handshake, content in prompts, lines on the pipe, and the life of the agent. A check is a decorated
function that gets an `AgentProbe`; the sentences of its outcomes are in `replies`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from accord.acp_tools.inspect.probe import (
    BAD_BASE64,
    GOOD,
    LONG_WORK,
    MALFORMED,
    NO_SESSIONS,
    TEXT,
    UNKNOWN_NOTICE,
    AgentProbe,
)
from accord.acp_tools.inspect.replies import (
    NO_RESULT,
    Answered,
    CheckOutcome,
    Gone,
    Refused,
    Silent,
    capitalize,
    describe,
    failed,
    is_agent_error,
    judge_accepted,
    judge_answered,
    judge_cancelled,
    judge_empty,
    judge_error,
    judge_error_reply,
    judge_next,
    judge_noise,
    judge_rejected,
    judge_session,
    judge_version,
    passed,
    skipped,
)
from accord.core.prompt.verdict import FLAGS
from accord.core.rpc import notification_line, request_line
from accord.errors import RpcCode
from accord.wire.acp.content import ContentType
from accord.wire.inspection import Level

MUST: Final = Level.MUST
SHOULD: Final = Level.SHOULD
MAY: Final = Level.MAY

NEGOTIATION: Final = "ACP: Initialization – version negotiation"
BASELINE: Final = "ACP schema: PromptRequest – text and resource_link are the baseline"
DECLARED: Final = "ACP schema: PromptCapabilities"
UNDECLARED: Final = "ACP schema: PromptCapabilities – opted in to; the draft: else -32602"
INVALID: Final = "JSON-RPC 2.0 §5.1: -32602 invalid params"
RECOVERY: Final = "JSON-RPC 2.0 §5.1: a bad message is an error, not an end"
ERROR_REPLY: Final = "JSON-RPC 2.0 §5.1: -32700 and -32600, with id null"
STDIO: Final = "ACP: Transports – stdio"
IDS: Final = "JSON-RPC 2.0 §5: the id is that of the request"

NAMES: Final = {ContentType.IMAGE: "an image", ContentType.AUDIO: "audio", ContentType.RESOURCE: "an embedded resource"}
BAD_LINES: Final = {
    "garbage-line": ("a line of garbage", b"this is no JSON {{{\n"),
    "binary-line": ("a line that is not UTF-8", b'\xff\xfe\x00{"\x80\n'),
    "array-line": ("the line []", b"[]\n"),
    "number-line": ("the line 42", b"42\n"),
    "blank-lines": ("blank lines", b"\n  \n\r\n"),
}
MEGABYTE: Final = 1024 * 1024
LINE_MEGABYTES: Final = {1: SHOULD, 10: MAY}
LARGE_ID: Final = 2**53 - 1
QUICK_TURN_S: Final = 0.3
"""How long to let a turn run before it is cancelled."""

CheckFunction = Callable[[AgentProbe], Awaitable[CheckOutcome]]


class Needs(Enum):
    """What must have worked before a check can be judged."""

    NOTHING = "nothing"
    HANDSHAKE = "handshake"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Check:
    """One question to an agent."""

    id: str
    title: str
    clause: str
    level: Level
    needs: Needs
    run: CheckFunction


class CheckTable(list[Check]):
    """Checks in the order in which they run; the decorator `@table.check(…)` adds one."""

    def check(self, check_id: str, title: str, clause: str, level: Level, needs: Needs = Needs.HANDSHAKE) -> Any:
        """Add the decorated function as a check."""

        def add(run: CheckFunction) -> CheckFunction:
            self.append(Check(check_id, title, clause, level, needs, run))
            return run

        return add


HANDSHAKE: Final = CheckTable()


@HANDSHAKE.check("handshake", "initialize is answered", "ACP: Initialization", MUST, Needs.NOTHING)
async def _handshake(probe: AgentProbe) -> CheckOutcome:
    if not isinstance(probe.handshake, Answered):
        outcome = failed(NO_RESULT, probe.handshake)
        line = probe.last_stderr_line()
        return replace(outcome, observed=f"{outcome.observed}; on stderr: {line}") if line else outcome
    if probe.declared.agent.protocol_version is None:
        return failed("The result has no protocolVersion that is a whole number", probe.handshake)
    return passed(f"The agent chose version {probe.declared.version}", probe.handshake)


@HANDSHAKE.check("capabilities", "every declared flag is well formed", "ACP schema: AgentCapabilities", SHOULD)
async def _capabilities(probe: AgentProbe) -> CheckOutcome:
    malformed = [row for row in probe.declared.capabilities if (row.remark or "").startswith("malformed")]
    if malformed:
        return failed(f"Malformed, and so unsupported: {', '.join(row.flag for row in malformed)}")
    return passed("Every flag has the type that the schema gives it")


@HANDSHAKE.check("agent-info", "the agent gives its name and version", "ACP schema: InitializeResponse", SHOULD)
async def _agent_info(probe: AgentProbe) -> CheckOutcome:
    agent = probe.declared.agent
    if agent.name is None or agent.version is None:
        return failed("The result of initialize lacks the name or the version of the agent")
    return passed(f"The agent is {agent.name} {agent.version}")


def _add_version_check(version: int) -> None:
    title = f"an offer of version {version} is answered with a version"

    @HANDSHAKE.check(f"version-{version}", title, NEGOTIATION, MUST)
    async def _version(probe: AgentProbe) -> CheckOutcome:
        reply = await probe.initialize(await probe.fresh(), version)
        return judge_version(reply, version, supported=probe.declared.version)


for _number in (1, 2, 65535):
    _add_version_check(_number)


@HANDSHAKE.check("prompt-first", "a prompt before initialize gets an error", "ACP: Initialization", SHOULD)
async def _prompt_first(probe: AgentProbe) -> CheckOutcome:
    reply = await probe.prompt(
        TEXT, session="accord-no-session", connection=await probe.fresh(), wait_s=probe.settings.startup_s
    )
    return judge_error(reply, None, "A prompt before initialize")


@HANDSHAKE.check("session-new", "session/new creates a session", "ACP: Session Setup", MUST)
async def _session_new(probe: AgentProbe) -> CheckOutcome:
    if probe.lacks_sessions:
        return skipped(NO_SESSIONS)
    return judge_session(probe.first_session)


CONTENT: Final = CheckTable()


@CONTENT.check("text", "text is accepted", BASELINE, MUST, Needs.SESSION)
async def _text(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    return judge_accepted(baseline, baseline, "Text")


@CONTENT.check("resource-link", "a resource link is accepted", BASELINE, MUST, Needs.SESSION)
async def _link(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    return judge_accepted(await probe.prompt(TEXT, GOOD[ContentType.RESOURCE_LINK]), baseline, "A resource link")


def _add_content_checks(kind: ContentType) -> None:
    what, flag = NAMES[kind], FLAGS[kind]

    @CONTENT.check(f"declared-{kind}", f"{what}, if declared, is accepted", DECLARED, MUST, Needs.SESSION)
    async def _accepts(probe: AgentProbe) -> CheckOutcome:
        if not probe.declaration.accepts(kind):
            return skipped(f"{flag} is not declared")
        baseline = await probe.baseline()
        return judge_accepted(await probe.prompt(TEXT, GOOD[kind]), baseline, capitalize(what))

    @CONTENT.check(f"undeclared-{kind}", f"{what}, if not declared, is rejected", UNDECLARED, MUST, Needs.SESSION)
    async def _rejects(probe: AgentProbe) -> CheckOutcome:
        if probe.declaration.accepts(kind):
            return skipped(f"{flag} is declared")
        baseline = await probe.baseline()
        return judge_rejected(await probe.prompt(TEXT, GOOD[kind]), baseline, capitalize(what))


def _add_malformed_check(check_id: str) -> None:
    what, block = MALFORMED[check_id]

    @CONTENT.check(check_id, f"{what} is rejected", INVALID, SHOULD, Needs.SESSION)
    async def _rejects(probe: AgentProbe) -> CheckOutcome:
        baseline = await probe.baseline()
        return judge_rejected(await probe.prompt(TEXT, block), baseline, capitalize(what))


for _kind in FLAGS:
    _add_content_checks(_kind)
for _name in MALFORMED:
    _add_malformed_check(_name)


@CONTENT.check("bad-base64", "data that is not base64 is rejected", INVALID, SHOULD, Needs.SESSION)
async def _bad_base64(probe: AgentProbe) -> CheckOutcome:
    block = next((block for kind, block in BAD_BASE64.items() if probe.declaration.accepts(kind)), None)
    if block is None:
        return skipped("No content that carries base64 is declared")
    baseline = await probe.baseline()
    return judge_rejected(await probe.prompt(TEXT, block), baseline, f"Bad base64 in a block of type {block['type']}")


@CONTENT.check(
    "empty-prompt", "an empty prompt is answered or rejected", "ACP schema: PromptRequest", MAY, Needs.SESSION
)
async def _empty(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    return judge_empty(await probe.prompt(), baseline)


@CONTENT.check("unknown-session", "a prompt to an unknown session gets an error", "ACP: Session Setup", SHOULD)
async def _unknown_session(probe: AgentProbe) -> CheckOutcome:
    return judge_error(await probe.prompt(TEXT, session="accord-no-session"), None, "A prompt to an unknown session")


LINES: Final = CheckTable()


def _add_bad_line_check(check_id: str) -> None:
    what, line = BAD_LINES[check_id]

    @LINES.check(check_id, f"after {what} the next request is answered", RECOVERY, MUST)
    async def _recovers(probe: AgentProbe) -> CheckOutcome:
        effect = await probe.send_line(line)
        return judge_next(effect.reply, len(effect.unsolicited), what, lines=line.count(b"\n"))


for _name in BAD_LINES:
    _add_bad_line_check(_name)


def _add_error_reply_check(check_id: str, bad_line: str, wanted: int) -> None:
    what, line = BAD_LINES[bad_line]

    @LINES.check(check_id, f"{what} gets error {wanted}", ERROR_REPLY, SHOULD)
    async def _replies(probe: AgentProbe) -> CheckOutcome:
        effect = await probe.send_line(line)
        if isinstance(effect.reply, Gone):
            return failed(f"{capitalize(what)} ended the agent", effect.reply)
        codes = [reply.code for reply in effect.unsolicited if isinstance(reply, Refused)]
        return judge_error_reply(codes, wanted, what, lacks_id=effect.lacks_id)


_add_error_reply_check("garbage-told", "garbage-line", RpcCode.PARSE_ERROR)
_add_error_reply_check("number-told", "number-line", RpcCode.INVALID_REQUEST)


@LINES.check("half-line", "a line that arrives in two pieces is one line", STDIO, MUST)
async def _half(probe: AgentProbe) -> CheckOutcome:
    connection = await probe.agent()
    call_id = connection.next_id()
    line, pending = request_line(call_id, *await probe.harmless_request()), connection.expect(call_id)
    await connection.send(line[:20])
    await asyncio.sleep(0.2)
    await connection.send(line[20:])
    return judge_answered(await connection.reply(pending, call_id), "The line in two pieces")


def _add_long_line_check(megabytes: int) -> None:
    @LINES.check(f"line-{megabytes}mb", f"a line of {megabytes} MB is read", STDIO, LINE_MEGABYTES[megabytes])
    async def _reads(probe: AgentProbe) -> CheckOutcome:
        connection = await probe.agent()
        reply = await connection.call(*await probe.harmless_request(text="x" * (megabytes * MEGABYTE)))
        return judge_answered(reply, f"A request of {megabytes} MB")


for _number in LINE_MEGABYTES:
    _add_long_line_check(_number)


@LINES.check("unknown-method", "an unknown method gets -32601", "JSON-RPC 2.0 §5.1: -32601 method not found", MUST)
async def _unknown_method(probe: AgentProbe) -> CheckOutcome:
    # Without the underscore that marks an extension: some libraries answer every extension method with null.
    reply = await (await probe.agent()).call("accord/unknown", {})
    return judge_error(reply, RpcCode.METHOD_NOT_FOUND, "An unknown method")


@LINES.check("unknown-notification", "an unknown notification is ignored", "JSON-RPC 2.0 §4.1: no reply", MUST)
async def _unknown_notice(probe: AgentProbe) -> CheckOutcome:
    effect = await probe.send_line(notification_line(UNKNOWN_NOTICE, {}))
    if effect.unsolicited:
        return failed("An unknown notification got a reply", effect.unsolicited[0])
    return judge_next(effect.reply, 0, "an unknown notification")


def _add_id_check(check_id: str, what: str, call_id: int | str) -> None:
    @LINES.check(check_id, f"{what} comes back unchanged", IDS, MUST)
    async def _returns(probe: AgentProbe) -> CheckOutcome:
        connection = await probe.agent()
        before = len(connection.unsolicited)
        reply = await connection.exchange(request_line(call_id, *await probe.harmless_request()), call_id)
        if others := [frame.id for frame in connection.unsolicited[before:]]:
            return failed(f"{capitalize(what)} {call_id!r} came back as {others[0]!r}")
        return judge_answered(reply, f"A request with {what}")


_add_id_check("string-id", "an id that is text", "accord-id-1")
_add_id_check("large-id", "a large id", LARGE_ID)


@LINES.check("null-id", "a request whose id is null does no harm", "JSON-RPC 2.0 §4: null should not be an id", MAY)
async def _null_id(probe: AgentProbe) -> CheckOutcome:
    effect = await probe.send_line(request_line(None, *await probe.harmless_request()))
    return judge_next(effect.reply, len(effect.unsolicited), "a request whose id is null")


@LINES.check("concurrent", "concurrent requests get answers with the right ids", IDS, MUST)
async def _concurrent(probe: AgentProbe) -> CheckOutcome:
    connection = await probe.agent()
    method, params = await probe.harmless_request()
    replies = await asyncio.gather(*(connection.call(method, params) for _ in range(5)))
    if lost := [reply for reply in replies if not isinstance(reply, Answered | Refused)]:
        return failed(f"{len(lost)} of 5 concurrent requests were not answered: {describe(lost[0])}")
    return passed("5 concurrent requests got 5 answers")


# These run last: the final two report on everything that was sent before.
LIFE: Final = CheckTable()


@LIFE.check(
    "cancel", "session/cancel ends a turn as cancelled", "ACP: Prompt Turn – cancellation", SHOULD, Needs.SESSION
)
async def _cancel(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    connection = await probe.agent()
    call_id, since, is_draft = connection.next_id(), len(connection.states), probe.declared.version >= 2
    pending = connection.expect(call_id)
    params = {"sessionId": connection.session, "prompt": [LONG_WORK]}
    await connection.send(request_line(call_id, "session/prompt", params))
    # One future for both waits, so that no reply is lost between them. In the draft the reply says that the prompt was
    # accepted; before that there is no turn to cancel.
    wait_s = connection.timeout_s if is_draft else min(QUICK_TURN_S, connection.timeout_s)
    await asyncio.wait({pending}, timeout=wait_s)
    early = pending.result() if pending.done() else Silent(QUICK_TURN_S)
    if isinstance(early, Refused) or (isinstance(early, Answered) and not is_draft):
        did = "answered with an unrelated error" if is_agent_error(early) else "ended the turn before it was cancelled"
        return skipped(f"The agent {did}: {describe(early)}", early)
    clock = asyncio.get_running_loop().time
    cancelled_at = clock()
    await connection.notify("session/cancel", {"sessionId": connection.session})
    if is_draft:
        reply = await connection.turn_end_within(since, connection.timeout_s)
    else:
        reply = await connection.reply(pending, call_id)
    connection.is_busy = connection.is_busy or isinstance(reply, Silent)
    return judge_cancelled(reply, baseline, clock() - cancelled_at)


@LIFE.check("ends", "the agent exits when its input is closed", STDIO, SHOULD)
async def _ends(probe: AgentProbe) -> CheckOutcome:
    connection = await probe.fresh(initialized=True)
    if await connection.exits_within(connection.timeout_s):
        return passed("The agent exited when its input was closed")
    return failed(f"The agent still ran {connection.timeout_s:g} s after its input was closed")


@LIFE.check("stays", "no check ended the agent", "JSON-RPC 2.0 §5: a request gets a response", MUST)
async def _stays(probe: AgentProbe) -> CheckOutcome:
    await probe.end_watched()
    if probe.crashed_in:
        return failed(f"The agent ended during: {', '.join(probe.crashed_in)}")
    return passed("The agent survived every check")


@LIFE.check("clean-stdout", "only messages are written to stdout", STDIO, MUST, Needs.NOTHING)
async def _clean_stdout(probe: AgentProbe) -> CheckOutcome:
    return judge_noise(probe.all_noise())


CHECKS: Final[tuple[Check, ...]] = (*HANDSHAKE, *CONTENT, *LINES, *LIFE)
